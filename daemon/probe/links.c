/* Links: the links to one group of a library's functions, and the members that they are for. */
#include "daemon/probe/links.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/log.h"
#include "core/base/time.h"
#include "daemon/probe/linker.h"
#include "daemon/probe/member.h"
#include "daemon/probe/owned.h"
#include "daemon/proc/procfs.h"

#define WHOLE_AGAIN_NS (10 * NS_PER_S)
#define BUSY_NS	       (250ull * NS_PER_MS)
#define TRIES_TOLD     2 /* failures to log */

struct links_order {
	struct probe_link_for to;
	int error;
	struct owned_link *made;
};

struct links_work {
	struct linking linking;
	struct links *links;
	uint32_t count;
	struct links_order order[];
};

static void links_reconcile(struct links *links);

static void member_close(struct links *links, struct member *member)
{
	if (!member->own)
		return;
	owned_unref(member->closing);
	member->closing = owned_close(links->remover, TAKE(member->own));
}

static void member_unseen(struct links *links, struct member *member, uint64_t since_ns)
{
	if (!member->told)
		links->callbacks->missing(links, member->pid, since_ns);
	member->unseen_ns = since_ns;
	member->told = true;
}

static void member_seen(struct links *links, struct member *member)
{
	if (member->unseen_ns) {
		member_unseen(links, member, member->unseen_ns);
		links->callbacks->seen(links, member->pid);
	}
	member->unseen_ns = 0;
	member->told = member->doubt = false;
	member->failures = 0;
	member->hooked = false;
	member->retry_ns = 0;
}

static void member_free(struct links *links, struct member *member)
{
	if (!member->doubt || member->failures > 1)
		member_seen(links, member);
	member_close(links, member);
	owned_unref(member->closing);
	map_remove(&links->by_pid, (struct map_key){ member->pid, 0 });
	list_remove(&member->link);
	free(member);
}

int links_init(struct links *links, struct linker *linker, struct remover *remover,
	       enum probe_group group, bool may_single, int fd,
	       const struct links_callbacks *callbacks)
{
	*links = (struct links){
		.linker = linker,
		.remover = remover,
		.group = group,
		.may_single = may_single,
		.fd = fd,
		.wide = owned_new(),
		.callbacks = callbacks,
	};
	list_init(&links->members);
	return links->wide ? 0 : -ENOMEM;
}

void links_release(struct links *links, struct remover *remover)
{
	struct member *member;

	links->remover = remover;
	list_for_each(member, &links->members, link)
		member_free(links, member);
	map_clear(&links->by_pid);
	if (links->off_ns)
		links->callbacks->seen(links, 0);
	owned_drop(links->remover, TAKE(links->wide));
	links->closing = owned_unref(links->closing);
}

static void on_link(struct linking *linking)
{
	struct links_work *work = list_item(linking, struct links_work, linking);

	for (uint32_t i = 0; i < work->count; i++) {
		struct links_order *order = &work->order[i];

		if (order->to.pid && !procfs_has_first_thread(order->to.pid))
			order->error = -ESRCH;
		else
			order->error = probe_link_new(work->links->library, work->links->fd,
						      &order->to, &order->made->link);
	}
}

static void links_close_wide(struct links *links)
{
	if (!links->wide)
		return;
	owned_unref(links->closing);
	links->closing = owned_close(links->remover, TAKE(links->wide));
}

static void links_go_single(struct links *links)
{
	struct member *member;

	probe_next_epoch(links->library, links->group);
	links->single = true;
	links->single_ns = links->looked_ns = uv_hrtime();
	list_for_each(member, &links->members, link)
		if (member_is_open(member) && !member->own && !member->unseen_ns)
			member_unseen(links, member, uv_hrtime());
	links_close_wide(links);
}

void links_start(struct links *links, struct probe_library *library)
{
	links->library = library;
	links->wide->link = probe_take_wide(library, links->group);
	if (probe_is_hooked(library, links->group))
		links_go_single(links);
	links_reconcile(links);
}

static void links_go_wide(struct links *links, struct owned_link *wide)
{
	struct member *member;

	probe_next_epoch(links->library, links->group);
	links->single = false;
	links->wide = wide;
	links->wide_ns = uv_hrtime();
	list_for_each(member, &links->members, link) {
		member_seen(links, member);
		member_close(links, member);
	}
}

/* Nobody could be watched, now all are. */
static void links_go_on(struct links *links, struct owned_link *wide)
{
	links->wide = wide;
	links->callbacks->seen(links, 0);
	links->off_ns = 0;
}

static void links_go_off(struct links *links)
{
	links->off_ns = uv_hrtime();
	links->callbacks->missing(links, 0, links->off_ns);
	links_close_wide(links);
}

