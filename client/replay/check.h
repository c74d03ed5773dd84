/* check.h: tsctl replay --check: whether two recordings, or a recording and its own emulation, did
 * the same. */
#ifndef TS_CLIENT_REPLAY_CHECK_H
#define TS_CLIENT_REPLAY_CHECK_H

#include "client/base/options.h"

/* `argument`: A.sbt, and optionally B.sbt. Returns an exit status: EXIT_FAILED if they differ. */
int replay_check(const struct options *options, int count, char **argument);

#endif
