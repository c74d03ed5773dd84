/* pace.h: when a replay shows what happened: at its time, or at once; and the keys that end
 * it. There is one at a time. */
#ifndef TS_CLIENT_REPLAY_PACE_H
#define TS_CLIENT_REPLAY_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/replay/view.h"

struct replay_pace {
	struct replay_view *view;
	double speed;	   /* 0: as fast as it goes */
	bool keys;	   /* those of the terminal are read */
	uint64_t begin_ns; /* of what is played: its first change */
	uint64_t clock_ns; /* what the clock showed then; 0: still to come */
	uint64_t draw_ns;  /* when it has to show for the next time */
	uint32_t unchecked;
};

/* From now on Ctrl-C and, where standard input is a terminal and `keys` is set, 'q' end it. */
void replay_pace_begin(struct replay_pace *pace, struct replay_view *view, double speed, bool keys);
void replay_pace_end(struct replay_pace *pace);
/* Waits until it is time for what happened then. -ECANCELED: it is to end. */
int replay_pace_wait(struct replay_pace *pace, uint64_t time_ns);
/* The same of what is read ahead, which is not the first change; before that it does not wait. */
int replay_pace_wait_ahead(struct replay_pace *pace, uint64_t time_ns);

#endif
