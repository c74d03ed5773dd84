/* interval.h: how certain a prediction is, as far as the recording itself can show. Pure.
 *
 * The recording is divided into twenty parts of equal time, each with its duration as recorded and
 * as predicted. The interval is the spread of the speed-up of twenty parts drawn from these at
 * random, again and again: a block bootstrap (H. R. Künsch: The Jackknife and the Bootstrap for
 * General Stationary Observations, 1989) of the ratio of two sums. So it shows how much the result
 * depends on single parts of the recording. It covers neither errors of the model, which are the
 * same in all parts, nor what varies from run to run.
 */
#ifndef TS_CLIENT_REPLAY_INTERVAL_H
#define TS_CLIENT_REPLAY_INTERVAL_H

#include <stdbool.h>

#include "core/base/interval.h"
#include "core/plan/critical.h"

#define REPLAY_CONFIDENCE 0.95

/* The interval of the speed-up. False: the recording is too small to divide. */
bool replay_interval(const struct plan *plan, const struct plan_times *predicted,
		     struct interval *ret);

#endif
