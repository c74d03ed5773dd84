/* test_halt: a process in a tracer's hands for a moment is not stopped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/base/time.h"
#include "core/price/halt.h"

#define LOOK_NS (250 * NS_PER_MS)
#define START	(1000 * NS_PER_S)

static void one_stopped_by_a_signal_is_stopped_at_once(void **state)
{
	struct halt halt = { 0 };

	assert_false(halt_look(&halt, 'S', START));
	assert_true(halt_look(&halt, 'T', START + LOOK_NS));
	assert_false(halt_look(&halt, 'R', START + 2 * LOOK_NS));
}

static void a_tracer_that_goes_again_has_not_stopped_it(void **state)
{
	struct halt halt = { 0 };

	for (uint64_t i = 0; i < 100; i++)
		assert_false(halt_look(&halt, i % 2 ? 'R' : 't', START + i * LOOK_NS));
}

static void a_debugger_that_keeps_it_has(void **state)
{
	struct halt halt = { 0 };

	assert_false(halt_look(&halt, 't', START));
	assert_false(halt_look(&halt, 't', START + LOOK_NS));
	assert_true(halt_look(&halt, 't', START + 2 * LOOK_NS));
	assert_true(halt_look(&halt, 't', START + 3 * LOOK_NS));
	assert_false(halt_look(&halt, 'S', START + 4 * LOOK_NS));
	assert_false(halt_look(&halt, 't', START + 5 * LOOK_NS));
}

static void the_look_of_an_asker_long_ago_does_not_count(void **state)
{
	struct halt halt = { 0 };

	assert_false(halt_look(&halt, 't', START));
	assert_false(halt_look(&halt, 't', START + 60 * NS_PER_S));
	assert_false(halt_look(&halt, 't', START + 60 * NS_PER_S + LOOK_NS));
	assert_true(halt_look(&halt, 't', START + 60 * NS_PER_S + 2 * LOOK_NS));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_stopped_by_a_signal_is_stopped_at_once),
		cmocka_unit_test(a_tracer_that_goes_again_has_not_stopped_it),
		cmocka_unit_test(a_debugger_that_keeps_it_has),
		cmocka_unit_test(the_look_of_an_asker_long_ago_does_not_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
