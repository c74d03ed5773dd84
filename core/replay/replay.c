/* Replay: takes each op through its steps, together with its stream.
 *
 * A call that submits several works (a graph) has no exact times of its own. Its parts start when
 * it does, so all of them are known once the clock has passed that time: then its start and end are
 * determined. */
#include "core/replay/replay.h"

#include <errno.h>

#include "core/replay/lane.h"
#include "core/replay/queue.h"

/* An op that has started and is not finished. */
struct open {
	struct list link;   /* in order of start */
	struct list launch; /* while its times are undetermined */
	struct replay_op op;
	struct replay_lane *lane;
	const struct open *call; /* of a part: what submitted it, where that is known */
	uint64_t order;
	uint64_t number;  /* 0: not reported yet */
	uint64_t seq;	  /* of its work in the lane, 0: has none */
	uint64_t last_ns; /* the end of its parts */
	bool parts;	  /* its parts give its times */
	uint8_t state;	  /* enum replay_state */
};

struct replay {
	struct replay_queue queue;
	struct replay_lanes lanes;
	struct pool pool;
	struct list open, launches;
	const uint8_t *effect;
	uint32_t effect_count;
	uint64_t since_ns, until_ns;
	uint64_t from_ns; /* everything before is reported */
	uint64_t order, number;
	bool begun; /* since_ns has passed */
	int error;
	replay_fn *change;
	void *data;
};

static bool replay_tells(const struct replay *replay, uint64_t time_ns)
{
	return !replay->error && time_ns >= replay->since_ns && time_ns < replay->until_ns;
}

static bool open_is_bounds(const struct open *open)
{
	return open->state == REPLAY_FINISHED && open->op.flags & OP_BOUNDS && !open->parts;
}

static void tell_op(struct replay *replay, struct open *open, uint8_t from, uint64_t time_ns)
{
	const struct replay_op *op = &open->op;

	if (!replay_tells(replay, time_ns))
		return;
	if (!open->number)
		open->number = ++replay->number;
	replay->error = replay->change(replay->data, &(struct replay_change){
							     .time_ns = time_ns,
							     .number = open->number,
							     .process = op->process,
							     .stream = op->stream,
							     .device = op->device,
							     .machine = REPLAY_OP,
							     .from = from,
							     .to = open->state,
							     .bounds = open_is_bounds(open),
							     .op = op,
						     });
}

static void tell_lane(void *data, const struct replay_lane *lane,
		      const struct replay_device *device, uint8_t from, uint8_t to,
		      uint64_t time_ns)
{
	struct replay *replay = data;

	if (!replay_tells(replay, time_ns))
		return;
	replay->error = replay->change(replay->data,
				       &(struct replay_change){
					       .time_ns = time_ns,
					       .process = device->process,
					       .stream = lane ? lane->stream : 0,
					       .device = device->ordinal,
					       .machine = lane ? REPLAY_STREAM : REPLAY_DEVICE,
					       .from = from,
					       .to = to,
				       });
}

/* What is in progress where the window starts. */
static void replay_begin(struct replay *replay)
{
	struct replay_device *device;
	struct replay_lane *lane;
	struct open *open;

	replay->begun = true;
	list_for_each(open, &replay->open, link)
		if (open->state != REPLAY_IDLE)
			tell_op(replay, open, REPLAY_IDLE, replay->since_ns);
	list_for_each(lane, &replay->lanes.order, link)
		if (lane->now != REPLAY_IDLE)
			tell_lane(replay, lane, lane->device, REPLAY_IDLE, lane->now,
				  replay->since_ns);
	list_for_each(device, &replay->lanes.device_order, link)
		if (device->now != REPLAY_IDLE)
			tell_lane(replay, NULL, device, REPLAY_IDLE, device->now, replay->since_ns);
}

static void open_set(struct replay *replay, struct open *open, uint8_t to, uint64_t time_ns)
{
	uint8_t from = open->state;

	open->state = to;
	tell_op(replay, open, from, time_ns);
}

static void open_finish(struct replay *replay, struct open *open, uint64_t time_ns)
{
	open_set(replay, open, REPLAY_FINISHED, time_ns);
	list_remove(&open->link);
	pool_put(&replay->pool, open);
}

static void open_push(struct replay *replay, struct open *open, enum replay_step step,
		      uint64_t time_ns)
{
	if (replay_queue_push(&replay->queue, time_ns, step, open->order, open) < 0)
		replay->error = -ENOMEM;
}

static bool op_is_exact(const struct replay_op *op)
{
	return op->flags & OP_EXACT;
}

static void open_join(struct replay *replay, struct open *part)
{
	struct replay_op *op = &part->op;
	struct open *call;

	list_for_each(call, &replay->launches, launch) {
		if (call->op.process != op->process || call->op.tid != op->tid)
			continue;
		part->call = call;
		if (!call->parts || op->begin_ns < call->op.begin_ns)
			call->op.begin_ns = op->begin_ns;
		if (op->end_ns > call->last_ns)
			call->last_ns = op->end_ns;
		call->parts = true;
		return;
	}
}

