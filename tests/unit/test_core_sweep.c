/* Exact states of streams and devices, and what checkpoints report. */
#include "sweep_fixture.h"

/* They are adjacent, and all of a device make up the time that its busy rows have. */
static void check_wall_time(int16_t device, uint64_t start_ns, uint64_t end_ns)
{
	uint64_t at_ns = start_ns, sum_ns = 0;

	for (size_t i = 0; i < seen.states; i++) {
		const struct op *op = &seen.state[i];

		if (op->stream || op->device != device || !(op->flags & OP_EXACT))
			continue;
		assert_int_equal(op->start_ns, at_ns);
		at_ns = op->end_ns;
	}
	assert_int_equal(at_ns, end_ns);
	for (size_t i = 0; i < seen.busies; i++) {
		if (seen.busy[i].device != device)
			continue;
		assert_in_range(seen.busy[i].ns, 1, 1000 * MS);
		sum_ns += seen.busy[i].ns;
	}
	assert_int_equal(sum_ns, end_ns - start_ns);
}

static void sweep_tells_pending_running_and_idle(void **state)
{
	begin_exact();
	run(FN_LAUNCH, 1, S1, 1010, 1020, 1030);
	run(FN_LAUNCH, 2, S1, 1025, 1032, 1040);
	run(FN_COPY, 3, S1, 1060, 1061, 1070);
	pass_until(4000 * MS);
	core_flush(core, 4000 * MS);
	EXPECT(1, { OP_STATE_PENDING, 1010, 1020 }, { OP_STATE_RUNNING, 1020, 1030 },
	       { OP_STATE_PENDING, 1030, 1032 }, { OP_STATE_RUNNING, 1032, 1040 },
	       { OP_STATE_IDLE, 1040, 1060 }, { OP_STATE_PENDING, 1060, 1061 },
	       { OP_STATE_RUNNING, 1061, 1070 }, { OP_STATE_IDLE, 1070, 4000 });
	EXPECT(0, { OP_STATE_IDLE, 1000, 1010 }, { OP_STATE_PENDING, 1010, 1020 },
	       { OP_STATE_RUNNING, 1020, 1030 }, { OP_STATE_PENDING, 1030, 1032 },
	       { OP_STATE_RUNNING, 1032, 1040 }, { OP_STATE_IDLE, 1040, 1060 },
	       { OP_STATE_PENDING, 1060, 1061 }, { OP_STATE_COPYING, 1061, 1070 },
	       { OP_STATE_IDLE, 1070, 4000 });
	check_wall_time(DEVICE_UNKNOWN, 1000 * MS, 4000 * MS);
}

/* A launch that was under way when another thread started to wait came after the wait. */
static void sweep_believes_the_record_and_not_the_wait(void **state)
{
	struct ts_event late = work_on(TS_EVENT_KERNEL, 1, 1040, 1050, N1);

	begin_exact();
	on_stream(FN_LAUNCH, 1010 * MS, 0, S1);
	on_stream(FN_STREAM_SYNC, 1015 * MS, 1030 * MS, S1);
	call_record(1, FN_LAUNCH, 1010 * MS + 1, 1035 * MS);
	tell(&late);
	pass_until(4000 * MS);
	core_flush(core, 4000 * MS);
	EXPECT(1, { OP_STATE_PENDING, 1010, 1040 }, { OP_STATE_RUNNING, 1040, 1050 },
	       { OP_STATE_IDLE, 1050, 4000 });
}

static void sweep_does_not_mind_the_order_of_records(void **state)
{
	struct ts_event late = work_on(TS_EVENT_KERNEL, 1, 1020, 1030, N1);

	begin_exact();
	on_stream(FN_LAUNCH, 1010 * MS, 0, S1);
	run(FN_LAUNCH, 2, S1, 1012, 1040, 1050);
	call_record(1, FN_LAUNCH, 1010 * MS + 1, 1010 * MS + 2);
	pass_until(2500 * MS);
	tell(&late);
	pass_until(5000 * MS);
	core_flush(core, 5000 * MS);
	EXPECT(1, { OP_STATE_PENDING, 1010, 1020 }, { OP_STATE_RUNNING, 1020, 1030 },
	       { OP_STATE_PENDING, 1030, 1040 }, { OP_STATE_RUNNING, 1040, 1050 },
	       { OP_STATE_IDLE, 1050, 5000 });
	assert_int_equal(lost(LOSS_LATE), 0);
}

