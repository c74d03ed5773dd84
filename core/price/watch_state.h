/* watch_state.h: what a watch has seen of a process and does with it now, and the price that this
 * shows. Pure.
 */
#ifndef TS_PRICE_WATCH_STATE_H
#define TS_PRICE_WATCH_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/interval.h"
#include "core/base/time.h"
#include "core/price/between.h"

struct watch_config {
	double budget;	      /* share of the speed, such as 0.01; 0: none, watch whole */
	uint64_t hit_ns;      /* what a hit costs on this host, as calibrated */
	uint64_t turn_ns;     /* at least this long, 0: as short as links allow */
	uint64_t cold_hit_ns; /* of a cold one, 0: as a hot one */
	/* To begin and end a window costs the process something by itself, by estimate this; 0:
	 * nothing. */
	uint64_t switch_ns;
	double rest; /* what the process pays between windows, too; as a share of its time */
	bool closed; /* no window is opened any more */
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

/* A window with the time before it that it stands for, or time after one for which that stands. A
 * watched program takes longer, by what each hit costs it, so an unwatched one makes more calls. */
struct watch_cycle {
	uint64_t start_ns, end_ns, watched_ns;
	uint64_t opened_ns; /* of the window, or of the last one before */
	uint64_t hits;	    /* hot calls seen */
	int64_t missed;	    /* and made besides as far as these tell; see error2 */
	uint64_t missed_by; /* how far `missed` may be off for the price alone */
	/* The square of how far by chance, as one standard deviation. Less than 0: what was
	 * reported of the gap before the window of opened_ns ended was too much; it lasts no time.
	 */
	int64_t error2;
	bool window; /* it has one; without, it goes on, or has ended before */
};

/* A tick ends two at most, with a correction, and as many if its budget changes. */
#define WATCH_CYCLES 8

struct watch {
	struct watch_config config;
	enum watch_phase phase;
	bool opened;	    /* the links were open at the last tick */
	bool after;	    /* what the window is compared with comes after it */
	uint64_t seed;	    /* of its random times */
	uint64_t since_ns;  /* start of the phase, 0: the links are not yet as it wants them */
	uint64_t length_ns; /* of a gap or a window, at least */
	uint64_t parted_ns; /* since then it is not watched whole, 0: it is */
	uint64_t window_ns; /* of the last window */
	/* Start of the last time that it was watched; what is guessed of the time since; and what
	 * of that is less than a call, or was reported too high. */
	uint64_t opened_ns;
	struct between between;
	double missed_part;
	uint64_t colds, missed_colds;	 /* since `since_ns`, watched; since `last_ns`, not */
	uint64_t off_ns;		 /* of what it is compared with */
	uint64_t open_ns;		 /* in this cycle */
	uint64_t ticked_ns, last_ns;	 /* up to when cycles are told */
	double on_ns, all_ns;		 /* lately watched, and in all */
	double windows_ns, windows_hits; /* lately in windows */
	struct watch_cycle cycle[WATCH_CYCLES]; /* until they are taken */
	uint32_t cycles;
	struct pace on, off;	     /* of the pair */
	uint64_t switch_ns;	     /* of the cycle, in which links changed */
	uint32_t switch_calls;	     /* cold ones in that time */
	double lost_ns, lost_cycles; /* lately, by switching */
	uint64_t hits;		     /* since `since_ns`; in WATCH_WHOLE in the current second, */
	uint64_t due_hits;	     /* enough of them to judge it before its end */
	bool foretold;		     /* `rate` was known before it was watched */
	double rate;		     /* hits per second while watched, lately */
	uint64_t cold_hits;	     /* in the current second */
	uint64_t cold_ns;	     /* when that began */
	double had;	   /* share of the time in which it did not wait for a processor */
	uint32_t threads;  /* that make hot calls, lately */
	double cold_rate;  /* hits per second, lately */
	double share;	   /* of the time that windows are to have */
	double known_rate; /* at which the last window was judged, */
	uint64_t known_ns; /* then; 0: none was */
	double cheap_rate; /* at which it was found cheap, until cheap_ns */
	uint64_t cheap_ns;
	uint32_t paceless;		   /* pairs without a pace, in a row */
	uint32_t pairs;			   /* measured in all */
	uint32_t wanted;		   /* before the budget is kept by them */
	bool asked;			   /* somebody waits for them */
	uint64_t began_ns, spent_ns;	   /* when they began, and the time open since then */
	bool planned;			   /* it is */
	uint64_t turned_ns;		   /* end of the last one */
	double pair[INTERVAL_SAMPLES_MAX]; /* logarithm of the ratio of times, the last ones */
	struct interval middle; /* of them: by which part the time grows; zero without any */
};

/* Whether one turn follows the other, in order to have a price soon. */
bool watch_is_measuring(const struct watch *watch);
/* Its cold calls are too rare to show a pace. */
bool watch_is_paceless(const struct watch *watch);

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

/* For watch.c: */

/* A turn is as long as the calls need that a pace takes, but at least this: a kernel needs some
 * 50 ms to put probes in or take them out. */
#define WATCH_TURN_MIN_NS (250 * NS_PER_MS)
#define WATCH_PAIRS_MIN	  6 /* to judge by */

/* The shortest turn for now. */
uint64_t watch_turn_ns(const struct watch *watch);

/* Hits times the price of one. */
double watch_estimate(const struct watch *watch);
/* The price to keep the budget by: on the safe side of what was measured. */
double watch_judged(const struct watch *watch);
/* What calls that are always seen cost: a share of the time. */
double watch_cold_share(const struct watch *watch);
/* What a hit was found to cost at most, as a part of the estimate: little if it is the GPU that the
 * program waits for. */
double watch_cold_part(const struct watch *watch);
/* What they leave of the budget. */
double watch_budget(const struct watch *watch);
/* Within that, as far as known. */
bool watch_is_cheap(const struct watch *watch);
/* Watched whole, that many hits a second cost too much. */
bool watch_is_dear(const struct watch *watch, double rate);
/* How many of a second are too many, whatever comes in the rest of it: of a process of which
 * nothing is known yet. 0: none. */
uint64_t watch_too_many(const struct watch *watch);

/* By how much the process falls behind in a cycle, for the switches; which part of a window's
 * length that is. */
double watch_switch_ns(const struct watch *watch);
double watch_switch_part(const struct watch *watch);
/* What a hit takes of the time, so that the calls of a window were made in the rest of it. */
double watch_hit_price_ns(const struct watch *watch);
/* Unwatched, it makes more calls by its price. How far that may be off, as a share of them. */
double watch_unsure(const struct watch *watch);
/* watch_cycle.c. It was watched whole for that long. */
void watch_see(struct watch *watch, uint64_t passed_ns);
void watch_end_window(struct watch *watch, uint64_t now_ns);
/* The next window is about to open. */
void watch_halve_gap(struct watch *watch, uint64_t now_ns);
/* The gap goes on. */
void watch_note_gap(struct watch *watch, uint64_t now_ns);
/* Of the time, for windows: they come at least that often. */
double watch_share_min(const struct watch *watch);

#endif