static void start_exact(struct replay *replay, struct open *open)
{
	const struct replay_op *op = &open->op;

	if (op->flags & OP_NODE)
		open_join(replay, open);
	else if (open->lane && !(op->flags & OP_NO_CALL))
		open->seq = replay_lane_submit(&replay->lanes, open->lane, true, op->start_ns);
	open_push(replay, open, REPLAY_BEGIN, op->begin_ns);
}

static void start_call(struct replay *replay, struct open *open)
{
	const struct replay_op *op = &open->op;
	int r = 0;

	if (op->result == 0 && op->fn < replay->effect_count)
		r = replay_lane_apply(&replay->lanes, open->lane, op, replay->effect[op->fn]);
	if (r < 0)
		replay->error = r;
	open_push(replay, open, REPLAY_END, op->end_ns);
}

static void pass_start(struct replay *replay)
{
	struct open *open = pool_get(&replay->pool);
	const struct replay_op *op;

	if (!open) {
		replay->error = -ENOMEM;
		return;
	}
	*open = (struct open){ .order = ++replay->order, .state = REPLAY_IDLE };
	replay_queue_take(&replay->queue, &open->op);
	op = &open->op;
	list_append(&replay->open, &open->link);
	list_init(&open->launch);
	if (op->stream) {
		open->lane = replay_lane_of(&replay->lanes, op);
		if (!open->lane)
			replay->error = -ENOMEM;
	}
	if (!(op->flags & OP_NO_CALL))
		open_set(replay, open, REPLAY_PENDING, op->start_ns);
	if (op_is_exact(op)) {
		start_exact(replay, open);
	} else if ((op->flags & (OP_BOUNDS | OP_NODE)) == OP_BOUNDS) {
		list_append(&replay->launches, &open->launch);
		open_push(replay, open, REPLAY_DECIDE, op->start_ns);
	} else {
		start_call(replay, open);
	}
}

/* If it is unknown when work is over, it is also unknown whether it is in progress. */
static void pass_decide(struct replay *replay, struct open *open)
{
	struct replay_op *op = &open->op;

	list_remove(&open->launch);
	if (open->lane && (open->parts || op->seen_ns))
		open->seq =
			replay_lane_submit(&replay->lanes, open->lane, open->parts, op->start_ns);
	if (open->parts) {
		op->end_ns = open->last_ns;
		open_push(replay, open, REPLAY_BEGIN, op->begin_ns);
	} else {
		open_push(replay, open, REPLAY_END, op->end_ns);
	}
}

static void pass_begin(struct replay *replay, struct open *open)
{
	const struct replay_op *op = &open->op;
	const struct open *call = open->call;

	open_set(replay, open, REPLAY_RUNNING, op->begin_ns);
	open_push(replay, open, REPLAY_END, op->end_ns);
	if (open->lane && op_is_exact(op))
		replay_lane_begin(&replay->lanes, open->lane,
				  call && call->lane == open->lane ? call->seq : open->seq,
				  op->begin_ns);
}

static void pass_end(struct replay *replay, struct open *open)
{
	struct replay_lane *lane = open->lane;
	uint64_t time_ns = open->op.end_ns, seq = open->seq;
	bool ran = open->state == REPLAY_RUNNING, exact = op_is_exact(&open->op);

	if (ran && open->op.seen_ns > time_ns) {
		open_set(replay, open, REPLAY_WAITING, time_ns);
		open_push(replay, open, REPLAY_SEEN, open->op.seen_ns);
	} else {
		open_finish(replay, open, time_ns);
	}
	if (lane && exact)
		replay_lane_end(&replay->lanes, lane, seq, time_ns);
	else if (lane && seq)
		replay_lane_finish(&replay->lanes, lane, seq, time_ns);
}

static void pass_edge(struct replay *replay)
{
	struct replay_edge edge = replay_queue_pop(&replay->queue);

	switch (replay_edge_step(&edge)) {
	case REPLAY_DECIDE:
		pass_decide(replay, edge.what);
		break;
	case REPLAY_BEGIN:
		pass_begin(replay, edge.what);
		break;
	case REPLAY_END:
		pass_end(replay, edge.what);
		break;
	case REPLAY_SEEN:
		open_finish(replay, edge.what, edge.time_ns);
		break;
	}
}

/* Handles everything before a time. */
static int replay_pass(struct replay *replay, uint64_t until_ns)
{
	while (!replay->error) {
		const struct replay_op *first = replay_queue_first(&replay->queue);
		const struct replay_edge *edge = replay_queue_edge(&replay->queue);
		bool start = first && (!edge || first->start_ns <= edge->time_ns);
		uint64_t time_ns = start ? first->start_ns : edge ? edge->time_ns : UINT64_MAX;

		if (!replay->begun && replay->since_ns <= time_ns && replay->since_ns <= until_ns)
			replay_begin(replay);
		if (time_ns >= until_ns)
			break;
		if (start)
			pass_start(replay);
		else
			pass_edge(replay);
	}
	return replay->error;
}

