/* Sums and states of given ops: what the model would have reported. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/model/recount.h"

#define MAX    64
#define SECOND 1000000000ull

static struct {
	struct op state[MAX];
	struct core_rollup rollup[MAX];
	struct core_work work[MAX];
	struct core_busy busy[MAX];
	size_t states, rollups, works, busies;
} told;

static void take_state(void *data, const struct op *op)
{
	assert_true(told.states < MAX);
	told.state[told.states++] = *op;
}

static struct core_memory held;
static int live;

static void take_row(void *data, enum core_row type, const void *row)
{
	switch (type) {
	case CORE_ROW_ROLLUP:
		assert_true(told.rollups < MAX);
		told.rollup[told.rollups++] = *(const struct core_rollup *)row;
		break;
	case CORE_ROW_WORK:
		assert_true(told.works < MAX);
		told.work[told.works++] = *(const struct core_work *)row;
		break;
	case CORE_ROW_BUSY:
		/* Nonsense has a row for each of many seconds. */
		if (told.busies < MAX)
			told.busy[told.busies++] = *(const struct core_busy *)row;
		break;
	case CORE_ROW_ALLOCATION:
		live += !((const struct core_allocation *)row)->gone;
		break;
	case CORE_ROW_MEMORY:
		held = *(const struct core_memory *)row;
		break;
	default:
		fail();
	}
}

static void recount(const struct op *op, size_t count)
{
	const struct recount_sink sink = { .state = take_state, .row = take_row };
	_cleanup_(recount_freep) struct recount *recount = NULL;

	memset(&told, 0, sizeof(told));
	assert_int_equal(recount_new(&sink, &recount), 0);
	for (size_t i = 0; i < count; i++) {
		if (op[i].stream)
			assert_int_equal(
				recount_stream(recount, op[i].process, op[i].stream, op[i].device),
				0);
		assert_int_equal(recount_op(recount, &op[i]), 0);
	}
	recount_end(recount);
}

static struct op work(uint8_t kind, uint32_t stream, uint64_t start_ns, uint64_t gpu_start_ns,
		      uint64_t gpu_end_ns)
{
	return (struct op){ .kind = kind,
			    .process = 1,
			    .stream = stream,
			    .fn = 3,
			    .tid = 9,
			    .start_ns = start_ns,
			    .end_ns = start_ns + 10,
			    .flags = OP_EXACT,
			    .gpu_start_ns = gpu_start_ns,
			    .gpu_end_ns = gpu_end_ns };
}

static uint64_t busy_ns(uint8_t state, uint8_t kernels, uint8_t copies)
{
	uint64_t ns = 0;

	for (size_t i = 0; i < told.busies; i++)
		if (told.busy[i].state == state && told.busy[i].kernels == kernels &&
		    told.busy[i].copies == copies)
			ns += told.busy[i].ns;
	return ns;
}

static void recount_adds_up_calls_and_works(void **state)
{
	const struct op op[] = {
		work(OP_LAUNCH, 1, SECOND, SECOND + 100, SECOND + 1100),
		work(OP_LAUNCH, 1, SECOND + 50, SECOND + 1200, SECOND + 2200),
		work(OP_COPY, 2, SECOND + 200, SECOND + 400, SECOND + 700),
	};

	recount(op, 3);
	assert_int_equal(told.rollups, 2);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(told.rollup[i].calls, told.rollup[i].kind == OP_LAUNCH ? 2 : 1);
	assert_int_equal(told.works, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(told.work[i].second, 1);
		assert_int_equal(told.work[i].total_ns,
				 told.work[i].kind == OP_KERNEL ? 2000 : 300);
		assert_int_equal(told.work[i].delay_ns,
				 told.work[i].kind == OP_KERNEL ? 100 + 1150 : 200);
	}
	/* From the first submission to the last end. */
	assert_int_equal(busy_ns(OP_STATE_RUNNING, 1, 0), 2000 - 300);
	assert_int_equal(busy_ns(OP_STATE_RUNNING, 1, 1), 300);
	assert_int_equal(busy_ns(OP_STATE_PENDING, 0, 0), 100 + 100);
}

static void recount_tells_states(void **state)
{
	const struct op op[] = {
		work(OP_LAUNCH, 1, 1000, 1500, 3000),
		{ .kind = OP_SYNC, .process = 1, .fn = 4, .start_ns = 2000, .end_ns = 4000 },
		work(OP_LAUNCH, 1, 5000, 5000, 6000),
	};
	uint8_t device[MAX];
	size_t count = 0;

	recount(op, 3);
	for (size_t i = 0; i < told.states; i++)
		if (told.state[i].stream == 0)
			device[count++] = told.state[i].detail;
	assert_int_equal(count, 5);
	assert_memory_equal(device,
			    ((uint8_t[]){ OP_STATE_PENDING, OP_STATE_RUNNING, OP_STATE_SYNCING,
					  OP_STATE_IDLE, OP_STATE_RUNNING }),
			    5);
}

