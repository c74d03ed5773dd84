/* Sweep: begins and ends of work wait in a heap until nothing earlier can come any more, then pass
 * in order of time and change the states. So it does no harm that records come in no order.
 *
 * What comes for a time that was told already counts as late, and only the rest of it is shown.
 */
#include "core/sweep.h"

#include <stdlib.h>
#include <string.h>

#include "core/busy.h"
#include "core/model.h"
#include "core/track.h"

/* Records come within a second of the end of the work. */
#define SWEEP_SETTLE_NS 2000000000ull
/* Calls whose record is awaited hold the sweep back, but not longer. */
#define SWEEP_HOLD_NS 10000000000ull

static bool edge_before(const struct edge *a, const struct edge *b)
{
	return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->kind < b->kind;
}

static void heap_push(struct sweep *sweep, const struct edge *edge)
{
	uint32_t i = sweep->count++;

	for (; i; i = (i - 1) / 2) {
		if (!edge_before(edge, &sweep->edge[(i - 1) / 2]))
			break;
		sweep->edge[i] = sweep->edge[(i - 1) / 2];
	}
	sweep->edge[i] = *edge;
}

static struct edge heap_pop(struct sweep *sweep)
{
	struct edge top = sweep->edge[0], last = sweep->edge[--sweep->count];
	uint32_t i = 0, child;

	while ((child = 2 * i + 1) < sweep->count) {
		if (child + 1 < sweep->count &&
		    edge_before(&sweep->edge[child + 1], &sweep->edge[child]))
			child++;
		if (!edge_before(&sweep->edge[child], &last))
			break;
		sweep->edge[i] = sweep->edge[child];
		i = child;
	}
	sweep->edge[i] = last;
	return top;
}

static void sweep_pass_first(struct core *core, struct sweep *sweep)
{
	struct edge edge = heap_pop(sweep);

	core->edges--;
	sweep->settled_ns = edge.time_ns;
	edge_pass(core, &edge);
}

static bool sweep_grow(struct sweep *sweep)
{
	uint32_t room = sweep->room ? sweep->room * 2 : 256;
	struct edge *edge = realloc(sweep->edge, room * sizeof(*edge));

	if (!edge)
		return false;
	sweep->edge = edge;
	sweep->room = room;
	return true;
}

/* At the limit the earliest pass before their time. No process has more than half of the room. */
static bool sweep_make_room(struct core *core, struct exact *exact, uint32_t edges)
{
	struct sweep *sweep = &exact->sweep;
	uint32_t max = core->config.max_edges;

	while (sweep->count && sweep->edge[0].time_ns <= core->now_ns &&
	       (sweep->count + edges > max / 2 || core->edges + edges > max))
		sweep_pass_first(core, sweep);
	if (sweep->count + edges <= max / 2 && core->edges + edges <= max)
		if (sweep->count + edges <= sweep->room || sweep_grow(sweep))
			return true;
	loss_count(core, exact->process, LOSS_LIMIT);
	return false;
}

/* There is room. */
static void sweep_push(struct core *core, struct sweep *sweep, uint64_t time_ns,
		       enum edge_kind kind, void *what, uint64_t seq)
{
	struct edge edge = {
		.time_ns = time_ns > sweep->settled_ns ? time_ns : sweep->settled_ns,
		.what = what,
		.seq = seq,
		.kind = kind,
	};

	heap_push(sweep, &edge);
	core->edges++;
}

static uint64_t sweep_settled(const struct exact *exact, uint64_t now_ns)
{
	const struct pending *first = list_first(&exact->awaiting, struct pending, awaiting);
	uint64_t settled_ns = now_ns > SWEEP_SETTLE_NS ? now_ns - SWEEP_SETTLE_NS : 0;
	uint64_t least_ns = now_ns > SWEEP_HOLD_NS ? now_ns - SWEEP_HOLD_NS : 0;

	if (first && first->start_ns < settled_ns)
		settled_ns = first->start_ns > least_ns ? first->start_ns : least_ns;
	return settled_ns;
}

static void sweep_pass_until(struct core *core, struct exact *exact, uint64_t time_ns)
{
	struct sweep *sweep = &exact->sweep;
	struct device *device;

	while (sweep->count && sweep->edge[0].time_ns <= time_ns)
		sweep_pass_first(core, sweep);
	if (time_ns > sweep->settled_ns)
		sweep->settled_ns = time_ns;
	list_for_each(device, &exact->process->devices, link)
		busy_pass(core, device, sweep->settled_ns);
}