static void sweep_waits_for_the_record_of_long_work(void **state)
{
	struct ts_event event = work_on(TS_EVENT_KERNEL, 1, 1020, 6000, N1);

	begin_exact();
	on_stream(FN_LAUNCH, 1010 * MS, 0, S1);
	call_record(1, FN_LAUNCH, 1010 * MS + 1, 1010 * MS + 2);
	pass_until(6500 * MS);
	tell(&event);
	pass_until(9000 * MS);
	core_flush(core, 9000 * MS);
	EXPECT(0, { OP_STATE_IDLE, 1000, 1010 }, { OP_STATE_PENDING, 1010, 1020 },
	       { OP_STATE_RUNNING, 1020, 6000 }, { OP_STATE_IDLE, 6000, 9000 });
	check_wall_time(DEVICE_UNKNOWN, 1000 * MS, 9000 * MS);
	assert_int_equal(lost(LOSS_LATE), 0);
}

static void sweep_counts_what_is_too_late(void **state)
{
	struct ts_event event = work_on(TS_EVENT_KERNEL, 9, 1020, 1030, N1);

	begin_exact();
	run(FN_LAUNCH, 1, S1, 1010, 1011, 1012);
	pass_until(5000 * MS);
	tell(&event);
	pass_until(9000 * MS);
	core_flush(core, 9000 * MS);
	EXPECT(1, { OP_STATE_PENDING, 1010, 1011 }, { OP_STATE_RUNNING, 1011, 1012 },
	       { OP_STATE_IDLE, 1012, 9000 });
	assert_int_equal(lost(LOSS_LATE), 1);
	assert_int_equal(op_that_ran_at(1020 * MS)->flags, OP_EXACT | OP_NO_CALL);
}

static void sweep_knows_what_waits_for_another_stream(void **state)
{
	begin_exact();
	run(FN_LAUNCH, 1, S1, 1010, 1020, 1040);
	on_event(FN_EVENT_RECORD, 1011 * MS, 0, 0xe1, S1);
	on_event(FN_STREAM_WAIT, 1012 * MS, 0, 0xe1, S2);
	run(FN_LAUNCH, 2, S2, 1013, 1045, 1050);
	pass_until(4000 * MS);
	core_flush(core, 4000 * MS);
	EXPECT(2, { OP_STATE_IDLE, 1012, 1013 }, { OP_STATE_WAITING, 1013, 1040 },
	       { OP_STATE_PENDING, 1040, 1045 }, { OP_STATE_RUNNING, 1045, 1050 },
	       { OP_STATE_IDLE, 1050, 4000 });
	EXPECT(0, { OP_STATE_IDLE, 1000, 1010 }, { OP_STATE_PENDING, 1010, 1020 },
	       { OP_STATE_RUNNING, 1020, 1040 }, { OP_STATE_PENDING, 1040, 1045 },
	       { OP_STATE_RUNNING, 1045, 1050 }, { OP_STATE_IDLE, 1050, 4000 });
}

static void sweep_tells_that_a_thread_waits(void **state)
{
	begin_exact();
	run(FN_LAUNCH, 1, S1, 1010, 1020, 1040);
	on_stream(FN_STREAM_SYNC, 1015 * MS, 1060 * MS, S1);
	pass_until(4000 * MS);
	core_flush(core, 4000 * MS);
	EXPECT(0, { OP_STATE_IDLE, 1000, 1010 }, { OP_STATE_PENDING, 1010, 1020 },
	       { OP_STATE_RUNNING, 1020, 1040 }, { OP_STATE_SYNCING, 1040, 1060 },
	       { OP_STATE_IDLE, 1060, 4000 });
}