static void recount_tells_of_waits_for_events(void **state)
{
	struct op op[] = {
		work(OP_LAUNCH, 1, 1000, 1100, 9000),
		{ .kind = OP_EVENT,
		  .process = 1,
		  .stream = 1,
		  .fn = 5,
		  .start_ns = 1200,
		  .handle = 0xe },
		{ .kind = OP_STREAM,
		  .process = 1,
		  .stream = 2,
		  .fn = 6,
		  .start_ns = 1300,
		  .handle = 0xe },
		work(OP_LAUNCH, 2, 1400, 9100, 9200),
	};
	uint64_t waited_ns = 0;

	recount(op, 4);
	for (size_t i = 0; i < told.states; i++)
		if (told.state[i].stream == 2 && told.state[i].detail == OP_STATE_WAITING)
			waited_ns += told.state[i].end_ns - told.state[i].start_ns;
	assert_int_equal(waited_ns, 9000 - 1400);
}

static void recount_tells_of_graphs_from_their_parts(void **state)
{
	struct op op[3] = {
		{ .kind = OP_LAUNCH,
		  .process = 1,
		  .stream = 1,
		  .fn = 7,
		  .start_ns = 1000,
		  .end_ns = 1100 },
		work(OP_KERNEL, 1, 1000, 1500, 1600),
		work(OP_KERNEL, 1, 1000, 1700, 1900),
	};
	const struct core_work *graph = NULL;

	op[1].flags |= OP_NODE;
	op[2].flags |= OP_NODE;
	op[1].graph = op[2].graph = 5;
	recount(op, 3);
	assert_int_equal(told.rollups, 1);
	for (size_t i = 0; i < told.works; i++)
		if (told.work[i].kind == OP_GRAPH)
			graph = &told.work[i];
	assert_non_null(graph);
	assert_int_equal(graph->total_ns, 400);
	assert_int_equal(graph->detail, WORK_GRAPH_PARTS);
}

static struct op memory(uint8_t kind, uint64_t start_ns, uint64_t address, uint64_t bytes)
{
	return (struct op){ .kind = kind,
			    .process = 1,
			    .fn = 8,
			    .detail = MEMORY_DEVICE,
			    .start_ns = start_ns,
			    .end_ns = start_ns + 10,
			    .address = address,
			    .bytes = bytes };
}

static void recount_follows_memory_where_it_is_asked_for(void **state)
{
	const struct recount_sink sink = {
		.state = take_state,
		.row = take_row,
		.with_memory = true,
	};
	const struct op op[] = {
		memory(OP_ALLOC, 100, 0x1000, 100),
		memory(OP_ALLOC, 200, 0x2000, 50),
		memory(OP_FREE, 300, 0x1000, 100),
	};
	_cleanup_(recount_freep) struct recount *recount = NULL;

	memset(&told, 0, sizeof(told));
	assert_int_equal(recount_new(&sink, &recount), 0);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(recount_op(recount, &op[i]), 0);
	recount_tell(recount);
	assert_int_equal(told.rollups, 3);
	assert_true(told.rollup[2].freed ^ told.rollup[1].freed);
	recount_end(recount);
	assert_int_equal(told.rollups, 3);
	assert_int_equal(held.live_bytes, 50);
	assert_int_equal(held.peak_bytes, 150);
	assert_int_equal(live, 1);
	assert_int_equal(recount_limited(recount), 0);
}

static void recount_of_nonsense_is_no_crash(void **state)
{
	const struct op op[] = {
		{ .kind = 200, .process = 7, .start_ns = UINT64_MAX >> 2, .flags = 0xffff },
		work(OP_LAUNCH, 3, 10, 5, 1),
		work(OP_COPY, UINT32_MAX, 0, UINT64_MAX >> 2, UINT64_MAX >> 2),
		{ .kind = OP_STREAM, .process = 1, .stream = 3, .handle = 1, .start_ns = 1 },
	};

	recount(op, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(recount_adds_up_calls_and_works),
		cmocka_unit_test(recount_tells_states),
		cmocka_unit_test(recount_tells_of_waits_for_events),
		cmocka_unit_test(recount_tells_of_graphs_from_their_parts),
		cmocka_unit_test(recount_follows_memory_where_it_is_asked_for),
		cmocka_unit_test(recount_of_nonsense_is_no_crash),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
