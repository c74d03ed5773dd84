/* share: what was used is forgotten at the rate that is allowed. */
#include "daemon/unwind/share.h"

#include "core/base/patience.h"
#include "core/base/time.h"
#include "daemon/limits.h"

static uint64_t part_used_ns(struct share_part *part, uint64_t now_ns, uint64_t ms_per_s)
{
	uint64_t past_ns = now_ns > part->at_ns ? now_ns - part->at_ns : 0;
	uint64_t less_ns = past_ns / 1000 * ms_per_s;

	part->used_ns = part->used_ns > less_ns ? part->used_ns - less_ns : 0;
	part->at_ns = now_ns;
	return part->used_ns;
}

static struct share_part *part_of(struct share *share, uint32_t pid)
{
	return &share->part[pid % SHARE_PLACES];
}

bool share_left(struct share *share, uint32_t pid, uint64_t now_ns)
{
	return part_used_ns(part_of(share, pid), now_ns, LIMIT_UNWIND_OWN_MS_PER_S) <
		       patience_ms(LIMIT_UNWIND_OWN_MS) * NS_PER_MS &&
	       part_used_ns(&share->all, now_ns, LIMIT_UNWIND_ALL_MS_PER_S) <
		       patience_ms(LIMIT_UNWIND_ALL_MS) * NS_PER_MS;
}

void share_take(struct share *share, uint32_t pid, uint64_t now_ns, uint64_t used_ns)
{
	part_used_ns(part_of(share, pid), now_ns, LIMIT_UNWIND_OWN_MS_PER_S);
	part_used_ns(&share->all, now_ns, LIMIT_UNWIND_ALL_MS_PER_S);
	part_of(share, pid)->used_ns += used_ns;
	share->all.used_ns += used_ns;
}
