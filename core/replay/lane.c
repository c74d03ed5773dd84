/* Replay lane: what a step of an op does to the state of its stream and device.
 *
 * With exact times a stream waits if its next work must. With bounds only the end of everything is
 * known: it waits if nothing was submitted since, and a stream that waits for it waits for what it
 * waits for (see lane.c and timeline.c, which have these rules). */
#include "core/replay/lane.h"

#include <errno.h>

/* Waits are seen slightly out of order with what they wait for, never by more than this. */
#define LANE_SORT_STEPS 64

/* From here on a lane waits for another one. It exists only while it matters. */
struct replay_mark {
	struct list in_lane, waiter;
	struct replay_lane *lane, *source;
	uint64_t position; /* the lane's work up to this number is before it */
	uint64_t number;   /* of the marks in the lane */
	/* It waits for the source's work and, with bounds, for its marks, up to these numbers. */
	uint64_t seq, marks;
};

/* Where one of the driver's events was recorded last. */
struct replay_event {
	struct replay_lane *lane;
	uint64_t seq, marks;
	uint64_t capture;
};

void replay_lanes_init(struct replay_lanes *lanes, replay_lane_fn *tell, void *data)
{
	*lanes = (struct replay_lanes){
		.lane_pool = POOL_OF(struct replay_lane),
		.device_pool = POOL_OF(struct replay_device),
		.mark_pool = POOL_OF(struct replay_mark),
		.event_pool = POOL_OF(struct replay_event),
		.tell = tell,
		.data = data,
	};
	list_init(&lanes->order);
	list_init(&lanes->device_order);
	list_init(&lanes->work);
}

void replay_lanes_clear(struct replay_lanes *lanes)
{
	map_clear(&lanes->lane);
	map_clear(&lanes->device);
	map_clear(&lanes->event);
	pool_clear(&lanes->lane_pool);
	pool_clear(&lanes->device_pool);
	pool_clear(&lanes->mark_pool);
	pool_clear(&lanes->event_pool);
}

static void mark_free(struct replay_lanes *lanes, struct replay_mark *mark)
{
	list_remove(&mark->in_lane);
	list_remove(&mark->waiter);
	pool_put(&lanes->mark_pool, mark);
}

static const struct replay_mark *lane_first_mark(const struct replay_lane *lane)
{
	return list_first(&lane->marks, const struct replay_mark, in_lane);
}

static bool lane_has_passed(const struct replay_lane *lane, uint64_t seq, uint64_t marks)
{
	const struct replay_mark *first = lane_first_mark(lane);

	return lane->finished >= seq && (!first || first->number > marks);
}

static uint8_t lane_state(const struct replay_lane *lane)
{
	const struct replay_mark *first = lane_first_mark(lane);
	const struct replay_mark *last = list_last(&lane->marks, const struct replay_mark, in_lane);

	if (lane->runs)
		return REPLAY_RUNNING;
	if (!lane->device->exact && last && last->position == lane->submitted)
		return REPLAY_WAITING;
	if (lane->finished >= lane->submitted)
		return REPLAY_IDLE;
	if (lane->device->exact && first && first->position <= lane->finished)
		return REPLAY_WAITING;
	return REPLAY_PENDING;
}

static void device_settle(struct replay_lanes *lanes, struct replay_device *device,
			  uint64_t time_ns)
{
	uint8_t from = device->now, to = device->lanes[REPLAY_RUNNING]	 ? REPLAY_RUNNING
					 : device->lanes[REPLAY_PENDING] ? REPLAY_PENDING
					 : device->lanes[REPLAY_WAITING] ? REPLAY_WAITING
									 : REPLAY_IDLE;

	if (from == to)
		return;
	device->now = to;
	lanes->tell(lanes->data, NULL, device, from, to, time_ns);
}

static void lane_settle(struct replay_lanes *lanes, struct replay_lane *lane, uint64_t time_ns)
{
	uint8_t from = lane->now, to = lane_state(lane);

	if (from == to)
		return;
	lane->now = to;
	lane->device->lanes[from]--;
	lane->device->lanes[to]++;
	lanes->tell(lanes->data, lane, lane->device, from, to, time_ns);
	device_settle(lanes, lane->device, time_ns);
}

