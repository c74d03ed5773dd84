/* leak_shapes.h: programs by name, and what the verdict on each of their stacks must be in the end.
 * A seed draws each with other speeds, sizes and noise. Thresholds were chosen with these. */
#ifndef TS_LEAK_SHAPES_H
#define TS_LEAK_SHAPES_H

#include "leak_program.h"

#define V(name) (1u << VERDICT_##name)
#define RESTS	(V(HEALTHY) | V(HELD) | V(CACHE))
#define FULL	(V(CACHE) | V(HELD))
#define NO_LEAK (RESTS | V(GROWING))
#define A_LEAK	.leaks = true, .want = V(LEAK)
#define SMALL	.bytes = 1024
#define HOURS	3600.

#define WEIGHTS                                                                                    \
	{                                                                                          \
		LOADS, .count = 300, .for_s = 8, .want = V(HELD)                                   \
	}
#define STEPS(s)                                                                                   \
	{                                                                                          \
		TRAFFIC, .count = 3, .life_s = (s), .want = V(HEALTHY) | V(CACHE)                  \
	}
/* One in a hundred is kept ten times as long. */
#define UNEVEN(s)                                                                                  \
	{                                                                                          \
		TRAFFIC, .count = 6, .life_s = (s), .tail = 3, .part = 0.01, .rate = 10,           \
			 .want = RESTS                                                             \
	}

struct shape {
	const char *name;
	/* For longer than a verdict may take, it is as a leak is: it may be called one for a time.
	 */
	bool as_a_leak;
	double step_s, hours;
	unsigned int launches;
	double daily, gap_every_s, gap_s, idle_from_s, slower_at_s, attach_at_s, restart_at_s;
	struct site site[SITES_MAX];
};

