/* plan_load.h: the plan of a window, from the daemon or from an .sbt file. */
#ifndef TS_CLIENT_PLAN_LOAD_H
#define TS_CLIENT_PLAN_LOAD_H

#include "client/trace/trace.h"
#include "core/plan/plan.h"

/* Ops of which a plan is made; each takes about half a kilobyte while it is built. */
#define PLAN_LOAD_OPS_MAX 10000000

/* Opens the trace, reads the ops of the window and of --from and --to, and builds their plan. The
 * trace stays open: what the ops refer to is in its metadata. What goes wrong is said on stderr;
 * the caller has to call trace_done() in any case. */
int plan_load(const struct options *options, struct trace *ret_trace, struct plan **ret);
/* The same from ops at hand (an emulation's), with what they refer to in a trace that is open. */
int plan_load_ops(struct trace *trace, struct op *op, size_t count, struct plan **ret);

#endif
