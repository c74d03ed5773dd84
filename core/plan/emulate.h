/* emulate.h: runs a plan: a discrete-event simulation of host threads, streams, copy engines and
 * devices.
 *
 * An unchanged plan gives the times of the recording, to the nanosecond. whatif.h changes one. How
 * long a work takes does not depend on what runs next to it: the effect of shared memory bandwidth
 * or caches is unknown. Processes are assumed to share nothing.
 */
#ifndef TS_CORE_EMULATE_H
#define TS_CORE_EMULATE_H

#include "core/plan/critical.h"
#include "core/plan/plan.h"

#define EMULATE_DEVICES_MAX 16

struct emulate_result {
	struct plan_times *times; /* the caller's, to be freed */
	uint64_t makespan_ns;
};

/* -ELOOP: its edges are circular; -E2BIG, -ENOMEM. */
int emulate(const struct plan *plan, struct emulate_result *ret);

/* How long at least one work ran: on any device, on each of the first devices of the plan, and on
 * each kind of engine of any device. */
struct emulate_busy {
	uint64_t any_ns;
	uint64_t device_ns[EMULATE_DEVICES_MAX];
	uint64_t engine_ns[PLAN_ENGINE_COUNT];
};
int emulate_busy(const struct plan *plan, const struct plan_times *times, struct emulate_busy *ret);

/* How well an emulation reproduces the recording. */
struct emulate_error {
	uint64_t recorded_ns, emulated_ns; /* makespans */
	uint64_t p50_ns, p99_ns, max_ns;   /* of differences between starts of works */
	uint32_t disorder;		   /* works out of their stream's order */
};
int emulate_compare(const struct plan *plan, const struct plan_times *times,
		    struct emulate_error *ret);

/* The ops of the plan with the times of an emulation, sorted by start_ns, to be freed; dropped ones
 * are left out, as are ops that are neither call nor work: ranges, and states, which the state
 * machines compute again when the file is read. */
int emulate_ops(const struct plan *plan, const struct plan_times *times, struct op **ret,
		size_t *ret_count);

#endif
