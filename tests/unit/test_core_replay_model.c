/* Playback of the state machines of random programs that the model has seen: the states of
 * streams and devices are those that the model reports; they and the steps of ops are those of a
 * naive replay that sorts everything; and it does not matter in which pieces the ops come. */
#include <stdlib.h>

#include "core/replay/replay.h"
#include "exact_fixture.h"

#define STREAMS	  3
#define EVENTS	  4
#define CALLS	  150
#define ROUNDS	  60
#define TOLD_MAX  8192
#define SPAN_MAX  4096
#define STREAM(n) (0x1000 * ((n) + 1ull))
#define NUMBER(n) (11 + (n))

static uint64_t seed;

static uint32_t random_below(uint32_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(seed >> 33) % below;
}

/* A program on a device that runs each stream in order. */
static struct program {
	uint64_t now_ns;
	uint64_t free_ns[STREAMS]; /* when all that is on the stream is over */
	uint64_t event_ns[EVENTS]; /* likewise when it was recorded */
	struct ts_event record[CALLS * 4];
	size_t records;
	uint32_t correlation, recorded;
	bool exact, waits;
} program;

static void program_record(uint16_t kind, uint32_t stream, uint32_t number)
{
	uint64_t *free_ns = &program.free_ns[stream], start_ns = program.now_ns + 2000;
	struct ts_event event;

	start_ns += random_below(3000);
	if (start_ns < *free_ns)
		start_ns = *free_ns + random_below(2) * random_below(3000);
	*free_ns = start_ns + 1 + random_below(60000);
	event = work_event(kind, program.correlation, start_ns, *free_ns, NUMBER(stream));
	event.work.device = UINT32_MAX;
	event.work.node = number;
	event.work.graph = number ? 7 : 0;
	program.record[program.records++] = event;
}

static void program_launch(enum fn fn, uint32_t stream)
{
	uint32_t parts = fn == FN_GRAPH ? 1 + random_below(3) : 0;

	on_stream(fn, program.now_ns, 0, STREAM(stream));
	program.correlation++;
	if (program.exact)
		call_record(program.correlation, fn, program.now_ns + 10, program.now_ns + 20);
	if (fn == FN_GRAPH)
		for (uint32_t part = 1; part <= parts; part++)
			program_record(TS_EVENT_KERNEL, stream, part);
	else
		program_record(fn == FN_COPY ? TS_EVENT_COPY : TS_EVENT_KERNEL, stream, 0);
}

static void program_sync(enum fn fn, uint32_t stream)
{
	uint64_t end_ns = program.now_ns;

	for (uint32_t i = 0; i < STREAMS; i++)
		if ((fn == FN_CTX_SYNC || i == stream) && program.free_ns[i] > end_ns)
			end_ns = program.free_ns[i];
	on_stream(fn, program.now_ns, end_ns + 300, fn == FN_CTX_SYNC ? 0 : STREAM(stream));
	program.now_ns = end_ns + 300;
}

static void program_step(void)
{
	uint32_t stream = random_below(STREAMS), event = random_below(EVENTS);

	program.now_ns += 100 + random_below(30000);
	switch (random_below(program.waits ? 12 : 8)) {
	case 0:
		program_sync(FN_STREAM_SYNC, stream);
		break;
	case 1:
		program_launch(FN_COPY, stream);
		break;
	case 2:
		program_launch(program.exact ? FN_GRAPH : FN_LAUNCH, stream);
		break;
	case 8:
	case 9:
		on_event(FN_EVENT_RECORD, program.now_ns, program.now_ns + 20, 1 + event,
			 STREAM(stream));
		program.event_ns[event] = program.free_ns[stream];
		program.recorded = event;
		break;
	case 10:
		event = program.recorded;
		/* fall through */
	case 11:
		on_event(FN_STREAM_WAIT, program.now_ns, program.now_ns + 20, 1 + event,
			 STREAM(stream));
		if (program.event_ns[event] > program.free_ns[stream])
			program.free_ns[stream] = program.event_ns[event];
		break;
	default:
		program_launch(FN_LAUNCH, stream);
		break;
	}
}

static void program_run(bool exact, bool waits)
{
	struct core_config config = fixture_config();

	config.bounds_wait_ns = 10000 * MS;
	config.max_pending = config.max_waiting = config.max_edges = 8192;
	fixture_restart(&config);
	program = (struct program){ .now_ns = 1010 * MS, .exact = exact, .waits = waits };
	if (exact)
		begin_exact();
	else
		announce();
	for (int i = 0; i < CALLS; i++)
		program_step();
	program.now_ns += 100;
	program_sync(FN_CTX_SYNC, 0);
	for (size_t i = 0; exact && i < program.records; i++) {
		size_t other = i + random_below((uint32_t)(program.records - i));
		struct ts_event event = program.record[other];

		program.record[other] = program.record[i];
		tell(&event);
	}
	if (exact)
		pass_until(program.now_ns + 5000 * MS);
	core_flush(core, program.now_ns + 5000 * MS);
}

