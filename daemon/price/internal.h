/* internal.h: shared by the files of the price. All of it belongs to the loop. */
#ifndef TS_DAEMON_PRICE_INTERNAL_H
#define TS_DAEMON_PRICE_INTERNAL_H

#include "core/base/list.h"
#include "core/base/map.h"
#include "core/price/callers.h"
#include "core/price/halt.h"
#include "core/price/tally.h"
#include "core/price/walks.h"
#include "daemon/library/library.h"
#include "daemon/price/price.h"

struct priced {
	struct list link;
	uint32_t pid;
	struct watch watch;
	uint64_t hot_ns;	/* the last hot call */
	bool exact;		/* records of the exact tier come and go with the links */
	bool recorded;		/* they are always there, */
	uint64_t parted_ns;	/* since when it is told not to be watched whole, 0: it is not, */
	enum price_part parted; /* by this */
	bool rest;		/* CUPTI is to rest between windows: that is cheap enough */
	bool offered;		/* to report its hot calls itself, if its budget asks for windows */
	double kept;		/* and the library itself keeps this budget, 0: none */
	/* What a hot call costs that our library in it reports, 0: it reports none; and a walk of
	 * its stack there, 0: it walks none. */
	uint64_t inside_ns, walk_ns;
	struct tally tally;
	struct walks walks;
	struct callers callers;
	struct halt halt;
	uint64_t received, lost, counted; /* hot calls; the last, when they were last counted */
	uint64_t noded;			  /* `received`, when nodes were last told */
	double nodes, node_calls;	  /* parts of graphs recorded lately, and hot calls made */
	uint64_t reported_ns;		  /* when this was last looked at */
	struct price_told reported, reported_walks, reported_inside;
	struct given_budget {
		bool set;
		double budget;
		uint64_t until_ns; /* 0: as long as it runs */
	} given[PRICE_GIVERS];
};

struct price {
	uv_loop_t *loop;
	uv_timer_t timer;
	struct libraries *libraries;
	struct price_config config;
	struct price_callbacks callbacks;
	void *data;
	void (*closed)(void *data);
	struct list processes;
	struct map by_pid;
	struct priced *last; /* found */
	bool hot[PROBE_FUNCTIONS_MAX], report[PROBE_FUNCTIONS_MAX];
};

/* price.c */
struct priced *price_find(struct price *price, uint32_t pid);
void price_run(struct price *price, uint64_t ms);
/* The budget that somebody gave it, NULL: nobody did. A recording leaves that of the exact tier,
 * which somebody asked for. */
const struct given_budget *priced_given(const struct priced *priced);
/* That is told: with records it is the price of both, in windows or not. */
enum price_part priced_told_part(const struct priced *priced);

/* told.c */
/* Since when it is not watched whole, 0: it is. */
void price_tell_parts(struct price *price, struct priced *priced, uint64_t since_ns,
		      uint64_t now_ns);
void price_take_cycle(struct price *price, struct priced *priced);
/* What the exact tier recorded outside of cycles. */
void price_take_whole(struct price *price, struct priced *priced, bool recorded, uint64_t now_ns);
/* Nothing is known of this part any more. */
void price_report_nothing(struct price *price, const struct priced *priced, enum price_part part);
void price_report(struct price *price, struct priced *priced, uint64_t now_ns);

/* rest.c */
#define REST_TURN_NS NS_PER_S /* the shortest window of the exact tier */
void rest_choose(struct priced *priced, const struct price_tier *tier);

#endif
