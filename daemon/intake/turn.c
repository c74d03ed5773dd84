/* Turn: one timer for all inputs. */
#include "daemon/intake/turn.h"

#include "core/base/cleanup.h"

#define LOOK_MS 10

static void on_turn(uv_timer_t *timer)
{
	struct turn *turn = timer->data;

	switch (intake_turn(turn->intake, uv_hrtime())) {
	case INTAKE_ASLEEP:
		uv_timer_stop(timer);
		break;
	case INTAKE_AWAKE:
		break;
	case INTAKE_MORE:
		uv_timer_start(timer, on_turn, 0, LOOK_MS);
		break;
	}
}

static void on_wake(void *data)
{
	struct turn *turn = data;

	if (!uv_is_closing((uv_handle_t *)&turn->timer))
		uv_timer_start(&turn->timer, on_turn, 0, LOOK_MS);
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
	turn->timer.data = turn;
	return 0;
}

void turn_close(struct turn *turn)
{
	if (!turn->intake)
		return;
	uv_close((uv_handle_t *)&turn->timer, NULL);
	turn->intake = intake_free(turn->intake);
}
