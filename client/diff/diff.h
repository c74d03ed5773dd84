/* diff.h: what recordings of two sides say of the same things, and which of these got slower. No
 * I/O.
 *
 * A side is one recording or several runs of the same: of each thing its median. How much work a
 * side did is told by the kernels that both have: the median of how many times as often B ran them.
 * If that is 1 (±1 %), totals are compared. If not, the recordings are of different length, and
 * calls are: B's total against what its calls would have taken in A, and copies by the byte.
 *
 * A change has an interval (core/base/interval.h) from the runs, each of which is one sample, if
 * there are enough of them: for 90 % at least, and 95 % if possible, 3 of each; of wall time, which
 * other programs change, for 98 %, 5 of each. With fewer there is one for what the GPU did from
 * inside the runs: its launches in their order, in ten parts, are samples, and the interval has
 * those of all pairs of runs in it. That does not know what changes from run to run. Of wall time
 * there is none then.
 *
 * A thing can only be judged as worse, or better, if its whole interval is beyond the share, and
 *   it is of weight: 1 % of the GPU time, which is that of all kernels and transfers, of A or B (of
 *   memory: of the most that was held of a kind);
 *   it is no noise: the middle halves of its durations do not overlap, or there were more of it.
 * Memory of one recording each is compared as it is, as it is no matter of speed.
 */
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
#define DIFF_ALIKE_PPM	10000 /* so far amounts of work may differ and be the same */
#define DIFF_COUNT_MIN	5
#define DIFF_RUNS_MAX	INTERVAL_SAMPLES_MAX
#define DIFF_BLOCKS	10 /* parts of the launches of a run, in their order */

enum diff_unit { DIFF_NS, DIFF_BYTES, DIFF_CALLS };

/* identifier, name, unit, its rows are judged, title */
#define DIFF_SECTIONS(X)                                                                           \
	X(TIME, "time", DIFF_NS, true, "GPU time in all")                                          \
	X(WALL, "wall", DIFF_NS, true, "Wall time")                                                \
	X(KERNELS, "kernels", DIFF_NS, true, "Kernels, by GPU time")                               \
	X(TRANSFERS, "transfers", DIFF_NS, true, "Copies and sets, by GPU time")                   \
	X(RANGES, "ranges", DIFF_NS, true, "NVTX ranges, by wall time")                            \
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
	X(LIGHT, "light")      /* below the weight */                                              \
	X(FEW, "few")	       /* too few of it */                                                 \
	X(NOISE, "noise")      /* it differs no more than its own durations do */                  \
	X(NEW, "new")	       /* only in B */                                                     \
	X(GONE, "gone")	       /* only in A */                                                     \
	X(OPEN, "not decided") /* the interval has the share in it, or there is none */

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

/* A part of the launches of one run, one after another. */
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
	struct diff_side side[2]; /* their medians, of losses the sums; a count of 0: it is not
				     there */
	double expected;	  /* the total of B if nothing had changed */
	double difference;	  /* more than expected, in the unit of the section */
	double change;		  /* the same as a share of what was expected; NAN: of nothing */
	double low, high;	  /* its interval, if there is any confidence in it */
	double confidence;	  /* a share, 0: there is no interval */
	enum diff_verdict verdict;
};

struct diff {
	struct diff_row *row; /* after diff_end() by section, the largest difference first */
	size_t count, room;
	struct map index; /* number of the row, from 1, by the hash of its section and name */
	uint32_t runs[2]; /* of each side, set before anything is added; 0: one */
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
/* Told several times of a run, counts and totals add up. `side` is 0 or 1. Returns 0 or -ENOMEM. */
int diff_add(struct diff *diff, int side, uint32_t run, enum diff_section section, const char *name,
	     const struct diff_side *value);
/* The next of DIFF_BLOCKS at most. */
int diff_add_block(struct diff *diff, int side, uint32_t run, enum diff_section section,
		   const char *name, const struct diff_block *block);
/* Adds what follows from the others, compares and ranks. Worse or better is what differs by more
 * than `share_ppm`. */
int diff_end(struct diff *diff, uint32_t share_ppm);

/* Whether a part of a run is missing as a whole: what is there is no measure of what it did. */
bool diff_is_part(const struct diff *diff, int side, uint32_t run);
/* The GPU time of one run. */
uint64_t diff_gpu(const struct diff *diff, int side, uint32_t run);
uint32_t diff_runs(const struct diff *diff, int side);
/* What is not decided may be more than the share, or less. */
bool diff_may_be_worse(const struct diff_row *row, double share);
/* Whether it is a matter of the host's clock. */
bool diff_is_wall(enum diff_section section);

const char *diff_section_name(enum diff_section section);
const char *diff_section_title(enum diff_section section);
enum diff_unit diff_section_unit(enum diff_section section);
const char *diff_verdict_name(enum diff_verdict verdict);
/* Whether B's calls are compared with A's rather than the totals. */
bool diff_by_call(const struct diff *diff, const struct diff_row *row);
/* Of each call the cost can be compared, whatever the length of the recordings. */
bool diff_has_calls(enum diff_section section);
/* interval.c: the change of a row and its interval, of which `expected` and `difference` are
 * known; rows that are sums of others come after these. */
void diff_interval(const struct diff *diff, struct diff_row *row);

#endif
