/* Waste as a query, over ops made by hand: what is possible only on request, what may have been
 * missed is no more than that, and operations beyond the limit are told. */
#include "tests/unit/query_fixture.h"

#include "core/store/wasted.h"
#include "core/waste/waste.h"

#define STACK 0x8000000000000001ull
#define PID   4000000
#define MS    1000000ull

static struct store *store;

static uint64_t at(uint64_t ms)
{
	return fixture_second() * SECOND_NS + ms * MS;
}

static void add_op(uint64_t ms, struct op op)
{
	op.process = op.process ? op.process : 1;
	op.start_ns = at(ms);
	if (op.kind == OP_ALLOC || op.kind == OP_FREE)
		op.end_ns = op.start_ns + MS;
	store_add_op(store, &op);
}

/* Allocated at a time, and freed a second later. */
static void add_block(uint32_t process, uint64_t ms, uint64_t address, uint64_t stack)
{
	add_op(ms, (struct op){ .process = process,
				.kind = OP_ALLOC,
				.detail = MEMORY_DEVICE,
				.fn = FN_ALLOC,
				.address = address,
				.bytes = 4096,
				.stack_id = stack });
	add_op(ms + 1000, (struct op){ .process = process,
				       .kind = OP_FREE,
				       .detail = MEMORY_DEVICE,
				       .fn = FN_FREE,
				       .address = address,
				       .bytes = 4096 });
}

static void add_launch(uint32_t process, uint64_t ms, uint64_t end_ms)
{
	add_op(ms, (struct op){ .process = process,
				.kind = OP_LAUNCH,
				.fn = FN_LAUNCH,
				.stream = 3,
				.gpu_end_ns = end_ms ? at(end_ms) : 0 });
}

static int setup_with(void **state, void (*add)(void))
{
	const struct frame frames[] = { FRAME(0x10, 0x10, "/lib/libcuda.so.1", "cuMemAlloc_v2"),
					FRAME(0x20, 0x20, "/opt/app", "forward") };
	struct fixture *fixture;

	fixture_setup(state);
	fixture = *state;
	assert_int_equal(fixture_open(fixture), 0);
	store = fixture->store;
	for (uint32_t id = 1; id <= 3; id++)
		add_process(store, id, PID + id - 1, 0);
	store_add_stack(store, &(struct store_stack){ STACK, 1, frames, 2, TS_END_COMPLETE, 0 });
	/* The first kernel ended before the second block; no end is known of the second one, but
	 * that of the third, which came after it. */
	add_block(1, 100, 0x1000, STACK);
	add_launch(1, 500, 1500);
	add_block(1, 2000, 0x2000, STACK);
	add_launch(1, 5000, 0);
	add_launch(1, 6000, 7000);
	add_block(1, 8000, 0x2000, STACK);
	/* Of another process, nobody knows how the kernel ended. */
	add_launch(2, 0, 0);
	add_block(2, 30000, 0x1000, STACK);
	/* Of a third, something was missed. */
	add_block(3, 100, 0x1000, STACK);
	store_add(store, &(struct core_loss){ at(300), at(400), 3, LOSS_RING_FULL, 1 });
	if (add)
		add();
	store_commit(store, fixture_now_ns);
	fixture->store = store_free(store);
	return 0;
}

static int setup(void **state)
{
	return setup_with(state, NULL);
}

/* A process for each reason, whose memory nothing was copied into that was seen. */
static void add_each_reason(void)
{
	for (uint8_t reason = 1; reason <= LOSS_REASON_MAX; reason++) {
		uint32_t id = 3u + reason;

		add_process(store, id, PID + id - 1, 0);
		add_block(id, 100, 0x1000, STACK);
		store_add(store, &(struct core_loss){ at(300), at(400), id, reason, 1 });
	}
}

static int setup_reasons(void **state)
{
	return setup_with(state, add_each_reason);
}

/* Something of some process is still to come since the last block of the first one. */
static void add_pending(void)
{
	store_pending(store, at(8500), 0);
}

/* It may be of that process. */
static void add_pending_calls(void)
{
	store_add(store, &(struct core_rollup){ .process = 1,
						.second = (fixture_second() + 8) / 60 * 60,
						.kind = OP_COPY,
						.fn = FN_HTOD,
						.calls = 1 });
	add_pending();
}

static void add_pending_records(void)
{
	store_add(store, &(struct core_collect){ .process = 1, .since_ns = at(0) });
	add_pending();
}

static int setup_pending(void **state)
{
	return setup_with(state, add_pending);
}

static int setup_pending_calls(void **state)
{
	return setup_with(state, add_pending_calls);
}

static int setup_pending_records(void **state)
{
	return setup_with(state, add_pending_records);
}

