/* Again: whoever keeps what is freed has, at each allocation, what the most that lived at once
 * leaves over. */
#include "core/waste/again.h"

#include <errno.h>

static struct again *again_of(struct sums *agains, const struct event *event)
{
	const struct again_key key = {
		.stack = event->stack,
		.bytes = event->bytes,
		.fn = event->fn,
		.device = event->device,
		.kind = event->detail,
	};

	return sums_get(agains, &key, UINT32_MAX);
}

int again_allocated(struct sums *agains, const struct event *event)
{
	struct again *again = again_of(agains, event);

	if (!again)
		return -ENOMEM;
	if (again->live < again->most) {
		again->count++;
		again->alloc_ns = add_bounded(again->alloc_ns, event_took_ns(event));
		if (again->freed && !again->rounds++)
			again->first_ns = event->start_ns;
		again->last_ns = event->start_ns;
	}
	if (++again->live > again->most)
		again->most = again->live;
	again->freed = false;
	return 0;
}

int again_freed(struct sums *agains, const struct event *block, const struct event *event)
{
	struct again *again = again_of(agains, block);

	if (!again)
		return -ENOMEM;
	again->live -= again->live > 0;
	again->free_ns = add_bounded(again->free_ns, event_took_ns(event));
	again->frees++;
	again->freed = true;
	return 0;
}

/* A few, or one now and then, are no step of a program. Blocks of an unknown stack may be of many.
 */
bool again_is_waste(const struct again *again, struct waste_row *ret)
{
	double frees = again->frees ? (double)again->count / (double)again->frees : 0;

	if (again->rounds < WASTE_AGAIN ||
	    (again->last_ns - again->first_ns) / again->rounds > WASTE_AGAIN_MEAN_NS)
		return false;
	*ret = (struct waste_row){
		.key = {
			.stack = again->key.stack,
			.fn = again->key.fn,
			.device = again->key.device,
			.pattern = WASTE_REPEATED,
			.certainty = again->key.stack ? CERTAINTY_CERTAIN : CERTAINTY_LIKELY,
			.kind = OP_ALLOC,
			.detail = again->key.kind,
		},
		.count = again->count,
		.bytes = times_bounded(again->key.bytes, again->count),
		.lost_ns = add_bounded(again->alloc_ns,
				       (uint64_t)((double)again->free_ns * frees)),
	};
	return true;
}
