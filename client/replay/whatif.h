/* whatif.h: tsctl replay --emulate, and with what-ifs: what the emulator says of a
 * recording. */
#ifndef TS_CLIENT_REPLAY_WHATIF_H
#define TS_CLIENT_REPLAY_WHATIF_H

#include "client/base/options.h"

/* Of options->file, or of what the daemon has; with options->output the result is written as a
 * recording. Returns an exit status. */
int replay_whatif(const struct options *options);

#endif
