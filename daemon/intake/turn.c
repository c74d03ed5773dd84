/* Turn: one timer for all inputs. Who has more is read on in the loop's next iteration, and not by
 * a timer of 0 ms: libuv before 1.48 would run that one again and again, and nothing else. */
#include "daemon/intake/turn.h"

#include "core/base/cleanup.h"
#include "daemon/limits.h"

static void on_turn(uv_timer_t *timer)
{
	turn_look(timer->data);
}

static void on_more(uv_idle_t *more)
{
	turn_look(more->data);
}

void turn_look(struct turn *turn)
{
	enum intake_state state;

	uv_idle_stop(&turn->more); /* first: it may be woken while it is read */
	state = intake_turn(turn->intake, uv_hrtime());
	if (state == INTAKE_MORE)
		uv_idle_start(&turn->more, on_more);
	if (state == INTAKE_AWAKE)
		uv_timer_start(&turn->timer, on_turn, LIMIT_INTAKE_LOOK_MS, 0);
	else if (state == INTAKE_CALM)
		uv_timer_start(&turn->timer, on_turn, LIMIT_INTAKE_CALM_MS, 0);
	else
		uv_timer_stop(&turn->timer);
}

static void on_wake(void *data)
{
	struct turn *turn = data;

	if (!uv_is_closing((uv_handle_t *)&turn->timer))
		uv_idle_start(&turn->more, on_more);
}

int turn_init(struct turn *turn, uv_loop_t *loop, const struct intake_input *input, uint32_t inputs)
{
	const struct intake_config config = {
		.input = input,
		.inputs = inputs,
		.wake = on_wake,
		.data = turn,
	};
	int r = intake_new(&config, &turn->intake);

	if (r < 0)
		return r;
	uv_timer_init(loop, &turn->timer);
	uv_idle_init(loop, &turn->more);
	turn->timer.data = turn->more.data = turn;
	return 0;
}

void turn_close(struct turn *turn)
{
	if (!turn->intake)
		return;
	uv_close((uv_handle_t *)&turn->timer, NULL);
	uv_close((uv_handle_t *)&turn->more, NULL);
	turn->intake = intake_free(turn->intake);
}