/* -EBUSY: somebody else is in the way, mostly for a moment. */
static uint64_t retry_after_ns(uint32_t failures, int error)
{
	bool busy = error == -EBUSY;
	uint32_t most = busy ? 2 : 5;

	return (busy ? BUSY_NS : (uint64_t)NS_PER_S) << (failures > most ? most : failures - 1);
}

static void member_log_failure(const struct member *member, int error)
{
	if (error == -ETXTBSY)
		log_warning(
			"Process %u has an inline hook, over which a probe would crash it: it is "
			"not watched",
			member->pid);
	else
		log_warning_errno(error, "Failed to watch calls of process %u, for now",
				  member->pid);
}

/* Tries again, ever later: after half a minute at most, and soon if it is not its own fault. */
static void member_failed(struct links *links, struct member *member, int error)
{
	member->hooked = error == -ETXTBSY;
	if (++member->failures == TRIES_TOLD)
		member_log_failure(member, error);
	if (!member->unseen_ns) {
		member->unseen_ns = uv_hrtime();
		member->doubt = true;
	}
	member->retry_ns = uv_hrtime() + retry_after_ns(member->failures, error);
	/* One that has just ended is still a member for a moment. */
	if (member->failures < 2)
		return;
	member_unseen(links, member, member->unseen_ns);
}

static void links_made(struct links *links, struct links_order *order)
{
	struct member *member = order->to.pid ? member_find(&links->by_pid, order->to.pid) : NULL;
	struct owned_link *made = TAKE(order->made);

	if (order->error < 0) {
		owned_unref(made);
		links->retry_ns = uv_hrtime() + (uint64_t)NS_PER_S;
		if (member)
			member_failed(links, member, order->error);
		return;
	}
	if (member) {
		member->own = made;
		if (member->outdated)
			member_close(links, member);
		else
			member_seen(links, member);
	} else if (order->to.pid) {
		owned_drop(links->remover, made);
	} else if (links->single) {
		links_go_wide(links, made);
	} else {
		links_go_on(links, made);
	}
}

static void on_linked(struct linking *linking)
{
	_cleanup_(freep) struct links_work *work = list_item(linking, struct links_work, linking);
	struct links *links = work->links;
	bool for_all = work->count && !work->order[0].to.pid;
	struct member *member;

	links->busy = false;
	for (uint32_t i = 0; i < work->count; i++)
		links_made(links, &work->order[i]);
	/* Also of those for whom none was made: their next link is to the right program. */
	list_for_each(member, &links->members, link)
		member->outdated = false;
	if (!links->single && !for_all)
		links_go_single(links);
	links_reconcile(links);
	if (!links->busy)
		links->callbacks->idle(links);
}

static void work_free(struct links_work *work)
{
	for (uint32_t i = 0; work && i < work->count; i++)
		owned_unref(work->order[i].made);
	free(work);
}

static void links_queue(struct links *links, struct links_work *work)
{
	for (uint32_t i = 0; i < work->count; i++) {
		work->order[i].made = owned_new();
		if (!work->order[i].made) {
			work_free(work);
			return;
		}
	}
	work->links = links;
	links->busy = linker_add(links->linker, &work->linking, on_link, on_linked) == 0;
	if (!links->busy)
		work_free(work);
}

/* Two links of one epoch would count twice. */
static bool member_needs_link(const struct links *links, const struct member *member,
			      uint64_t now_ns)
{
	return member_is_open(member) && !member->own && now_ns >= member->retry_ns &&
	       (!links->single || !owned_is_closing(member->closing));
}

/* For each member that should have one. NULL: no memory. */
static struct links_work *links_plan(const struct links *links, uint32_t epoch)
{
	uint64_t now_ns = uv_hrtime();
	struct links_work *work;
	struct member *member;
	uint32_t count = 0;

	list_for_each(member, &links->members, link)
		count += member_needs_link(links, member, now_ns);
	work = calloc(1, sizeof(*work) + count * sizeof(work->order[0]));
	if (!work)
		return NULL;
	list_for_each(member, &links->members, link)
		if (work->count < count && member_needs_link(links, member, now_ns))
			work->order[work->count++].to = (struct probe_link_for){
				.group = links->group,
				.pid = member->pid,
				.epoch = epoch,
			};
	return work;
}

static void links_order_wide(struct links *links, uint32_t epoch)
{
	struct links_work *work = calloc(1, sizeof(*work) + sizeof(work->order[0]));

	if (!work)
		return;
	work->count = 1;
	work->order[0].to = (struct probe_link_for){ .group = links->group, .epoch = epoch };
	links_queue(links, work);
}

static bool links_any_closed(const struct links *links)
{
	struct member *member;

	list_for_each(member, &links->members, link)
		if (!member_is_open(member))
			return true;
	return false;
}

static bool links_any_out(const struct links *links)
{
	struct member *member;

	list_for_each(member, &links->members, link)
		if (member->out)
			return true;
	return false;
}

