/* whatif.h: tsctl replay --emulate, also with what-ifs. */
#ifndef TS_CLIENT_REPLAY_WHATIF_H
#define TS_CLIENT_REPLAY_WHATIF_H

#include <stdint.h>

#include "client/base/options.h"

/* Emulates options->file or the daemon's data; options->output gets the result as a recording.
 * Returns an exit status. */
int replay_whatif(const struct options *options);

/* The plan with its changes, whose times as recorded are its own, and those of the prediction. */
struct replay_report;
struct plan;
struct plan_times;
typedef int replay_predicted_fn(void *data, const struct replay_report *report,
				const struct plan *plan, const struct plan_times *predicted);
/* Passes on what --emulate would show. Errors of `call` are returned, others are printed, too. */
int replay_predict(const struct options *options, replay_predicted_fn *call, void *data);

struct replay_gain {
	uint64_t recorded_ns, predicted_ns; /* from the first operation to the end of the last */
};

/* What --graph would say of all of it. 0, or a negative errno; the error is printed. */
int replay_predict_graph(const struct options *options, struct replay_gain *ret);

#endif
