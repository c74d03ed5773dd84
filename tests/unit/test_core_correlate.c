/* Correlation: a launch is joined with its record, or counted as lost; each exactly once. */
#include "exact_fixture.h"

/* Launched at 1010 ms, called until 1012, ran from 1020 to 1030. */
static void tell_part(char part)
{
	if (part == 'a')
		assert_int_equal(launch(1010 * MS, S1), INGEST_OK);
	else if (part == 'c')
		assert_int_equal(call_record(5, FN_LAUNCH, 1011 * MS, 1012 * MS), INGEST_OK);
	else
		assert_int_equal(kernel(5, 1020 * MS, 1030 * MS, N1), INGEST_OK);
}

static void correlate_joins_in_every_order(void **state)
{
	static const char *const orders[] = { "ack", "akc", "cak", "cka", "kac", "kca" };
	struct core_config config = fixture_config();

	for (size_t i = 0; i < 6; i++) {
		const struct op *op;

		fixture_restart(&config);
		begin_exact();
		for (int part = 0; part < 3; part++)
			tell_part(orders[i][part]);
		pass_until(1700 * MS);
		assert_int_equal(seen.ops, 1);
		op = op_at(1010 * MS);
		assert_int_equal(op->flags, OP_EXACT | OP_RETURNED);
		assert_int_equal(op->kind, OP_LAUNCH);
		assert_int_equal(op->end_ns, 1012 * MS);
		assert_int_equal(op->gpu_start_ns, 1020 * MS);
		assert_int_equal(op->gpu_end_ns, 1030 * MS);
		assert_int_equal(op->correlation, 5);
		assert_int_equal(op->tid, tid);
		assert_int_equal(stats().joined, 1);
		pass_until(6000 * MS);
		assert_int_equal(seen.ops, 1);
		assert_int_equal(stats().waiting, 0);
		assert_int_equal(seen.losses, 1);
		assert_int_equal(lost(LOSS_STACK_SAMPLED), 1);
	}
}

static void correlate_keeps_threads_apart(void **state)
{
	begin_exact();
	for (uint64_t i = 0; i < 20; i++) {
		tid = i % 2 ? 101 : 100;
		launch(1010 * MS + i * 1000, S1);
	}
	for (uint64_t i = 20; i-- > 0;) {
		tid = i % 2 ? 101 : 100;
		call_record((uint32_t)i + 1, FN_LAUNCH, 1010 * MS + i * 1000 + 1500,
			    1010 * MS + i * 1000 + 1600);
		kernel((uint32_t)i + 1, 1100 * MS + i * 1000, 1100 * MS + i * 1000 + 900, N1);
	}
	tid = 100;
	pass_until(1700 * MS);
	assert_int_equal(seen.ops, 20);
	for (uint64_t i = 0; i < 20; i++) {
		const struct op *op = op_that_ran_at(1100 * MS + i * 1000);

		assert_int_equal(op->start_ns, 1010 * MS + i * 1000);
		assert_int_equal(op->tid, i % 2 ? 101 : 100);
	}
}

static void correlate_knows_threads_by_their_own_number(void **state)
{
	struct ts_event event = call_event(FN_LAUNCH, 1010 * MS, 0);

	begin_exact();
	event.ns_tid = 3;
	event.api.stream = S1;
	give(&event);
	tid = 3;
	call_record(5, FN_LAUNCH, 1011 * MS, 1012 * MS);
	kernel(5, 1020 * MS, 1030 * MS, N1);
	tid = 100;
	pass_until(1700 * MS);
	assert_int_equal(op_that_ran_at(1020 * MS)->tid, 100);
	assert_int_equal(op_that_ran_at(1020 * MS)->flags, OP_EXACT | OP_RETURNED);
}

static void correlate_takes_no_record_for_the_call_before(void **state)
{
	begin_exact();
	launch(1010 * MS, S1);
	/* That of the first call is lost, this is of the second. */
	call_record(6, FN_LAUNCH, 1021 * MS, 1022 * MS);
	kernel(6, 1030 * MS, 1031 * MS, N1);
	launch(1020 * MS, S1);
	pass_until(1700 * MS);
	assert_int_equal(op_that_ran_at(1030 * MS)->start_ns, 1020 * MS);
}

