/* Spans that a program marks by calling our library of ranges: paired, named, bounded. */
#include "core_fixture.h"

#include <stdio.h>

#include "core/base/time.h"

static int call(enum fn fn, uint64_t number, uint32_t thread, uint64_t time_ns, const char *name)
{
	struct ts_event event = call_event(fn, time_ns, 0);
	char text[TS_RANGE_NAME_SIZE] = "";

	memcpy(text, name, strnlen(name, sizeof(text)));
	event.tid = thread;
	memcpy(&event.api, text, offsetof(struct ts_api, handle));
	memcpy(event.api.word, text + offsetof(struct ts_api, handle), sizeof(event.api.word));
	event.api.handle = number;
	return give(&event);
}

static void ranges_of_threads_nest_and_overlap(void **state)
{
	announce();
	call(FN_RANGE_BEGIN, 1, 11, 1000, "outer");
	call(FN_RANGE_BEGIN, 2, 11, 1100, "inner");
	call(FN_RANGE_BEGIN, 3, 12, 1150, "other");
	call(FN_RANGE_END, 2, 11, 1200, "");
	call(FN_RANGE_END, 1, 12, 1300, "");
	call(FN_RANGE_END, 3, 12, 1400, "");
	assert_int_equal(seen.ops, 3);
	assert_int_equal(op_at(1000)->end_ns, 1300);
	assert_int_equal(op_at(1100)->end_ns, 1200);
	assert_int_equal(op_at(1150)->end_ns, 1400);
	assert_int_equal(op_at(1000)->tid, 11);
	assert_int_equal(op_at(1000)->kind, OP_RANGE);
	assert_int_equal(op_at(1000)->flags, OP_RETURNED);
	assert_int_equal(op_at(1000)->fn, 0);
	assert_int_not_equal(op_at(1000)->name, op_at(1100)->name);
	assert_int_equal(seen.names, 3);
	assert_int_equal(stats().exact, 0);
	/* No call of the driver, nor use of it. */
	core_checkpoint(core, 2000);
	assert_int_equal(seen.rollups, 0);
	assert_int_equal(core_used_ns(core, 100), 0);
}

static void a_name_fills_its_bytes_or_is_none(void **state)
{
	static const char whole[] = "0123456789abcdefghijklmnopqrstuvwxyz"
				    "0123456789abcdefghijklmnopqrstuvwxyz";

	_Static_assert(sizeof(whole) == TS_RANGE_NAME_SIZE + 1, "it has no NUL in there");
	announce();
	call(FN_RANGE_BEGIN, 1, 11, 1000, whole);
	call(FN_RANGE_END, 1, 11, 1100, "");
	assert_int_equal(seen.name.length, TS_RANGE_NAME_SIZE);
	call(FN_RANGE_BEGIN, 2, 11, 1200, "");
	call(FN_RANGE_END, 2, 11, 1300, "");
	assert_int_equal(seen.names, 1);
	assert_int_equal(op_at(1200)->name, 0);
}

static void an_end_without_its_begin_is_counted(void **state)
{
	announce();
	assert_int_equal(call(FN_RANGE_END, 7, 11, 1000, ""), INGEST_OK);
	/* Another thread has ended it. */
	call(FN_RANGE_CUT, 8, 11, 1100, "");
	assert_int_equal(seen.ops, 0);
	core_checkpoint(core, 2000);
	assert_int_equal(lost(LOSS_BEFORE), 1);
}

static void a_range_ends_with_its_thread_or_its_process(void **state)
{
	struct ts_event event = process_event(TS_EVENT_EXIT, 1500, 0);

	announce();
	call(FN_RANGE_BEGIN, 1, 11, 1000, "of a thread");
	call(FN_RANGE_BEGIN, 2, 12, 1100, "of the process");
	call(FN_RANGE_CUT, 1, 11, 1200, "");
	give(&event);
	assert_int_equal(op_at(1000)->end_ns, 1200);
	assert_int_equal(op_at(1000)->flags, 0);
	assert_int_equal(op_at(1100)->end_ns, 1500);
	assert_int_equal(op_at(1100)->flags, 0);
	core_checkpoint(core, 2000);
	assert_int_equal(lost(LOSS_BEFORE), 0);
}

static void a_name_is_told_again_for_a_store_that_forgets(void **state)
{
	announce();
	core_tick(core, NS_PER_S);
	call(FN_RANGE_BEGIN, 1, 11, NS_PER_S, "step");
	call(FN_RANGE_END, 1, 11, NS_PER_S + 1, "");
	call(FN_RANGE_BEGIN, 2, 11, NS_PER_S + 2, "step");
	assert_int_equal(seen.names, 1);
	core_tick(core, NS_PER_S + 2 * CORE_NAME_AGAIN_NS);
	call(FN_RANGE_END, 2, 11, NS_PER_S + 2 * CORE_NAME_AGAIN_NS, "");
	assert_int_equal(seen.names, 2);
}

static void a_process_has_so_many_names_and_open_ranges(void **state)
{
	char name[16];

	announce();
	for (uint64_t i = 0; i < 5000; i++)
		call(FN_RANGE_BEGIN, i, 11, 1000 + i, "same");
	core_checkpoint(core, 10000);
	assert_int_equal(lost(LOSS_LIMIT), 5000 - 4096);
	assert_int_equal(seen.ops, 5000 - 4096);
	seen.ops = 0;
	core_flush(core, 20000);
	assert_int_equal(seen.ops, 4096);
	seen.ops = 0;
	for (uint64_t i = 1; i <= 100; i++) {
		snprintf(name, sizeof(name), "%d", (int)i);
		call(FN_RANGE_BEGIN, i, 11, 30000 + i, name);
		call(FN_RANGE_END, i, 11, 30001 + i, name);
	}
	assert_int_equal(seen.names, 64);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_begin, fixture_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ranges_of_threads_nest_and_overlap),
		TEST(a_name_fills_its_bytes_or_is_none),
		TEST(an_end_without_its_begin_is_counted),
		TEST(a_range_ends_with_its_thread_or_its_process),
		TEST(a_name_is_told_again_for_a_store_that_forgets),
		TEST(a_process_has_so_many_names_and_open_ranges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
