/* play.h: plays the state machines of a recording, or of a window of the daemon's data. */
#ifndef TS_CLIENT_REPLAY_PLAY_H
#define TS_CLIENT_REPLAY_PLAY_H

#include "client/base/options.h"

/* Returns an exit_status. */
int replay_play(const struct options *options);

#endif