static struct replay_device *device_of(struct replay_lanes *lanes, const struct replay_op *op)
{
	struct map_key key = { op->process, (uint16_t)op->device };
	struct replay_device *device = map_get(&lanes->device, key);

	if (device)
		return device;
	device = pool_get(&lanes->device_pool);
	if (!device || map_put(&lanes->device, key, device) < 0)
		return NULL;
	*device = (struct replay_device){
		.process = op->process,
		.ordinal = op->device,
		.now = REPLAY_IDLE,
	};
	list_append(&lanes->device_order, &device->link);
	return device;
}

static struct replay_lane *lane_add(struct replay_lanes *lanes, const struct replay_op *op,
				    struct map_key key)
{
	struct replay_device *device = device_of(lanes, op);
	struct replay_lane *lane = device ? pool_get(&lanes->lane_pool) : NULL;

	if (!lane || map_put(&lanes->lane, key, lane) < 0)
		return NULL;
	*lane = (struct replay_lane){
		.device = device,
		.process = op->process,
		.stream = op->stream,
		.now = REPLAY_IDLE,
	};
	list_init(&lane->marks);
	list_init(&lane->waiters);
	list_init(&lane->work);
	list_append(&lanes->order, &lane->link);
	device->lanes[REPLAY_IDLE]++;
	return lane;
}

/* It turns out to be on another device. */
static bool lane_move(struct replay_lanes *lanes, struct replay_lane *lane,
		      const struct replay_op *op)
{
	struct replay_device *device = device_of(lanes, op), *before = lane->device;

	if (!device)
		return false;
	lane->device = device;
	device->lanes[lane->now]++;
	before->lanes[lane->now]--;
	device_settle(lanes, before, op->start_ns);
	device_settle(lanes, device, op->start_ns);
	return true;
}

struct replay_lane *replay_lane_of(struct replay_lanes *lanes, const struct replay_op *op)
{
	struct map_key key = { op->process, op->stream };
	struct replay_lane *lane = map_get(&lanes->lane, key);

	if (!lane)
		return lane_add(lanes, op, key);
	if (op->device != DEVICE_UNKNOWN && op->device != lane->device->ordinal &&
	    !lane_move(lanes, lane, op))
		return NULL;
	return lane;
}

uint64_t replay_lane_submit(struct replay_lanes *lanes, struct replay_lane *lane, bool exact,
			    uint64_t time_ns)
{
	lane->device->exact = exact;
	lane->submitted++;
	lane_settle(lanes, lane, time_ns);
	return lane->submitted;
}

static void lane_pass_marks(struct replay_lanes *lanes, const struct replay_lane *lane)
{
	struct replay_mark *mark;

	while ((mark = list_first(&lane->marks, struct replay_mark, in_lane)) &&
	       mark->position < lane->finished)
		mark_free(lanes, mark);
}

/* Others may have waited for it, and again others for those; they change first. A list instead of
 * recursion: chains can be long. */
static void lane_over(struct replay_lanes *lanes, struct replay_lane *over, uint64_t time_ns)
{
	struct replay_lane *lane;
	struct replay_mark *mark;

	list_append(&lanes->work, &over->work);
	while ((lane = list_first(&lanes->work, struct replay_lane, work))) {
		list_remove(&lane->work);
		lane_pass_marks(lanes, lane);
		while ((mark = list_first(&lane->waiters, struct replay_mark, waiter)) &&
		       lane_has_passed(lane, mark->seq, mark->marks)) {
			if (!list_linked(&mark->lane->work))
				list_append(&lanes->work, &mark->lane->work);
			mark_free(lanes, mark);
		}
		if (lane != over)
			lane_settle(lanes, lane, time_ns);
	}
	lane_settle(lanes, over, time_ns);
}

void replay_lane_begin(struct replay_lanes *lanes, struct replay_lane *lane, uint64_t seq,
		       uint64_t time_ns)
{
	lane->runs++;
	replay_lane_finish(lanes, lane, seq ? seq - 1 : 0, time_ns);
}