static void sweep_is_not_stuck_by_lost_records(void **state)
{
	begin_exact();
	on_stream(FN_LAUNCH, 1010 * MS, 0, S1);
	run(FN_LAUNCH, 2, S1, 1012, 1040, 1050);
	on_stream(FN_LAUNCH, 1060 * MS, 0, S1);
	on_stream(FN_STREAM_SYNC, 1070 * MS, 1080 * MS, S1);
	pass_until(9000 * MS);
	core_flush(core, 9000 * MS);
	EXPECT(1, { OP_STATE_PENDING, 1010, 1040 }, { OP_STATE_RUNNING, 1040, 1050 },
	       { OP_STATE_IDLE, 1050, 1060 }, { OP_STATE_PENDING, 1060, 1080 },
	       { OP_STATE_IDLE, 1080, 9000 });
}

static void sweep_keeps_devices_apart(void **state)
{
	struct ts_event event;
	const struct expected first[] = { { OP_STATE_IDLE, 1000, 1010 },
					  { OP_STATE_PENDING, 1010, 1020 },
					  { OP_STATE_RUNNING, 1020, 1040 },
					  { OP_STATE_IDLE, 1040, 4000 } };
	const struct expected second[] = { { OP_STATE_IDLE, 1000, 1015 },
					   { OP_STATE_PENDING, 1015, 1030 },
					   { OP_STATE_RUNNING, 1030, 1050 },
					   { OP_STATE_IDLE, 1050, 4000 } };

	begin_exact();
	for (uint32_t i = 0; i < 2; i++) {
		tid = 100 + i;
		on_context(FN_CTX_CREATE, 1001 * MS + i, 0xc0 + i, i);
		on_stream(FN_LAUNCH, (1010 + 5 * i) * MS, 0, i ? S2 : S1);
		call_record(1 + i, FN_LAUNCH, (1010 + 5 * i) * MS + 1, (1010 + 5 * i) * MS + 2);
		event = work_on(TS_EVENT_KERNEL, 1 + i, 1020 + 10 * i, 1040 + 10 * i, N1 + i);
		event.work.device = i;
		event.work.context = 1 + i;
		tell(&event);
	}
	tid = 100;
	pass_until(4000 * MS);
	core_flush(core, 4000 * MS);
	expect(0, 0, first, 4);
	expect(0, 1, second, 4);
	check_wall_time(0, 1000 * MS, 4000 * MS);
	check_wall_time(1, 1000 * MS, 4000 * MS);
}

static void sweep_counts_how_many_ran_at_once(void **state)
{
	uint64_t ns[3][2] = { 0 };

	begin_exact();
	run(FN_LAUNCH, 1, S1, 1010, 1020, 1040);
	run(FN_LAUNCH, 2, S2, 1011, 1030, 1060);
	run(FN_COPY, 3, S1, 1012, 1050, 1070);
	pass_until(4000 * MS);
	core_flush(core, 4000 * MS);
	for (size_t i = 0; i < seen.busies; i++)
		ns[seen.busy[i].kernels][seen.busy[i].copies] += seen.busy[i].ns;
	assert_int_equal(ns[1][0], 20 * MS);
	assert_int_equal(ns[2][0], 10 * MS);
	assert_int_equal(ns[1][1], 10 * MS);
	assert_int_equal(ns[0][1], 10 * MS);
	check_wall_time(DEVICE_UNKNOWN, 1000 * MS, 4000 * MS);
}

/* The work of 1060 ms has no answer when another profiler comes: what the device did from then on
 * is not known until collection goes on. */