static void correlate_joins_no_other_function(void **state)
{
	begin_exact();
	on_stream(FN_LAUNCH_EX, 1010 * MS, 0, S1);
	call_record(5, FN_LAUNCH, 1011 * MS, 1012 * MS);
	kernel(5, 1020 * MS, 1030 * MS, N1);
	pass_until(9000 * MS);
	assert_int_equal(ops_with(OP_NO_CALL), 1);
	assert_int_equal(lost(LOSS_NO_CALL), 1);
}

static void correlate_joins_nothing_with_a_call_that_was_over(void **state)
{
	struct ts_event copy = work_event(TS_EVENT_COPY, 6, 1040 * MS, 1050 * MS, N1);

	begin_exact();
	launch(1010 * MS, S1);
	on_stream(FN_INIT, 1015 * MS, 1016 * MS, 0); /* so the launch was over by then */
	call_record(5, FN_LAUNCH, 1021 * MS, 1022 * MS);
	kernel(5, 1025 * MS, 1026 * MS, N1);
	on_stream(FN_COPY_WAIT, 1030 * MS, 1035 * MS, S1);
	call_record(6, FN_COPY_WAIT, 1036 * MS, 1037 * MS);
	tell(&copy);
	pass_until(9000 * MS);
	assert_int_equal(stats().exact, 2);
	assert_int_equal(stats().joined, 0);
	assert_int_equal(lost(LOSS_NO_CALL), 2);
	assert_int_equal(lost(LOSS_NO_RECORD), 2);
}

static void correlate_counts_a_lost_call_event(void **state)
{
	begin_exact();
	call_record(5, FN_LAUNCH, 1011 * MS, 1012 * MS);
	kernel(5, 1020 * MS, 1030 * MS, N1);
	pass_until(5000 * MS);
	assert_int_equal(seen.ops, 1);
	assert_int_equal(seen.op[0].flags, OP_EXACT | OP_NO_CALL);
	assert_int_equal(seen.op[0].kind, OP_KERNEL);
	assert_int_equal(seen.op[0].start_ns, 1020 * MS);
	assert_int_equal(seen.op[0].correlation, 5);
	assert_int_equal(lost(LOSS_NO_CALL), 1);
	assert_int_equal(stats().waiting, 0);
}

static void correlate_counts_a_lost_call_record(void **state)
{
	begin_exact();
	launch(1010 * MS, S1);
	kernel(5, 1020 * MS, 1030 * MS, N1);
	on_stream(FN_STREAM_SYNC, 1040 * MS, 1050 * MS, S1);
	pass_until(5000 * MS);
	assert_int_equal(ops_with(OP_NO_CALL), 1);
	assert_int_equal(lost(LOSS_NO_CALL), 1);
	assert_int_equal(op_at(1010 * MS)->flags, OP_BOUNDS);
	assert_int_equal(op_at(1010 * MS)->gpu_end_ns, 1050 * MS);
	assert_int_equal(lost(LOSS_NO_RECORD), 1);
	assert_int_equal(lost(LOSS_UNBOUND), 0);
}

static void correlate_counts_a_lost_kernel_record(void **state)
{
	begin_exact();
	launch(1010 * MS, S1);
	call_record(5, FN_LAUNCH, 1011 * MS, 1012 * MS);
	on_stream(FN_STREAM_SYNC, 1040 * MS, 1050 * MS, S1);
	pass_until(3900 * MS);
	assert_null(op_at(1010 * MS));
	pass_until(5000 * MS);
	assert_int_equal(op_at(1010 * MS)->flags, OP_BOUNDS | OP_RETURNED);
	assert_int_equal(lost(LOSS_NO_RECORD), 1);
}

static void correlate_bounds_a_lost_one_by_what_ran_next(void **state)
{
	begin_exact();
	launch(1010 * MS, S1);
	launch(1015 * MS, S1);
	call_record(6, FN_LAUNCH, 1016 * MS, 1017 * MS);
	kernel(6, 1030 * MS, 1040 * MS, N1);
	pass_until(6000 * MS);
	assert_int_equal(op_at(1010 * MS)->flags, OP_BOUNDS);
	assert_int_equal(op_at(1010 * MS)->gpu_end_ns, 1030 * MS);
	assert_int_equal(lost(LOSS_NO_RECORD), 1);
	assert_int_equal(lost(LOSS_UNBOUND), 0);
}

