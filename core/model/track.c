/* Track: CUPTI numbers contexts and streams, the probes see handles. Matched work has both, and
 * CUPTI reports the default stream of a context. A number without a known stream gets a stream of
 * its own, until we learn better. */
#include "core/model/track.h"

#include <stdlib.h>

#include "core/model/model.h"

/* Per process; beyond that they are learned again. */
#define TRACKS_MAX   4096
#define CONTEXTS_MAX 256

static struct map_key track_key(uint32_t context, uint32_t number)
{
	return (struct map_key){ number, context };
}

static struct track *track_find(const struct exact *exact, const struct ts_work *work)
{
	return map_get(&exact->track_by_number, track_key(work->context, work->stream));
}

static void track_free(struct exact *exact, struct track *track)
{
	map_remove(&exact->track_by_number, track_key(track->context, track->number));
	list_remove(&track->link);
	lane_unref(track->lane);
	free(track);
}

static void track_forget_all(struct exact *exact)
{
	struct track *track;

	list_for_each(track, &exact->tracks, link)
		track_free(exact, track);
}

static struct track *track_add(struct core *core, struct exact *exact, const struct ts_work *work)
{
	struct track *track;

	if (exact->track_by_number.count >= TRACKS_MAX)
		track_forget_all(exact);
	track = calloc(1, sizeof(*track));
	if (track &&
	    map_put(&exact->track_by_number, track_key(work->context, work->stream), track) < 0) {
		free(track);
		track = NULL;
	}
	if (!track) {
		loss_count(core, exact->process, LOSS_LIMIT);
		return NULL;
	}
	track->context = work->context;
	track->number = work->stream;
	list_append(&exact->tracks, &track->link);
	return track;
}

static struct exact_context *track_find_context(const struct exact *exact, uint32_t number)
{
	struct exact_context *context;

	list_for_each(context, &exact->contexts, link)
		if (context->number == number)
			return context;
	return NULL;
}

/* The only context on a device is the one that CUPTI means. */
static struct context *track_only_context(const struct process *process, int16_t device)
{
	struct context *context, *only = NULL;

	list_for_each(context, &process->contexts, link) {
		if (!context->handle ||
		    (context->device != device && context->device != DEVICE_UNKNOWN))
			continue;
		if (only)
			return NULL;
		only = context;
	}
	return only;
}

static struct stream *track_legacy(struct core *core, struct exact *exact,
				   const struct ts_work *work)
{
	const struct exact_context *known = track_find_context(exact, work->context);
	const struct context *context;

	if (!known || known->null_stream != work->stream)
		return NULL;
	context = known->handle ? context_find(exact->process, known->handle)
				: track_only_context(exact->process, known->device);
	return context ? stream_legacy(core, exact->process, context) : NULL;
}

static struct stream *track_numbered(struct core *core, struct exact *exact,
				     const struct ts_work *work)
{
	size_t before = core->stream_by_id.count;
	struct stream *stream;

	if (exact->numbered >= core->config.max_streams / 8) {
		loss_count(core, exact->process, LOSS_LIMIT);
		return NULL;
	}
	stream = stream_numbered(core, exact->process, work->stream, context_device(work->device));
	exact->numbered += core->stream_by_id.count > before;
	return stream;
}

static struct track *track_get(struct core *core, struct exact *exact, const struct ts_work *work)
{
	struct track *track = track_find(exact, work);
	struct stream *stream;

	if (track)
		return track;
	stream = track_legacy(core, exact, work);
	if (!stream)
		stream = track_numbered(core, exact, work);
	track = stream ? track_add(core, exact, work) : NULL;
	if (!track)
		return NULL;
	track->stream = stream->row.id;
	stream_learn_number(core, stream, work->stream);
	return track;
}

bool track_is_known(struct exact *exact, const struct ts_work *work)
{
	return track_find(exact, work) != NULL;
}

uint32_t track_stream(struct core *core, struct exact *exact, const struct ts_work *work)
{
	const struct track *track = track_get(core, exact, work);

	return track ? track->stream : 0;
}

struct lane *track_lane(struct core *core, struct exact *exact, const struct ts_work *work)
{
	struct track *track = track_get(core, exact, work);
	struct stream *stream;

	if (!track || track->lane)
		return track ? track->lane : NULL;
	stream = stream_by_id(core, track->stream);
	if (stream)
		track->lane = lane_ref(sweep_lane(core, exact, stream));
	return track->lane;
}

static void track_learn_context(struct core *core, struct exact *exact, const struct ts_work *work,
				struct stream *stream)
{
	struct exact_context *known = track_find_context(exact, work->context);
	struct context *context = stream->context;
	int16_t device = context_device(work->device);

	if (!context->handle)
		return;
	if (known)
		known->handle = context->handle;
	if (device != DEVICE_UNKNOWN)
		context->device = device;
}

void track_learn(struct core *core, struct exact *exact, const struct ts_work *work, uint32_t id)
{
	struct track *track = track_find(exact, work);
	struct stream *stream, *former;
	struct lane *lane;

	if (track && track->stream == id)
		return;
	stream = stream_by_id(core, id);
	/* Records may come after the stream is gone. */
	lane = stream ? stream->lane : sweep_find_lane(exact, id);
	if (!stream && !lane)
		return;
	if (!track)
		track = track_add(core, exact, work);
	if (!track)
		return;
	former = track->stream ? stream_by_id(core, track->stream) : NULL;
	lane_unref(track->lane);
	track->lane = lane_ref(lane);
	track->stream = id;
	/* A separate stream was created for it, which is wrong. */
	if (former && stream_is_numbered(former)) {
		stream_end(core, former, core->now_ns);
		exact->numbered -= exact->numbered > 0; /* a restored one was not counted */
	}
	if (!stream)
		return;
	stream_learn_number(core, stream, work->stream);
	track_learn_context(core, exact, work, stream);
}

void track_drop_lanes(struct exact *exact)
{
	struct track *track;

	list_for_each(track, &exact->tracks, link)
		track->lane = lane_unref(track->lane);
}

void track_free_all(struct exact *exact)
{
	struct exact_context *context;

	track_forget_all(exact);
	map_clear(&exact->track_by_number);
	list_for_each(context, &exact->contexts, link)
		free(context);
	list_init(&exact->contexts);
}

int track_context(struct core *core, struct process *process, const struct ts_event *event)
{
	struct exact *exact = exact_get(core, process);
	struct exact_context *context;
	size_t count = 0;

	if (!exact)
		return INGEST_LIMIT;
	context = track_find_context(exact, event->context.context);
	if (!context) {
		list_for_each(context, &exact->contexts, link)
			count++;
		context = count < CONTEXTS_MAX ? calloc(1, sizeof(*context)) : NULL;
		if (!context) {
			loss_count(core, process, LOSS_LIMIT);
			return INGEST_LIMIT;
		}
		context->number = event->context.context;
		list_append(&exact->contexts, &context->link);
	}
	context->null_stream = event->context.null_stream;
	context->device = context_device(event->context.device);
	return INGEST_OK;
}