static void sweep_takes_over_and_gives_back(void **state)
{
	uint64_t at_ns = 500 * MS;

	announce();
	core_tick(core, 400 * MS);
	launch(500 * MS, S1);
	clock_ns = 500 * MS;
	begin_exact();
	on_stream(FN_STREAM_SYNC, 1010 * MS, 1020 * MS, S1);
	run(FN_LAUNCH, 1, S1, 1030, 1040, 1050);
	launch(1060 * MS, S1);
	pass_until(1100 * MS);
	collect(TS_COLLECT_PAUSED, 1100 * MS, 0);
	on_stream(FN_STREAM_SYNC, 1110 * MS, 1150 * MS, S1);
	pass_until(1200 * MS);
	collect(TS_COLLECT_RESUMED, 1200 * MS, TS_RECORDS_DEFAULT);
	run(FN_LAUNCH, 2, S1, 1210, 1220, 1230);
	pass_until(5000 * MS);
	core_flush(core, 5000 * MS);
	for (uint32_t stream = 0; stream < 2; stream++, at_ns = 500 * MS) {
		for (size_t i = 0; i < seen.states; i++) {
			if (seen.state[i].stream != stream)
				continue;
			if (at_ns == 1060 * MS)
				at_ns = 1200 * MS;
			assert_int_equal(seen.state[i].start_ns, at_ns);
			at_ns = seen.state[i].end_ns;
		}
		assert_int_equal(at_ns, 5000 * MS);
	}
}

static void sweep_keeps_a_graph_pending_between_its_nodes(void **state)
{
	begin_exact();
	run(FN_LAUNCH, 1, S1, 1005, 1006, 1007);
	on_stream(FN_GRAPH, 1010 * MS, 0, S1);
	call_record(5, FN_GRAPH, 1011 * MS, 1012 * MS);
	for (uint64_t i = 0; i < 2; i++) {
		struct ts_event event =
			work_on(TS_EVENT_KERNEL, 5, 1020 + 10 * i, 1025 + 10 * i, N1);

		event.work.graph = 7;
		event.work.node = i + 1;
		tell(&event);
	}
	on_stream(FN_STREAM_SYNC, 1040 * MS, 1050 * MS, S1);
	pass_until(5000 * MS);
	core_flush(core, 5000 * MS);
	EXPECT(1, { OP_STATE_PENDING, 1005, 1006 }, { OP_STATE_RUNNING, 1006, 1007 },
	       { OP_STATE_IDLE, 1007, 1010 }, { OP_STATE_PENDING, 1010, 1020 },
	       { OP_STATE_RUNNING, 1020, 1025 }, { OP_STATE_PENDING, 1025, 1030 },
	       { OP_STATE_RUNNING, 1030, 1035 }, { OP_STATE_IDLE, 1035, 5000 });
}

static void part(uint32_t correlation, uint64_t start_ms, uint64_t end_ms)
{
	struct ts_event event = work_on(TS_EVENT_KERNEL, correlation, start_ms, end_ms, N1);

	event.work.graph = 7;
	event.work.node = start_ms;
	tell(&event);
}

/* A graph of two kernels, that nothing waits for. */
static void graph(uint32_t correlation, uint64_t call_ms)
{
	on_stream(FN_GRAPH, call_ms * MS, 0, S1);
	call_record(correlation, FN_GRAPH, call_ms * MS + 1, call_ms * MS + 2);
	part(correlation, call_ms + 1, call_ms + 2);
	part(correlation, call_ms + 2, call_ms + 3);
}

#define GRAPH_AT(ms)                                                                               \
	{ OP_STATE_PENDING, (ms), (ms) + 1 },                                                      \
	{                                                                                          \
		OP_STATE_RUNNING, (ms) + 1, (ms) + 3                                               \
	}

static void sweep_knows_graphs_to_be_over_when_collection_ends(void **state)
{
	begin_exact();
	for (uint32_t i = 0; i < 3; i++)
		graph(5 + i, 1010 + 10 * i);
	pass_until(1100 * MS);
	collect(TS_COLLECT_STOPPED, 1100 * MS, 0);
	pass_until(3000 * MS);
	EXPECT(1, GRAPH_AT(1010), { OP_STATE_IDLE, 1013, 1020 }, GRAPH_AT(1020),
	       { OP_STATE_IDLE, 1023, 1030 }, GRAPH_AT(1030), { OP_STATE_IDLE, 1033, 1100 });
	for (size_t i = 0; i < seen.ops; i++)
		if (seen.op[i].kind == OP_LAUNCH)
			assert_int_equal(seen.op[i].gpu_end_ns, seen.op[i].start_ns + 3 * MS);
	assert_int_equal(lost(LOSS_NO_RECORD) + lost(LOSS_UNBOUND), 0);
}

