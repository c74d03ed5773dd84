/* Replay interval: how sure a prediction is, of plans made by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "client/replay/interval.h"

#define WORKS 200

/* Works of 100 ns, one after another. */
static struct plan_work work[WORKS];
static uint64_t start_ns[WORKS], end_ns[WORKS];
static struct plan_times times = { .work_start_ns = start_ns, .work_end_ns = end_ns };
static struct plan plan = { .work = work, .start_ns = 1000 };

/* Predicted to take `early` in the first tenth of them, `late` afterwards. */
static void make(uint32_t count, uint64_t early, uint64_t late)
{
	uint64_t at = 1000;

	plan.work_count = count;
	plan.end_ns = 1000 + 100ul * count;
	times.start_ns = at;
	for (uint32_t i = 0; i < count; i++) {
		work[i] = (struct plan_work){ .start_ns = 1000 + 100ul * i,
					      .end_ns = 1099 + 100ul * i };
		start_ns[i] = at;
		at += i < count / 10 ? early : late;
		end_ns[i] = at - 1;
	}
	times.end_ns = at;
}

static void what_is_the_same_all_along_is_sure(void **state)
{
	struct interval interval;

	make(WORKS, 50, 50);
	assert_true(replay_interval(&plan, &times, &interval));
	assert_true(interval.ratio == 2);
	assert_true(interval.low > 1.99 && interval.high < 2.01);
}

/* It hangs on the first tenth, of which a draw may have none, or twice as much. */
static void what_hangs_on_a_few_parts_is_not(void **state)
{
	struct interval interval, again;

	make(WORKS, 10, 100);
	assert_true(replay_interval(&plan, &times, &interval));
	assert_true(interval.low < interval.ratio && interval.ratio < interval.high);
	assert_true(interval.low < 1.02);
	assert_true(interval.high > 1.2 && interval.high < 1.5);
	assert_true(replay_interval(&plan, &times, &again));
	assert_memory_equal(&interval, &again, sizeof(again));
}

static void what_was_dropped_is_nowhere(void **state)
{
	struct interval interval;

	make(WORKS, 50, 50);
	work[7].flags = PLAN_DROPPED;
	end_ns[7] = 1000000000;
	assert_true(replay_interval(&plan, &times, &interval));
	assert_true(interval.low > 1.9 && interval.high < 2.1);
}

static void too_little_has_none(void **state)
{
	struct interval interval;

	make(30, 50, 50);
	assert_false(replay_interval(&plan, &times, &interval));
	make(0, 0, 0);
	assert_false(replay_interval(&plan, &times, &interval));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_the_same_all_along_is_sure),
		cmocka_unit_test(what_hangs_on_a_few_parts_is_not),
		cmocka_unit_test(what_was_dropped_is_nowhere),
		cmocka_unit_test(too_little_has_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
