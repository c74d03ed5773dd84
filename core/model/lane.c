/* Lane: what a start or an end, passing in order of time, does to the state of a stream and of its
 * device.
 *
 * Work of a stream runs in the order of its submission: when one starts, everything before it is
 * over, including work without a record. So a state follows from two numbers and what runs, and no
 * lost record leaves a stream pending forever. But calls of two threads may submit in another order
 * than they started in: then work with a record is followed until it starts. */
#include "core/model/lane.h"

#include <stdlib.h>

#include "core/model/busy.h"
#include "core/model/model.h"

/* Waits are seen slightly out of order with what they wait for, never by more than this. */
#define LANE_SORT_STEPS 64

struct lane *lane_new(struct device *device, const struct state *state, uint64_t finished)
{
	struct lane *lane = calloc(1, sizeof(*lane));

	if (!lane)
		return NULL;
	lane->device = device;
	lane->state = *state;
	lane->submitted = lane->finished = finished;
	lane->refs = 1;
	list_init(&lane->link);
	list_init(&lane->marks);
	list_init(&lane->waiters);
	list_init(&lane->state.link);
	return lane;
}

struct lane *lane_ref(struct lane *lane)
{
	if (lane)
		lane->refs++;
	return lane;
}

struct lane *lane_unref(struct lane *lane)
{
	if (lane && --lane->refs == 0) {
		list_remove(&lane->link);
		list_remove(&lane->state.link);
		free(lane);
	}
	return NULL;
}

struct mark *mark_new(struct lane *lane, struct lane *source, uint64_t position, uint64_t seq)
{
	struct mark *mark = malloc(sizeof(*mark));

	if (!mark)
		return NULL;
	*mark = (struct mark){
		.lane = lane_ref(lane),
		.source = lane_ref(source),
		.position = position,
		.seq = seq,
	};
	list_init(&mark->in_lane);
	list_init(&mark->waiter);
	return mark;
}

void mark_free(struct mark *mark)
{
	list_remove(&mark->in_lane);
	list_remove(&mark->waiter);
	lane_unref(mark->lane);
	lane_unref(mark->source);
	free(mark);
}

static uint8_t device_sweep_state(const struct device *device)
{
	return device->runs[SWEEP_KERNEL] ? OP_STATE_RUNNING
	       : device->runs[SWEEP_COPY] ? OP_STATE_COPYING
	       : device->pending	  ? OP_STATE_PENDING
	       : device->waiting	  ? OP_STATE_WAITING
	       : device->syncs		  ? OP_STATE_SYNCING
					  : OP_STATE_IDLE;
}

static void device_settle(struct core *core, struct device *device, uint64_t time_ns)
{
	uint8_t now = device_sweep_state(device);

	if (now == device->state.now || !device->busy)
		return;
	busy_pass(core, device, time_ns);
	state_set(core, &device->state, now, time_ns);
}

/* The first mark that still matters. */
static const struct mark *lane_mark(struct lane *lane)
{
	struct mark *mark;

	while ((mark = list_first(&lane->marks, struct mark, in_lane))) {
		if (mark->source->finished < mark->seq && lane->finished <= mark->position)
			return mark;
		mark_free(mark);
	}
	return NULL;
}

static uint8_t lane_state(struct lane *lane)
{
	const struct mark *mark = lane_mark(lane);

	if (lane->runs[SWEEP_KERNEL] || lane->runs[SWEEP_COPY])
		return OP_STATE_RUNNING;
	if (lane->ended)
		return STATE_NONE;
	if (lane->finished >= lane->submitted && !lane->ahead)
		return OP_STATE_IDLE;
	return mark && mark->position <= lane->finished ? OP_STATE_WAITING : OP_STATE_PENDING;
}

void lane_settle(struct core *core, struct lane *lane, uint64_t time_ns)
{
	uint8_t now = lane_state(lane), before = lane->state.now;

	if (now != before) {
		lane->device->pending += (now == OP_STATE_PENDING) - (before == OP_STATE_PENDING);
		lane->device->waiting += (now == OP_STATE_WAITING) - (before == OP_STATE_WAITING);
		state_set(core, &lane->state, now, time_ns);
	}
	device_settle(core, lane->device, time_ns);
}