/* What is submitted after the end has no records: nobody knows when it ran. */
static void sweep_tells_nothing_of_the_time_after_collection(void **state)
{
	begin_exact();
	run(FN_LAUNCH, 1, S1, 1010, 1020, 1030);
	pass_until(1040 * MS);
	collect(TS_COLLECT_STOPPED, 1040 * MS, 0);
	launch(1050 * MS, S1);
	pass_until(3000 * MS);
	EXPECT(0, { OP_STATE_IDLE, 1000, 1010 }, { OP_STATE_PENDING, 1010, 1020 },
	       { OP_STATE_RUNNING, 1020, 1030 }, { OP_STATE_IDLE, 1030, 1040 });
	check_wall_time(DEVICE_UNKNOWN, 1000 * MS, 1040 * MS);
}

/* Killed: the last records were never handed over. */
static void sweep_tells_nothing_behind_work_without_an_answer(void **state)
{
	begin_exact();
	run(FN_LAUNCH, 1, S1, 1010, 1020, 1030);
	launch(1040 * MS, S1);
	launch(1050 * MS, S1);
	pass_until(1200 * MS);
	core_collect_gone(core, pid, 1200 * MS);
	core_process_gone(core, pid, 1200 * MS);
	pass_until(4000 * MS);
	EXPECT(0, { OP_STATE_IDLE, 1000, 1010 }, { OP_STATE_PENDING, 1010, 1020 },
	       { OP_STATE_RUNNING, 1020, 1030 }, { OP_STATE_IDLE, 1030, 1040 });
	assert_int_equal(lost(LOSS_NO_RECORD), 2);
}

/* A graph that nothing waits for, and nothing follows: nobody says that it was the last part. */
static void sweep_lets_a_graph_rest_that_nothing_follows(void **state)
{
	begin_exact();
	graph(5, 1010);
	pass_until(20000 * MS);
	graph(6, 20010);
	pass_until(30000 * MS);
	core_flush(core, 30000 * MS);
	EXPECT(1, GRAPH_AT(1010), { OP_STATE_IDLE, 1013, 20010 }, GRAPH_AT(20010),
	       { OP_STATE_IDLE, 20013, 30000 });
	assert_int_equal(lost(LOSS_LATE) + lost(LOSS_NO_RECORD), 0);
}

/* A thread that started its call first puts its work behind another's. */
static void sweep_follows_each_work_of_a_stream_that_threads_share(void **state)
{
	struct ts_event late = work_on(TS_EVENT_KERNEL, 2, 1060, 1070, N1);

	begin_exact();
	run(FN_LAUNCH, 1, S1, 1020, 1021, 1030);
	tid++;
	launch(1010 * MS, S1);
	call_record(2, FN_LAUNCH, 1010 * MS + 1, 1050 * MS);
	tid--;
	run(FN_LAUNCH, 3, S1, 1075, 1080, 1090);
	tell(&late);
	pass_until(4000 * MS);
	core_flush(core, 4000 * MS);
	EXPECT(1, { OP_STATE_PENDING, 1010, 1021 }, { OP_STATE_RUNNING, 1021, 1030 },
	       { OP_STATE_PENDING, 1030, 1060 }, { OP_STATE_RUNNING, 1060, 1070 },
	       { OP_STATE_IDLE, 1070, 1075 }, { OP_STATE_PENDING, 1075, 1080 },
	       { OP_STATE_RUNNING, 1080, 1090 }, { OP_STATE_IDLE, 1090, 4000 });
}

