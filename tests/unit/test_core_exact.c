/* What a library says of itself, of devices, names and ranges; and that none of it is trusted. */
#include "exact_fixture.h"

static void exact_tells_how_it_collects_and_what_it_costs(void **state)
{
	struct ts_event cost = library_event(TS_EVENT_COST, 1000 * MS, 1100 * MS);
	const struct core_collect *row;

	begin_exact();
	assert_int_equal(seen.collects, 1);
	assert_int_equal(seen.collect[0].state, TS_COLLECT_STARTED);
	assert_int_equal(seen.collect[0].records, TS_RECORDS_DEFAULT);
	cost.cost.busy_ns = 3 * MS;
	cost.cost.own_ns = MS;
	cost.cost.records = 70;
	cost.cost.busiest_ppm = 900;
	tell(&cost);
	tell(&cost);
	core_checkpoint(core, 1100 * MS);
	row = &seen.collect[seen.collects - 1];
	assert_int_equal(row->busy_ns, 6 * MS);
	assert_int_equal(row->own_ns, 2 * MS);
	assert_int_equal(row->wall_ns, 200 * MS);
	assert_int_equal(row->taken, 140);
	assert_int_equal(row->busiest_ppm, 900);
	cost.cost.busy_ns = cost.cost.records = UINT64_MAX;
	tell(&cost);
	core_checkpoint(core, 1100 * MS);
	assert_int_equal(seen.collects, 3);
	assert_int_equal(seen.collect[2].busy_ns, INT64_MAX);
	collect(TS_COLLECT_STOPPED, 1200 * MS, 0);
	assert_int_equal(seen.collect[seen.collects - 1].state, TS_COLLECT_STOPPED);
	assert_int_equal(seen.collect[seen.collects - 1].until_ns, 1200 * MS);
	assert_int_equal(seen.collect[0].until_ns, 0);
	core_collect_gone(core, pid, 1300 * MS);
	assert_int_equal(lost(LOSS_GAP), 0);
}

static void exact_tells_when_the_budget_left_something_out(void **state)
{
	struct ts_event event = library_event(TS_EVENT_COLLECT, 1100 * MS, 0);

	begin_exact();
	event.collect.state = TS_COLLECT_CHANGED;
	event.collect.records = TS_RECORD_KERNELS;
	event.collect.left_out = TS_RECORD_COPIES;
	tell(&event);
	collect(TS_COLLECT_CHANGED, 1500 * MS, TS_RECORDS_DEFAULT);
	assert_int_equal(lost(LOSS_BUDGET), 1);
	assert_int_equal(seen.loss[0].start_ns, 1100 * MS);
	assert_int_equal(seen.loss[0].end_ns, 1500 * MS);
}

static void exact_tells_an_open_pause_at_once_and_counts_it_once(void **state)
{
	size_t early;

	begin_exact();
	collect(TS_COLLECT_PAUSED, 1100 * MS, 0);
	pass_until(2000 * MS);
	assert_int_equal(lost(LOSS_PAUSED), 1);
	assert_int_equal(seen.loss[0].start_ns, 1100 * MS);
	early = seen.losses;
	pass_until(40000 * MS);
	assert_in_range(seen.losses - early, 30, 39);
	assert_int_equal(seen.loss[seen.losses - 1].start_ns, 1100 * MS);
	assert_true(seen.loss[seen.losses - 1].end_ns > 38000 * MS);
	core_process_gone(core, pid, 41000 * MS);
	core_tick(core, 41250 * MS);
	assert_int_equal(lost(LOSS_PAUSED), 1);
	assert_int_equal(seen.loss[seen.losses - 1].end_ns, 41000 * MS);
}

static void restore_collected(uint64_t since_ns)
{
	struct core_process process = { .id = 5, .pid = pid, .started_ticks = 1 };

	clock_ns = 1000 * MS;
	assert_int_equal(core_restore_collect(core, 5, since_ns), -ENOENT);
	assert_int_equal(core_restore_process(core, &process), 0);
	assert_int_equal(core_restore_collect(core, 5, since_ns), 0);
}