static void links_reconcile_wide(struct links *links)
{
	bool off = links_any_out(links);

	if (off && !links->off_ns)
		links_go_off(links);
	else if (!off && links->off_ns && uv_hrtime() >= links->retry_ns &&
		 !owned_is_closing(links->closing))
		links_order_wide(links, probe_epoch(links->library, links->group));
}

static void links_reconcile_single(struct links *links)
{
	uint32_t epoch = probe_epoch(links->library, links->group);
	struct links_work *work;
	struct member *member;

	if (links->single)
		list_for_each(member, &links->members, link)
			if (!member_is_open(member))
				member_close(links, member);
	work = links_plan(links, links->single ? epoch : probe_epoch_after(epoch));
	/* To change over, it goes through the linker even if nobody is to be watched. */
	if (work && (work->count || !links->single))
		links_queue(links, work);
	else
		free(work);
}

/* Does the next thing that brings the links nearer to what is wanted. */
static void links_reconcile(struct links *links)
{
	if (!links->library || links->busy)
		return;
	if (!links->may_single)
		links_reconcile_wide(links);
	else if (links->single || links_any_closed(links))
		links_reconcile_single(links);
	links->callbacks->stirred(links);
}

int links_add(struct links *links, const struct links_member *added)
{
	uint64_t since_ns =
		added->mapped_ns > links->single_ns ? added->mapped_ns : links->single_ns;
	struct member *member = member_find(&links->by_pid, added->pid);

	if (member) {
		member->retry_ns = 0;
		if (links->single && member_is_open(member) && !member->own && !member->unseen_ns)
			member_unseen(links, member, since_ns);
		return 0;
	}
	member = calloc(1, sizeof(*member));
	if (!member || map_put(&links->by_pid, (struct map_key){ added->pid, 0 }, member) < 0) {
		free(member);
		return -ENOMEM;
	}
	member->pid = added->pid;
	member->open = member->whole = true;
	member->out = added->out;
	/* One link may watch all by now, and did not when it mapped the library. */
	if (!added->out &&
	    (links->single || (added->mapped_ns && added->mapped_ns < links->wide_ns)))
		member_unseen(links, member, since_ns);
	list_append(&links->members, &member->link);
	if (!links->single && member->unseen_ns)
		member_seen(links, member);
	member->retry_ns = added->from_ns;
	links_reconcile(links);
	return 0;
}

void links_remove(struct links *links, uint32_t pid)
{
	struct member *member = member_find(&links->by_pid, pid);

	if (!member)
		return;
	member_free(links, member);
	links_reconcile(links);
}

void links_renew(struct links *links, uint32_t pid)
{
	struct member *member = member_find(&links->by_pid, pid);

	if (!member || (!links->single && !links->busy))
		return;
	member_seen(links, member);
	member->outdated = links->busy;
	member_close(links, member);
	links_reconcile(links);
}

/* What it makes now, nobody expects to see. */
static void member_change(struct links *links, struct member *member)
{
	if (!member_is_open(member))
		member_seen(links, member);
	links_reconcile(links);
}

void links_watch(struct links *links, uint32_t pid, bool open, bool whole)
{
	struct member *member = member_find(&links->by_pid, pid);

	if (!member || (member->open == open && member->whole == whole))
		return;
	member->open = open;
	member->whole = whole;
	member_change(links, member);
}

void links_leave_out(struct links *links, uint32_t pid, bool out)
{
	struct member *member = member_find(&links->by_pid, pid);

	if (!member || member->out == out)
		return;
	member->out = out;
	member_change(links, member);
}

static bool links_all_whole(const struct links *links)
{
	struct member *member;

	list_for_each(member, &links->members, link)
		if (!member_is_open(member) || !member->whole)
			return false;
	return true;
}

/* A link whose process has lost its first thread sees only what it happens
 * to: from then on its calls count as missed. */
static void links_look(struct links *links, uint64_t now_ns)
{
	struct member *member;
	uint64_t before_ns = links->looked_ns;

	if (!links->single || now_ns - before_ns < (uint64_t)MEMBER_LOOK_NS)
		return;
	links->looked_ns = now_ns;
	list_for_each(member, &links->members, link) {
		if (!member->own || procfs_has_first_thread(member->pid))
			continue;
		member_close(links, member);
		member->unseen_ns = before_ns;
		member->doubt = true;
		member_failed(links, member, -ESRCH);
	}
}

void links_tick(struct links *links, uint64_t now_ns)
{
	links_look(links, now_ns);
	/* What waited for a link to close, or for its time. */
	links_reconcile(links);
	if (!links->single || links->busy || !links_all_whole(links)) {
		links->whole_ns = 0;
		return;
	}
	if (!links->whole_ns)
		links->whole_ns = now_ns;
	if (now_ns - links->whole_ns < (uint64_t)WHOLE_AGAIN_NS || owned_is_closing(links->closing))
		return;
	links->whole_ns = 0;
	links_order_wide(links, probe_epoch_after(probe_epoch(links->library, links->group)));
}