void sweep_run(struct core *core, struct exact *exact, uint64_t now_ns)
{
	if (exact->sweep.on)
		sweep_pass_until(core, exact, sweep_settled(exact, now_ns));
}

static void sweep_add_device(struct core *core, struct sweep *sweep, struct device *device)
{
	if (device->busy || busy_begin(device, sweep->settled_ns) < 0)
		return;
	state_set(core, &device->state, STATE_NONE, sweep->settled_ns);
	device->state.settled_ns = &sweep->settled_ns;
	state_set(core, &device->state, OP_STATE_IDLE, sweep->settled_ns);
}

/* Edges and lanes point at it, so it stays as long as the process. */
static struct device *sweep_device(struct core *core, struct exact *exact, int16_t ordinal)
{
	struct device *device = device_get(exact->process, ordinal);

	if (device)
		sweep_add_device(core, &exact->sweep, device);
	return device;
}

static struct lane *sweep_add_lane(struct core *core, struct exact *exact, struct stream *stream,
				   uint64_t finished)
{
	struct device *device = sweep_device(core, exact, stream->row.device);
	struct state state;

	if (!device)
		return NULL;
	state_init(&state, exact->process->row.id, stream->row.id, stream->row.device);
	state.settled_ns = &exact->sweep.settled_ns;
	stream->lane = lane_new(device, &state, finished);
	if (stream->lane)
		list_append(&exact->sweep.lanes, &stream->lane->link);
	return stream->lane;
}

struct lane *sweep_lane(struct core *core, struct exact *exact, struct stream *stream)
{
	if (!exact->sweep.on || stream->lane)
		return stream->lane;
	return sweep_add_lane(core, exact, stream, stream->submitted);
}

void sweep_submit(struct core *core, struct exact *exact, struct stream *stream, uint64_t seq,
		  uint64_t time_ns)
{
	struct lane *lane = stream->lane;

	if (!exact->sweep.on)
		return;
	if (!lane)
		lane = sweep_add_lane(core, exact, stream, seq - 1);
	if (lane && sweep_make_room(core, exact, 1))
		sweep_push(core, &exact->sweep, time_ns, EDGE_SUBMIT, lane_ref(lane), seq);
}

void sweep_wait(struct core *core, struct exact *exact, struct stream *stream,
		struct stream *source, uint64_t seq, uint64_t time_ns)
{
	struct lane *lane = sweep_lane(core, exact, stream),
		    *other = sweep_lane(core, exact, source);
	struct mark *mark = NULL;

	if (!lane || !other || !sweep_make_room(core, exact, 1))
		return;
	mark = mark_new(lane, other, stream->submitted, seq);
	if (mark)
		sweep_push(core, &exact->sweep, time_ns, EDGE_WAIT, mark, 0);
}

void sweep_ran(struct core *core, struct exact *exact, struct lane *lane, enum sweep_work work,
	       const struct op *op, uint64_t began, uint64_t finished)
{
	struct sweep *sweep = &exact->sweep;
	struct device *device;

	if (!sweep->on || !lane)
		return;
	if (op->gpu_start_ns < sweep->settled_ns && sweep->begun_ns < op->gpu_start_ns)
		loss_count(core, exact->process, LOSS_LATE);
	if (op->gpu_end_ns <= sweep->settled_ns) {
		sweep_finish(core, exact, lane, finished, op->gpu_end_ns);
		return;
	}
	if (lane->device->state.device != op->device) {
		device = sweep_device(core, exact, op->device);
		if (device)
			lane_move(core, lane, device, sweep->settled_ns);
	}
	if (!sweep_make_room(core, exact, 2))
		return;
	sweep_push(core, sweep, op->gpu_start_ns, EDGE_KERNEL_BEGIN + work, lane_ref(lane), began);
	sweep_push(core, sweep, op->gpu_end_ns, EDGE_KERNEL_END + work, lane_ref(lane), finished);
}

void sweep_finish(struct core *core, struct exact *exact, struct lane *lane, uint64_t seq,
		  uint64_t time_ns)
{
	if (exact->sweep.on && lane && seq > lane->finished && sweep_make_room(core, exact, 1))
		sweep_push(core, &exact->sweep, time_ns, EDGE_FINISH, lane_ref(lane), seq);
}

