/* Sweep: starts and ends of work wait until nothing earlier can come any more, then pass in order
 * of time and change the states. So the order of records does not matter.
 *
 * A record for a time that was already reported counts as late, and only the rest of it is
 * shown.
 */
#include "core/model/sweep.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/invariant.h"
#include "core/base/time.h"
#include "core/model/busy.h"
#include "core/model/model.h"
#include "core/model/track.h"

/* Records come within a second of the end of the work. */
#define SWEEP_SETTLE_NS 2000000000ull
/* Calls whose record is awaited hold the sweep back, but no longer than this. */
#define SWEEP_HOLD_NS (10 * NS_PER_S)
/* How many recent lanes to search for one of a stream that is gone. */
#define SWEEP_TRIES 256

static struct process *sweep_process(struct sweep *sweep)
{
	return list_item(sweep, struct exact, sweep)->process;
}

/* There is one. */
static void sweep_pass_first(struct core *core, struct sweep *sweep)
{
	struct edge edge = edges_take(&sweep->edges);

	assert_invariant(core->edges > 0 && edge.time_ns >= sweep->settled_ns);
	core->edges--;
	quota_give(&core->share[CORE_SHARE_EDGES], sweep_process(sweep)->row.user, 1);
	sweep->settled_ns = edge.time_ns;
	edge_pass(core, &edge);
}

static struct sweep *sweep_biggest(struct core *core)
{
	struct exact *biggest = exact_biggest(core, CORE_SHARE_EDGES);

	return biggest ? &biggest->sweep : NULL;
}

static bool sweep_can_pass(const struct core *core, const struct sweep *sweep)
{
	const struct edge *first = sweep ? edges_first(&sweep->edges) : NULL;

	return first && first->time_ns <= core->now_ns;
}

/* At the limit the earliest pass before their time, of the process that has half of the room, else
 * of the user who has most. */
static bool sweep_make_room(struct core *core, struct exact *exact, uint32_t more)
{
	uint32_t max = core->config.max_edges;

	for (;;) {
		struct sweep *payer = &exact->sweep;

		if (payer->edges.count + more <= max / 2 && core->edges + more <= max)
			return true;
		if (payer->edges.count + more <= max / 2 &&
		    sweep_can_pass(core, sweep_biggest(core)))
			payer = sweep_biggest(core);
		if (!sweep_can_pass(core, payer)) {
			loss_count(core, exact->process, LOSS_LIMIT);
			return false;
		}
		sweep_pass_first(core, payer);
	}
}

/* False: no memory. */
static bool sweep_push(struct core *core, struct exact *exact, uint64_t time_ns,
		       enum edge_kind kind, void *what, uint64_t seq)
{
	struct quota *share = &core->share[CORE_SHARE_EDGES];
	const uint32_t user = exact->process->row.user;
	struct sweep *sweep = &exact->sweep;
	struct edge edge = {
		.time_ns = time_ns > sweep->settled_ns ? time_ns : sweep->settled_ns,
		.what = what,
		.seq = seq & UINT64_MAX >> 4, /* as wide as the field */
		.kind = kind,
	};

	if (quota_charge(share, user, 1) == 0) {
		if (edges_add(&sweep->edges, &edge) == 0) {
			core->edges++;
			return true;
		}
		quota_give(share, user, 1);
	}
	edge_drop(&edge);
	loss_count(core, exact->process, LOSS_LIMIT);
	return false;
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
	const struct edge *first;
	struct device *device;

	while ((first = edges_first(&sweep->edges)) && first->time_ns <= time_ns)
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
	else
		loss_count(core, exact->process, LOSS_LIMIT);
	return stream->lane;
}

struct lane *sweep_lane(struct core *core, struct exact *exact, struct stream *stream)
{
	if (!exact->sweep.on || stream->lane)
		return stream->lane;
	return sweep_add_lane(core, exact, stream, stream->submitted);
}

struct lane *sweep_find_lane(const struct exact *exact, uint32_t stream)
{
	const struct list *lanes = &exact->sweep.lanes, *node = lanes->prev;

	for (int i = 0; i < SWEEP_TRIES && node != lanes; i++, node = node->prev) {
		struct lane *lane = list_item(node, struct lane, link);

		if (lane->state.stream == stream)
			return lane;
	}
	return NULL;
}

void sweep_submit(struct core *core, struct exact *exact, struct stream *stream, uint64_t seq,
		  uint64_t time_ns)
{
	struct lane *lane = stream->lane;

	if (!exact->sweep.on)
		return;
	if (!lane)
		lane = sweep_add_lane(core, exact, stream, seq - 1);
	if (!lane)
		return;
	lane->shared = lane->shared || stream->shared;
	if (sweep_make_room(core, exact, 1))
		sweep_push(core, exact, time_ns, EDGE_SUBMIT, lane_ref(lane), seq);
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
		sweep_push(core, exact, time_ns, EDGE_WAIT, mark, 0);
	else
		loss_count(core, exact->process, LOSS_LIMIT);
}

/* Work number `seq` started then. */
static void sweep_follow(struct core *core, struct exact *exact, struct lane *lane, uint64_t seq,
			 uint64_t begin_ns)
{
	if (!seq || !lane->shared || begin_ns <= exact->sweep.settled_ns ||
	    !sweep_make_room(core, exact, 2))
		return;
	if (sweep_push(core, exact, seq, EDGE_AHEAD, lane_ref(lane), 0))
		sweep_push(core, exact, begin_ns, EDGE_AHEAD_END, lane_ref(lane), 0);
}