static void exact_tells_what_a_restart_costs_until_collection_goes_on(void **state)
{
	restore_collected(700 * MS);
	pass_until(2000 * MS);
	assert_int_equal(lost(LOSS_DISCONNECTED), 1);
	collect(TS_COLLECT_RESUMED, 2100 * MS, TS_RECORDS_DEFAULT);
	pass_until(40000 * MS);
	assert_int_equal(lost(LOSS_DISCONNECTED), 1);
	assert_int_equal(seen.loss[seen.losses - 1].start_ns, 700 * MS);
	assert_int_equal(seen.loss[seen.losses - 1].end_ns, 2100 * MS);
	assert_int_equal(seen.loss[seen.losses - 1].process, 5);
}

static void exact_tells_no_more_of_a_restart_when_the_library_does_not_come(void **state)
{
	restore_collected(700 * MS);
	pass_until(60000 * MS);
	assert_int_equal(lost(LOSS_DISCONNECTED), 1);
	assert_in_range(seen.loss[seen.losses - 1].end_ns, 10000 * MS, 15000 * MS);
}

static void exact_tells_what_the_program_did_before_it_started(void **state)
{
	struct ts_event event = library_event(TS_EVENT_COLLECT, 3000 * MS, 0);

	clock_ns = 3000 * MS;
	announce();
	event.collect.state = TS_COLLECT_STARTED;
	event.collect.missed_since_ns = 3000 * MS; /* nothing */
	tell(&event);
	assert_int_equal(lost(LOSS_DISCONNECTED), 0);
	event.collect.missed_since_ns = 700 * MS;
	tell(&event);
	pass_until(10000 * MS);
	assert_int_equal(lost(LOSS_DISCONNECTED), 1);
	assert_int_equal(seen.loss[0].start_ns, 700 * MS);
	assert_int_equal(seen.loss[0].end_ns, 3000 * MS);
	assert_int_equal(seen.loss[0].process, seen.process[0].id);
}

static void exact_tells_an_open_economy_at_once(void **state)
{
	struct ts_event event = library_event(TS_EVENT_COLLECT, 1100 * MS, 0);

	begin_exact();
	event.collect.state = TS_COLLECT_CHANGED;
	event.collect.records = TS_RECORD_KERNELS;
	event.collect.left_out = TS_RECORD_COPIES;
	tell(&event);
	pass_until(1250 * MS);
	assert_int_equal(lost(LOSS_BUDGET), 1);
	pass_until(5000 * MS);
	event = library_event(TS_EVENT_COLLECT, 5000 * MS, 0);
	event.collect.state = TS_COLLECT_STOPPED;
	tell(&event);
	assert_int_equal(lost(LOSS_BUDGET), 1);
	assert_int_equal(seen.loss[seen.losses - 1].end_ns, 5000 * MS);
}

static void exact_passes_losses_on(void **state)
{
	struct ts_event event = library_event(TS_EVENT_LOST, 1000 * MS, 1100 * MS);

	begin_exact();
	event.lost.reason = TS_LOST_RING;
	event.lost.count = 7;
	assert_int_equal(tell(&event), INGEST_OK);
	core_checkpoint(core, 1100 * MS);
	assert_int_equal(lost(LOSS_EXACT_RING), 7);
	assert_int_equal(seen.loss[0].start_ns, 1000 * MS);
	event.lost.reason = 9;
	assert_int_equal(tell(&event), INGEST_BAD);
	event = library_event(TS_EVENT_LOST, 1050 * MS, 0);
	event.lost.reason = TS_LOST_CUPTI;
	event.lost.count = 1;
	assert_int_equal(tell(&event), INGEST_OK);
	core_checkpoint(core, 1200 * MS);
	assert_int_equal(lost(LOSS_CUPTI), 1);
	assert_int_equal(seen.loss[seen.losses - 1].end_ns, 1050 * MS);
}

static void exact_tells_a_device_when_it_changes(void **state)
{
	struct ts_event event = library_event(TS_EVENT_DEVICE, 1000 * MS, 0);

	begin_exact();
	event.device.multiprocessors = 132;
	tell(&event);
	tell(&event);
	core_checkpoint(core, 1100 * MS);
	core_checkpoint(core, 1100 * MS);
	assert_int_equal(seen.devices, 1);
	assert_int_equal(seen.device[0].multiprocessors, 132);
	event.device.clock_khz = 1;
	tell(&event);
	core_checkpoint(core, 1100 * MS);
	assert_int_equal(seen.devices, 2);
	event.device.device = 5000;
	assert_int_equal(tell(&event), INGEST_BAD);
}