static void correlate_waits_longer_for_work_that_nothing_covers(void **state)
{
	begin_exact();
	launch(1010 * MS, S1);
	pass_until(20000 * MS);
	assert_int_equal(seen.ops, 0);
	pass_until(32000 * MS);
	assert_int_equal(op_at(1010 * MS)->flags, OP_BOUNDS);
	assert_int_equal(lost(LOSS_NO_RECORD), 1);
	assert_int_equal(lost(LOSS_UNBOUND), 1);
}

static void correlate_expects_nothing_of_captured_calls(void **state)
{
	begin_exact();
	on_stream(FN_CAPTURE_BEGIN, 1005 * MS, 1006 * MS, S1);
	launch(1010 * MS, S1);
	on_stream(FN_CAPTURE_END, 1015 * MS, 1016 * MS, S1);
	call_record(5, FN_LAUNCH, 1011 * MS, 1012 * MS);
	pass_until(9000 * MS);
	assert_int_equal(op_at(1010 * MS)->flags, OP_CAPTURED);
	assert_int_equal(lost(LOSS_NO_RECORD) + lost(LOSS_NO_CALL), 0);
	assert_int_equal(stats().waiting, 0);
}

static void correlate_learns_that_a_launch_failed(void **state)
{
	struct ts_event event = library_event(TS_EVENT_CALL, 1011 * MS, 1012 * MS);

	begin_exact();
	launch(1010 * MS, S1);
	event.fn = 1;
	event.result = 700;
	event.call.correlation = 5;
	tell(&event);
	pass_until(1700 * MS);
	assert_int_equal(op_at(1010 * MS)->flags, OP_RETURNED);
	assert_int_equal(op_at(1010 * MS)->result, 700);
	assert_int_equal(op_at(1010 * MS)->gpu_start_ns, 0);
	assert_int_equal(seen.rollups, 1);
	assert_int_equal(seen.rollup[0].result, 700);
	assert_int_equal(seen.rollup[0].calls, 1);
	assert_int_equal(lost(LOSS_NO_RECORD), 0);
}

static void correlate_adds_each_call_up_once(void **state)
{
	uint64_t calls = 0, total_ns = 0;

	begin_exact();
	launch(1010 * MS, S1); /* answered */
	call_record(5, FN_LAUNCH, 1011 * MS, 1012 * MS);
	kernel(5, 1020 * MS, 1030 * MS, N1);
	launch(1040 * MS, S1); /* never */
	on_stream(FN_COPY_WAIT, 1050 * MS, 1060 * MS, S1);
	pass_until(9000 * MS);
	for (size_t i = 0; i < seen.rollups; i++) {
		calls += seen.rollup[i].calls;
		total_ns += seen.rollup[i].total_ns;
	}
	assert_int_equal(calls, 3);
	assert_int_equal(total_ns, 12 * MS);
}

static void correlate_drops_duplicates(void **state)
{
	begin_exact();
	launch(1010 * MS, S1);
	for (int i = 0; i < 2; i++) {
		call_record(5, FN_LAUNCH, 1011 * MS, 1012 * MS);
		kernel(5, 1020 * MS, 1030 * MS, N1);
	}
	pass_until(5000 * MS);
	assert_int_equal(seen.ops, 1);
	assert_int_equal(lost(LOSS_DUPLICATE), 2);
	assert_int_equal(lost(LOSS_NO_CALL), 0);
}

/* Copies of one call that start in the same nanosecond. */
static void correlate_keeps_the_parts_of_a_batch(void **state)
{
	struct ts_event part = work_event(TS_EVENT_COPY, 5, 1020 * MS, 1030 * MS, N1);

	begin_exact();
	on_stream(FN_COPY, 1010 * MS, 1011 * MS, S1);
	call_record(5, FN_COPY, 1010 * MS, 1011 * MS);
	for (uint64_t bytes = 100; bytes <= 300; bytes += 100) {
		part.work.bytes = bytes;
		tell(&part);
	}
	tell(&part);
	pass_until(5000 * MS);
	assert_int_equal(lost(LOSS_DUPLICATE), 1);
	assert_int_equal(ops_with(OP_EXACT), 3);
}

