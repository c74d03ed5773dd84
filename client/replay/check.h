/* check.h: tsctl replay --check: whether two recordings did the same, or a recording and its
 * own emulation. */
#ifndef TS_CLIENT_REPLAY_CHECK_H
#define TS_CLIENT_REPLAY_CHECK_H

#include "client/base/options.h"

/* `argument`: A.sbt, and B.sbt or nothing. Returns an exit status: EXIT_FAILED where they differ.
 */
int replay_check(const struct options *options, int count, char **argument);

#endif
