/* whatif.h: changes to a plan before it is run again (emulate.h).
 *
 * What holds for all: the program does the same calls in the same order, on the same threads; what
 * a change makes it do otherwise (take another branch, wait elsewhere) is not known. How long a
 * kernel takes does not depend on what runs beside it, nor on its clock or caches. Where a thread
 * did something else between two calls it takes as long as before, unless host time is scaled.
 *
 * Each returns how many works or calls it changed, or a negative errno; -EINVAL: a factor that is
 * not more than 0 and finite, a count of 0. They can be combined; each works on what the ones
 * before it made.
 */
#ifndef TS_CORE_WHATIF_H
#define TS_CORE_WHATIF_H

#include "core/plan/plan.h"

#define WHATIF_STREAMS_MAX 1024 /* of a device */
#define WHATIF_DEVICES_MAX 64	/* of a process */

/* Whether an op is meant, by its name, kind and so on: the client's to know. */
struct whatif_match {
	bool (*match)(void *data, const struct op *op);
	void *data;
};

/* Works run for so many times their time. */
int64_t whatif_scale(struct plan *plan, const struct whatif_match *match, double factor);
/* Calls take so many times the time that they take where they have to wait for nothing. */
int64_t whatif_scale_calls(struct plan *plan, const struct whatif_match *match, double factor);
/* Threads take so many times the time between calls. */
int64_t whatif_scale_host(struct plan *plan, double factor);

/* Works take no time, nor do the calls that submit nothing else, and neither comes out; likewise
 * calls that submit nothing. What waited for them waits for what they waited for; what the thread
 * did before such a call it still does. */
int64_t whatif_drop(struct plan *plan, const struct whatif_match *match);

/* Every launch begins on the device no sooner than so long after its call, and no later if only
 * the launch kept it; and a launching call takes the host no longer than that. 0: launches cost
 * nothing. Not of graphs' nodes but the first. */
int64_t whatif_launch_latency(struct plan *plan, uint64_t ns);

/* Copies between host and device take 1/factor of the time; but what the fastest one of its
 * direction took, if that was a small one, stays: it is not for its bytes. */
int64_t whatif_copy_bandwidth(struct plan *plan, double factor);

/* Host waits return at once, also those of copies that wait; but the last of a thread waits for all
 * that they waited for. Keeps the limits of queues. That the host needed what it waited for (a
 * result to branch on, a buffer to fill again) is not known. */
int64_t whatif_no_sync(struct plan *plan);

/* The works of each device are on so many streams. Fewer: streams are joined in turn, in the order
 * of submission. More: the works of a stream go round its parts; what events, host waits and the
 * default stream asked for still holds for all its parts, but the order that only the stream gave
 * is gone. So that a copy to the device stays before the kernels that it is for, and they before
 * the copy back, they go round together: what comes after a copy to the device, up to the next one
 * that follows other work. On a stream without such copies each work goes on its own: that the one
 * needed what the other made is not known. A launch of a graph is one work. */
int64_t whatif_streams(struct plan *plan, uint32_t count);

/* The streams of each process are dealt out to so many devices like its first. Copies between the
 * devices that this needs are not known. */
int64_t whatif_devices(struct plan *plan, uint32_t count);

/* The launches, copies, sets and events of each thread between two host waits, within the window,
 * become one launch of a graph: one call remains, the first, and what the thread did between them
 * goes, too; `gap_ns` from a kernel, set or copy on the device to the next of its stream, where it
 * was no less. That a graph can be made of them, and what it costs to make it once, is not known.
 */
int64_t whatif_graph(struct plan *plan, uint64_t since_ns, uint64_t until_ns, uint64_t gap_ns);

#endif