static struct told {
	struct replay_change change[TOLD_MAX];
	size_t count;
} told, again;

static int note(void *data, const struct replay_change *change)
{
	struct told *to = data;

	assert_true(to->count < TOLD_MAX);
	to->change[to->count] = *change;
	to->change[to->count++].op = NULL;
	return 0;
}

static int by_start(const void *a, const void *b)
{
	const struct op *x = a, *y = b;

	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

/* Chunks of ops of one stream and kind, in order of their first time; the last of a chunk is later
 * than the first of the next. */
static void play_pieces(struct told *to, size_t piece)
{
	_cleanup_(replay_freep) struct replay *replay = NULL;
	static struct op op[SEEN_MAX], chunk[SEEN_MAX];
	uint8_t effect[FN_COUNT];
	bool taken[SEEN_MAX] = { 0 };
	size_t first = 0;

	for (int fn = 0; fn < FN_COUNT; fn++)
		effect[fn] = fixture_functions[fn].effect;
	to->count = 0;
	assert_int_equal(replay_new(effect, FN_COUNT, note, to, &replay), 0);
	memcpy(op, seen.op, seen.ops * sizeof(*op));
	qsort(op, seen.ops, sizeof(*op), by_start);
	while (first < seen.ops) {
		size_t count = 0;

		for (size_t i = first; i < seen.ops && count < piece; i++) {
			if (taken[i] || op[i].kind != op[first].kind ||
			    op[i].stream != op[first].stream)
				continue;
			taken[i] = true;
			chunk[count++] = op[i];
		}
		assert_int_equal(replay_ops(replay, chunk, count, op[first].start_ns), 0);
		while (first < seen.ops && taken[first])
			first++;
	}
	assert_int_equal(replay_end(replay), 0);
}

static uint8_t state_of_store(uint8_t state)
{
	static const uint8_t same[] = {
		[OP_STATE_IDLE] = REPLAY_IDLE,	     [OP_STATE_PENDING] = REPLAY_PENDING,
		[OP_STATE_RUNNING] = REPLAY_RUNNING, [OP_STATE_WAITING] = REPLAY_WAITING,
		[OP_STATE_COPYING] = REPLAY_RUNNING, [OP_STATE_SYNCING] = REPLAY_IDLE,
	};

	return same[state];
}

/* All of the interval is in one state, which is the one that the model tells. */
static void check_interval(const struct op *interval)
{
	uint8_t machine = interval->stream ? REPLAY_STREAM : REPLAY_DEVICE, now = REPLAY_IDLE;
	uint8_t wanted = state_of_store(interval->detail);

	for (size_t i = 0; i < told.count; i++) {
		const struct replay_change *change = &told.change[i];

		if (change->machine != machine || change->stream != interval->stream)
			continue;
		if (change->time_ns >= interval->end_ns)
			break;
		if (change->time_ns > interval->start_ns && now != wanted)
			fail_msg("%s %u is %s at %lu, and %s is stored from %lu to %lu",
				 replay_machine_name(machine), interval->stream,
				 replay_state_name(now), change->time_ns, replay_state_name(wanted),
				 interval->start_ns, interval->end_ns);
		now = change->to;
	}
	if (now != wanted)
		fail_msg("%s %u is %s before %lu, and %s is stored from %lu",
			 replay_machine_name(machine), interval->stream, replay_state_name(now),
			 interval->end_ns, replay_state_name(wanted), interval->start_ns);
}

static void compare_with_model(bool exact)
{
	size_t compared[OP_STATE_SYNCING + 1] = { 0 };

	for (uint64_t number = 1; number <= ROUNDS; number++) {
		seed = number;
		program_run(exact, true);
		play_pieces(&told, 1 + random_below(50));
		for (size_t i = 0; i < seen.states; i++) {
			assert_int_equal(seen.state[i].flags, exact ? OP_EXACT : OP_BOUNDS);
			check_interval(&seen.state[i]);
			compared[seen.state[i].detail]++;
		}
	}
	assert_true(compared[OP_STATE_IDLE] > 100 && compared[OP_STATE_PENDING] > 100 &&
		    compared[OP_STATE_WAITING] > 20);
	assert_int_equal(compared[OP_STATE_RUNNING] > 100, exact);
}

static void exact_states_are_those_of_the_model(void **state)
{
	compare_with_model(true);
}

static void states_of_bounds_are_those_of_the_model(void **state)
{
	compare_with_model(false);
}

static void pieces_do_not_matter(void **state)
{
	for (uint64_t number = 1; number <= ROUNDS; number++) {
		seed = number;
		program_run(number % 2, true);
		play_pieces(&told, SEEN_MAX);
		for (size_t piece = 1; piece < 100; piece = piece * 2 + 1) {
			play_pieces(&again, piece);
			assert_int_equal(again.count, told.count);
			assert_memory_equal(again.change, told.change,
					    told.count * sizeof(*told.change));
		}
	}
}

/* Without waits for events, and without parts: of the naive replay. */
struct step {
	uint64_t time_ns, key; /* what is first at one time: begins before ends, then by start */
	uint8_t from, to;
};

static int by_time(const void *a, const void *b)
{
	const struct step *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return x->key < y->key ? -1 : x->key > y->key;
}

static size_t naive_steps(const struct op *op, size_t number, struct step *step)
{
	uint64_t start_ns = op->start_ns, key = number;
	size_t count = 0;

	step[count++] = (struct step){ start_ns, key, REPLAY_IDLE, REPLAY_PENDING };
	if (op->flags & OP_EXACT) {
		uint8_t last = op->seen_ns > op->gpu_end_ns ? REPLAY_WAITING : REPLAY_FINISHED;

		step[count++] = (struct step){ op->gpu_start_ns, key | 2ull << 32, REPLAY_PENDING,
					       REPLAY_RUNNING };
		step[count++] =
			(struct step){ op->gpu_end_ns, key | 3ull << 32, REPLAY_RUNNING, last };
		if (last == REPLAY_WAITING)
			step[count++] = (struct step){ op->seen_ns, key | 4ull << 32,
						       REPLAY_WAITING, REPLAY_FINISHED };
	} else {
		uint64_t end_ns = op->flags & OP_BOUNDS ? op->gpu_end_ns : op->end_ns;

		step[count++] = (struct step){ end_ns > start_ns ? end_ns : start_ns,
					       key | 3ull << 32, REPLAY_PENDING, REPLAY_FINISHED };
	}
	return count;
}

static void compare_with_naive(uint64_t number)
{
	static struct op op[SEEN_MAX];
	static struct step step[SPAN_MAX];
	size_t count = 0, at = 0;

	memcpy(op, seen.op, seen.ops * sizeof(*op));
	qsort(op, seen.ops, sizeof(*op), by_start);
	for (size_t i = 0; i < seen.ops; i++)
		count += naive_steps(&op[i], i + 1, &step[count]);
	qsort(step, count, sizeof(*step), by_time);
	for (size_t i = 0; i < told.count; i++) {
		const struct replay_change *change = &told.change[i];

		if (change->machine != REPLAY_OP)
			continue;
		assert_true(at < count);
		assert_int_equal(change->time_ns, step[at].time_ns);
		assert_int_equal(change->number, (uint32_t)step[at].key);
		assert_int_equal(change->from, step[at].from);
		assert_int_equal(change->to, step[at].to);
		at++;
	}
	assert_int_equal(at, count);
}

static bool is_work(const struct op *op)
{
	return op->flags & (OP_EXACT | OP_BOUNDS);
}

/* By definition: it runs while something on it does, else it is pending while something is that was
 * submitted, and neither it nor what was submitted later has run. */
static uint8_t naive_state(uint32_t stream, uint64_t time_ns)
{
	uint64_t begun_ns = 0;
	bool pending = false;

	for (size_t i = 0; i < seen.ops; i++) {
		const struct op *op = &seen.op[i];

		if (op->stream != stream || !is_work(op) || !(op->flags & OP_EXACT) ||
		    op->gpu_start_ns > time_ns)
			continue;
		if (op->gpu_end_ns > time_ns)
			return REPLAY_RUNNING;
		if (op->start_ns > begun_ns)
			begun_ns = op->start_ns;
	}
	for (size_t i = 0; i < seen.ops; i++) {
		const struct op *op = &seen.op[i];

		pending |= op->stream == stream && is_work(op) && op->start_ns <= time_ns &&
			   op->start_ns > begun_ns && op->gpu_end_ns > time_ns;
	}
	return pending ? REPLAY_PENDING : REPLAY_IDLE;
}

static void compare_states_with_naive(uint32_t stream)
{
	uint8_t now = REPLAY_IDLE;

	for (size_t i = 0; i < told.count; i++) {
		const struct replay_change *change = &told.change[i];

		if (change->machine == REPLAY_STREAM && change->stream == stream)
			now = change->to;
		if (i + 1 == told.count || told.change[i + 1].time_ns > change->time_ns)
			assert_int_equal(now, naive_state(stream, change->time_ns));
	}
}

static void a_naive_replay_tells_the_same(void **state)
{
	for (uint64_t number = 1; number <= ROUNDS / 2; number++) {
		seed = number;
		program_run(number % 2, number % 4 > 1);
		for (size_t i = 0; i < seen.ops; i++)
			if (seen.op[i].fn == FN_GRAPH)
				seen.op[i--] = seen.op[--seen.ops];
		play_pieces(&told, 1 + random_below(50));
		compare_with_naive(number);
		if (!program.waits)
			for (size_t i = 0; i < seen.streams; i++)
				compare_states_with_naive(seen.stream[i].id);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORY(exact_states_are_those_of_the_model),
		STORY(states_of_bounds_are_those_of_the_model),
		STORY(pieces_do_not_matter),
		STORY(a_naive_replay_tells_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