static void correlate_joins_records_without_times(void **state)
{
	begin_exact();
	launch(1010 * MS, S1);
	call_record(5, FN_LAUNCH, 1011 * MS, 1012 * MS);
	kernel(5, 0, 0, N1);
	on_stream(FN_STREAM_SYNC, 1040 * MS, 1050 * MS, S1);
	assert_int_equal(op_at(1010 * MS)->flags, OP_BOUNDS | OP_RETURNED | OP_UNTIMED);
	assert_int_equal(op_at(1010 * MS)->gpu_end_ns, 1050 * MS);
	assert_int_equal(op_at(1010 * MS)->correlation, 5);
	kernel(99, 1030 * MS, 1020 * MS, N1);
	pass_until(9000 * MS);
	assert_int_equal(seen.ops, 3);
	assert_int_equal(lost(LOSS_UNTIMED), 2);
	assert_int_equal(lost(LOSS_NO_RECORD), 0);
}

static void correlate_counts_work_from_before(void **state)
{
	begin_exact();
	launch(1010 * MS, S1);
	call_record(50, FN_LAUNCH, 1011 * MS, 1012 * MS);
	kernel(50, 1020 * MS, 1030 * MS, N1);
	kernel(7, 990 * MS, 1005 * MS, N1);  /* ran when it began */
	kernel(8, 1006 * MS, 1007 * MS, N1); /* was submitted before it */
	pass_until(5000 * MS);
	assert_int_equal(lost(LOSS_BEFORE), 2);
	assert_int_equal(lost(LOSS_NO_CALL), 0);
	assert_int_equal(ops_with(OP_NO_CALL), 2);
}

static void correlate_takes_calls_since_the_beginning(void **state)
{
	announce();
	launch(1010 * MS, S1);
	launch(1020 * MS, S1);
	clock_ns = 1030 * MS;
	core_tick(core, 1010 * MS + 5000);
	/* What was said at 1015 ms is read now. */
	collect(TS_COLLECT_STARTED, 1015 * MS, TS_RECORDS_DEFAULT);
	call_record(5, FN_LAUNCH, 1021 * MS, 1022 * MS);
	kernel(5, 1040 * MS, 1050 * MS, N1);
	pass_until(1700 * MS);
	assert_int_equal(op_at(1020 * MS)->flags, OP_EXACT | OP_RETURNED);
	assert_int_equal(op_at(1010 * MS)->flags, OP_BOUNDS);
	assert_int_equal(lost(LOSS_NO_RECORD), 0);
}

/* The news that recording has started takes another way than calls, and may be first. */
static void correlate_expects_nothing_of_calls_of_before(void **state)
{
	announce();
	clock_ns = 1030 * MS;
	core_tick(core, clock_ns);
	collect(TS_COLLECT_STARTED, 1015 * MS, TS_RECORDS_DEFAULT);
	launch(1010 * MS, S1);
	launch(1020 * MS, S1);
	call_record(5, FN_LAUNCH, 1021 * MS, 1022 * MS);
	kernel(5, 1024 * MS, 1028 * MS, N1);
	pass_until(6000 * MS);
	assert_int_equal(op_at(1020 * MS)->flags, OP_EXACT | OP_RETURNED);
	assert_false(op_at(1010 * MS)->flags & OP_EXACT);
	assert_int_equal(lost(LOSS_NO_RECORD) + lost(LOSS_NO_CALL) + lost(LOSS_BEFORE), 0);
}

static void correlate_keeps_further_records_of_a_call(void **state)
{
	struct ts_event event = work_event(TS_EVENT_COPY, 5, 1020 * MS, 1030 * MS, N1);

	begin_exact();
	on_stream(FN_COPY, 1010 * MS, 0, S1);
	call_record(5, FN_COPY, 1011 * MS, 1012 * MS);
	event.work.bytes = 100;
	event.work.copy_kind = 2;
	tell(&event);
	event.start_ns = 1031 * MS;
	event.end_ns = 1032 * MS;
	tell(&event);
	pass_until(1700 * MS);
	assert_int_equal(seen.ops, 2);
	assert_int_equal(op_that_ran_at(1020 * MS)->flags, OP_EXACT | OP_RETURNED);
	assert_int_equal(op_that_ran_at(1020 * MS)->bytes, 100);
	assert_int_equal(op_that_ran_at(1020 * MS)->detail, COPY_DTOH);
	assert_int_equal(op_that_ran_at(1031 * MS)->flags, OP_EXACT | OP_RETURNED | OP_NODE);
	assert_int_equal(op_that_ran_at(1031 * MS)->kind, OP_COPY);
}

