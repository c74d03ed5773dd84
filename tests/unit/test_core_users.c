/* Users in the model: whoever fills what one user may have costs the others nothing, and his loss
 * is counted as his own. */
#include "core/model/model.h" /* before the fixture's `core` */

#include "core/model/range.h"
#include "exact_fixture.h"

#define GREEDY 1001 /* its process, and those after it */
#define HONEST 500
#define MANY   200 /* more than there is of anything */

/* `pid` is its pid, and its user has the number of it; `owner` made its user namespace. */
static int start(uint32_t number, uint32_t uid, uint32_t owner)
{
	struct ts_event event;

	pid = tid = number;
	event = process_event(TS_EVENT_PROCESS, 1, 50000000);
	event.process.uid = uid;
	event.process.owner = owner;
	return give(&event);
}

static void end(uint32_t number)
{
	struct ts_event event;

	pid = tid = number;
	event = process_event(TS_EVENT_EXIT, 1000000, 50000000);
	give(&event);
}

static uint64_t losses_of(uint32_t number)
{
	const struct core_process *process = core_process_by_pid(core, number);
	uint64_t count = 0;

	core_checkpoint(core, 500000);
	for (size_t i = 0; i < seen.losses; i++)
		if (seen.loss[i].reason == LOSS_LIMIT && seen.loss[i].process == process->id)
			count += seen.loss[i].count;
	return count;
}

/* One of everything, `number` times. */
static void take(uint64_t from, uint64_t number)
{
	for (uint64_t i = from; i < from + number; i++) {
		on_memory(FN_ALLOC, 10 + i, 20 + i, 0x1000 + i, 1);
		on_stream(FN_STREAM_CREATE, 10 + i, 20 + i, 0x100 + i);
		on_event(FN_EVENT_CREATE, 10 + i, 20 + i, 0x100 + i, 0);
		tid = pid + (uint32_t)i;
		on_context(FN_CTX_CREATE, 10 + i, 0xc0 + i, 0);
	}
}

static void what_one_user_fills_is_there_for_another(void **state)
{
	struct core_stats full;

	start(GREEDY, GREEDY, 0);
	take(0, MANY);
	full = stats();
	assert_int_equal(full.allocations, 64);
	assert_true(full.limited > 0);
	start(HONEST, HONEST, 0);
	take(0, 3);
	assert_int_equal(stats().limited, full.limited);
	assert_int_equal(stats().allocations, 64 + 3);
	assert_int_equal(losses_of(HONEST), 0);
	assert_true(losses_of(GREEDY) >= full.limited);
}

/* Nor with one process after the other, nor with the uids of a user namespace. */
static void many_processes_of_one_user_are_one_user(void **state)
{
	uint32_t started = 0;

	for (uint32_t i = 0; i < MANY; i++)
		started += start(GREEDY + i, 100000 + i, GREEDY) == INGEST_OK;
	assert_int_equal(started, 16);
	assert_int_equal(start(HONEST, HONEST, 0), INGEST_OK);
	end(GREEDY);
	assert_int_equal(start(GREEDY + MANY, 7, GREEDY), INGEST_LIMIT); /* there are two now */
}

static void nothing_is_held_after_the_end(void **state)
{
	start(GREEDY, GREEDY, 0);
	take(0, MANY);
	start(HONEST, HONEST, 0);
	take(0, MANY);
	end(GREEDY);
	end(HONEST);
	core_checkpoint(core, 2000000);
	core_tick(core, 1ull << 60);
	core_checkpoint(core, 1ull << 60);
	for (int i = 0; i < CORE_SHARES; i++)
		assert_int_equal(core->share[i].used, 0);
}

/* Rollups: each stack makes a row of its own. */
static void rows_of_one_users_stacks_leave_room_for_anothers(void **state)
{
	size_t rows = 0;

	start(GREEDY, GREEDY, 0);
	for (uint64_t i = 0; i < 600; i++) {
		struct ts_event event = call_event(FN_CTX_SYNC, 10, 20);

		event.stack_id = 1 + i;
		give(&event);
	}
	start(HONEST, HONEST, 0);
	for (uint64_t i = 0; i < 20; i++) {
		struct ts_event event = call_event(FN_CTX_SYNC, 10, 20);

		event.stack_id = 10001 + i;
		give(&event);
	}
	assert_int_equal(losses_of(HONEST), 0);
	for (size_t i = 0; i < seen.rollups; i++)
		rows += seen.rollup[i].stack_id > 10000;
	assert_int_equal(rows, 20);
	assert_true(losses_of(GREEDY) > 0);
}

