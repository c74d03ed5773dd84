/* plan_load.h: the plan of a window, from the daemon or from an .sbt file. */
#ifndef TS_CLIENT_PLAN_LOAD_H
#define TS_CLIENT_PLAN_LOAD_H

#include "client/trace/trace.h"
#include "core/plan/plan.h"

/* Maximum ops of a plan; each takes about half a kilobyte while it is built. */
#define PLAN_LOAD_OPS_MAX 10000000

/* Opens the trace, reads the ops of the window and of --from and --to, and builds their plan. The
 * trace stays open, since its metadata has what the ops refer to. Errors are printed; the caller
 * must call trace_done() in any case. */
int plan_load(const struct options *options, struct trace *ret_trace, struct plan **ret);
/* The same on a link that stays the caller's. */
int plan_load_on(struct link *link, const struct options *options, struct trace *ret_trace,
		 struct plan **ret);
/* The same from ops in memory (an emulation's), which refer to an open trace. */
int plan_load_ops(struct trace *trace, struct op *op, size_t count, struct plan **ret);

#endif