/* The device does nothing for it, so CUPTI tells nothing of it. */
static void correlate_misses_no_record_of_a_copy_of_nothing(void **state)
{
	struct ts_event event = call_event(FN_COPY, 1010 * MS, 0);

	begin_exact();
	event.api.stream = S1;
	give(&event);
	call_record(5, FN_COPY, 1010 * MS + 10, 1010 * MS + 20);
	launch(1011 * MS, S1);
	call_record(6, FN_LAUNCH, 1011 * MS + 10, 1011 * MS + 20);
	kernel(6, 1012 * MS, 1013 * MS, N1);
	event.start_ns = 1014 * MS;
	event.flags = TS_EVENT_UNREAD; /* its size is not known: it is missed */
	give(&event);
	call_record(7, FN_COPY, 1014 * MS + 10, 1014 * MS + 20);
	on_stream(FN_STREAM_SYNC, 1020 * MS, 1030 * MS, S1);
	pass_until(9000 * MS);
	assert_int_equal(op_at(1010 * MS)->flags, OP_RETURNED);
	assert_int_equal(op_at(1010 * MS)->gpu_end_ns, 0);
	assert_int_equal(lost(LOSS_NO_RECORD), 1);
}

static void correlate_tells_when_the_end_was_seen(void **state)
{
	begin_exact();
	for (uint32_t i = 0; i < 3; i++) {
		launch((1010 + i) * MS, S1);
		call_record(5 + i, FN_LAUNCH, (1010 + i) * MS + 10, (1010 + i) * MS + 20);
	}
	kernel(5, 1020 * MS, 1021 * MS, N1);
	pass_until(1200 * MS);
	on_stream(FN_STREAM_SYNC, 1015 * MS, 1200 * MS, S1);
	assert_int_equal(op_at(1010 * MS)->seen_ns, 1200 * MS);
	kernel(6, 1030 * MS, 1031 * MS, N1);
	assert_int_equal(op_at(1011 * MS)->seen_ns, 1200 * MS);
	launch(1210 * MS, S1);
	call_record(20, FN_LAUNCH, 1211 * MS, 1212 * MS);
	pass_until(1400 * MS);
	kernel(20, 1220 * MS, 1230 * MS, N1);
	pass_until(1800 * MS);
	assert_int_equal(op_at(1210 * MS)->seen_ns, 0);
}

static void correlate_gives_up_when_paused(void **state)
{
	uint64_t paused_until_ns = 0;

	begin_exact();
	launch(1010 * MS, S1);
	kernel(9, 1015 * MS, 1016 * MS, N1);
	collect(TS_COLLECT_PAUSED, 1020 * MS, 0);
	launch(1060 * MS, S1);
	on_stream(FN_STREAM_SYNC, 1070 * MS, 1080 * MS, S1);
	assert_int_equal(op_at(1060 * MS)->flags, OP_BOUNDS);
	pass_until(1500 * MS);
	assert_int_equal(ops_with(OP_NO_CALL), 1);
	assert_int_equal(op_at(1010 * MS)->flags, OP_BOUNDS);
	collect(TS_COLLECT_RESUMED, 1500 * MS, TS_RECORDS_DEFAULT);
	launch(1510 * MS, S1);
	call_record(9, FN_LAUNCH, 1511 * MS, 1512 * MS);
	kernel(9, 1520 * MS, 1530 * MS, N1);
	pass_until(2000 * MS);
	assert_int_equal(op_at(1510 * MS)->flags, OP_EXACT | OP_RETURNED);
	assert_int_equal(lost(LOSS_NO_RECORD), 1);
	for (size_t i = 0; i < seen.losses; i++)
		if (seen.loss[i].reason == LOSS_PAUSED) {
			assert_int_equal(seen.loss[i].start_ns, 1020 * MS);
			paused_until_ns = seen.loss[i].end_ns;
		}
	assert_int_equal(paused_until_ns, 1500 * MS);
	assert_int_equal(lost(LOSS_PAUSED), 1);
	assert_int_equal(seen.collect[seen.collects - 1].state, TS_COLLECT_RESUMED);
	assert_int_equal(seen.collect[seen.collects - 1].since_ns, 1000 * MS);
}