/* Others may have waited for it. */
static void lane_finish(struct core *core, struct lane *lane, uint64_t seq, uint64_t time_ns)
{
	struct mark *mark;

	if (seq <= lane->finished)
		return;
	lane->finished = seq;
	while ((mark = list_first(&lane->waiters, struct mark, waiter))) {
		struct lane *waiting = mark->lane;

		if (mark->seq > seq)
			break;
		waiting->refs++;
		mark_free(mark);
		lane_settle(core, waiting, time_ns);
		lane_unref(waiting);
	}
}

static void lane_run(struct core *core, struct lane *lane, enum sweep_work work, uint32_t by,
		     uint64_t time_ns)
{
	busy_pass(core, lane->device, time_ns);
	lane->device->runs[work] += by;
	lane->runs[work] += by;
}

void lane_move(struct core *core, struct lane *lane, struct device *device, uint64_t time_ns)
{
	uint8_t now = lane->state.now;

	state_set(core, &lane->state, STATE_NONE, time_ns);
	lane->device->pending -= now == OP_STATE_PENDING;
	lane->device->waiting -= now == OP_STATE_WAITING;
	busy_pass(core, lane->device, time_ns);
	busy_pass(core, device, time_ns);
	for (int work = 0; work < SWEEP_WORK_KINDS; work++) {
		lane->device->runs[work] -= lane->runs[work];
		device->runs[work] += lane->runs[work];
	}
	device_settle(core, lane->device, time_ns);
	lane->device = device;
	lane->state.device = device->state.device;
	if (now != STATE_NONE)
		lane_settle(core, lane, time_ns);
}

static void edge_pass_lane(struct core *core, const struct edge *edge)
{
	struct lane *lane = edge->what;

	switch ((enum edge_kind)edge->kind) {
	case EDGE_SUBMIT:
		if (edge->seq > lane->submitted) {
			lane->before = lane->submitted;
			lane->submitted = edge->seq;
		}
		break;
	case EDGE_NEVER:
		if (edge->seq == lane->submitted)
			lane->submitted = lane->before;
		break;
	case EDGE_KERNEL_BEGIN:
	case EDGE_COPY_BEGIN:
		lane_run(core, lane, edge->kind - EDGE_KERNEL_BEGIN, 1, edge->time_ns);
		lane_finish(core, lane, edge->seq ? edge->seq - 1 : 0, edge->time_ns);
		break;
	case EDGE_KERNEL_END:
	case EDGE_COPY_END:
		lane_run(core, lane, edge->kind - EDGE_KERNEL_END, -1u, edge->time_ns);
		lane_finish(core, lane, edge->seq, edge->time_ns);
		break;
	case EDGE_AHEAD:
		lane->ahead++;
		break;
	case EDGE_AHEAD_END:
		lane->ahead--;
		break;
	case EDGE_STREAM_END:
		lane->ended = true;
		break;
	default:
		lane_finish(core, lane, edge->seq, edge->time_ns);
		break;
	}
	lane_settle(core, lane, edge->time_ns);
	lane_unref(lane);
}

static void edge_pass_wait(struct core *core, const struct edge *edge)
{
	struct mark *mark = edge->what;
	struct lane *lane = lane_ref(mark->lane);
	struct list *position = mark->source->waiters.prev;

	for (int i = 0; i < LANE_SORT_STEPS && position != &mark->source->waiters; i++) {
		if (list_item(position, struct mark, waiter)->seq <= mark->seq)
			break;
		position = position->prev;
	}
	list_insert_after(position, &mark->waiter);
	list_append(&lane->marks, &mark->in_lane);
	lane_settle(core, lane, edge->time_ns);
	lane_unref(lane);
}

static void edge_pass_sync(struct core *core, const struct edge *edge, int by)
{
	struct device *device = edge->what;

	device->syncs += (uint32_t)by;
	device_settle(core, device, edge->time_ns);
}

void edge_pass(struct core *core, const struct edge *edge)
{
	if (edge->kind == EDGE_WAIT)
		edge_pass_wait(core, edge);
	else if (edge->kind == EDGE_SYNC_BEGIN)
		edge_pass_sync(core, edge, 1);
	else if (edge->kind == EDGE_SYNC_END)
		edge_pass_sync(core, edge, -1);
	else
		edge_pass_lane(core, edge);
}

void edge_drop(const struct edge *edge)
{
	if (edge->kind == EDGE_WAIT)
		mark_free(edge->what);
	else if (edge->kind != EDGE_SYNC_BEGIN && edge->kind != EDGE_SYNC_END)
		lane_unref(edge->what);
}
