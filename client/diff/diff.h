/* diff.h: compares the recordings of two sides and ranks what got slower. No I/O.
 *
 * A side is one recording or several runs of the same program; each value is the median of the
 * runs. The kernels that both sides have show how much work each did: the ratio is the median of
 * how many times as often B ran them. If it is 1 (±1 %), totals are compared. Otherwise the
 * recordings have different lengths, and calls are compared: B's total with what its calls would
 * have taken in A, and copies by the byte.
 *
 * With enough runs, a change has an interval (core/base/interval.h) in which each run is one
 * sample: 3 runs per side give at least 90 %, if possible 95 %; wall time, which other programs
 * influence, needs 98 % and so 5 runs. With fewer runs, GPU work gets an interval from within the
 * runs: its launches, in order, are divided into ten blocks as samples, and the interval encloses
 * those of all pairs of runs. It does not cover what varies from run to run. Wall time then has
 * none.
 *
 * A row is only judged worse or better if its whole interval is beyond the threshold, and
 * - it matters: it is at least 1 % of the GPU time (that of all kernels and transfers) of A or B,
 *   or of the peak memory of a kind, and
 * - it is not noise: the middle halves of its durations do not overlap, or its count grew.
 * Memory is not a matter of speed: with one recording per side, it is compared directly. */
#ifndef TS_CLIENT_DIFF_H
#define TS_CLIENT_DIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/interval.h"
#include "core/base/map.h"

#define DIFF_PPM	1000000
#define DIFF_WEIGHT_PPM 10000 /* of the GPU time */
#define DIFF_ALIKE_PPM	10000 /* amounts of work that differ less are equal */
#define DIFF_COUNT_MIN	5
#define DIFF_RUNS_MAX	INTERVAL_SAMPLES_MAX
#define DIFF_BLOCKS	10 /* of a run's launches, in order; diff-*-blocks.sql make as many */

enum diff_unit { DIFF_NS, DIFF_BYTES, DIFF_CALLS };

/* identifier, name, unit, whether its rows are judged, title */
#define DIFF_SECTIONS(X)                                                                           \
	X(TIME, "time", DIFF_NS, true, "Total GPU time")                                           \
	X(WALL, "wall", DIFF_NS, true, "Wall time")                                                \
	X(KERNELS, "kernels", DIFF_NS, true, "Kernels, by GPU time")                               \
	X(TRANSFERS, "transfers", DIFF_NS, true, "Copies and sets, by GPU time")                   \
	X(RANGES, "ranges", DIFF_NS, true, "NVTX ranges, by wall time")                            \
	X(MEMORY, "memory", DIFF_BYTES, true, "Memory, by kind")                                   \
	X(IDLE, "idle", DIFF_NS, false, "Device states ('tsctl query idle')")                      \
	X(APIS, "apis", DIFF_NS, false, "Driver calls, by host time")                              \
	X(LAUNCHES, "launches", DIFF_CALLS, false, "Launches")                                     \
	X(LOST, "lost", DIFF_CALLS, false, "Losses: the other figures may be incomplete")

enum diff_section {
#define X(id, ...) DIFF_##id,
	DIFF_SECTIONS(X)
#undef X
		DIFF_SECTION_COUNT
};

/* identifier, name */
#define DIFF_VERDICTS(X)                                                                           \
	X(NONE, "")	/* not judged */                                                           \
	X(SAME, "same") /* within the threshold */                                                 \
	X(BETTER, "better")                                                                        \
	X(WORSE, "worse")                                                                          \
	X(LIGHT, "light")      /* below the weight */                                              \
	X(FEW, "few")	       /* too few operations */                                            \
	X(NOISE, "noise")      /* it differs no more than its own durations vary */                \
	X(NEW, "new")	       /* only in B */                                                     \
	X(GONE, "gone")	       /* only in A */                                                     \
	X(OPEN, "not decided") /* the interval contains the threshold, or is missing */

