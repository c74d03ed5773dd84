/* interval.h: how sure a prediction is, as far as the recording itself can tell. Pure.
 *
 * The recording is cut in twenty parts of its time. Of each it is told how long it took as
 * recorded and as predicted, and the speed-up of twenty parts drawn from these at random, again and
 * again, is the interval: a bootstrap of blocks (H. R. Künsch: The Jackknife and the Bootstrap for
 * General Stationary Observations, 1989), of the ratio of two sums. So it says how much the result
 * hangs on single parts of the recording. It knows nothing of what is wrong with the model, which
 * is the same in all parts, nor of what differs from run to run.
 */
#ifndef TS_CLIENT_REPLAY_INTERVAL_H
#define TS_CLIENT_REPLAY_INTERVAL_H

#include <stdbool.h>

#include "core/base/interval.h"
#include "core/plan/critical.h"

#define REPLAY_CONFIDENCE 0.95

/* Of the speed-up. False: there is too little in it to be cut in parts. */
bool replay_interval(const struct plan *plan, const struct plan_times *predicted,
		     struct interval *ret);

#endif
