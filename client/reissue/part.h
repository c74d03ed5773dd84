/* part.h: the part of a recording that a replay issues, and of its own recording the
 * part that is not the replayer's. What goes wrong is said on stderr. */
#ifndef TS_CLIENT_REPLAY_GPU_PART_H
#define TS_CLIENT_REPLAY_GPU_PART_H

#include <stdbool.h>

#include "client/base/options.h"
#include "client/trace/trace.h"
#include "core/plan/plan.h"

/* Of each call whether it is left out, to be freed. -ENOENT: the options choose no work. */
int gpu_part_choose(const struct options *options, const struct trace *trace,
		    const struct plan *plan, bool **ret_skip);
/* What the replayer's main thread does, which is for the replay: all calls that are done again are
 * done by threads of their own. */
int gpu_part_choose_replayed(const struct trace *trace, const struct plan *plan, bool **ret_skip);
/* Makes it a plan of the other calls and their works. */
int gpu_part_cut(struct trace *trace, struct plan **plan, const bool *skip);

#endif
