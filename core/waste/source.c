/* Source: what stands in the memory is unknown, so most copies of it may well be of something else.
 * Before a copy from page-locked memory is done, though, the program must not change what it reads;
 * neither did a device, if nothing was copied to the host. */
#include "core/waste/source.h"

#include <errno.h>

static enum certainty source_again(const struct source *source, const struct event *event,
				   uint64_t host_writes)
{
	if (!source->pinned || source->host_writes != host_writes ||
	    event->start_ns >= source->done_ns)
		return CERTAINTY_POSSIBLE;
	return source->exact ? CERTAINTY_CERTAIN : CERTAINTY_LIKELY;
}

int source_copied(struct sums *sources, const struct event *event, bool pinned,
		  uint64_t host_writes)
{
	const struct source_key key = { event->source, event->bytes, event->device, 0 };
	struct source *source = sums_get(sources, &key, UINT32_MAX);
	enum certainty certainty;

	if (!source)
		return -ENOMEM;
	if (source->fn) {
		certainty = source_again(source, event, host_writes);
		source->count[certainty]++;
		source->lost_ns[certainty] =
			add_bounded(source->lost_ns[certainty], event_took_ns(event));
	}
	source->fn = event->fn;
	if (event->stack)
		source->stack = event->stack;
	source->done_ns = event->done_ns;
	source->host_writes = host_writes;
	source->exact = event->flags & OP_EXACT;
	source->pinned = pinned;
	return 0;
}

bool source_is_waste(const struct source *source, enum certainty certainty, struct waste_row *ret)
{
	uint64_t count = 0;

	for (int i = 0; i <= CERTAINTY_MAX; i++)
		count += source->count[i];
	if (count < WASTE_AGAIN || !source->count[certainty])
		return false;
	*ret = (struct waste_row){
		.key = {
			.stack = source->stack,
			.fn = source->fn,
			.device = (int16_t)source->key.device,
			.pattern = WASTE_COPIED,
			.certainty = (uint8_t)certainty,
			.kind = OP_COPY,
			.detail = COPY_HTOD,
		},
		.count = source->count[certainty],
		.bytes = times_bounded(source->key.bytes, source->count[certainty]),
		.lost_ns = source->lost_ns[certainty],
	};
	return true;
}
