/* turn.h: when the inputs of the intake are read: every few milliseconds while records come, at
 * once where one says so, and not at all while they sleep. */
#ifndef TS_TURN_H
#define TS_TURN_H

#include <uv.h>

#include "daemon/intake/intake.h"

struct turn {
	uv_timer_t timer;
	uv_idle_t more;
	struct intake *intake;
};

/* Makes the intake. */
int turn_init(struct turn *turn, uv_loop_t *loop, const struct intake_input *input,
	      uint32_t inputs);
/* Reads the inputs now, and then as they say; from the loop, not from within a turn. */
void turn_look(struct turn *turn);
/* Frees it, after all that has lanes in it; takes a zeroed turn, too. */
void turn_close(struct turn *turn);

#endif
