/* The bound on a process's time in traps: who is left out, of what, and for how long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/time.h"
#include "core/price/bound.h"

#define COLD	0
#define HOT	1
#define TICK_NS (NS_PER_S / 4)

static const struct bound_config config = {
	.limit = 0.5,
	.burst_ns = NS_PER_S,
	.min_ns = 5 * NS_PER_S,
	.max_ns = 60 * NS_PER_S,
};

struct process {
	struct bound bound;
	uint64_t now_ns;
};

/* It spends these shares of a CPU until it is put out or let in. True: it was, within `seconds`. */
static bool run(struct process *process, double cold, double hot, double seconds)
{
	uint64_t end_ns = process->now_ns + (uint64_t)(seconds * NS_PER_S);

	while (process->now_ns < end_ns) {
		double spent_ns[BOUND_GROUPS] = {
			[COLD] = process->bound.out[COLD] ? 0 : cold * (double)TICK_NS,
			[HOT] = process->bound.out[HOT] ? 0 : hot * (double)TICK_NS,
		};

		process->now_ns += TICK_NS;
		if (bound_tick(&process->bound, &config, process->now_ns, spent_ns))
			return true;
	}
	return false;
}

static struct process begin(void)
{
	return (struct process){ .now_ns = NS_PER_S, .bound.ticked_ns = NS_PER_S };
}

static void who_stays_below_the_limit_stays_in(void **state)
{
	struct process process = begin();

	assert_false(run(&process, 0.2, 0.29, 3600));
	/* More for a moment: the start of a program, a window. */
	assert_false(run(&process, 0, 1.2, 0.5));
	assert_false(run(&process, 0, 0.1, 60));
	assert_false(run(&process, 0, 1.2, 0.5));
}

static void a_flood_is_over_within_the_next_tick(void **state)
{
	struct process process = begin();

	assert_true(run(&process, 0, 5, 0.26));
	assert_true(process.bound.out[HOT]);
	assert_false(process.bound.out[COLD]);
	assert_true(process.bound.share > 4.9 && process.bound.share < 5.1);
}

static void little_too_much_takes_longer(void **state)
{
	struct process process = begin();

	assert_false(run(&process, 0, 0.6, 4));
	assert_true(run(&process, 0, 0.6, 2));
}

static void only_what_floods_is_left_out(void **state)
{
	struct process cold = begin(), both = begin(), neither = begin();

	assert_true(run(&cold, 3, 0.3, 1));
	assert_true(cold.bound.out[COLD] && !cold.bound.out[HOT]);
	assert_true(run(&both, 3, 2, 1));
	assert_true(both.bound.out[COLD] && both.bound.out[HOT]);
	/* Each alone would do. */
	assert_true(run(&neither, 0.3, 0.4, 10));
	assert_true(!neither.bound.out[COLD] && neither.bound.out[HOT]);
}

static void the_other_group_is_still_watched(void **state)
{
	struct process process = begin();

	assert_true(run(&process, 0, 5, 1));
	assert_true(run(&process, 5, 5, 1));
	assert_true(process.bound.out[COLD] && process.bound.out[HOT]);
	/* Both come back together. */
	assert_true(run(&process, 5, 5, 5));
	assert_false(bound_is_out(&process.bound));
}

static uint64_t out_for_ns(struct process *process)
{
	uint64_t since_ns;

	assert_true(run(process, 0, 5, 1));
	assert_true(bound_is_out(&process->bound));
	since_ns = process->now_ns;
	assert_true(run(process, 0, 5, 3600));
	assert_false(bound_is_out(&process->bound));
	return process->now_ns - since_ns;
}

static void who_goes_on_is_out_ever_longer_up_to_a_limit(void **state)
{
	struct process process = begin();
	uint64_t length_s[] = { 5, 10, 20, 40, 60, 60 };

	for (size_t i = 0; i < sizeof(length_s) / sizeof(length_s[0]); i++)
		assert_int_equal(out_for_ns(&process), length_s[i] * NS_PER_S);
}

static void who_has_behaved_starts_anew(void **state)
{
	struct process process = begin();

	out_for_ns(&process);
	assert_int_equal(out_for_ns(&process), 10 * NS_PER_S);
	assert_false(run(&process, 0, 0.4, 11));
	assert_int_equal(out_for_ns(&process), 5 * NS_PER_S);
}

static void without_a_limit_nobody_is_out(void **state)
{
	const struct bound_config none = { 0 };
	const double spent_ns[BOUND_GROUPS] = { 1e12, 1e12 };
	struct process process = begin();

	assert_true(run(&process, 0, 5, 1));
	assert_true(bound_tick(&process.bound, &none, process.now_ns + 1, spent_ns));
	assert_false(bound_is_out(&process.bound));
	for (uint64_t i = 0; i < 100; i++)
		assert_false(
			bound_tick(&process.bound, &none, process.now_ns + i * NS_PER_S, spent_ns));
}

static void the_host_takes_one_group_after_the_other(void **state)
{
	const double spent_ns[BOUND_GROUPS] = { [COLD] = 3e6, [HOT] = 7e6 };
	struct process process = begin();

	assert_true(bound_put_out(&process.bound, &config, process.now_ns, spent_ns, TICK_NS));
	assert_true(process.bound.out[HOT] && !process.bound.out[COLD]);
	assert_true(bound_put_out(&process.bound, &config, process.now_ns, spent_ns, TICK_NS));
	assert_true(process.bound.out[HOT] && process.bound.out[COLD]);
	assert_false(bound_put_out(&process.bound, &config, process.now_ns, spent_ns, TICK_NS));
	assert_true(run(&process, 0, 0, 6));
	assert_false(bound_is_out(&process.bound));
}

static void who_is_due_is_known_before_and_can_be_forgiven(void **state)
{
	const double spent_ns[BOUND_GROUPS] = { [HOT] = 0.9 * (double)TICK_NS };
	struct process process = begin();
	int forgiven = 0;

	for (int i = 0; i < 40; i++) {
		bool due =
			bound_is_due(&process.bound, &config, process.now_ns + TICK_NS, spent_ns);

		if (due && forgiven++ < 2)
			bound_forgive(&process.bound);
		process.now_ns += TICK_NS;
		if (bound_tick(&process.bound, &config, process.now_ns, spent_ns)) {
			assert_true(due);
			assert_int_equal(forgiven, 3);
			assert_true(process.bound.out[HOT]);
			return;
		}
		assert_true(!due || forgiven < 3);
	}
	fail();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_is_due_is_known_before_and_can_be_forgiven),
		cmocka_unit_test(who_stays_below_the_limit_stays_in),
		cmocka_unit_test(a_flood_is_over_within_the_next_tick),
		cmocka_unit_test(little_too_much_takes_longer),
		cmocka_unit_test(only_what_floods_is_left_out),
		cmocka_unit_test(the_other_group_is_still_watched),
		cmocka_unit_test(who_goes_on_is_out_ever_longer_up_to_a_limit),
		cmocka_unit_test(who_has_behaved_starts_anew),
		cmocka_unit_test(without_a_limit_nobody_is_out),
		cmocka_unit_test(the_host_takes_one_group_after_the_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
