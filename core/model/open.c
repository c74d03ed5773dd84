/* Open: goes through the streams with something pending. */
#include "core/model/open.h"

#include "core/model/model.h"
#include "core/model/process.h"
#include "core/model/stream.h"
#include "core/model/timeline.h"

/* False: all of it is over. */
static bool open_of(const struct stream *stream, struct core_open *ret)
{
	const struct pending *pending;
	bool found = false;

	list_for_each(pending, &stream->pending, in_stream) {
		if (!pending->source && pending->over_ns)
			continue;
		if (!found)
			*ret = (struct core_open){
				.handle = stream->row.handle,
				.start_ns = pending->start_ns,
				.fn = pending->source ? 0 : pending->op.fn,
				.device = stream->row.device,
				.waits = pending->source,
			};
		found = true;
		ret->count += !pending->source;
	}
	return found;
}

size_t core_open_work(const struct core *core, uint32_t pid, struct core_open *ret, size_t max)
{
	const struct process *process = process_by_pid(core, pid);
	const struct context *context;
	const struct stream *stream;
	size_t count = 0;

	if (!process)
		return 0;
	list_for_each(context, &process->contexts, link)
		list_for_each(stream, &context->active, active)
			if (count < max)
				count += open_of(stream, &ret[count]);
	return count;
}