static struct ts_event size_event(uint32_t device, uint64_t bytes)
{
	struct ts_event event = call_event(FN_DEVICE_SIZE, 1000 * MS, 1001 * MS);

	event.api.device = device;
	event.api.address = bytes;
	return event;
}

static void device_has_the_memory_that_its_driver_tells(void **state)
{
	struct ts_event event = size_event(1, 80);

	announce();
	event.flags |= TS_EVENT_UNREAD;
	give(&event);
	event = size_event(1, 80);
	event.result = 1;
	give(&event);
	event = size_event(5000, 80);
	give(&event);
	assert_int_equal(seen.devices, 0);
	for (int i = 0; i < 2; i++) {
		event = size_event(1, 80);
		give(&event);
	}
	assert_int_equal(seen.devices, 1);
	assert_int_equal(seen.device[0].ordinal, 1);
	assert_int_equal(seen.device[0].memory_bytes, 80);
	event = call_event(FN_RETAIN, 1002 * MS, 1003 * MS);
	event.api.context = 0xc2;
	event.api.device = 2;
	give(&event);
	for (uint64_t at = 1004; at < 1010; at += 2) {
		event = call_event(FN_ROOM, at * MS, (at + 1) * MS);
		event.api.context = 0xc2;
		event.api.address = 7;
		event.api.handle = 90;
		give(&event);
	}
	assert_int_equal(seen.devices, 2);
	assert_int_equal(seen.device[1].ordinal, 2);
	assert_int_equal(seen.device[1].memory_bytes, 90);
}

static void device_is_what_the_library_tells_of_it(void **state)
{
	struct ts_event event = library_event(TS_EVENT_DEVICE, 1000 * MS, 0);

	begin_exact();
	event.device.memory_bytes = 80;
	event.device.multiprocessors = 132;
	tell(&event);
	event = size_event(0, 80);
	give(&event);
	core_checkpoint(core, 1100 * MS);
	assert_int_equal(seen.devices, 1);
	assert_int_equal(seen.device[0].multiprocessors, 132);
}

static void exact_pairs_ranges_by_their_number(void **state)
{
	begin_exact();
	range(TS_RANGE_BEGIN, 1, 1010 * MS);
	range(TS_RANGE_BEGIN, 2, 1020 * MS);
	range(TS_RANGE_MARK, 0, 1025 * MS);
	range(TS_RANGE_END, 1, 1030 * MS);
	range(TS_RANGE_END, 9, 1040 * MS);
	assert_int_equal(seen.ops, 2);
	assert_int_equal(op_at(1025 * MS)->end_ns, 1025 * MS);
	assert_int_equal(op_at(1010 * MS)->end_ns, 1030 * MS);
	assert_int_equal(op_at(1010 * MS)->flags, OP_RETURNED);
	assert_int_equal(range(4, 1, 1050 * MS), INGEST_BAD);
	core_process_gone(core, pid, 1100 * MS);
	core_collect_gone(core, pid, 1100 * MS);
	core_tick(core, 1350 * MS);
	assert_int_equal(op_at(1020 * MS)->end_ns, 1100 * MS);
	assert_int_equal(op_at(1020 * MS)->flags, 0);
	assert_int_equal(lost(LOSS_BEFORE), 1);
}

static void exact_bounds_ranges_and_names(void **state)
{
	const struct core_origin self = { .pid = pid };
	_Alignas(struct ts_name) char record[sizeof(struct ts_name) + 16];
	struct ts_name *name = (struct ts_name *)record;

	begin_exact();
	for (uint32_t i = 0; i < 5000; i++)
		range(TS_RANGE_BEGIN, i, 1010 * MS + i);
	core_checkpoint(core, 1011 * MS);
	assert_int_equal(lost(LOSS_LIMIT), 5000 - 4096);
	*name = (struct ts_name){ .kind = TS_EVENT_NAME, .length = 4, .tgid = pid };
	for (uint32_t i = 1; i <= 100; i++) {
		name->id = i;
		memcpy(name->text, &i, 4);
		assert_int_equal(core_ingest(core, &self, record, sizeof(*name) + 4),
				 i <= 64 ? INGEST_OK : INGEST_LIMIT);
	}
	assert_int_equal(seen.names, 64);
	name->id = 0;
	assert_int_equal(core_ingest(core, &self, record, sizeof(*name) + 4), INGEST_BAD);
}