/* Two processes of one user have half each: a third one, of another user, has room all the same. */
static void exact_records_of_one_user_leave_room_for_anothers(void **state)
{
	struct core_config config = fixture_config();

	config.max_waiting = 20;
	fixture_restart(&config);
	for (pid = 300; pid < 302; pid++) {
		begin_exact();
		for (uint32_t i = 1; i <= 100; i++)
			kernel(i, 1000 * MS + i, 1000 * MS + i + 1, i);
	}
	assert_int_equal(stats().waiting, 20);
	pid = 200;
	fixture_uid = 7;
	begin_exact();
	fixture_uid = 0;
	launch(1010 * MS, S1);
	call_record(5, FN_LAUNCH, 1011 * MS, 1012 * MS);
	kernel(5, 1020 * MS, 1030 * MS, N1);
	core_checkpoint(core, 1031 * MS);
	for (size_t i = 0; i < seen.losses; i++)
		assert_true(seen.loss[i].reason != LOSS_LIMIT ||
			    seen.loss[i].process != core_process_by_pid(core, pid)->id);
	pass_until(5000 * MS);
	pid = 100;
	assert_int_equal(op_at(1010 * MS)->flags, OP_EXACT | OP_RETURNED);
}

/* Work of one user that nobody waits for: another's waits are still its bounds. */
static void pending_work_of_one_user_leaves_room_for_anothers(void **state)
{
	for (uint32_t i = 0; i < 2; i++) {
		start(GREEDY + i, GREEDY, 0);
		for (uint64_t k = 0; k < 300; k++)
			launch(10 + k, 0x100 + i);
	}
	start(HONEST, HONEST, 0);
	for (uint64_t k = 0; k < 100; k++)
		launch(2000 + k, 0x300);
	on_stream(FN_STREAM_SYNC, 3000, 4000, 0x300);
	for (uint64_t k = 0; k < 100; k++)
		assert_int_equal(op_at(2000 + k)->gpu_end_ns, 4000);
	assert_int_equal(losses_of(HONEST), 0);
	assert_in_range(lost(LOSS_UNBOUND), 600 - 256 + 100, 600);
}

static void open_ranges_of_one_user_leave_room_for_anothers(void **state)
{
	for (pid = 300; pid < 300 + RANGES_TOTAL / 2 / RANGES_MAX; pid++) {
		begin_exact();
		for (uint32_t i = 1; i <= RANGES_MAX; i++)
			assert_int_equal(range(TS_RANGE_BEGIN, i, 1000 * MS + i), INGEST_OK);
	}
	begin_exact();
	assert_int_equal(range(TS_RANGE_BEGIN, 1, 1001 * MS), INGEST_LIMIT);
	pid = 200;
	fixture_uid = 7;
	begin_exact();
	fixture_uid = 0;
	for (uint32_t i = 1; i <= 100; i++)
		assert_int_equal(range(TS_RANGE_BEGIN, i, 1010 * MS + i), INGEST_OK);
	for (uint32_t i = 1; i <= 100; i++)
		range(TS_RANGE_END, i, 1020 * MS);
	assert_int_equal(seen.ops, 100);
	assert_int_equal(losses_of(200), 0);
	/* Who has some loses the oldest, and is told so. */
	pid = 300;
	assert_int_equal(range(TS_RANGE_BEGIN, RANGES_MAX + 1, 1030 * MS), INGEST_LIMIT);
	assert_int_equal(seen.ops, 101);
	assert_int_equal(op_at(1000 * MS + 1)->flags, 0);
	pid = 100;
}

/* Whose rows differ also without their stacks. */
static void plain_rows_of_one_user_leave_room_for_anothers(void **state)
{
	uint64_t calls = 0;

	start(GREEDY, GREEDY, 0);
	for (int i = 0; i < 2000; i++) {
		struct ts_event event = call_event(FN_CTX_SYNC, 10, 20);

		event.result = 1 + i;
		give(&event);
	}
	start(HONEST, HONEST, 0);
	for (uint64_t i = 0; i < 300; i++) {
		struct ts_event event = call_event(FN_CTX_SYNC, 10, 20);

		event.stack_id = 10001 + i;
		give(&event);
	}
	assert_true(losses_of(HONEST) > 0);
	for (size_t i = 0; i < seen.rollups; i++)
		if (seen.rollup[i].process == core_process_by_pid(core, HONEST)->id)
			calls += seen.rollup[i].calls;
	assert_int_equal(calls, 300);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_begin, fixture_end)
	const struct CMUnitTest tests[] = {
		TEST(what_one_user_fills_is_there_for_another),
		TEST(many_processes_of_one_user_are_one_user),
		TEST(nothing_is_held_after_the_end),
		TEST(rows_of_one_users_stacks_leave_room_for_anothers),
		TEST(exact_records_of_one_user_leave_room_for_anothers),
		TEST(pending_work_of_one_user_leaves_room_for_anothers),
		TEST(open_ranges_of_one_user_leave_room_for_anothers),
		TEST(plain_rows_of_one_user_leave_room_for_anothers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
