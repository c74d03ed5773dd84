/* pace.h: when a replay shows a change: at its time, or at once; and the keys that end it. There is
 * one at a time. */
#ifndef TS_CLIENT_REPLAY_PACE_H
#define TS_CLIENT_REPLAY_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/replay/view.h"

struct replay_pace {
	struct replay_view *view;
	double speed;	   /* 0: as fast as possible */
	bool keys;	   /* the terminal's keys are read */
	uint64_t begin_ns; /* time of the first change */
	uint64_t clock_ns; /* our clock at that time; 0: not started */
	uint64_t draw_ns;  /* next time to show */
	uint32_t unchecked;
};

/* From now on Ctrl-C and, if standard input is a terminal and `keys` is set, 'q' end it. */
void replay_pace_begin(struct replay_pace *pace, struct replay_view *view, double speed, bool keys);
void replay_pace_end(struct replay_pace *pace);
/* Waits until it is time to show what happened then. -ECANCELED: the replay must end. */
int replay_pace_wait(struct replay_pace *pace, uint64_t time_ns);
/* The same for reading ahead; does not wait before the first change. */
int replay_pace_wait_ahead(struct replay_pace *pace, uint64_t time_ns);

#endif
