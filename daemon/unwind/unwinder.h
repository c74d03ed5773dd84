/* unwinder.h: walks the stacks that the BPF programs could not, and files the rules that they
 * lacked. Files are read by a thread; neither the loop nor the ring waits for it for long.
 */
#ifndef TS_UNWINDER_H
#define TS_UNWINDER_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "bpf/probe.h"
#include "daemon/maps/maps.h"
#include "daemon/unwind/unwound.h"

struct unwinder;

struct unwinder_config {
	struct rule_slot *slots; /* that the programs read */
	uint32_t mask;		 /* of the sets that are used */
	/* On the loop, once for each miss; may take the next one. */
	void (*done)(void *data, const struct unwound *unwound);
	void *data;
};

int unwinder_new(uv_loop_t *loop, struct maps *maps, const struct unwinder_config *config,
		 struct unwinder **ret);
/* What is under way ends unanswered. Takes NULL, too. */
void unwinder_close(struct unwinder *unwinder, void (*closed)(void *data));

/* Takes a copy. UNWINDER_DONE: `done` was called, with the whole stack as all its rules are filed
 * by now, or with the frames that are known, as there is no time for more, or it comes too late
 * (`late`). -EBADMSG: not a miss; -EBUSY: the last one is not done; -EAGAIN: the mappings of its
 * process are not known yet. */
enum { UNWINDER_DONE = 1 };
int unwinder_take(struct unwinder *unwinder, const void *miss, size_t size, bool late);

struct unwinder_stats {
	uint64_t walks, filed, replaced; /* stacks; rules, and those that had to go for them */
	uint64_t linked;		 /* stacks with frames that have no rules */
	uint64_t late;			 /* that took too long */
	uint64_t cut;			 /* that end where they were for lack of time, with those */
	uint64_t end[TS_END_COUNT];
};
void unwinder_stats(const struct unwinder *unwinder, struct unwinder_stats *ret);

#endif