static void exact_tells_a_name_once_for_all_processes(void **state)
{
	_Alignas(struct ts_name) char record[sizeof(struct ts_name) + 4];
	struct ts_name *name = (struct ts_name *)record;

	*name = (struct ts_name){ .kind = TS_EVENT_NAME, .length = 4, .id = 1 };
	memcpy(name->text, "name", 4);
	for (pid = 100; pid < 102; pid++)
		begin_exact();
	for (pid = 100; pid < 102; pid++) {
		const struct core_origin self = { .pid = pid };

		name->tgid = pid;
		core_ingest(core, &self, record, sizeof(record));
	}
	assert_int_equal(seen.names, 1);
	/* One that started later may outlive the report about the earlier one. */
	pid = 102;
	clock_ns = 1000 * MS;
	announce();
	core_tick(core, 2000 * MS);
	collect(TS_COLLECT_STARTED, 2000 * MS, TS_RECORDS_DEFAULT);
	name->tgid = pid;
	core_ingest(core, &(struct core_origin){ .pid = pid }, record, sizeof(record));
	pid = 100;
	assert_int_equal(seen.names, 2);
}

static void exact_finds_the_default_stream_by_its_number(void **state)
{
	struct ts_event context = library_event(TS_EVENT_CONTEXT, 1000 * MS, 0);

	begin_exact();
	on_context(FN_CTX_CREATE, 1001 * MS, 0xc1, 0);
	context.context.context = 1;
	context.context.null_stream = 7;
	tell(&context);
	kernel(99, 1020 * MS, 1030 * MS, 7);
	launch(1040 * MS, 0);
	pass_until(5000 * MS);
	core_flush(core, 5000 * MS);
	assert_int_equal(op_that_ran_at(1020 * MS)->stream, op_at(1040 * MS)->stream);
	assert_int_equal(seen.stream[seen.streams - 1].number, 7);
	assert_int_equal(seen.stream[seen.streams - 1].handle, 0);
}

static void exact_learns_which_stream_a_number_is(void **state)
{
	begin_exact();
	kernel(99, 1020 * MS, 1030 * MS, N1);
	pass_until(4500 * MS);
	assert_int_equal(seen.stream[0].handle, 3);
	assert_int_equal(seen.stream[0].number, N1);
	launch(4510 * MS, S1);
	call_record(5, FN_LAUNCH, 4511 * MS, 4512 * MS);
	kernel(5, 4520 * MS, 4530 * MS, N1);
	kernel(100, 4540 * MS, 4550 * MS, N1);
	pass_until(9000 * MS);
	assert_int_equal(op_that_ran_at(4520 * MS)->stream, op_that_ran_at(4540 * MS)->stream);
	assert_true(op_that_ran_at(1020 * MS)->stream != op_that_ran_at(4540 * MS)->stream);
}

/* Launched at 1010 ms, called until 1012, ran from 1020 to 1030. */
static void tell_records(void)
{
	call_record(5, FN_LAUNCH, 1011 * MS, 1012 * MS);
	kernel(5, 1020 * MS, 1030 * MS, N1);
}

/* The ring of the probes is read behind the end of the library's own. */
static void exact_waits_for_calls_of_before_the_end(void **state)
{
	static const char how[] = "spg";
	struct core_config config = fixture_config();

	for (size_t i = 0; i < 3; i++) {
		fixture_restart(&config);
		begin_exact();
		tell_records();
		pass_until(1040 * MS);
		if (how[i] == 'g')
			core_collect_gone(core, pid, 1040 * MS);
		else
			collect(how[i] == 's' ? TS_COLLECT_STOPPED : TS_COLLECT_PAUSED, 1040 * MS,
				0);
		pass_until(1200 * MS);
		assert_int_equal(seen.ops, 0);
		launch(1010 * MS, S1);
		launch(1041 * MS, S1);
		on_stream(FN_STREAM_SYNC, 1050 * MS, 1060 * MS, S1);
		assert_int_equal(op_at(1041 * MS)->flags, OP_BOUNDS);
		pass_until(1300 * MS);
		assert_int_equal(op_at(1010 * MS)->flags, OP_EXACT | OP_RETURNED);
		assert_int_equal(op_at(1010 * MS)->seen_ns, 1060 * MS);
		assert_int_equal(lost(LOSS_NO_CALL) + lost(LOSS_NO_RECORD), 0);
		assert_int_equal(stats().waiting + stats().edges, 0);
	}
}

