/* whatif.h: changes to a plan before it is run again. */
#ifndef TS_CORE_WHATIF_H
#define TS_CORE_WHATIF_H

#include "core/plan.h"

/* Whether an op is meant, by its name, kind and so on: the client's to know. */
struct whatif_match {
	bool (*match)(void *data, const struct op *op);
	void *data;
};

/* Each returns how many works or calls it changed, or a negative errno. */
int64_t whatif_scale(struct plan *plan, const struct whatif_match *match, double factor);
int64_t whatif_drop(struct plan *plan, const struct whatif_match *match);
/* Every launch begins on the device no sooner than so long after its call, and no later if only
 * the launch kept it. 0: launches cost the device nothing; of the host neither. */
int64_t whatif_launch_latency(struct plan *plan, uint64_t ns);
/* Copies between host and device take 1/factor of the time. */
int64_t whatif_copy_bandwidth(struct plan *plan, double factor);
/* Host waits return at once, but for those before a thread's end. */
int64_t whatif_no_sync(struct plan *plan);
/* The works of each device are on so many streams: fewer are joined; where there are more, the
 * works of a stream go round them, and keep only the order that events and host waits ask for. */
int64_t whatif_streams(struct plan *plan, uint32_t count);
/* The works of each process are on so many devices, stream by stream. */
int64_t whatif_devices(struct plan *plan, uint32_t count);
/* The launches of each thread between two host waits, within the window, become one launch of a
 * graph: one call, and `gap_ns` from node to node of a stream. */
int64_t whatif_graph(struct plan *plan, uint64_t since_ns, uint64_t until_ns, uint64_t gap_ns);

#endif