enum diff_verdict {
#define X(id, ...) DIFF_##id,
	DIFF_VERDICTS(X)
#undef X
		DIFF_VERDICT_COUNT
};

/* A group of similar durations: count, sum, minimum and maximum. */
struct diff_bucket {
	uint64_t count, total, min, max;
};

/* What one recording reports about a thing. */
struct diff_side {
	uint64_t count, total; /* the total in the unit of the section */
	uint64_t bytes;
	uint64_t p25, p50, p75; /* 0: not known */
};

/* One of the blocks of consecutive launches of a run. */
struct diff_block {
	uint64_t count, total, bytes;
};

struct diff_run {
	struct diff_side side;
	struct diff_block *block; /* DIFF_BLOCKS of them, or NULL */
	uint32_t blocks;
};

struct diff_row {
	enum diff_section section;
	const char *name;
	struct diff_run *run[2];  /* of A, of B */
	struct diff_side side[2]; /* their medians, for losses the sums; count 0: absent */
	double expected;	  /* the total of B if nothing had changed */
	double difference;	  /* excess over `expected`, in the unit of the section */
	double change;		  /* the same relative to `expected`; NAN: that is 0 */
	double low, high;	  /* its interval, if `confidence` is not 0 */
	double confidence;	  /* a fraction; 0: there is no interval */
	enum diff_verdict verdict;
};

struct diff {
	struct diff_row *row; /* after diff_end() by section, the largest difference first */
	size_t count, room;
	struct map index; /* number of the row, from 1, by hash of section and name */
	uint32_t runs[2]; /* per side, set before anything is added; 0: one */
	struct arena arena;
	bool common;  /* both sides have work that can be compared */
	bool alike;   /* both did equal work, or it is unknown: compare totals */
	double ratio; /* B's work relative to A's */
	uint64_t gpu[2];
};

void diff_done(struct diff *diff);

/* Count, total and quartiles of buckets in order of duration; no quartiles if minimum and maximum
 * are unknown (0). */
struct diff_side diff_sum(const struct diff_bucket *bucket, size_t count);
/* Counts and totals of repeated calls for a run add up. `side` is 0 or 1. Returns 0 or -ENOMEM. */
int diff_add(struct diff *diff, int side, uint32_t run, enum diff_section section, const char *name,
	     const struct diff_side *value);
/* Adds the next of at most DIFF_BLOCKS blocks. */
int diff_add_block(struct diff *diff, int side, uint32_t run, enum diff_section section,
		   const char *name, const struct diff_block *block);
/* Adds the derived rows, compares and ranks. A row is worse or better if it differs by more than
 * `share_ppm`. */
int diff_end(struct diff *diff, uint32_t share_ppm);

/* Whether a whole part of a run is missing, so that the rest does not measure it. */
bool diff_is_part(const struct diff *diff, int side, uint32_t run);
/* The GPU time of one run. */
uint64_t diff_gpu(const struct diff *diff, int side, uint32_t run);
uint32_t diff_runs(const struct diff *diff, int side);
/* Whether an undecided change may be worse by more than the threshold. */
bool diff_may_be_worse(const struct diff_row *row, double share);
/* Whether the section is measured in wall time. */
bool diff_is_wall(enum diff_section section);

const char *diff_section_name(enum diff_section section);
const char *diff_section_title(enum diff_section section);
enum diff_unit diff_section_unit(enum diff_section section);
const char *diff_verdict_name(enum diff_verdict verdict);
/* Whether calls are compared instead of totals. */
bool diff_by_call(const struct diff *diff, const struct diff_row *row);
/* The cost per call can be compared, whatever the lengths of the recordings. */
bool diff_has_calls(enum diff_section section);
/* interval.c: computes the change and the interval of a row whose `expected` and `difference` are
 * set; rows that are sums of others come after these. */
void diff_interval(const struct diff *diff, struct diff_row *row);

#endif
