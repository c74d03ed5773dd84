/* part.h: the part of a recording to reissue, and the part of the reissue's own recording that is
 * not tsctl's. Errors are printed. */
#ifndef TS_CLIENT_REPLAY_GPU_PART_H
#define TS_CLIENT_REPLAY_GPU_PART_H

#include <stdbool.h>

#include "client/base/options.h"
#include "client/trace/trace.h"
#include "core/plan/plan.h"

/* Per call whether it is left out, to be freed. -ENOENT: the options select no work. */
int gpu_part_choose(const struct options *options, const struct trace *trace,
		    const struct plan *plan, bool **ret_skip);
/* Leaves out what tsctl's main thread does for itself: other threads do all reissued calls. */
int gpu_part_choose_replayed(const struct trace *trace, const struct plan *plan, bool **ret_skip);
/* Reduces the plan to the other calls and their work. */
int gpu_part_cut(struct trace *trace, struct plan **plan, const bool *skip);

#endif