static void sweep_drop_device(struct core *core, struct device *device, uint64_t time_ns)
{
	busy_end(core, device, time_ns);
	state_set(core, &device->state, STATE_NONE, time_ns);
	device->state.settled_ns = NULL;
	device->pending = device->waiting = device->syncs = 0;
	memset(device->runs, 0, sizeof(device->runs));
}

/* Once the device is known, nothing is left of the unknown one. */
static void sweep_leave_unknown(struct core *core, struct exact *exact, struct device *device)
{
	const struct lane *lane;

	if (device->state.device != DEVICE_UNKNOWN)
		return;
	list_for_each(lane, &exact->sweep.lanes, link)
		if (lane->device == device)
			return;
	sweep_drop_device(core, device, exact->sweep.settled_ns);
}

void sweep_ran(struct core *core, struct exact *exact, struct lane *lane, enum sweep_work work,
	       const struct op *op, uint64_t began, uint64_t finished)
{
	struct sweep *sweep = &exact->sweep;
	struct device *device, *former;

	if (!sweep->on || !lane)
		return;
	if (op->gpu_start_ns < sweep->settled_ns && sweep->begun_ns < op->gpu_start_ns)
		loss_count(core, exact->process, LOSS_LATE);
	if (op->gpu_end_ns <= sweep->settled_ns) {
		sweep_finish(core, exact, lane, finished, op->gpu_end_ns);
		return;
	}
	if (op->device != DEVICE_UNKNOWN && lane->device->state.device != op->device) {
		former = lane->device;
		device = sweep_device(core, exact, op->device);
		if (device) {
			lane_move(core, lane, device, sweep->settled_ns);
			sweep_leave_unknown(core, exact, former);
		}
	}
	sweep_follow(core, exact, lane, finished, op->gpu_start_ns);
	if (!sweep_make_room(core, exact, 2))
		return;
	if (sweep_push(core, exact, op->gpu_start_ns, EDGE_KERNEL_BEGIN + work, lane_ref(lane),
		       began))
		sweep_push(core, exact, op->gpu_end_ns, EDGE_KERNEL_END + work, lane_ref(lane),
			   finished);
}

void sweep_finish(struct core *core, struct exact *exact, struct lane *lane, uint64_t seq,
		  uint64_t time_ns)
{
	if (exact->sweep.on && lane && seq > lane->finished && sweep_make_room(core, exact, 1))
		sweep_push(core, exact, time_ns, EDGE_FINISH, lane_ref(lane), seq);
}

void sweep_joined(struct core *core, struct exact *exact, struct lane *lane, const struct op *op,
		  uint64_t seq)
{
	if (!exact->sweep.on || !lane)
		return;
	sweep_follow(core, exact, lane, seq, op->gpu_start_ns);
	sweep_finish(core, exact, lane, seq, op->gpu_end_ns);
}

void sweep_never(struct core *core, struct exact *exact, struct lane *lane, uint64_t seq)
{
	if (exact->sweep.on && lane && sweep_make_room(core, exact, 1))
		sweep_push(core, exact, seq, EDGE_NEVER, lane_ref(lane), seq);
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
	if (sweep_push(core, exact, start_ns, EDGE_SYNC_BEGIN, device, 0))
		sweep_push(core, exact, end_ns, EDGE_SYNC_END, device, 0);
}

void sweep_stream_end(struct core *core, struct exact *exact, struct stream *stream,
		      uint64_t time_ns)
{
	if (stream->lane && sweep_make_room(core, exact, 1))
		sweep_push(core, exact, time_ns, EDGE_STREAM_END, lane_ref(stream->lane), 0);
}

/* What is pending stays pending. */
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

	list_for_each(lane, &sweep->lanes, link)
		lane_ref(lane);
	edges_clear(&sweep->edges);
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
	/* References held by streams go with them; so do the states that the device lists. */
	list_for_each(lane, &sweep->lanes, link)
		free(lane);
	list_init(&sweep->lanes);
}

static void sweep_end_device(struct core *core, struct device *device, uint64_t until_ns,
			     uint64_t time_ns)
{
	if (!device->busy)
		return;
	sweep_drop_device(core, device, until_ns);
	device_count(core, device, STATE_NONE, STATE_NONE, time_ns);
}

void sweep_end(struct core *core, struct exact *exact, uint64_t until_ns, uint64_t time_ns)
{
	struct sweep *sweep = &exact->sweep;
	struct context *context;
	struct device *device;
	struct stream *stream;
	struct lane *lane;

	if (!sweep->on)
		return;
	sweep_pass_until(core, exact, until_ns);
	until_ns = sweep->settled_ns;
	if (time_ns < until_ns)
		time_ns = until_ns;
	core->edges -= sweep->edges.count;
	quota_give(&core->share[CORE_SHARE_EDGES], exact->process->row.user, sweep->edges.count);
	sweep_empty(sweep);
	list_for_each(lane, &sweep->lanes, link)
		state_set(core, &lane->state, STATE_NONE, until_ns);
	list_for_each(device, &exact->process->devices, link)
		sweep_end_device(core, device, until_ns, time_ns);
	sweep->on = false;
	track_drop_lanes(exact);
	list_for_each(context, &exact->process->contexts, link)
		list_for_each(stream, &context->streams, in_context)
			stream_resume(core, stream, time_ns);
	/* The last references are ours. */
	list_for_each(lane, &sweep->lanes, link)
		lane_unref(lane);
}
