/* Which hot calls get a stack: as many as asked for, each as likely as the others, wherever the
 * program stands in its loop; and new work at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/time.h"
#include "inject/light_sampler.h"

#define SAMPLE_NS (10 * NS_PER_MS)
#define LOOP	  25 /* calls, each of another kernel, then a wait */

struct program {
	struct light_sampler sampler;
	uint64_t now_ns;
	uint32_t sampled, of_kernel[LOOP];
};

static bool call(struct program *program, uint64_t work)
{
	struct light_sampler *sampler = &program->sampler;
	bool taken = !light_sampler_skips(sampler, work) &&
		     light_sampler_takes(sampler, work, SAMPLE_NS, program->now_ns);

	if (!taken)
		light_sampler_passed(sampler, SAMPLE_NS, program->now_ns);
	program->sampled += taken;
	return taken;
}

static void turn(struct program *program, uint64_t call_ns, uint64_t wait_ns)
{
	for (uint32_t i = 0; i < LOOP; i++) {
		program->now_ns += call_ns;
		program->of_kernel[i] += call(program, 0x7f0000001000 + i * 64);
	}
	program->now_ns += wait_ns;
}

static void test_each_call_is_equally_likely(void **state)
{
	struct program program = { .now_ns = NS_PER_S };
	uint64_t begin_ns = program.now_ns;
	double seconds, each;

	while (program.now_ns < begin_ns + 200 * (uint64_t)NS_PER_S)
		turn(&program, 5000, NS_PER_MS);
	seconds = (double)(program.now_ns - begin_ns) / NS_PER_S;
	assert_in_range(program.sampled, (uint64_t)(seconds * 85), (uint64_t)(seconds * 120));
	each = (double)program.sampled / LOOP;
	for (uint32_t i = 0; i < LOOP; i++)
		assert_in_range(program.of_kernel[i], (uint64_t)(each * 0.85),
				(uint64_t)(each * 1.15));
}

static void test_rare_calls_are_all_taken(void **state)
{
	struct program program = { .now_ns = NS_PER_S };
	uint32_t before;

	for (int i = 0; i < 100000; i++) {
		program.now_ns += 1000;
		call(&program, 1);
	}
	for (int i = 0; i < 40; i++) {
		program.now_ns += 10 * SAMPLE_NS;
		call(&program, 1);
	}
	before = program.sampled;
	for (int i = 0; i < 100; i++) {
		program.now_ns += 10 * SAMPLE_NS;
		call(&program, 1);
	}
	assert_in_range(program.sampled - before, 80, 100);
}

static void test_new_work_is_taken_at_once(void **state)
{
	struct program program = { .now_ns = NS_PER_S };

	for (int i = 0; i < 1000000; i++) {
		program.now_ns += 1000;
		call(&program, 1);
	}
	program.now_ns += 1000;
	assert_true(program.sampler.left > 100);
	assert_true(call(&program, 2));
	assert_false(call(&program, 2));
	/* A second one only after a while. */
	assert_false(call(&program, 3));
	program.now_ns += SAMPLE_NS;
	assert_true(call(&program, 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_call_is_equally_likely),
		cmocka_unit_test(test_rare_calls_are_all_taken),
		cmocka_unit_test(test_new_work_is_taken_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
