/* diff.h: what two recordings say of the same things, and which of these got slower. No I/O.
 *
 * How much work a recording did is told by the kernels that both have: the median of how many
 * times as often B ran them. If that is 1 (±1 %), totals are compared. If not, the recordings are
 * of different length, and calls are: B's total against what its calls would have taken in A, and
 * copies by the byte.
 *
 * A thing can only be judged as worse, or better, if
 *   it is of weight: 1 % of the GPU time, which is that of all kernels and transfers, of A or B (of
 *   memory: of the most that was held of a kind);
 *   there were 5 or more of it in both;
 *   it is no noise: the middle halves of its durations do not overlap, or there were more of it.
 * The time from the first to the last operation was measured once in each: it has to differ four
 * times as much.
 */
#ifndef TS_CLIENT_DIFF_H
#define TS_CLIENT_DIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/map.h"

#define DIFF_PPM	1000000
#define DIFF_WEIGHT_PPM 10000 /* of the GPU time */
#define DIFF_ALIKE_PPM	10000 /* so far amounts of work may differ and be the same */
#define DIFF_COUNT_MIN	5
#define DIFF_ONCE	4 /* times the share, for what was measured once */

enum diff_unit { DIFF_NS, DIFF_BYTES, DIFF_CALLS };

/* identifier, name, unit, its rows are judged, title */
#define DIFF_SECTIONS(X)                                                                           \
	X(TIME, "time", DIFF_NS, true, "Time in all")                                              \
	X(KERNELS, "kernels", DIFF_NS, true, "Kernels, by GPU time")                               \
	X(TRANSFERS, "transfers", DIFF_NS, true, "Copies and sets, by GPU time")                   \
	X(RANGES, "ranges", DIFF_NS, true, "NVTX ranges")                                          \
	X(MEMORY, "memory", DIFF_BYTES, true, "Memory, by kind")                                   \
	X(IDLE, "idle", DIFF_NS, false, "What devices did ('tsctl query idle')")                   \
	X(APIS, "apis", DIFF_NS, false, "Calls of the driver, by host time")                       \
	X(LAUNCHES, "launches", DIFF_CALLS, false, "Launches")                                     \
	X(LOST, "lost", DIFF_CALLS, false, "What was lost: the rest may be of less than all")

enum diff_section {
#define X(id, ...) DIFF_##id,
	DIFF_SECTIONS(X)
#undef X
		DIFF_SECTION_COUNT
};

/* identifier, name */
#define DIFF_VERDICTS(X)                                                                           \
	X(NONE, "")	/* not judged */                                                           \
	X(SAME, "same") /* within the share */                                                     \
	X(BETTER, "better")                                                                        \
	X(WORSE, "worse")                                                                          \
	X(LIGHT, "light") /* below the weight */                                                   \
	X(FEW, "few")	  /* too few of it */                                                      \
	X(NOISE, "noise") /* it differs no more than its own durations do */                       \
	X(NEW, "new")	  /* only in B */                                                          \
	X(GONE, "gone")	  /* only in A */

enum diff_verdict {
#define X(id, ...) DIFF_##id,
	DIFF_VERDICTS(X)
#undef X
		DIFF_VERDICT_COUNT
};

/* About equal durations: how many, and the sum, least and most of them. */
struct diff_bucket {
	uint64_t count, total, min, max;
};

/* What one recording says of a thing. */
struct diff_side {
	uint64_t count, total; /* the total in the unit of the section */
	uint64_t bytes;
	uint64_t p25, p50, p75; /* 0: not known */
};

struct diff_row {
	enum diff_section section;
	const char *name;
	struct diff_side side[2]; /* A, B; a count of 0: it is not there */
	double expected;	  /* the total of B if nothing had changed */
	double difference;	  /* more than expected, in the unit of the section */
	double change;		  /* the same as a share of what was expected; NAN: of nothing */
	enum diff_verdict verdict;
};

struct diff {
	struct diff_row *row; /* after diff_end() by section, the largest difference first */
	size_t count, room;
	struct map index; /* number of the row, from 1, by the hash of its section and name */
	struct arena arena;
	bool common;  /* there is something that both did, which says how much work it was */
	bool alike;   /* both did as much work, or nothing says so: totals are compared */
	double ratio; /* B did so many times the work of A */
	uint64_t gpu[2];
};

void diff_done(struct diff *diff);

/* Count, total and quartiles of buckets in order of their durations; no quartiles where least and
 * most are not known (0). */
struct diff_side diff_sum(const struct diff_bucket *bucket, size_t count);
/* Told several times, counts and totals add up. `side` is 0 or 1. Returns 0 or -ENOMEM. */
int diff_add(struct diff *diff, int side, enum diff_section section, const char *name,
	     const struct diff_side *value);
/* Adds what follows from the others, compares and ranks. Worse or better is what differs by more
 * than `share_ppm`. */
int diff_end(struct diff *diff, uint32_t share_ppm);

/* Whether a part of a side is missing as a whole: what is there is no measure of what it did. */
bool diff_is_part(const struct diff *diff, int side);

const char *diff_section_name(enum diff_section section);
const char *diff_section_title(enum diff_section section);
enum diff_unit diff_section_unit(enum diff_section section);
const char *diff_verdict_name(enum diff_verdict verdict);
/* Whether B's calls are compared with A's rather than the totals. */
bool diff_by_call(const struct diff *diff, const struct diff_row *row);

#endif
