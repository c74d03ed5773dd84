/* Turn: records that never end hold nothing else up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/intake/turn.h"
#include "daemon/limits.h"

#define DRAINS_MAX 50000000u /* seconds of them */

static const struct intake_input inputs[] = { { "flood", 0 } };

struct world {
	uv_loop_t loop;
	struct turn turn;
	uint64_t drains, after_wake;
	enum intake_state state;
	bool wake; /* in the middle of the next drain */
	int ticks;
};

static enum intake_state drain(void *data, uint64_t now_ns, uint32_t budget)
{
	struct world *world = data;

	/* Not an assertion: that would jump out of the loop. */
	if (++world->drains == DRAINS_MAX) {
		fprintf(stderr, "nothing but the intake has run\n");
		abort();
	}
	if (world->wake) {
		world->wake = false;
		world->after_wake = world->drains;
		intake_wake(world->turn.intake);
	}
	return world->state;
}

static void on_tick(uv_timer_t *timer)
{
	struct world *world = timer->data;

	if (++world->ticks >= 3 && world->drains > 3)
		uv_stop(&world->loop);
}

static void begin(struct world *world, enum intake_state state)
{
	*world = (struct world){ .state = state };
	uv_loop_init(&world->loop);
	assert_int_equal(turn_init(&world->turn, &world->loop, inputs, 1), 0);
	intake_attach(world->turn.intake, 0, drain, world);
	intake_wake(world->turn.intake);
}

static void end(struct world *world)
{
	turn_close(&world->turn);
	uv_run(&world->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&world->loop), 0);
}

static void more_records_hold_no_timer_up(void **state)
{
	struct world world;
	uv_timer_t timer = { .data = &world };

	begin(&world, INTAKE_MORE);
	uv_timer_init(&world.loop, &timer);
	uv_timer_start(&timer, on_tick, 2, 2);
	uv_run(&world.loop, UV_RUN_DEFAULT);
	assert_true(world.ticks >= 3 && world.drains > 3);
	uv_close((uv_handle_t *)&timer, NULL);
	end(&world);
}

static void who_is_awake_is_looked_at_again_and_who_sleeps_is_not(void **state)
{
	struct world world;
	uint64_t before;

	begin(&world, INTAKE_AWAKE);
	while (world.drains < 3)
		uv_run(&world.loop, UV_RUN_ONCE);
	before = world.drains; /* each run may have taken two turns, if it was late */
	world.state = INTAKE_ASLEEP;
	uv_run(&world.loop, UV_RUN_DEFAULT);
	assert_int_equal(world.drains, before + 1);
	intake_wake(world.turn.intake);
	uv_run(&world.loop, UV_RUN_DEFAULT);
	assert_int_equal(world.drains, before + 2);
	end(&world);
}

static void who_is_calm_is_looked_at_rarely_until_it_is_not(void **state)
{
	const enum intake_state states[] = { INTAKE_CALM, INTAKE_AWAKE, INTAKE_CALM };
	const uint64_t ms[] = { LIMIT_INTAKE_CALM_MS, LIMIT_INTAKE_LOOK_MS, LIMIT_INTAKE_CALM_MS };
	struct world world;

	begin(&world, INTAKE_CALM);
	for (int i = 0; i < 3; i++) {
		uint64_t before = world.drains;

		world.state = states[i];
		while (world.drains < before + 2)
			uv_run(&world.loop, UV_RUN_ONCE);
		assert_int_equal(uv_timer_get_due_in(&world.turn.timer), ms[i]);
	}
	end(&world);
}

static void a_wake_during_a_turn_is_kept(void **state)
{
	struct world world;

	begin(&world, INTAKE_ASLEEP);
	world.wake = true;
	uv_run(&world.loop, UV_RUN_DEFAULT);
	assert_int_equal(world.after_wake, 1);
	assert_int_equal(world.drains, 2);
	end(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(more_records_hold_no_timer_up),
		cmocka_unit_test(who_is_awake_is_looked_at_again_and_who_sleeps_is_not),
		cmocka_unit_test(who_is_calm_is_looked_at_rarely_until_it_is_not),
		cmocka_unit_test(a_wake_during_a_turn_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