static void correlate_awaits_no_more_than_is_recorded(void **state)
{
	begin_exact();
	launch(1010 * MS, S1);
	on_stream(FN_COPY, 1011 * MS, 0, S1);
	collect(TS_COLLECT_CHANGED, 1005 * MS, TS_RECORDS_DEFAULT & ~TS_RECORD_COPIES);
	on_stream(FN_COPY, 1012 * MS, 0, S1);
	on_stream(FN_STREAM_SYNC, 1040 * MS, 1050 * MS, S1);
	assert_int_equal(op_at(1011 * MS)->flags, OP_BOUNDS);
	assert_int_equal(op_at(1012 * MS)->flags, OP_BOUNDS);
	assert_null(op_at(1010 * MS));
	assert_int_equal(lost(LOSS_NO_RECORD), 0);
}

static void correlate_uses_ids_again_after_a_new_start(void **state)
{
	begin_exact();
	for (uint64_t start_ns = 1010 * MS; start_ns < 1200 * MS; start_ns += 100 * MS) {
		launch(start_ns, S1);
		call_record(5, FN_LAUNCH, start_ns + 1, start_ns + 2);
		kernel(5, start_ns + MS, start_ns + 2 * MS, N1);
		pass_until(start_ns + 50 * MS);
		collect(TS_COLLECT_STOPPED, start_ns + 50 * MS, 0);
		collect(TS_COLLECT_STARTED, start_ns + 50 * MS, TS_RECORDS_DEFAULT);
	}
	pass_until(2000 * MS);
	assert_int_equal(seen.ops, 2);
	assert_int_equal(op_that_ran_at(1011 * MS)->start_ns, 1010 * MS);
	assert_int_equal(op_that_ran_at(1111 * MS)->start_ns, 1110 * MS);
}

static void correlate_uses_an_id_again_in_one_collection(void **state)
{
	begin_exact();
	for (uint64_t start_ns = 1010 * MS; start_ns < 1100 * MS; start_ns += 10 * MS) {
		launch(start_ns, S1);
		call_record(5, FN_LAUNCH, start_ns + 1, start_ns + 2);
		kernel(5, start_ns + MS, start_ns + 2 * MS, N1);
		pass_until(start_ns + 9 * MS);
	}
	pass_until(2000 * MS);
	assert_int_equal(seen.ops, 9);
	assert_int_equal(ops_with(OP_EXACT | OP_RETURNED), 9);
	assert_int_equal(lost(LOSS_DUPLICATE) + lost(LOSS_NO_CALL), 0);
}

static void correlate_lets_all_leave_with_the_process(void **state)
{
	struct ts_event end = process_event(TS_EVENT_EXIT, 1100 * MS, 0);

	begin_exact();
	launch(1010 * MS, S1);
	launch(1020 * MS, S1);
	launch(1025 * MS, S1);
	on_stream(FN_STREAM_SYNC, 1030 * MS, 1040 * MS, S1);
	give(&end);
	/* What it left in its ring is read after its end was seen. */
	call_record(6, FN_LAUNCH, 1021 * MS, 1022 * MS);
	kernel(6, 1030 * MS, 1031 * MS, N1);
	kernel(7, 1032 * MS, 1033 * MS, N1);
	assert_int_equal(stats().processes, 1);
	core_collect_gone(core, pid, 1200 * MS);
	assert_int_equal(stats().processes, 0);
	assert_int_equal(stats().pending + stats().waiting + stats().edges, 0);
	assert_int_equal(seen.ops, 5);
	assert_int_equal(op_that_ran_at(1030 * MS)->start_ns, 1020 * MS);
	assert_int_equal(lost(LOSS_NO_RECORD), 2);
	assert_int_equal(lost(LOSS_NO_CALL), 1);
	assert_int_equal(lost(LOSS_LAST_RECORDS), 1);
	assert_int_equal(seen.process[seen.processes - 1].exit_ns, 1100 * MS);
}