static void expect_rows(void **state, Tracesmith__V1__QueryRequest query, size_t rows,
			const char *const *part)
{
	struct answer_text answer = { 0 };

	run_named(*state, &query, &answer);
	if (answer.rows != rows)
		fail_msg("%s", answer.text);
	for (; *part; part++)
		if (!strstr(answer.text, *part))
			fail_msg("'%s' is not in %s", *part, answer.text);
	answer_text_done(&answer);
}

static void test_what_is_possible_is_told_on_request(void **state)
{
	static const char *const sure[] = {
		"\"pid\":4000000,\"comm\":\"job1\",\"pattern\":\"never used\",\"certainty\":"
		"\"certain\",\"kind\":\"device\",\"fn\":\"cuMemAlloc_v2\",\"device\":0,\"count\":2,"
		"\"bytes\":8192,\"lost_ns\":4000000,\"held_ns\":1998000000",
		"allocate it where it is needed", "forward", NULL
	};
	static const char *const all[] = { "\"pid\":4000000,\"comm\":\"job1\",\"pattern\":\"never "
					   "used\",\"certainty\":\"possible\"",
					   "\"pid\":4000001", "\"pid\":4000002", NULL };

	expect_rows(state, QUERY(.name = "waste"), 1, sure);
	expect_rows(state, QUERY(.name = "waste", .all = true), 4, all);
	expect_rows(state, QUERY(.name = "waste", .pid = PID + 1), 0,
		    (const char *const[]){ "Nothing was wasted for certain", NULL });
}

static void test_a_window_cuts(void **state)
{
	expect_rows(state, QUERY(.name = "waste", .until_ns = at(5000)), 1,
		    (const char *const[]){ "\"count\":1,", NULL });
}

static void test_nothing_is_certain_of_a_time_that_was_not_seen(void **state)
{
	static const struct {
		const char *name, *misses;
	} reasons[LOSS_REASON_MAX + 1] = {
#define X(number, identifier, counts, alarm, misses, noun, name, text) [number] = { name, #misses },
		LOSS_REASONS(X)
#undef X
	};
	int unseen = 0;

	for (uint8_t reason = 1; reason <= LOSS_REASON_MAX; reason++) {
		Tracesmith__V1__QueryRequest query =
			QUERY(.name = "waste", .pid = PID + 2 + reason);
		struct answer_text answer = { 0 };
		bool is_unseen = strcmp(reasons[reason].misses, "NOTHING") != 0;

		run_named(*state, &query, &answer);
		if (answer.rows != !is_unseen)
			fail_msg("%s: %s", reasons[reason].name, answer.text);
		unseen += is_unseen;
		answer_text_done(&answer);
	}
	assert_true(unseen > 20 && unseen < LOSS_REASON_MAX);
}

static void test_what_is_to_come_of_others_takes_no_certainty(void **state)
{
	expect_rows(state, QUERY(.name = "waste"), 1,
		    (const char *const[]){ "\"count\":2,", NULL });
}

static void test_nothing_is_certain_while_operations_are_to_come(void **state)
{
	expect_rows(state, QUERY(.name = "waste"), 1,
		    (const char *const[]){ "\"count\":1,", NULL });
}

/* Only the latest are looked at. */
static void test_operations_beyond_the_limit_are_counted(void **state)
{
	const struct fixture *fixture = *state;
	_cleanup_(sums_release) struct sums rows = WASTE_ROWS;
	uint64_t left_out = 0;
	sqlite3 *db;

	assert_int_equal(store_reader_open(fixture->path, fixture_now_ns, &db), 0);
	assert_int_equal(wasted_add(db, 1, 0, fixture_now_ns, 100, &rows, &left_out), 0);
	assert_int_equal(rows.count, 2);
	assert_int_equal(left_out, 0);
	sums_release(&rows);
	assert_int_equal(wasted_add(db, 1, 0, fixture_now_ns, 3, &rows, &left_out), 0);
	assert_int_equal(rows.count, 0);
	assert_true(left_out > 0);
	sqlite3_close(db);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_what_is_possible_is_told_on_request, setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_a_window_cuts, setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_nothing_is_certain_of_a_time_that_was_not_seen,
						setup_reasons, fixture_teardown),
		cmocka_unit_test_setup_teardown(
			test_nothing_is_certain_while_operations_are_to_come, setup_pending_calls,
			fixture_teardown),
		cmocka_unit_test_setup_teardown(
			test_nothing_is_certain_while_operations_are_to_come, setup_pending_records,
			fixture_teardown),
		cmocka_unit_test_setup_teardown(test_what_is_to_come_of_others_takes_no_certainty,
						setup_pending, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_operations_beyond_the_limit_are_counted, setup,
						fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
