/* emulate.h: runs a plan again: a discrete-event simulation of host threads, streams, copy engines
 * and devices.
 *
 * A plan that was not changed gives the times of the recording. whatif.h changes one.
 */
#ifndef TS_CORE_EMULATE_H
#define TS_CORE_EMULATE_H

#include "core/critical.h"
#include "core/plan.h"

/* Where nothing limits an engine its width is that of the recording. */
struct emulate_result {
	struct plan_times *times; /* the caller's, to be freed */
	uint64_t makespan_ns;
	uint64_t busy_ns;	/* at least one work ran on any device */
	uint64_t device_ns[16]; /* the same of the first devices */
};

/* -ELOOP: its edges go in a circle. */
int emulate(const struct plan *plan, struct emulate_result *ret);

/* How well an emulation reproduces the recording. */
struct emulate_error {
	uint64_t recorded_ns, emulated_ns; /* makespans */
	uint64_t p50_ns, p99_ns, max_ns;   /* of how far starts of works are apart */
	uint32_t disorder;		   /* works that are not in their stream's order */
};
int emulate_compare(const struct plan *plan, const struct plan_times *times,
		    struct emulate_error *ret);

/* The ops of the plan with the times of an emulation, sorted by start_ns; dropped ones are left
 * out. States are not among them: their machines run again where the file is read. */
int emulate_ops(const struct plan *plan, const struct plan_times *times, struct op **ret,
		size_t *ret_count);

#endif