void replay_lane_end(struct replay_lanes *lanes, struct replay_lane *lane, uint64_t seq,
		     uint64_t time_ns)
{
	lane->runs--;
	replay_lane_finish(lanes, lane, seq, time_ns);
}

void replay_lane_finish(struct replay_lanes *lanes, struct replay_lane *lane, uint64_t seq,
			uint64_t time_ns)
{
	if (seq > lane->finished) {
		lane->finished = seq;
		lane_over(lanes, lane, time_ns);
	} else {
		lane_settle(lanes, lane, time_ns);
	}
}

static struct map_key event_key(const struct replay_op *op)
{
	return (struct map_key){ op->handle, op->process };
}

static int event_record(struct replay_lanes *lanes, struct replay_lane *lane,
			const struct replay_op *op)
{
	struct replay_event *event = map_get(&lanes->event, event_key(op));

	if (!event) {
		if (lanes->event_pool.used >= REPLAY_HELD_MAX)
			return -E2BIG;
		event = pool_get(&lanes->event_pool);
		if (!event || map_put(&lanes->event, event_key(op), event) < 0)
			return -ENOMEM;
	}
	*event = (struct replay_event){
		.lane = lane,
		.seq = lane->submitted,
		.marks = lane->device->exact ? 0 : lane->marked,
		.capture = lane->capture,
	};
	return 0;
}

static void event_destroy(struct replay_lanes *lanes, const struct replay_op *op)
{
	struct replay_event *event = map_remove(&lanes->event, event_key(op));

	if (event)
		pool_put(&lanes->event_pool, event);
}

static bool mark_is_after(const struct replay_mark *a, const struct replay_mark *b)
{
	return a->seq != b->seq ? a->seq > b->seq : a->marks > b->marks;
}

static void mark_sort_in(struct replay_mark *mark)
{
	struct list *position = mark->source->waiters.prev;

	for (int i = 0; i < LANE_SORT_STEPS && position != &mark->source->waiters; i++) {
		if (!mark_is_after(list_item(position, struct replay_mark, waiter), mark))
			break;
		position = position->prev;
	}
	list_insert_after(position, &mark->waiter);
}

static int lane_wait(struct replay_lanes *lanes, struct replay_lane *lane,
		     const struct replay_op *op)
{
	const struct replay_event *event = map_get(&lanes->event, event_key(op));
	struct replay_mark *mark;

	if (!event || event->lane == lane)
		return 0;
	if (event->capture) {
		if (event->lane->capture == event->capture)
			lane->capture = event->capture;
		return 0;
	}
	if (lane_has_passed(event->lane, event->seq, event->marks))
		return 0;
	if (lanes->mark_pool.used >= REPLAY_HELD_MAX)
		return -E2BIG;
	mark = pool_get(&lanes->mark_pool);
	if (!mark)
		return -ENOMEM;
	*mark = (struct replay_mark){
		.lane = lane,
		.source = event->lane,
		.position = lane->submitted,
		.number = ++lane->marked,
		.seq = event->seq,
		.marks = event->marks,
	};
	mark_sort_in(mark);
	list_append(&lane->marks, &mark->in_lane);
	lane_settle(lanes, lane, op->start_ns);
	return 0;
}

static void capture_end(struct replay_lanes *lanes, const struct replay_lane *ended)
{
	uint64_t capture = ended->capture;
	struct replay_lane *lane;

	if (!capture)
		return;
	list_for_each(lane, &lanes->order, link)
		if (lane->capture == capture)
			lane->capture = 0;
}

int replay_lane_apply(struct replay_lanes *lanes, struct replay_lane *lane,
		      const struct replay_op *op, uint8_t effect)
{
	switch (effect) {
	case EFFECT_EVENT_RECORD:
		return lane ? event_record(lanes, lane, op) : 0;
	case EFFECT_EVENT_DESTROY:
		event_destroy(lanes, op);
		return 0;
	case EFFECT_STREAM_WAIT:
		return lane ? lane_wait(lanes, lane, op) : 0;
	case EFFECT_CAPTURE_BEGIN:
		if (lane)
			lane->capture = ++lanes->captures;
		return 0;
	case EFFECT_CAPTURE_END:
		if (lane)
			capture_end(lanes, lane);
		return 0;
	default:
		return 0;
	}
}
