/* watch.h: when to watch the hot calls of a process, so that this costs it no more of its speed
 * than its budget allows, and what watching them all the time would cost. Pure.
 *
 * A process is watched whole until an estimate (hits times the price of one) comes near its budget.
 * Then it is watched in windows at random times, and each window is a measurement: a turn that is
 * watched and one next to it that is not, in either order, whose paces are compared. Pace is the
 * mean time from one cold call, which is always seen, to the next. The price is the middle of the
 * ratios of the last turns, with its interval; the share of windows follows from it, and a process
 * that turns out cheap is watched whole again.
 *
 * Cold calls are always watched, so their price cannot be compared with anything: they cost what a
 * hit of a hot call was found to cost, and windows get what they leave of the budget.
 */
#ifndef TS_PRICE_WATCH_H
#define TS_PRICE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/interval.h"

struct watch_config {
	double budget;	      /* share of the speed, such as 0.01; 0: none, watch whole */
	uint64_t hit_ns;      /* what a hit costs on this host, as calibrated */
	uint64_t turn_ns;     /* at least this long, 0: as short as links allow */
	uint64_t cold_hit_ns; /* of a cold one, 0: as a hot one */
	bool switch_costs;    /* to begin and end a window costs the process something by itself */
};

/* Calls of a turn. */
struct pace {
	uint64_t first_ns, last_ns;
	uint32_t calls;
};

enum watch_phase {
	WATCH_WHOLE,
	WATCH_GAP,    /* not watched, at random */
	WATCH_BEFORE, /* not watched, and compared with the window that follows */
	WATCH_WINDOW,
	WATCH_AFTER, /* not watched, and compared with the window before it */
};

/* A window with the time around it that it stands for: from the end of the one before. A watched
 * program takes longer, by what each hit costs it, so an unwatched one makes more calls. */
struct watch_cycle {
	uint64_t start_ns, end_ns, watched_ns;
	uint64_t opened_ns;    /* of the window, or of the last one before */
	uint64_t hits, missed; /* hot calls seen, and made besides as far as these tell */
	uint64_t missed_by;    /* how far `missed` may be off for the price alone */
	bool window;	       /* it has one; without, it goes on, or has ended before */
};

struct watch {
	struct watch_config config;
	enum watch_phase phase;
	bool opened;	    /* the links were open at the last tick */
	bool after;	    /* what the window is compared with comes after it */
	uint64_t seed;	    /* of its random times */
	uint64_t since_ns;  /* start of the phase, 0: the links are not yet as it wants them */
	uint64_t length_ns; /* of a gap or a window, at least */
	uint64_t window_ns; /* of the last window */
	uint64_t opened_ns; /* its start */
	uint64_t window_hits;
	uint64_t off_ns;		 /* of what it is compared with */
	uint64_t open_ns;		 /* in this cycle */
	uint64_t ticked_ns, last_ns;	 /* the end of the cycle before */
	double on_ns, all_ns;		 /* lately watched, and in all */
	double windows_ns, windows_hits; /* lately in windows */
	struct watch_cycle cycle;	 /* the last one, until it is taken */
	struct pace on, off;		 /* of the pair */
	uint64_t switch_ns;		 /* of the cycle, in which links changed */
	uint32_t switch_calls;		 /* cold ones in that time */
	double lost_ns, lost_cycles;	 /* lately, by switching */
	uint64_t hits;	    /* since `since_ns`; in WATCH_WHOLE in the current second */
	double rate;	    /* hits per second while watched, lately */
	uint64_t cold_hits; /* in the current second */
	uint64_t cold_ns;   /* when that began */
	double had;	    /* share of the time in which it did not wait for a processor */
	double cold_rate;   /* hits per second, lately */
	double share;	    /* of the time that windows are to have */
	double known_rate;  /* at which the last window was judged, */
	uint64_t known_ns;  /* then; 0: none was */
	double cheap_rate;  /* at which it was found cheap, until cheap_ns */
	uint64_t cheap_ns;
	uint32_t paceless;		   /* pairs without a pace, in a row */
	uint32_t pairs;			   /* measured in all */
	uint32_t wanted;		   /* before the budget is kept by them */
	bool planned;			   /* it is */
	uint64_t turned_ns;		   /* end of the last one */
	double pair[INTERVAL_SAMPLES_MAX]; /* logarithm of the ratio of times, the last ones */
	struct interval middle; /* of them: by which part the time grows; zero without any */
};

/* Watches whole. */
void watch_init(struct watch *watch, const struct watch_config *config, uint64_t seed);
/* Another budget or another price of a hit; what was measured stays. */
void watch_configure(struct watch *watch, const struct watch_config *config);
/* Starts a new measurement now, even if it seems cheap. The result takes this many pairs. */
#define WATCH_MEASURE_PAIRS 12
void watch_measure(struct watch *watch);
/* Whether one turn follows the other, in order to have a price soon. */
bool watch_is_measuring(const struct watch *watch);
/* Its cold calls are too rare to show a pace. */
bool watch_is_paceless(const struct watch *watch);

/* A hot call, seen while the links were open. */
void watch_hit(struct watch *watch);
/* Hot calls that were made then, but got lost. */
void watch_lost_hits(struct watch *watch, uint64_t hits);
/* It makes its calls in this share of the time, at most 1: in the rest it waits for a processor. */
void watch_had(struct watch *watch, double share);
/* A call that is always seen, of a thread that also makes hot ones; in the order of time. */
void watch_cold(struct watch *watch, uint64_t time_ns);
/* What calls that are always seen hit, of all threads: one probe each, or two. */
void watch_cold_hits(struct watch *watch, uint32_t hits);

/* Whether it wants the links open now. */
bool watch_is_open(const struct watch *watch);

/* Whether the links are wanted open. `open`: they are. Call every few milliseconds while this says
 * other than watch whole, otherwise at least every second. */
bool watch_tick(struct watch *watch, uint64_t now_ns, bool open);

/* When a gap ends: until then a tick has nothing to decide. 0: it may; UINT64_MAX: the process is
 * watched whole. */
uint64_t watch_rests_until(const struct watch *watch);

/* The process ends: so does its cycle. */
void watch_end(struct watch *watch, uint64_t now_ns);
/* The cycle that ended since the last time. */
bool watch_take_cycle(struct watch *watch, struct watch_cycle *ret);

enum watch_basis {
	WATCH_ESTIMATED, /* hits times the price of one: no interval */
	WATCH_MEASURED,
};

/* Shares of the time that the process would need without: 0.05 is 5 % more. */
struct watch_price {
	enum watch_basis basis;
	double whole, whole_low, whole_high; /* if watched all the time */
	double now, now_low, now_high;	     /* as it is watched */
	double cold;			     /* the part of both for calls that are always seen */
	double share;			     /* of the time, in windows; 1: watched whole */
	uint32_t pairs;			     /* that it rests on */
	uint64_t turned_ns;		     /* end of the last one; 0: none */
	bool over;			     /* the budget cannot be kept with fewer windows */
	double rate, cold_rate; /* hits per second, of hot calls while they are watched */
};
struct watch_price watch_price(const struct watch *watch);

#endif
