/* Graphs: a launch of one has many records, each an op, and is counted as one launch. */
#include "exact_fixture.h"

static void graph_makes_an_op_of_each_node(void **state)
{
	begin_exact();
	on_stream(FN_GRAPH, 1010 * MS, 0, S1);
	node(5, 1020 * MS, 1021 * MS, N1, 1);
	call_record(5, FN_GRAPH, 1011 * MS, 1012 * MS);
	node(5, 1022 * MS, 1023 * MS, N2, 2);
	on_stream(FN_STREAM_SYNC, 1040 * MS, 1050 * MS, S1);
	node(5, 1024 * MS, 1025 * MS, N1, 3);
	pass_until(3000 * MS);
	assert_int_equal(seen.ops, 5);
	assert_int_equal(ops_with(OP_NODE), 3);
	for (uint64_t i = 0; i < 3; i++) {
		const struct op *op = op_that_ran_at((1020 + 2 * i) * MS);

		assert_int_equal(op->flags, OP_EXACT | OP_NODE | OP_RETURNED);
		assert_int_equal(op->kind, OP_KERNEL);
		assert_int_equal(op->start_ns, 1010 * MS);
		assert_int_equal(op->end_ns, 1012 * MS);
		assert_int_equal(op->fn, FN_GRAPH);
		assert_int_equal(op->graph, 7);
		assert_int_equal(op->node, i + 1);
	}
	assert_int_equal(op_that_ran_at(1024 * MS)->seen_ns, 1050 * MS);
	assert_true(op_that_ran_at(1020 * MS)->stream == op_that_ran_at(1024 * MS)->stream);
	assert_true(op_that_ran_at(1020 * MS)->stream != op_that_ran_at(1022 * MS)->stream);
	for (size_t i = 0; i < seen.ops; i++)
		if (seen.op[i].kind == OP_LAUNCH) {
			assert_int_equal(seen.op[i].flags, OP_BOUNDS | OP_RETURNED);
			assert_int_equal(seen.op[i].gpu_start_ns, 1020 * MS);
			assert_int_equal(seen.op[i].gpu_end_ns, 1025 * MS);
			assert_int_equal(seen.op[i].seen_ns, 1050 * MS);
			assert_int_equal(seen.op[i].correlation, 5);
			assert_int_equal(seen.op[i].graph, 7);
		}
	assert_int_equal(lost(LOSS_NO_RECORD), 0);
}

/* Those of a graph, in the order in which they came. */
static size_t graph_works(const struct core_work **ret)
{
	size_t count = 0;

	for (size_t i = 0; i < seen.works; i++)
		if (seen.work[i].kind == OP_GRAPH)
			ret[count++] = &seen.work[i];
	return count;
}

static void graph_counts_each_launch_of_a_graph_once(void **state)
{
	const struct core_work *work[SEEN_MAX];
	uint64_t count = 0, total_ns = 0;

	begin_exact();
	for (uint32_t i = 0; i < 3; i++) {
		uint64_t time_ns = (1010 + 30 * i) * MS;

		on_stream(FN_GRAPH, time_ns, 0, S1);
		call_record(5 + i, FN_GRAPH, time_ns + MS, time_ns + 2 * MS);
		node(5 + i, time_ns + 14 * MS, time_ns + 15 * MS, N2, 2);
		node(5 + i, time_ns + 10 * MS, time_ns + 11 * MS, N1, 1);
	}
	on_stream(FN_GRAPH, 1500 * MS, 0, S1);
	call_record(8, FN_GRAPH, 1501 * MS, 1502 * MS);
	on_stream(FN_STREAM_SYNC, 1505 * MS, 1510 * MS, S1);
	pass_until(1600 * MS);
	assert_int_equal(graph_works(work), 0);
	pass_until(4000 * MS);
	for (size_t i = 0; i < graph_works(work); i++) {
		assert_int_equal(work[i]->graph, 7);
		assert_int_equal(work[i]->detail, WORK_GRAPH_PARTS);
		assert_int_equal(work[i]->min_ns, 5 * MS);
		assert_int_equal(work[i]->max_ns, 5 * MS);
		assert_int_equal(work[i]->delay_ns, 10 * MS * work[i]->count);
		assert_int_equal(work[i]->delays[work_delay(10 * MS)], work[i]->count);
		count += work[i]->count;
		total_ns += work[i]->total_ns;
	}
	assert_int_equal(count, 3);
	assert_int_equal(total_ns, 15 * MS);
}

/* Also where collection ends while the launch waits for more parts. */
static void graph_of_a_launch_is_told_at_the_end(void **state)
{
	begin_exact();
	on_stream(FN_GRAPH, 1010 * MS, 0, S1);
	call_record(5, FN_GRAPH, 1011 * MS, 1012 * MS);
	node(5, 1020 * MS, 1021 * MS, N1, 1);
	on_stream(FN_STREAM_SYNC, 1040 * MS, 1050 * MS, S1);
	on_stream(FN_GRAPH, 1060 * MS, 0, S1);
	call_record(6, FN_GRAPH, 1061 * MS, 1062 * MS);
	node(6, 1070 * MS, 1071 * MS, N1, 2);
	pass_until(1200 * MS);
	collect(TS_COLLECT_STOPPED, 1210 * MS, 0);
	pass_until(5000 * MS);
	assert_int_equal(op_at(1010 * MS)->kind, OP_KERNEL);
	for (size_t i = 0; i < seen.ops; i++)
		if (seen.op[i].fn == FN_GRAPH)
			assert_int_equal(seen.op[i].graph, 7);
	assert_int_equal(seen.ops, 5);
}

static void graph_fills_a_graph_as_a_whole(void **state)
{
	struct ts_event event = work_event(TS_EVENT_GRAPH, 5, 1020 * MS, 1030 * MS, N1);

	begin_exact();
	collect(TS_COLLECT_CHANGED, 1001 * MS, TS_RECORDS_DEFAULT & ~TS_RECORD_NODES);
	on_stream(FN_GRAPH, 1010 * MS, 0, S1);
	call_record(5, FN_GRAPH, 1011 * MS, 1012 * MS);
	event.work.graph = 7;
	tell(&event);
	pass_until(1700 * MS);
	assert_int_equal(seen.ops, 1);
	assert_int_equal(seen.op[0].flags, OP_EXACT | OP_RETURNED);
	assert_int_equal(seen.op[0].kind, OP_LAUNCH);
	assert_int_equal(seen.op[0].graph, 7);
	assert_int_equal(seen.works, 1);
	assert_int_equal(seen.work[0].kind, OP_GRAPH);
	assert_int_equal(seen.work[0].detail, WORK_GRAPH_WHOLE);
	pass_until(4000 * MS);
	assert_int_equal(seen.works, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORY(graph_makes_an_op_of_each_node),
		STORY(graph_counts_each_launch_of_a_graph_once),
		STORY(graph_of_a_launch_is_told_at_the_end),
		STORY(graph_fills_a_graph_as_a_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