static void exact_waits_for_calls_until_the_process_ends(void **state)
{
	struct ts_event end = process_event(TS_EVENT_EXIT, 1060 * MS, 0);

	begin_exact();
	tell_records();
	kernel(6, 1032 * MS, 1033 * MS, N1);
	collect(TS_COLLECT_STOPPED, 1040 * MS, 0);
	launch(1010 * MS, S1);
	give(&end);
	assert_int_equal(seen.ops, 2);
	assert_int_equal(op_at(1010 * MS)->flags, OP_EXACT | OP_RETURNED);
	assert_int_equal(lost(LOSS_NO_CALL), 1);
	assert_int_equal(stats().processes, 0);
	assert_int_equal(stats().pending + stats().waiting + stats().edges, 0);
}

static void exact_waits_for_calls_of_before_less_is_recorded(void **state)
{
	struct ts_event copy = work_event(TS_EVENT_COPY, 5, 1013 * MS, 1014 * MS, N1);

	begin_exact();
	call_record(5, FN_COPY, 1011 * MS, 1012 * MS);
	tell(&copy);
	collect(TS_COLLECT_CHANGED, 1020 * MS, TS_RECORDS_DEFAULT & ~TS_RECORD_COPIES);
	on_stream(FN_COPY, 1010 * MS, 0, S1);
	on_stream(FN_COPY, 1025 * MS, 0, S1);
	on_stream(FN_STREAM_SYNC, 1040 * MS, 1050 * MS, S1);
	assert_int_equal(op_at(1025 * MS)->flags, OP_BOUNDS);
	pass_until(1200 * MS);
	assert_int_equal(op_at(1010 * MS)->flags, OP_EXACT | OP_RETURNED);
	assert_int_equal(lost(LOSS_NO_CALL) + lost(LOSS_NO_RECORD), 0);
}

static void copy_of_kinds(uint32_t correlation, uint64_t start_ns, uint32_t from, uint32_t to)
{
	struct ts_event copy = work_event(TS_EVENT_COPY, correlation, start_ns, start_ns + MS, N1);

	copy.work.from = from;
	copy.work.to = to;
	tell(&copy);
}

static void exact_tells_copies_of_pageable_memory(void **state)
{
	enum { PINNED = 2, DEVICE };

	begin_exact();
	on_stream(FN_COPY, 1010 * MS, 0, S1);
	call_record(5, FN_COPY, 1011 * MS, 1012 * MS);
	copy_of_kinds(5, 1013 * MS, TS_MEMORY_PAGEABLE, DEVICE);
	copy_of_kinds(6, 1020 * MS, DEVICE, TS_MEMORY_PAGEABLE); /* without a call */
	copy_of_kinds(7, 1030 * MS, PINNED, DEVICE);
	pass_until(5000 * MS);
	assert_int_equal(op_that_ran_at(1013 * MS)->flags, OP_EXACT | OP_RETURNED | OP_PAGEABLE);
	assert_int_equal(op_that_ran_at(1020 * MS)->flags, OP_EXACT | OP_NO_CALL | OP_PAGEABLE);
	assert_int_equal(op_that_ran_at(1030 * MS)->flags, OP_EXACT | OP_NO_CALL);
}

static void exact_does_not_change_its_mind_all_the_time(void **state)
{
	begin_exact();
	for (int i = 0; i < 100; i++)
		collect(i % 2 ? TS_COLLECT_RESUMED : TS_COLLECT_PAUSED, 1000 * MS + i, 1);
	core_checkpoint(core, 1001 * MS);
	assert_int_equal(seen.collects, 16);
	assert_int_equal(lost(LOSS_LIMIT), 85);
}

static void exact_believes_no_nonsense(void **state)
{
	begin_exact();
	assert_int_equal(kernel(5, 1ull << 63, 1ull << 63, N1), INGEST_BAD);
	assert_int_equal(kernel(5, 1000 * MS, 1ull << 62, N1), INGEST_BAD);
	assert_int_equal(call_record(5, FN_LAUNCH, 1012 * MS, 1011 * MS), INGEST_BAD);
	assert_int_equal(call_record(5, FN_LAUNCH, 0, 1011 * MS), INGEST_BAD);
	assert_int_equal(collect(0, 1000 * MS, 1), INGEST_BAD);
	assert_int_equal(collect(77, 1000 * MS, 1), INGEST_BAD);
	assert_int_equal(stats().waiting, 0);
	/* What a process says does not move the clock of all. */
	range(TS_RANGE_MARK, 0, 3000000 * MS);
	core_checkpoint(core, 1001 * MS);
	assert_int_equal(seen.loss[0].end_ns, 1000 * MS);
}

