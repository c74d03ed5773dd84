/* Links: what they are like now. */
#include "core/base/time.h"
#include "daemon/probe/links.h"
#include "daemon/probe/member.h"

#define CLOSING_NS (25 * NS_PER_MS) /* until a link that is being closed is looked at again */

bool links_see_all(const struct links *links, uint64_t since_ns)
{
	return !links->single && links->wide_ns <= since_ns;
}

bool links_has(const struct links *links, uint32_t pid)
{
	return member_find(&links->by_pid, pid);
}

enum links_state links_state(const struct links *links, uint32_t pid)
{
	const struct member *member = member_find(&links->by_pid, pid);

	if (!links->single)
		return links->off_ns ? LINKS_CLOSED : LINKS_OPEN;
	if (!member)
		return LINKS_CLOSED;
	if (member->own)
		return LINKS_OPEN;
	if (owned_is_closing(member->closing))
		return LINKS_CHANGING;
	return member_is_open(member) && !member->failures ? LINKS_CHANGING : LINKS_CLOSED;
}

bool links_is_hooked(const struct links *links, uint32_t pid)
{
	const struct member *member = member_find(&links->by_pid, pid);

	return member && member->hooked;
}

uint32_t links_hooked(const struct links *links)
{
	struct member *member;

	list_for_each(member, &links->members, link)
		if (member->hooked)
			return member->pid;
	return 0;
}

static uint64_t member_wait_ns(const struct member *member, uint64_t now_ns)
{
	if (!member_is_open(member) || member->own)
		return UINT64_MAX;
	if (owned_is_closing(member->closing) || member->retry_ns <= now_ns)
		return (uint64_t)CLOSING_NS;
	return member->retry_ns - now_ns;
}

uint64_t links_wait_ns(const struct links *links, uint64_t now_ns)
{
	uint64_t wait_ns = MEMBER_LOOK_NS, ns;
	struct member *member;

	if (!links->library || links->busy || !(links->single || links->off_ns))
		return UINT64_MAX;
	if (!links->single)
		return owned_is_closing(links->closing) ? (uint64_t)CLOSING_NS : wait_ns;
	list_for_each(member, &links->members, link) {
		ns = member_wait_ns(member, now_ns);
		wait_ns = ns < wait_ns ? ns : wait_ns;
	}
	return wait_ns;
}

bool links_at_rest(const struct links *links)
{
	return list_empty(&links->members) && !links->single && !links->off_ns;
}
