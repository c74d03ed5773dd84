/* Random programs, run by a machine of which all rules are known: their plan finds each dependency
 * that held something up, and gives the recorded times when it is run again. */
#include "core/base/array.h"
#include "plan_fixture.h"

#define PROGRAMS 300
#define CALLS	 400
#define THREADS	 3
#define EVENTS	 4
#define NODES	 500 /* streams of graphs and captures, without a row */

static uint64_t seed;

struct machine {
	uint64_t clock[THREADS], next[THREADS];
	uint64_t end_ns[STREAMS]; /* of all on the stream */
	uint64_t event_ns[EVENTS];
	uint32_t event_stream[EVENTS]; /* 0: not recorded */
	int captured[THREADS];	       /* calls that are still to be */
	bool careless;		       /* records are lost, kernels begin early */
};

static struct machine m;
/* By the op's correlation: when what it waited for was over, 0: not told. */
static uint64_t waited_ns[OPS_MAX];

static uint32_t random_below(uint32_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(seed >> 33) % below;
}

static uint64_t max_ns(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t freed(uint32_t stream)
{
	uint64_t ns = m.end_ns[stream];

	if (stream == LEGACY)
		for (uint32_t i = S1; i < SIDE; i++)
			ns = max_ns(ns, m.end_ns[i]);
	else if (stream < SIDE)
		ns = max_ns(ns, m.end_ns[LEGACY]);
	return ns;
}

static struct op *told(struct op *op, uint64_t ns)
{
	op->correlation = op_count;
	waited_ns[op_count] = ns;
	return op;
}

static uint64_t call_end(uint32_t thread, uint64_t wait_ns)
{
	uint64_t end_ns = m.next[thread] + 1 + random_below(3000);

	return wait_ns > end_ns ? wait_ns + random_below(2000) : end_ns;
}

static uint64_t do_launch(uint32_t thread, uint32_t stream)
{
	uint64_t now = m.next[thread], free_ns = freed(stream), end_ns = call_end(thread, 0);
	uint64_t begin = max_ns(now + 300 + random_below(2000), free_ns + random_below(300));
	uint64_t over = begin + 1 + random_below(20000);
	struct op *op;

	if (m.careless && free_ns > begin - 200 && random_below(4) == 0)
		begin = max_ns(now + 100, begin - random_below(100));
	op = add_work(FN_LAUNCH, 1 + thread, now, end_ns, stream, begin, max_ns(over, begin));
	told(op, free_ns);
	m.end_ns[stream] = max_ns(m.end_ns[stream], op->gpu_end_ns);
	if (m.careless && random_below(20) == 0) {
		op->flags = OP_EXACT | OP_NO_CALL;
		op->start_ns = op->gpu_start_ns;
		op->kind = OP_KERNEL;
		op->fn = 0;
		op->tid = 0;
		op->end_ns = 0;
	}
	return end_ns;
}

static uint64_t do_copy(uint32_t thread, uint32_t stream)
{
	uint64_t now = m.next[thread], free_ns = freed(stream), end_ns;
	uint64_t begin = max_ns(now + 300 + random_below(2000), free_ns + random_below(300));
	uint64_t over = begin + random_below(20000);

	end_ns = call_end(thread, over);
	told(add_work(FN_HTOD, 1 + thread, now, end_ns, stream, begin, over), free_ns);
	m.end_ns[stream] = over;
	return end_ns;
}

static uint64_t do_record(uint32_t thread, uint32_t stream)
{
	uint64_t now = m.next[thread], free_ns = freed(stream), end_ns = call_end(thread, 0);
	uint32_t event = random_below(EVENTS);

	told(add_event(FN_RECORD, 1 + thread, now, end_ns, stream, 0xe0 + event), free_ns);
	m.event_ns[event] = m.end_ns[stream] = max_ns(now, free_ns);
	m.event_stream[event] = stream;
	return end_ns;
}

static uint64_t do_wait(uint32_t thread, uint32_t stream)
{
	uint64_t now = m.next[thread], end_ns = call_end(thread, 0);
	uint32_t event = random_below(EVENTS);

	add_event(FN_WAIT, 1 + thread, now, end_ns, stream, 0xe0 + event);
	if (m.event_stream[event] && m.event_stream[event] != stream)
		m.end_ns[stream] = max_ns(now, max_ns(freed(stream), m.event_ns[event]));
	return end_ns;
}

static uint64_t do_destroy(uint32_t thread, uint32_t stream)
{
	uint32_t event = random_below(EVENTS);
	uint64_t end_ns = call_end(thread, 0);

	add_event(FN_DESTROY, 1 + thread, m.next[thread], end_ns, 0, 0xe0 + event);
	m.event_stream[event] = 0;
	return end_ns;
}

static uint64_t do_sync_event(uint32_t thread, uint32_t stream)
{
	uint32_t event = random_below(EVENTS);
	uint64_t wait_ns = m.event_stream[event] ? m.event_ns[event] : 0;
	uint64_t end_ns = call_end(thread, wait_ns);

	told(add_event(FN_SYNC_EVENT, 1 + thread, m.next[thread], end_ns, 0, 0xe0 + event),
	     wait_ns);
	return end_ns;
}

static uint64_t do_sync_stream(uint32_t thread, uint32_t stream)
{
	uint64_t wait_ns = stream == LEGACY ? freed(stream) : m.end_ns[stream];
	uint64_t end_ns = call_end(thread, wait_ns);

	told(add(FN_SYNC_STREAM, 1 + thread, m.next[thread], end_ns, stream), wait_ns);
	return end_ns;
}

static uint64_t do_sync_device(uint32_t thread, uint32_t stream)
{
	uint64_t wait_ns = 0, end_ns;

	for (uint32_t i = LEGACY; i < STREAMS; i++)
		wait_ns = max_ns(wait_ns, m.end_ns[i]);
	end_ns = call_end(thread, wait_ns);
	told(add(FN_SYNC_DEVICE, 1 + thread, m.next[thread], end_ns, 0), wait_ns);
	return end_ns;
}

/* A node, some branches beside each other, and perhaps one that joins them. */
static uint64_t do_graph(uint32_t thread, uint32_t stream)
{
	uint64_t now = m.next[thread], end_ns = call_end(thread, 0), root, over;
	uint32_t branches = 1 + random_below(3);
	const struct op *call = add(FN_LAUNCH, 1 + thread, now, end_ns, stream);

	root = max_ns(now + 500, freed(stream)) + random_below(500);
	over = root + 1 + random_below(5000);
	add_node(call, stream, root, over);
	root = over;
	for (uint32_t i = 0; i < branches; i++) {
		uint64_t at = root;

		for (uint32_t k = random_below(4); k-- > 0;) {
			uint64_t begin = at + random_below(1000);

			at = begin + 1 + random_below(5000);
			add_node(call, i && random_below(5) ? NODES + i : stream, begin, at);
		}
		over = max_ns(over, at);
	}
	if (random_below(2)) {
		uint64_t begin = over + random_below(1000);

		over = begin + random_below(5000);
		add_node(call, stream, begin, over);
	}
	m.end_ns[stream] = over;
	return end_ns;
}

static uint64_t do_capture(uint32_t thread, uint32_t stream)
{
	uint64_t end_ns = call_end(thread, 0);

	if (!m.captured[thread]) {
		m.captured[thread] = 4;
		add(FN_CAPTURE_BEGIN, 1 + thread, m.next[thread], end_ns, NODES + 10 + thread);
	} else if (--m.captured[thread]) {
		add(FN_LAUNCH, 1 + thread, m.next[thread], end_ns, NODES + 10 + thread)->flags |=
			OP_CAPTURED;
	} else {
		add(FN_CAPTURE_END, 1 + thread, m.next[thread], end_ns, NODES + 10 + thread);
	}
	return end_ns;
}

static uint64_t do_other(uint32_t thread, uint32_t stream)
{
	uint64_t end_ns = call_end(thread, 0);

	add(FN_OTHER, 1 + thread, m.next[thread], end_ns, 0);
	return end_ns;
}

static void one_call(void)
{
	static uint64_t (*const doing[])(uint32_t thread, uint32_t stream) = {
		do_launch,	do_launch,	do_launch,  do_launch,	   do_copy,  do_record,
		do_record,	do_wait,	do_wait,    do_sync_event, do_graph, do_capture,
		do_sync_stream, do_sync_device, do_destroy, do_other,
	};
	uint32_t thread = 0, what = random_below(ARRAY_SIZE(doing));

	for (uint32_t i = 1; i < THREADS; i++)
		if (m.next[i] < m.next[thread])
			thread = i;
	m.clock[thread] = doing[what](thread, LEGACY + random_below(STREAMS - LEGACY));
	m.next[thread] = m.clock[thread] + 1 + random_below(random_below(20) ? 3000 : 100000);
}

static void shuffle(void)
{
	for (size_t i = op_count; i > 1; i--) {
		size_t k = random_below((uint32_t)i);
		struct op op = ops[k];

		ops[k] = ops[i - 1];
		ops[i - 1] = op;
	}
}

static void make_program(uint64_t number, bool careless)
{
	seed = number * 977 + 5;
	op_count = 0;
	m = (struct machine){ .careless = careless };
	memset(waited_ns, 0, sizeof(waited_ns));
	for (uint32_t i = 0; i < THREADS; i++)
		m.next[i] = 1000 + random_below(5000);
	for (int i = 0; i < CALLS; i++)
		one_call();
	shuffle();
}

static uint64_t call_waited(const struct plan_call *call)
{
	uint64_t ns = 0;

	for (uint32_t i = 0; call->flags & PLAN_BLOCKS && i < call->edge_count; i++)
		ns = max_ns(ns, plan->work[plan->edge[call->edge + i].work].end_ns);
	return ns;
}

static void assert_all_found(void)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < plan->work_count; i++) {
		const struct plan_work *work = &plan->work[i];
		const struct op *op = &plan->op[work->op];

		if (!op->correlation)
			continue;
		assert_int_equal(freed_ns(work), waited_ns[op->correlation]);
		found++;
	}
	for (uint32_t i = 0; i < plan->call_count; i++) {
		const struct plan_call *call = &plan->call[i];
		const struct op *op = &plan->op[call->op];
		uint64_t ns = call_waited(call);

		if (!op->correlation || op->kind != OP_SYNC)
			continue;
		if (waited_ns[op->correlation] > call->start_ns)
			assert_int_equal(ns, waited_ns[op->correlation]);
		else
			assert_true(ns <= call->start_ns);
		found++;
	}
	assert_true(found > CALLS / 3);
}