static void exact_leaves_streams_to_others(void **state)
{
	begin_exact();
	for (uint32_t i = 1; i <= 200; i++)
		kernel(0, 1000 * MS + i, 1000 * MS + i + 1, i);
	core_checkpoint(core, 1001 * MS);
	assert_int_equal(ops_with(OP_EXACT), 200);
	assert_in_range(stats().streams, 1, 16);
	assert_true(lost(LOSS_LIMIT) > 0);
}

/* Of a runtime function, around the driver's. */
static int call_around(uint32_t correlation, uint64_t start_ns, uint64_t end_ns)
{
	struct ts_event event = library_event(TS_EVENT_CALL, start_ns, end_ns);

	event.flags = TS_EVENT_RETURNED;
	event.call.correlation = correlation;
	event.call.around = 1;
	return tell(&event);
}

static void exact_joins_the_call_within_a_call_of_the_runtime(void **state)
{
	begin_exact();
	for (uint64_t i = 0; i < 10; i++) {
		uint64_t at_ns = 1010 * MS + i * 1000;

		launch(at_ns, S1);
		call_around((uint32_t)i + 1, at_ns - 300, at_ns + 300);
		kernel((uint32_t)i + 1, 1100 * MS + i * 1000, 1100 * MS + i * 1000 + 900, N1);
	}
	pass_until(1700 * MS);
	assert_int_equal(stats().joined, 10);
	for (uint64_t i = 0; i < 10; i++) {
		const struct op *op = op_at(1010 * MS + i * 1000);

		assert_int_equal(op->correlation, i + 1);
		assert_int_equal(op->end_ns, 1010 * MS + i * 1000 + 300);
		assert_int_equal(op->gpu_start_ns, 1100 * MS + i * 1000);
	}
}

/* The event of the call in it was lost: it is not the call before. */
static void exact_joins_no_call_before_that_of_the_runtime(void **state)
{
	begin_exact();
	launch(1010 * MS, S1);
	call_around(6, 1010 * MS + 500, 1010 * MS + 900);
	kernel(6, 1020 * MS, 1030 * MS, N1);
	pass_until(9000 * MS);
	assert_int_equal(stats().joined, 0);
	assert_int_equal(lost(LOSS_NO_CALL), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORY(exact_tells_how_it_collects_and_what_it_costs),
		STORY(exact_tells_when_the_budget_left_something_out),
		STORY(exact_tells_an_open_pause_at_once_and_counts_it_once),
		STORY(exact_tells_what_the_program_did_before_it_started),
		STORY(exact_tells_an_open_economy_at_once),
		STORY(exact_tells_what_a_restart_costs_until_collection_goes_on),
		STORY(exact_tells_no_more_of_a_restart_when_the_library_does_not_come),
		STORY(exact_passes_losses_on),
		STORY(exact_joins_the_call_within_a_call_of_the_runtime),
		STORY(exact_joins_no_call_before_that_of_the_runtime),
		STORY(exact_tells_a_device_when_it_changes),
		STORY(device_has_the_memory_that_its_driver_tells),
		STORY(device_is_what_the_library_tells_of_it),
		STORY(exact_pairs_ranges_by_their_number),
		STORY(exact_bounds_ranges_and_names),
		STORY(exact_tells_a_name_once_for_all_processes),
		STORY(exact_finds_the_default_stream_by_its_number),
		STORY(exact_learns_which_stream_a_number_is),
		STORY(exact_waits_for_calls_of_before_the_end),
		STORY(exact_waits_for_calls_until_the_process_ends),
		STORY(exact_waits_for_calls_of_before_less_is_recorded),
		STORY(exact_tells_copies_of_pageable_memory),
		STORY(exact_does_not_change_its_mind_all_the_time),
		STORY(exact_believes_no_nonsense),
		STORY(exact_leaves_streams_to_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