void sweep_sync(struct core *core, struct exact *exact, int16_t ordinal, uint64_t start_ns,
		uint64_t end_ns)
{
	struct sweep *sweep = &exact->sweep;
	struct device *device;

	if (!sweep->on || end_ns <= sweep->settled_ns)
		return;
	device = sweep_device(core, exact, ordinal);
	if (!device || !sweep_make_room(core, exact, 2))
		return;
	sweep_push(core, sweep, start_ns, EDGE_SYNC_BEGIN, device, 0);
	sweep_push(core, sweep, end_ns, EDGE_SYNC_END, device, 0);
}

void sweep_stream_end(struct core *core, struct exact *exact, struct stream *stream,
		      uint64_t time_ns)
{
	if (stream->lane && sweep_make_room(core, exact, 1))
		sweep_push(core, &exact->sweep, time_ns, EDGE_STREAM_END, lane_ref(stream->lane),
			   0);
}

/* What is pending goes on to be so. */
static void sweep_take(struct core *core, struct exact *exact, struct stream *stream)
{
	const struct pending *pending;
	uint64_t finished = stream->submitted;

	if (!stream_rest(core, stream, exact->sweep.settled_ns))
		return;
	list_for_each(pending, &stream->pending, in_stream) {
		if (pending->source)
			continue;
		finished = pending->seq - 1;
		break;
	}
	if (sweep_add_lane(core, exact, stream, finished))
		stream->lane->submitted = stream->submitted;
}

void sweep_begin(struct core *core, struct exact *exact, uint64_t time_ns)
{
	struct sweep *sweep = &exact->sweep;
	struct context *context;
	struct device *device;
	struct stream *stream;
	struct lane *lane;

	sweep->on = true;
	sweep->begun_ns = sweep->settled_ns = time_ns;
	list_for_each(context, &exact->process->contexts, link)
		list_for_each(stream, &context->streams, in_context)
			sweep_take(core, exact, stream);
	list_for_each(device, &exact->process->devices, link)
		if (device->state.now != STATE_NONE)
			sweep_add_device(core, sweep, device);
	list_for_each(lane, &sweep->lanes, link)
		lane_settle(core, lane, time_ns);
}

/* Leaves the lanes, each with a reference of ours. */
static void sweep_empty(struct sweep *sweep)
{
	struct lane *lane;
	struct mark *mark;

	for (uint32_t i = 0; i < sweep->count; i++)
		edge_drop(&sweep->edge[i]);
	free(sweep->edge);
	sweep->edge = NULL;
	sweep->count = sweep->room = 0;
	list_for_each(lane, &sweep->lanes, link)
		lane_ref(lane);
	list_for_each(lane, &sweep->lanes, link)
		while ((mark = list_first(&lane->marks, struct mark, in_lane)))
			mark_free(mark);
}

void sweep_discard(struct exact *exact)
{
	struct sweep *sweep = &exact->sweep;
	struct lane *lane;

	sweep_empty(sweep);
	track_drop_lanes(exact);
	/* The streams' go with them. */
	while ((lane = list_first(&sweep->lanes, struct lane, link))) {
		lane->refs = 1;
		lane_unref(lane);
	}
}

static void sweep_end_device(struct core *core, struct device *device, uint64_t time_ns)
{
	if (!device->busy)
		return;
	busy_end(core, device, time_ns);
	state_set(core, &device->state, STATE_NONE, time_ns);
	device->state.settled_ns = NULL;
	device->pending = device->waiting = device->syncs = 0;
	memset(device->runs, 0, sizeof(device->runs));
	device_count(core, device, STATE_NONE, STATE_NONE, time_ns);
}

void sweep_end(struct core *core, struct exact *exact, uint64_t time_ns)
{
	struct sweep *sweep = &exact->sweep;
	struct context *context;
	struct device *device;
	struct stream *stream;
	struct lane *lane;

	if (!sweep->on)
		return;
	sweep_pass_until(core, exact, time_ns);
	time_ns = sweep->settled_ns;
	core->edges -= sweep->count;
	sweep_empty(sweep);
	list_for_each(lane, &sweep->lanes, link)
		state_set(core, &lane->state, STATE_NONE, time_ns);
	list_for_each(device, &exact->process->devices, link)
		sweep_end_device(core, device, time_ns);
	sweep->on = false;
	track_drop_lanes(exact);
	list_for_each(context, &exact->process->contexts, link)
		list_for_each(stream, &context->streams, in_context)
			stream_resume(core, stream, time_ns);
	/* The last references are ours. */
	list_for_each(lane, &sweep->lanes, link)
		lane_unref(lane);
}
