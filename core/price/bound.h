/* bound.h: how much CPU time a process may spend in the traps of its probes, so that no program can
 * stall a host through us. Pure.
 *
 * A trap cannot be preempted where the kernel needs a CPU most: where programs run into probes flat
 * out, its per-CPU workers starve. So who spends more than a share of one CPU there runs up a debt;
 * who owes more than some time's worth is left out: of the group of functions that it called so
 * often, or of several. It is let in again after a while, which doubles each time that it goes on.
 */
#ifndef TS_PRICE_BOUND_H
#define TS_PRICE_BOUND_H

#include <stdbool.h>
#include <stdint.h>

#define BOUND_GROUPS 3

struct bound_config {
	double limit;	   /* share of one CPU, such as 0.5; 0: none */
	uint64_t burst_ns; /* it may owe what the limit is worth in this time */
	uint64_t min_ns;   /* it is left out at first for this long, */
	uint64_t max_ns;   /* and at most */
};

struct bound {
	uint64_t ticked_ns;
	double debt_ns;		       /* beyond the limit */
	uint64_t since_ns;	       /* since then it has one, */
	double spent_ns[BOUND_GROUPS]; /* and has spent this */
	bool out[BOUND_GROUPS];
	uint64_t until_ns;  /* while it is out of any */
	uint64_t length_ns; /* of the last time */
	uint64_t back_ns;   /* the end of it */
	double share;	    /* of one CPU, spent when it was put out */
};

/* `spent_ns`: in traps since the last call, by group. True: `out` has changed. */
bool bound_tick(struct bound *bound, const struct bound_config *config, uint64_t now_ns,
		const double spent_ns[BOUND_GROUPS]);

/* Whether that would put it out. */
bool bound_is_due(const struct bound *bound, const struct bound_config *config, uint64_t now_ns,
		  const double spent_ns[BOUND_GROUPS]);
/* It owes nothing any more. */
void bound_forgive(struct bound *bound);

/* It is left out of the group in which it spends most, whatever the limit: the host needs that.
 * `spent_ns`: lately, in `lately_ns`. False: it is out of all in which it spent anything. */
bool bound_put_out(struct bound *bound, const struct bound_config *config, uint64_t now_ns,
		   const double spent_ns[BOUND_GROUPS], uint64_t lately_ns);

bool bound_is_out(const struct bound *bound);

#endif