/* The context was made before anybody looked: the first record tells where its streams are. */
static void sweep_leaves_no_device_that_is_none(void **state)
{
	struct ts_event event = work_event(TS_EVENT_KERNEL, 1, 1020 * MS, 1030 * MS, N1);

	begin_exact();
	launch(1010 * MS, S1);
	call_record(1, FN_LAUNCH, 1010 * MS + 1, 1010 * MS + 2);
	tell(&event);
	pass_until(4000 * MS);
	core_flush(core, 4000 * MS);
	assert_true(event.work.device != UINT32_MAX);
	for (size_t i = 0; i < seen.busies; i++)
		assert_int_equal(seen.busy[i].device, event.work.device);
	for (size_t i = 0; i < seen.states; i++)
		assert_int_equal(seen.state[i].device, event.work.device);
}

/* What failed does not say that the work before it is over. */
static void sweep_passes_over_calls_that_failed(void **state)
{
	begin_exact();
	run(FN_LAUNCH, 1, S1, 1010, 1050, 1060);
	launch(1015 * MS, S1);
	call_failed(2, FN_LAUNCH, 1015 * MS + 1, 1015 * MS + 2, 1);
	launch(1070 * MS, S1);
	call_failed(3, FN_LAUNCH, 1070 * MS + 1, 1070 * MS + 2, 1);
	pass_until(4000 * MS);
	core_flush(core, 4000 * MS);
	EXPECT(1, { OP_STATE_PENDING, 1010, 1050 }, { OP_STATE_RUNNING, 1050, 1060 },
	       { OP_STATE_IDLE, 1060, 4000 });
}

static void sweep_is_bounded(void **state)
{
	struct core_config config = fixture_config();

	config.max_edges = 100;
	config.max_waiting = 4096;
	config.max_pending = 1024;
	fixture_restart(&config);
	begin_exact();
	for (uint32_t i = 1; i <= 300; i++)
		run(FN_LAUNCH, i, S1, 1010 + 3 * i, 1011 + 3 * i, 1012 + 3 * i);
	assert_in_range(stats().edges, 1, 50);
	pass_until(5000 * MS);
	core_flush(core, 5000 * MS);
	assert_int_equal(stats().edges, 0);
	check_wall_time(DEVICE_UNKNOWN, 1000 * MS, 5000 * MS);
}

static void sweep_survives_the_end_of_its_stream(void **state)
{
	begin_exact();
	run(FN_LAUNCH, 1, S1, 1010, 1020, 1030);
	on_event(FN_EVENT_RECORD, 1031 * MS, 0, 0xe1, S1);
	launch(1032 * MS, S1);
	on_event(FN_EVENT_RECORD, 1033 * MS, 0, 0xe1, S1);
	on_event(FN_STREAM_WAIT, 1034 * MS, 0, 0xe1, S2);
	on_stream(FN_STREAM_SYNC, 1040 * MS, 1050 * MS, S1);
	on_stream(FN_STREAM_DESTROY, 1055 * MS, 1060 * MS, S1);
	run(FN_LAUNCH, 3, S2, 1070, 1080, 1090);
	pass_until(9000 * MS);
	core_process_gone(core, pid, 9000 * MS);
	pass_until(12000 * MS);
	assert_int_equal(stats().edges + stats().streams + stats().processes, 0);
	EXPECT(1, { OP_STATE_PENDING, 1010, 1020 }, { OP_STATE_RUNNING, 1020, 1030 },
	       { OP_STATE_IDLE, 1030, 1032 }, { OP_STATE_PENDING, 1032, 1050 },
	       { OP_STATE_IDLE, 1050, 1060 });
}

static void sweep_tells_of_a_stream_that_was_destroyed_before_its_records(void **state)
{
	struct ts_event event = work_on(TS_EVENT_KERNEL, 5, 1020, 1030, N1);

	begin_exact();
	launch(1010 * MS, S1);
	on_stream(FN_STREAM_SYNC, 1015 * MS, 1050 * MS, S1);
	on_stream(FN_STREAM_DESTROY, 1060 * MS, 1070 * MS, S1);
	call_record(5, FN_LAUNCH, 1010 * MS + 1, 1010 * MS + 2);
	tell(&event);
	pass_until(4000 * MS);
	core_flush(core, 4000 * MS);
	EXPECT(1, { OP_STATE_PENDING, 1010, 1020 }, { OP_STATE_RUNNING, 1020, 1030 },
	       { OP_STATE_IDLE, 1030, 1070 });
	assert_int_equal(op_that_ran_at(1020 * MS)->stream, 1);
	assert_int_equal(stats().streams, 0);
}

