/* Stream: what streams do that are not idle, from the intervals that the model reports and, of one
 * that lasts, up to where it is known. A stream that has done nothing since the last message is
 * forgotten; if it is seen again, nothing that comes of it has been counted. */
#include <errno.h>
#include <stdlib.h>

#include "core/base/cleanup.h"
#include "daemon/limits.h"
#include "daemon/live/internal.h"
#include "daemon/live/live.h"

typedef Tracesmith__V1__LiveReply__Stream Stream;
typedef Tracesmith__V1__LiveReply__Process Process;

struct live_stream {
	struct list link; /* of its process */
	uint32_t id;
	int16_t device;
	bool bounds, seen;  /* seen: since the last message */
	uint64_t marked_ns; /* counted up to then */
	uint64_t running_ns, pending_ns, waiting_ns;
};

static struct map_key key_of(uint32_t id)
{
	return (struct map_key){ id, 0 };
}

static uint64_t sum_of(const struct live_stream *stream)
{
	return stream->running_ns + stream->pending_ns + stream->waiting_ns;
}

static struct live_stream *stream_get(struct live *live, struct live_process *process, uint32_t id)
{
	struct live_stream *stream = map_get(&live->stream_by_id, key_of(id));

	if (stream)
		return stream;
	stream = calloc(1, sizeof(*stream));
	if (!stream || map_put(&live->stream_by_id, key_of(id), stream) < 0) {
		free(stream);
		return NULL;
	}
	stream->id = id;
	list_append(&process->streams, &stream->link);
	return stream;
}

static void stream_free(struct live *live, struct live_stream *stream)
{
	map_remove(&live->stream_by_id, key_of(stream->id));
	list_remove(&stream->link);
	free(stream);
}

void streams_free(struct live *live, struct live_process *process)
{
	struct live_stream *stream;

	list_for_each(stream, &process->streams, link)
		stream_free(live, stream);
}

void live_stream(struct live *live, const struct core_doing *doing)
{
	struct live_process *process = live_process(live, doing->process);
	struct live_stream *stream = process ? stream_get(live, process, doing->stream) : NULL;
	uint64_t from_ns;

	if (!stream)
		return;
	stream->device = doing->device;
	stream->bounds = !doing->exact;
	stream->seen = true;
	from_ns = doing->since_ns > stream->marked_ns ? doing->since_ns : stream->marked_ns;
	if (doing->until_ns <= from_ns)
		return;
	stream->marked_ns = doing->until_ns;
	if (doing->state == OP_STATE_RUNNING)
		stream->running_ns += doing->until_ns - from_ns;
	else if (doing->state == OP_STATE_WAITING)
		stream->waiting_ns += doing->until_ns - from_ns;
	else
		stream->pending_ns += doing->until_ns - from_ns;
}

static Stream *stream_say(struct live *live, const struct live_stream *stream)
{
	Stream *ret = arena_get(&live->arena, sizeof(*ret));

	if (!ret)
		return NULL;
	*ret = (Stream)TRACESMITH__V1__LIVE_REPLY__STREAM__INIT;
	ret->id = stream->id;
	ret->device = stream->device;
	ret->running_ns = stream->running_ns;
	ret->pending_ns = stream->pending_ns;
	ret->waiting_ns = stream->waiting_ns;
	ret->bounds = stream->bounds;
	return ret;
}

/* Keeps the LIMIT_LIVE_STREAMS with most, those first. */
static uint32_t choose(const struct live_process *process, const struct live_stream **most)
{
	const struct live_stream *stream;
	uint32_t count = 0;

	list_for_each(stream, &process->streams, link) {
		uint32_t at;

		if (!sum_of(stream))
			continue;
		at = count < LIMIT_LIVE_STREAMS ? count : LIMIT_LIVE_STREAMS;
		for (; at > 0 && sum_of(most[at - 1]) < sum_of(stream); at--)
			if (at < LIMIT_LIVE_STREAMS)
				most[at] = most[at - 1];
		if (at < LIMIT_LIVE_STREAMS)
			most[at] = stream;
		count++;
	}
	return count;
}

int streams_take(struct live *live, const struct live_process *process, Process *ret)
{
	const struct live_stream *most[LIMIT_LIVE_STREAMS];
	uint32_t count = choose(process, most);
	uint32_t shown = count < LIMIT_LIVE_STREAMS ? count : LIMIT_LIVE_STREAMS;

	if (!shown)
		return 0;
	ret->stream = arena_get(&live->arena, shown * sizeof(Stream *));
	if (!ret->stream)
		return -ENOMEM;
	for (uint32_t i = 0; i < shown; i++) {
		ret->stream[i] = stream_say(live, most[i]);
		if (!ret->stream[i])
			return -ENOMEM;
		ret->n_stream++;
	}
	ret->streams_left_out = count - shown;
	return 0;
}

void streams_start_again(struct live *live, struct live_process *process)
{
	struct live_stream *stream;

	list_for_each(stream, &process->streams, link) {
		if (!stream->seen && !sum_of(stream)) {
			stream_free(live, stream);
			continue;
		}
		stream->seen = false;
		stream->running_ns = stream->pending_ns = stream->waiting_ns = 0;
	}
}
