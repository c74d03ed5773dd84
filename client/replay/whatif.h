/* whatif.h: tsctl replay --emulate, also with what-ifs. */
#ifndef TS_CLIENT_REPLAY_WHATIF_H
#define TS_CLIENT_REPLAY_WHATIF_H

#include "client/base/options.h"

/* Emulates options->file or the daemon's data; options->output gets the result as a recording.
 * Returns an exit status. */
int replay_whatif(const struct options *options);

#endif
