/* whatif.h: changes a plan before it is run (emulate.h).
 *
 * For all changes: the program makes the same calls in the same order, on the same threads; how the
 * change would alter its behaviour (take another branch, wait elsewhere) is unknown. How long a
 * kernel takes does not depend on what runs next to it, nor on clocks or caches. What a thread did
 * between two calls takes as long as before, unless host time is scaled.
 *
 * Each function returns how many works or calls it changed, or a negative errno; -EINVAL: a factor
 * that is not positive and finite, a count of 0. They can be combined; each works on the result of
 * the ones before.
 */
#ifndef TS_CORE_WHATIF_H
#define TS_CORE_WHATIF_H

#include "core/plan/plan.h"

#define WHATIF_STREAMS_MAX 1024 /* of a device */
#define WHATIF_DEVICES_MAX 64	/* of a process */

/* Whether an op is selected, by its name, kind and so on: the client decides. */
struct whatif_match {
	bool (*match)(void *data, const struct op *op);
	void *data;
};

/* Multiplies the times of works. */
int64_t whatif_scale(struct plan *plan, const struct whatif_match *match, double factor);
/* Multiplies the times that calls take when they do not have to wait. */
int64_t whatif_scale_calls(struct plan *plan, const struct whatif_match *match, double factor);
/* Multiplies the times that threads take between calls. */
int64_t whatif_scale_host(struct plan *plan, double factor);

/* Drops works: they take no time, nor do the calls that submit nothing else, and neither is in the
 * result; likewise calls that submit nothing. What waited for them waits for what they waited for;
 * what the thread did before such a call remains. */
int64_t whatif_drop(struct plan *plan, const struct whatif_match *match);

/* Every launch starts on the device no sooner than this long after its call, and no later if only
 * the launch delayed it; and a launching call takes the host no longer than that. 0: launches are
 * free. In graphs only the first node counts. */
int64_t whatif_launch_latency(struct plan *plan, uint64_t ns);

/* Copies between host and device take 1/factor of the time, except the time of the fastest small
 * copy of the direction, which does not depend on bytes. */
int64_t whatif_copy_bandwidth(struct plan *plan, double factor);

/* Host waits return at once, including those of blocking copies; but the last wait of a thread
 * waits for everything they waited for. Keeps the limits of queues. Whether the host needed the
 * result (to branch on, a buffer to refill) is unknown. */
int64_t whatif_no_sync(struct plan *plan);

/* The works of each device use this many streams. Fewer: streams are merged in turn, in submission
 * order. More: the works of a stream are distributed over its parts; events, host waits and the
 * default stream still apply to all its parts, but the order that only the stream gave is gone. To
 * keep a copy to the device before the kernels that use it, and them before the copy back, these
 * move together: everything after a copy to the device, up to the next one that follows other work.
 * On a stream without such copies each work moves separately: data dependencies between them are
 * unknown. A graph launch is one work. */
int64_t whatif_streams(struct plan *plan, uint32_t count);

/* Deals the streams of each process out to this many devices like its first. Copies between devices
 * that this would need are unknown. */
int64_t whatif_devices(struct plan *plan, uint32_t count);

/* The launches, copies, sets and events of each thread between two host waits, within the window,
 * become one graph launch: one call remains, the first, and what the thread did between them goes
 * too; `gap_ns` from a kernel, set or copy on the device to the next of its stream, unless it was
 * less. Whether a graph can be made of them, and the cost of creating it, is unknown.
 */
int64_t whatif_graph(struct plan *plan, uint64_t since_ns, uint64_t until_ns, uint64_t gap_ns);

#endif