static bool op_is_played(const struct op *op)
{
	switch (op->kind) {
	case OP_STATE:
	case OP_RANGE:
	case OP_OVERHEAD:
		return false;
	case OP_SYNC:
		return !(op->flags & OP_EXACT);
	default:
		return !(op->flags & OP_NO_CALL) || op->flags & OP_EXACT;
	}
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Clocks of host and device differ a little, and files may contain anything: times are put in
 * order. A bound is when the end was seen. */
static struct replay_op op_take(const struct op *op, uint64_t from_ns)
{
	bool exact = op->flags & OP_EXACT, bound = !exact && op->flags & OP_BOUNDS;
	uint64_t seen_ns = op->seen_ns ? op->seen_ns : bound ? op->gpu_end_ns : 0;
	uint64_t start_ns = later(op->start_ns, from_ns);
	uint64_t begin_ns = exact ? later(op->gpu_start_ns, start_ns) : start_ns;
	uint64_t end_ns = exact ? op->gpu_end_ns : seen_ns ? seen_ns : op->end_ns;

	end_ns = later(end_ns, begin_ns);
	return (struct replay_op){
		.start_ns = start_ns,
		.begin_ns = begin_ns,
		.end_ns = end_ns,
		.seen_ns = seen_ns ? later(seen_ns, end_ns) : 0,
		.name = op->name,
		.handle = op->handle,
		.process = op->process,
		.stream = op->stream,
		.tid = op->tid,
		.result = op->result,
		.fn = op->fn,
		.flags = op->flags,
		.kind = op->kind,
		.detail = op->detail,
		.device = op->device,
	};
}

static int replay_take(struct replay *replay, const struct op *op, size_t count)
{
	struct replay_op *taken;
	size_t played = 0;

	if (replay->queue.held + replay->pool.used + count > REPLAY_HELD_MAX)
		return -E2BIG;
	taken = reallocarray(NULL, count, sizeof(*taken));
	if (!taken)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		if (op_is_played(&op[i]))
			taken[played++] = op_take(&op[i], replay->from_ns);
	return replay_queue_add(&replay->queue, taken, played);
}

int replay_ops(struct replay *replay, const struct op *op, size_t count, uint64_t from_ns)
{
	if (!replay->error && count)
		replay->error = replay_take(replay, op, count);
	replay->from_ns = later(replay->from_ns, from_ns);
	return replay_pass(replay, replay->from_ns);
}

int replay_end(struct replay *replay)
{
	return replay_pass(replay, UINT64_MAX);
}

int replay_new(const uint8_t *effect, uint32_t effect_count, replay_fn *change, void *data,
	       struct replay **ret)
{
	struct replay *replay = malloc(sizeof(*replay));

	if (!replay)
		return -ENOMEM;
	*replay = (struct replay){
		.pool = POOL_OF(struct open),
		.effect = effect,
		.effect_count = effect_count,
		.until_ns = UINT64_MAX,
		.change = change,
		.data = data,
	};
	list_init(&replay->open);
	list_init(&replay->launches);
	replay_lanes_init(&replay->lanes, tell_lane, replay);
	*ret = replay;
	return 0;
}

struct replay *replay_free(struct replay *replay)
{
	if (!replay)
		return NULL;
	replay_queue_clear(&replay->queue);
	replay_lanes_clear(&replay->lanes);
	pool_clear(&replay->pool);
	free(replay);
	return NULL;
}

void replay_window(struct replay *replay, uint64_t since_ns, uint64_t until_ns)
{
	replay->since_ns = since_ns;
	replay->until_ns = until_ns;
}

const char *replay_machine_name(uint8_t machine)
{
	static const char *const names[] = { "", "op", "stream", "device" };

	return names[machine <= REPLAY_DEVICE ? machine : 0];
}

const char *replay_state_name(uint8_t state)
{
	_Static_assert((int)REPLAY_IDLE == OP_STATE_IDLE &&
			       (int)REPLAY_PENDING == OP_STATE_PENDING &&
			       (int)REPLAY_RUNNING == OP_STATE_RUNNING &&
			       (int)REPLAY_WAITING == OP_STATE_WAITING,
		       "those of streams and devices");

	if (state == REPLAY_FINISHED)
		return "finished";
	return state >= REPLAY_IDLE && state < REPLAY_FINISHED ? op_state_name(state) : "";
}

const char *replay_kind_name(const struct replay_op *op)
{
	static const char *const names[] = {
#define X(number, identifier, name) [number] = name,
		OP_KINDS(X)
#undef X
	};

	return op->kind > 0 && op->kind <= OP_KIND_MAX ? names[op->kind] : "other";
}

const char *replay_copy_name(const struct replay_op *op)
{
	static const char *const names[] = {
#define X(number, identifier, name) [number] = name,
		COPY_KINDS(X)
#undef X
	};

	if (op->kind != OP_COPY)
		return NULL;
	return names[op->detail > 0 && op->detail <= COPY_KIND_MAX ? op->detail : COPY_UNKNOWN];
}