static void plan_finds_what_held_each_work_up(void **state)
{
	for (uint64_t i = 0; i < PROGRAMS; i++) {
		make_program(i, false);
		build();
		assert_int_equal(plan->contradicted, 0);
		assert_all_found();
		assert_reproduced();
	}
}

static void plan_of_any_recording_reproduces_it(void **state)
{
	for (uint64_t i = 0; i < PROGRAMS; i++) {
		make_program(i, true);
		build();
		assert_reproduced();
	}
}

/* Whatever a file may have in it. */
static void plan_of_noise_reproduces_it(void **state)
{
	for (uint64_t i = 0; i < PROGRAMS; i++) {
		make_program(i, true);
		for (int k = 0; k < 40; k++) {
			struct op *op = &ops[random_below((uint32_t)op_count)];
			uint64_t *const field[] = { &op->start_ns, &op->end_ns, &op->gpu_start_ns,
						    &op->gpu_end_ns };

			*field[random_below(4)] = random_below(3) ? random_below(4000000)
								  : (uint64_t)-random_below(9);
			op->stream = random_below(4) ? op->stream : random_below(9);
			op->flags ^= random_below(4) ? 0 : 1u << random_below(11);
			op->fn = random_below(4) ? op->fn : (uint16_t)random_below(40);
			op->kind = random_below(9) ? op->kind : (uint8_t)random_below(99);
			op->detail = random_below(9) ? op->detail : (uint8_t)random_below(99);
		}
		build();
		assert_reproduced();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(plan_finds_what_held_each_work_up, forget, forget),
		cmocka_unit_test_setup_teardown(plan_of_any_recording_reproduces_it, forget,
						forget),
		cmocka_unit_test_setup_teardown(plan_of_noise_reproduces_it, forget, forget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
