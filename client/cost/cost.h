/* cost.h: what tracing costs one process, as the daemon knows it, and what other settings would
 * make of it. Shares are in parts per million. */
#ifndef TS_CLIENT_COST_H
#define TS_CLIENT_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/link/link.h"

#define COST_PPM	 1e6
#define COST_PERCENT_PPM 1e4
#define COST_PARTS_MAX	 8
#define COST_TEXT	 32

/* With its interval of 90 %, if it was measured. */
struct cost_share {
	int64_t middle, low, high;
	bool measured; /* false: there is no interval */
};

struct cost_part {
	char name[COST_TEXT], basis[COST_TEXT];
	struct cost_share cost, whole;
	int64_t watched, cold, cpu, calls_per_s, hit_ns, turns, turned_ns;
	uint32_t records; /* enum ts_records, 0: nothing of the exact tier */
	bool inside;	  /* our library in the process reports its frequent calls */
	bool over;
};

struct cost {
	uint32_t pid;
	uint64_t now_ns; /* of the daemon */
	char comm[COST_TEXT];
	int64_t budget, until_ns; /* 0: none */
	bool setting_known;	  /* of the probes: */
	int64_t setting;	  /* the budget that `tsctl budget PID default` gives it, 0: none */
	int64_t cycles;		  /* how often CUPTI was taken out of the process */
	size_t count;
	struct cost_part part[COST_PARTS_MAX];
	struct cost_share sum;
	size_t summed; /* parts in it */
	char *note;    /* of the daemon, if it knows nothing */
};

/* `cost` has a pid and is zero otherwise. Errors are printed. */
int cost_ask(struct link *link, struct cost *cost);
void cost_done(struct cost *cost);

bool cost_part_is(const struct cost_part *part, const char *name);
/* Parts differ: that which is measured, with everything that comes and goes with it; and what is a
 * share of that ("stacks", "stacks-inside"), or costs no speed ("thread"): that adds nothing. */
bool cost_part_adds(const struct cost_part *part);
/* That which the budget bounds, or NULL. */
const struct cost_part *cost_budgeted(const struct cost *cost);
const struct cost_part *cost_find(const struct cost *cost, const char *name);

/* foresee.c */
enum foreseen_kind { FORESEEN_BUDGET, FORESEEN_STACKS, FORESEEN_LIGHT, FORESEEN_RECORDS };
struct foreseen {
	enum foreseen_kind kind;
	char setting[2 * COST_TEXT]; /* as it is given */
	int64_t budget;		     /* BUDGET: 0: none */
	struct cost_share then;	     /* of the part that the budget bounds */
	int64_t watched;
	/* Estimated from so many calls or walks a second, at so much each. BUDGET: 0. */
	int64_t rate;
	int64_t each_low_ns, each_high_ns;
};
#define FORESEEN_MAX 12
/* What would change something; the number of them. */
size_t cost_foresee(const struct cost *cost, struct foreseen ret[FORESEEN_MAX]);

/* write.c */
void cost_write_text(const struct cost *cost);
void cost_write_json(const struct cost *cost);

#endif