static const struct shape shapes[] = {
	/* What does not leak */
	{ "weights", .step_s = 0.1, .hours = 1, .launches = 50, .site = { WEIGHTS, STEPS(0.1) } },
	{ "weights-40s", .step_s = 0.2, .hours = 1, .launches = 50,
	  .site = { { LOADS, .count = 900, .for_s = 28, .want = V(HELD) }, STEPS(0.2) } },
	{ "weights-then-nothing", .step_s = 0.1, .hours = 24, .idle_from_s = 30,
	  .site = { WEIGHTS } },
	{ "cache-of-rare-keys", true, .step_s = 1, .hours = 24, .launches = 50,
	  .site = { WEIGHTS,
		    STEPS(1),
		    { FILLS, .count = 4000, .rate = 3, .tail = 2, .want = NO_LEAK } } },
	{ "cache-of-popular", .step_s = 0.2, .hours = 6, .launches = 20,
	  .site = { STEPS(0.2), { FILLS, .count = 2000, .rate = 40, .tail = 1, .want = FULL } } },
	{ "cache", .step_s = 0.1, .hours = 2, .launches = 20,
	  .site = { STEPS(0.1), { FILLS, .count = 1000, .rate = 10, .want = FULL } } },
	{ "cache-of-two-minutes", .step_s = 0.1, .hours = 2, .launches = 20,
	  .site = { STEPS(0.1), { FILLS, .count = 4000, .rate = 4, .want = FULL } } },
	{ "cache-evicts", .step_s = 0.5, .hours = 12, .launches = 20,
	  .site = { { EVICTS, .count = 400, .rate = 8, .want = V(CACHE) } } },
	{ "lru", .step_s = 0.1, .hours = 4, .launches = 10,
	  .site = { STEPS(0.1), { ROLLS, .count = 200, .rate = 1.2, .want = V(CACHE) } } },
	{ "prefetch", .step_s = 0.3, .hours = 4, .launches = 100,
	  .site = { WEIGHTS, { ROLLS, .count = 16, .rate = 1, .want = V(CACHE) | V(HEALTHY) } } },
	{ "sequences-by-concatenation", .step_s = 0.05, .hours = 0.5, .launches = 200,
	  .site = { WEIGHTS, { SEQUENCES, .count = 8, .part = 0.005, .want = RESTS } } },
	{ "sequences-by-pages", .step_s = 0.05, .hours = 1, .launches = 200,
	  .site = { WEIGHTS,
		    { PAGES, .count = 8, .rate = 16, .life_s = 6, .tail = 1, .want = RESTS } } },
	{ "long-sequences-by-pages", .step_s = 0.2, .hours = 8, .launches = 100,
	  .site = { { PAGES, .count = 12, .rate = 16, .life_s = 20, .tail = 0, .want = RESTS } } },
	{ "kv-doubles", .step_s = 0.1, .hours = 4, .launches = 60,
	  .site = { STEPS(0.1),
		    { DOUBLES, .count = 14, .life_s = 0.3, .bytes = 4096, .want = RESTS } } },
	{ "kv-doubles-for-hours", .step_s = 1, .hours = 24, .launches = 60,
	  .site = { STEPS(1),
		    { DOUBLES, .count = 14, .life_s = 2, .bytes = 4096, .want = NO_LEAK } } },
	{ "workspace", .step_s = 0.2, .hours = 6, .launches = 40,
	  .site = { STEPS(0.2),
		    { REGROWS, .count = 30, .life_s = 60, .bytes = 1 << 20, .want = RESTS } } },
	{ "epochs", .step_s = 0.1, .hours = 3, .launches = 30,
	  .site = { STEPS(0.1),
		    { SAWTOOTH, .rate = 2, .life_s = 25, .part = 0.05, .want = RESTS } } },
	{ "uneven-epochs", .step_s = 0.1, .hours = 3, .launches = 30,
	  .site = { STEPS(0.1),
		    { SAWTOOTH, .rate = 1, .life_s = 20, .part = 0.6, .want = RESTS } } },
	{ "long-epochs-of-few-blocks", .step_s = 2, .hours = 24, .launches = 30,
	  .site = { STEPS(2),
		    { SAWTOOTH, .rate = 0.004, .life_s = 3600, .part = 0.1, .want = NO_LEAK } } },
	{ "evaluation", .step_s = 0.5, .hours = 8, .launches = 40,
	  .site = { STEPS(0.5),
		    { EVALUATES, .rate = 4, .life_s = 600, .for_s = 25, .want = RESTS } } },
	{ "evaluation-at-night", .step_s = 2, .hours = 24, .launches = 40,
	  .site = { STEPS(2),
		    { EVALUATES, .rate = 2, .life_s = 21600, .for_s = 24, .from_s = 7200,
		      .want = RESTS } } },
	{ "checkpoints", .step_s = 1, .hours = 24, .launches = 40,
	  .site = { STEPS(1),
		    { KEEPS_LAST, .count = 20, .life_s = 600, .part = 5, .want = V(CACHE) } } },
	{ "ten-checkpoints", .step_s = 0.5, .hours = 6, .launches = 40,
	  .site = { STEPS(0.5),
		    { KEEPS_LAST, .count = 6, .life_s = 45, .part = 10, .want = V(CACHE) } } },
	{ "optimizer-states", .step_s = 0.3, .hours = 3, .launches = 300,
	  .site = { WEIGHTS,
		    { LOADS, .count = 600, .for_s = 2, .from_s = 40, .want = V(HELD) },
		    STEPS(0.3) } },
	{ "unfreezing", .step_s = 1, .hours = 24, .launches = 100,
	  .site = { STEPS(1),
		    { STAGES, .count = 144, .part = 12, .life_s = 900, .for_s = 2,
		      .want = NO_LEAK } } },
	{ "unfreezing-soon", .step_s = 0.2, .hours = 4, .launches = 100,
	  .site = { STEPS(0.2),
		    { STAGES, .count = 60, .part = 10, .life_s = 40, .for_s = 1,
		      .want = NO_LEAK } } },
	{ "segments", .step_s = 0.2, .hours = 12, .launches = 100,
	  .site = { { FILLS, .count = 80, .rate = 1, .tail = 2, .bytes = 20 << 20,
		      .want = NO_LEAK } } },
	{ "segments-of-shapes", true, .step_s = 1, .hours = 24, .launches = 200,
	  .site = { STEPS(1),
		    { FILLS, .count = 600, .rate = 2, .tail = 2, .bytes = 2 << 20,
		      .want = NO_LEAK } } },
	{ "server-by-day", .step_s = 3, .hours = 24, .launches = 10, .daily = 0.9,
	  .site = { WEIGHTS, { SESSIONS, .count = 2, .life_s = 15, .tail = 1, .want = RESTS } } },
	{ "long-sessions-by-day", .step_s = 4, .hours = 24, .launches = 10, .daily = 0.7,
	  .site = { { SESSIONS, .count = 3, .life_s = 25, .tail = 2, .want = NO_LEAK } } },
	{ "load-rises", .step_s = 1, .hours = 24, .launches = 5,
	  .site = { WEIGHTS,
		    { TRAFFIC, .count = 5, .life_s = 12, .for_s = 8 * HOURS, .tail = 1,
		      .want = NO_LEAK } } },
	{ "load-rises-soon", .step_s = 0.1, .hours = 2, .launches = 5,
	  .site = { { TRAFFIC, .count = 5, .life_s = 6, .for_s = 900, .want = RESTS } } },
	{ "churn", .step_s = 0.1, .hours = 4, .launches = 5,
	  .site = { { POOLS, .count = 200, .rate = 0.3, .want = FULL } } },
	{ "few-live-longer", .step_s = 0.05, .hours = 1, .launches = 50, .site = { UNEVEN(0.5) } },
	{ "heavy-tail", .step_s = 0.2, .hours = 8, .launches = 20,
	  .site = { { TRAFFIC, .count = 4, .life_s = 0.5, .tail = 2, .want = NO_LEAK } } },
	{ "in-the-middle-of-epochs", .step_s = 0.1, .hours = 2, .launches = 30, .attach_at_s = 65,
	  .site = { { SAWTOOTH, .rate = 2, .life_s = 30, .part = 0.1, .want = RESTS } } },
	{ "in-the-middle-of-a-cache", .step_s = 0.3, .hours = 8, .launches = 30, .attach_at_s = 400,
	  .site = { { ROLLS, .count = 40, .rate = 0.6, .want = RESTS } } },
	{ "windows", .step_s = 0.05, .hours = 1, .launches = 30, .gap_every_s = 10, .gap_s = 5,
	  .site = { STEPS(0.4),
		    { SAWTOOTH, .rate = 2, .life_s = 8, .part = 0.2, .want = NO_LEAK } } },
	{ "gaps", .step_s = 0.5, .hours = 12, .launches = 30, .gap_every_s = 700, .gap_s = 20,
	  .site = { STEPS(2), { ROLLS, .count = 40, .rate = 1, .want = RESTS } } },
	{ "milliseconds", .step_s = 0.002, .hours = 0.08, .launches = 9,
	  .site = { STEPS(0.004),
		    { SAWTOOTH, .rate = 0.3, .life_s = 1, .part = 0.1, .want = RESTS } } },
	{ "hours", .step_s = 600, .hours = 24 * 14, .launches = 9,
	  .site = { STEPS(1200),
		    { ROLLS, .count = 12, .rate = 1, .want = V(CACHE) | V(HEALTHY) } } },
	{ "many-shapes", .step_s = 0.3, .hours = 3, .launches = 100,
	  .site = { { FILLS, .count = 40, .rate = 1, .tail = 2, .want = NO_LEAK },
		    { FILLS, .count = 60, .rate = 1, .tail = 2, .want = NO_LEAK },
		    { FILLS, .count = 90, .rate = 1, .tail = 2, .want = NO_LEAK },
		    { FILLS, .count = 30, .rate = 1, .tail = 1, .want = NO_LEAK },
		    STEPS(0.3) } },
	/* For a time nobody can tell it from a leak. */
	{ "weights-of-five-minutes", true, .step_s = 0.2, .hours = 3, .launches = 50,
	  .site = { { LOADS, .count = 2000, .for_s = 300, .want = FULL }, STEPS(0.2) } },
	{ "lru-of-hours", true, .step_s = 1, .hours = 24, .launches = 50,
	  .site = { STEPS(1), { ROLLS, .count = 3500, .rate = 0.5, .want = V(CACHE) } } },
	{ "epochs-of-hours", true, .step_s = 2, .hours = 24, .launches = 50,
	  .site = { STEPS(2),
		    { SAWTOOTH, .rate = 0.5, .life_s = 7200, .part = 0.1, .want = RESTS } } },
	{ "sessions-of-hours", true, .step_s = 4, .hours = 24, .launches = 10, .daily = 0.6,
	  .site = { { SESSIONS, .count = 2, .life_s = 1800, .tail = 1, .want = NO_LEAK } } },

	/* What leaks */
	{ "leak", .step_s = 0.1, .hours = 0.5, .launches = 30,
	  .site = { WEIGHTS, STEPS(0.1), { LEAKS, .rate = 1, A_LEAK } } },
	{ "leak-by-milliseconds", .step_s = 0.002, .hours = 0.06, .launches = 30,
	  .site = { STEPS(0.002), { LEAKS, .rate = 1, A_LEAK } } },
	{ "leak-of-10-steps", .step_s = 0.05, .hours = 0.5, .launches = 100,
	  .site = { STEPS(0.1), { LEAKS, .rate = 0.1, A_LEAK } } },
	{ "leak-of-100-steps", .step_s = 0.05, .hours = 1, .launches = 100,
	  .site = { STEPS(0.1), { LEAKS, .rate = 0.01, A_LEAK } } },
	{ "leak-of-1000-steps", .step_s = 0.1, .hours = 6, .launches = 10,
	  .site = { STEPS(0.1), { LEAKS, .rate = 0.001, A_LEAK } } },
	{ "leak-of-10000-steps", .step_s = 0.2, .hours = 24, .launches = 10,
	  .site = { { LEAKS, .rate = 0.0002, SMALL, A_LEAK } } },
	{ "leak-of-an-hour", .step_s = 60, .hours = 48, .launches = 500,
	  .site = { STEPS(60), { LEAKS, .rate = 1. / 60, A_LEAK } } },
	{ "leak-without-end-of-steps", .step_s = 600, .hours = 24 * 7, .launches = 5,
	  .site = { { LEAKS, .rate = 1, A_LEAK } } },
	{ "leak-after-hours", .step_s = 1, .hours = 12, .launches = 50,
	  .site = { WEIGHTS, STEPS(1), { LEAKS, .rate = 1, .from_s = 4 * HOURS, A_LEAK } } },
	{ "drips-after-hours", .step_s = 0.5, .hours = 8, .launches = 50,
	  .site = { WEIGHTS,
		    { DRIPS, .count = 3, .part = 0.05, .life_s = 0.5, .for_s = 3 * HOURS,
		      A_LEAK } } },
	{ "leak-in-bursts", .step_s = 0.5, .hours = 4, .launches = 50,
	  .site = { STEPS(0.5), { BURSTS, .count = 10, .life_s = 60, A_LEAK } } },
	{ "leak-by-epoch", .step_s = 1, .hours = 24, .launches = 50,
	  .site = { STEPS(1), { BURSTS, .count = 30, .life_s = 1200, A_LEAK } } },
	{ "history-of-losses", .step_s = 0.2, .hours = 6, .launches = 200,
	  .site = { WEIGHTS, STEPS(0.2), { LEAKS, .rate = 1, .bytes = 512, A_LEAK } } },
	{ "one-percent", .step_s = 0.02, .hours = 0.5, .launches = 50,
	  .site = { { DRIPS, .count = 8, .part = 0.01, .life_s = 0.04, A_LEAK } } },
	{ "one-per-mille", .step_s = 0.05, .hours = 2, .launches = 50,
	  .site = { { DRIPS, .count = 8, .part = 0.001, .life_s = 0.2, .tail = 1, A_LEAK } } },
	{ "one-of-an-epoch", .step_s = 0.2, .hours = 6, .launches = 50,
	  .site = { { SAWTOOTH, .rate = 2, .life_s = 30, .part = 0.1, .count = 1, A_LEAK } } },
	{ "after-a-peak", .step_s = 0.1, .hours = 2, .launches = 50,
	  .site = { STEPS(0.1), { PEAKS, .count = 20, .rate = 0.2, .life_s = 20, A_LEAK } } },
	{ "after-weights", .step_s = 0.1, .hours = 2, .launches = 50,
	  .site = { STEPS(0.1),
		    { PEAKS, .count = 10, .rate = 0.2, .life_s = 10, .tail = 1, A_LEAK } } },
	{ "leak-of-four-stacks", .step_s = 0.1, .hours = 2, .launches = 50,
	  .site = { { LEAKS, .rate = 0.25, .tail = 1, A_LEAK },
		    { LEAKS, .rate = 0.15, .tail = 1, A_LEAK },
		    { LEAKS, .rate = 0.1, .tail = 1, A_LEAK },
		    { LEAKS, .rate = 0.05, .tail = 1, A_LEAK },
		    STEPS(0.2) } },
	{ "leak-by-day", .step_s = 3, .hours = 48, .launches = 10, .daily = 0.8,
	  .site = { WEIGHTS,
		    { DRIPS, .count = 3, .part = 0.02, .life_s = 15, .tail = 1, A_LEAK } } },
	{ "leak-in-windows", .step_s = 0.05, .hours = 1, .launches = 30, .gap_every_s = 20,
	  .gap_s = 2, .site = { { DRIPS, .count = 4, .part = 0.05, .life_s = 0.1, A_LEAK } } },
	{ "leak-beside-gaps", .step_s = 0.3, .hours = 6, .launches = 30, .gap_every_s = 400,
	  .gap_s = 10, .site = { STEPS(0.3), { LEAKS, .rate = 0.3, A_LEAK } } },
	{ "leak-from-the-middle", .step_s = 0.1, .hours = 2, .launches = 30, .attach_at_s = 1200,
	  .site = { STEPS(0.3), { DRIPS, .count = 2, .part = 0.1, .life_s = 1, A_LEAK } } },
	{ "leak-slows-down", .step_s = 0.1, .hours = 4, .launches = 30, .slower_at_s = 3000,
	  .site = { STEPS(0.3), { LEAKS, .rate = 0.5, A_LEAK } } },
	{ "leak-of-old-blocks", .step_s = 0.5, .hours = 12, .launches = 30,
	  .site = { { DRIPS, .count = 2, .part = 0.1, .life_s = 60, .tail = 1, A_LEAK } } },
	{ "noisy-leak", .step_s = 0.4, .hours = 4, .launches = 30,
	  .site = { STEPS(0.4), { LEAKS, .rate = 0.4, .tail = 1, A_LEAK } } },
	{ "one-list-extended", .step_s = 0.2, .hours = 8, .launches = 30,
	  .site = { STEPS(0.2), { EXTENDS, .life_s = 0.4, SMALL, .want = V(GROWING) | V(LEAK) } } },
	{ "one-list-extended-slowly", .step_s = 1, .hours = 24, .launches = 30,
	  .site = { STEPS(1), { EXTENDS, .life_s = 60, SMALL, .want = V(GROWING) | V(LEAK) } } },
	{ "leak-stops-with-the-program", .step_s = 0.1, .hours = 0.2, .idle_from_s = 300,
	  .site = { STEPS(0.1), { LEAKS, .rate = 0.5, A_LEAK } } },
};

#endif