static void correlate_ends_a_process_whose_library_says_nothing(void **state)
{
	begin_exact();
	launch(1010 * MS, S1);
	core_process_gone(core, pid, 1100 * MS);
	pass_until(2500 * MS);
	assert_int_equal(stats().processes, 0);
	assert_int_equal(seen.ops, 2 - 1);
	assert_int_equal(seen.process[seen.processes - 1].exit_ns, 1100 * MS);
}

static void correlate_is_bounded_and_fair(void **state)
{
	struct core_config config = fixture_config();

	config.max_waiting = 20;
	fixture_restart(&config);
	begin_exact();
	for (uint32_t i = 1; i <= 1000; i++)
		kernel(i, 1000 * MS + i, 1000 * MS + i + 1, i);
	for (uint32_t i = 2001; i <= 3000; i++)
		call_record(i, FN_LAUNCH, 1000 * MS + i, 1000 * MS + i + 1);
	assert_in_range(stats().waiting, 1, 11);
	core_checkpoint(core, 1001 * MS);
	assert_true(lost(LOSS_LIMIT) > 1000);
	pid = 200;
	begin_exact();
	launch(1010 * MS, S1);
	call_record(5, FN_LAUNCH, 1011 * MS, 1012 * MS);
	kernel(5, 1020 * MS, 1030 * MS, N1);
	pass_until(5000 * MS);
	pid = 100;
	assert_int_equal(op_at(1010 * MS)->flags, OP_EXACT | OP_RETURNED);
	assert_int_equal(ops_with(OP_NO_CALL), 1000);
}

static void correlate_takes_calls_that_submit_no_work_of_their_own(void **state)
{
	begin_exact();
	on_stream(FN_PREFETCH, 1010 * MS, 0, S1);
	on_stream(FN_STREAM_SYNC, 1040 * MS, 1050 * MS, S1);
	call_record(5, FN_PREFETCH, 1011 * MS, 1012 * MS);
	assert_int_equal(op_at(1010 * MS)->flags, OP_BOUNDS | OP_RETURNED);
	assert_int_equal(op_at(1010 * MS)->end_ns, 1012 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORY(correlate_joins_in_every_order),
		STORY(correlate_keeps_threads_apart),
		STORY(correlate_knows_threads_by_their_own_number),
		STORY(correlate_takes_no_record_for_the_call_before),
		STORY(correlate_joins_no_other_function),
		STORY(correlate_joins_nothing_with_a_call_that_was_over),
		STORY(correlate_counts_a_lost_call_event),
		STORY(correlate_counts_a_lost_call_record),
		STORY(correlate_counts_a_lost_kernel_record),
		STORY(correlate_bounds_a_lost_one_by_what_ran_next),
		STORY(correlate_waits_longer_for_work_that_nothing_covers),
		STORY(correlate_expects_nothing_of_captured_calls),
		STORY(correlate_learns_that_a_launch_failed),
		STORY(correlate_adds_each_call_up_once),
		STORY(correlate_drops_duplicates),
		STORY(correlate_keeps_the_parts_of_a_batch),
		STORY(correlate_joins_records_without_times),
		STORY(correlate_counts_work_from_before),
		STORY(correlate_takes_calls_since_the_beginning),
		STORY(correlate_expects_nothing_of_calls_of_before),
		STORY(correlate_keeps_further_records_of_a_call),
		STORY(correlate_misses_no_record_of_a_copy_of_nothing),
		STORY(correlate_tells_when_the_end_was_seen),
		STORY(correlate_gives_up_when_paused),
		STORY(correlate_awaits_no_more_than_is_recorded),
		STORY(correlate_uses_ids_again_after_a_new_start),
		STORY(correlate_uses_an_id_again_in_one_collection),
		STORY(correlate_lets_all_leave_with_the_process),
		STORY(correlate_ends_a_process_whose_library_says_nothing),
		STORY(correlate_is_bounded_and_fair),
		STORY(correlate_takes_calls_that_submit_no_work_of_their_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