static void work_adds_up_by_name_and_length(void **state)
{
	_Alignas(struct ts_name) char record[sizeof(struct ts_name) + 16];
	struct ts_name *name = (struct ts_name *)record;
	const struct core_origin self = { .pid = pid };
	const size_t size = sizeof(*name) + 6;
	struct ts_event event;

	*name = (struct ts_name){ .kind = TS_EVENT_NAME, .length = 6, .id = 4, .tgid = pid };
	memcpy(name->text, "kernel", 6);
	begin_exact();
	assert_int_equal(core_ingest(core, &self, record, size - 1), INGEST_BAD);
	assert_int_equal(core_ingest(core, &self, record, size), INGEST_OK);
	for (uint32_t i = 1; i <= 3; i++) {
		launch((1010 + i) * MS, S1);
		call_record(i, FN_LAUNCH, (1010 + i) * MS + 1, (1010 + i) * MS + 2);
		event = work_on(TS_EVENT_KERNEL, i, 1020 + 10 * i, 1025 + 10 * i, N1);
		event.work.name = 4;
		event.work.registers = 32;
		tell(&event);
	}
	pass_until(1700 * MS);
	assert_int_equal(seen.names, 1);
	assert_int_equal(seen.works, 1);
	assert_int_equal(seen.work[0].count, 3);
	assert_int_equal(seen.work[0].kind, OP_KERNEL);
	assert_int_equal(seen.work[0].total_ns, 15 * MS);
	assert_int_equal(seen.work[0].bucket, work_bucket(5 * MS));
	assert_int_equal(seen.work[0].delay_ns, (19 + 28 + 37) * MS);
	assert_int_equal(seen.work[0].delays[work_delay(19 * MS)], 3); /* 16.8 ms to 67 ms */
	assert_int_equal(seen.work[0].delays[work_delay(16 * MS)], 0);
	assert_int_equal(work_delay(19 * MS), work_delay(28 * MS));
	assert_true(seen.work[0].name != 0);
	assert_int_equal(op_at(1011 * MS)->name, seen.work[0].name);
	assert_int_equal(op_at(1011 * MS)->registers, 32);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORY(sweep_tells_pending_running_and_idle),
		STORY(sweep_believes_the_record_and_not_the_wait),
		STORY(sweep_does_not_mind_the_order_of_records),
		STORY(sweep_waits_for_the_record_of_long_work),
		STORY(sweep_counts_what_is_too_late),
		STORY(sweep_knows_what_waits_for_another_stream),
		STORY(sweep_tells_that_a_thread_waits),
		STORY(sweep_is_not_stuck_by_lost_records),
		STORY(sweep_keeps_devices_apart),
		STORY(sweep_counts_how_many_ran_at_once),
		STORY(sweep_takes_over_and_gives_back),
		STORY(sweep_keeps_a_graph_pending_between_its_nodes),
		STORY(sweep_knows_graphs_to_be_over_when_collection_ends),
		STORY(sweep_tells_nothing_of_the_time_after_collection),
		STORY(sweep_tells_nothing_behind_work_without_an_answer),
		STORY(sweep_lets_a_graph_rest_that_nothing_follows),
		STORY(sweep_follows_each_work_of_a_stream_that_threads_share),
		STORY(sweep_leaves_no_device_that_is_none),
		STORY(sweep_passes_over_calls_that_failed),
		STORY(sweep_is_bounded),
		STORY(sweep_survives_the_end_of_its_stream),
		STORY(sweep_tells_of_a_stream_that_was_destroyed_before_its_records),
		STORY(work_adds_up_by_name_and_length),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
