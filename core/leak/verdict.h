/* verdict.h: what a history says of the stack: does it hold more and more, without end? Pure.
 *
 * A stack leaks if blocks that outlived everything that it frees are born all along, up to now, and
 * not more slowly than before. Nobody can tell the first minute of a leak from that of a cache that
 * fills at a steady rate, so until VERDICT_WATCH_NS there is no verdict.
 */
#ifndef TS_LEAK_VERDICT_H
#define TS_LEAK_VERDICT_H

#include "core/leak/history.h"

/* Numbers are stored, and in the order of concern. */
#define VERDICTS(X)                                                                                \
	X(1, HEALTHY, "healthy", "what it allocates it frees")                                     \
	X(2, HELD, "held", "allocated once, and kept")                                             \
	X(3, CACHE, "cache", "grew, and does not any more")                                        \
	X(4, YOUNG, "not yet", "watched for too short a time")                                     \
	X(5, GROWING, "growing", "holds more and more, which may end")                             \
	X(6, LEAK, "leak", "holds more and more without end")

enum verdict_kind {
#define X(number, identifier, name, text) VERDICT_##identifier = number,
	VERDICTS(X)
#undef X
		VERDICT_MAX = 6,
};

/* Of blocks of which none is ever freed, and where others are freed, which says more. */
#define VERDICT_WATCH_NS       55000000000ull
#define VERDICT_WATCH_FREES_NS 30000000000ull

struct verdict {
	uint8_t kind;
	uint8_t confidence;  /* percent */
	uint64_t watched_ns; /* since when nothing was missed */
	uint64_t needs_ns;   /* YOUNG: how much longer */
	uint64_t usual_ns;   /* nearly all that is freed is freed before this age; 0: nothing is */
	/* Blocks that outlived it, in the part of life that was judged, and when the first of them
	 * was allocated; 0: none. */
	uint64_t kept, kept_bytes, since_ns;
	uint64_t quiet_ns;     /* since the last block was added */
	double bytes_per_hour; /* GROWING, LEAK; else 0; less than 2^63 */
	double laplace;	       /* 1 - (frees + 1) / (live + 2): Scalene's score */
};

/* `activity` as in the history, which has started. */
struct verdict verdict_of(const struct history *history, uint64_t now_ns, uint64_t activity);

#endif
