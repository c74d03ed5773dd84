/* align.h: how far the clocks of two ranks are apart, from the collectives that both ran. Pure.
 *
 * Nobody leaves an all-reduce, all-gather or reduce-scatter before everybody is in it. So of each
 * of them one rank's end is not before the other's start, which bounds how far the other's clock is
 * ahead; what all of them leave in common is as narrow as their last phases are short. Which of one
 * rank's collectives is which of the other's is found by the same: all but one of the ways to put
 * two sequences beside each other leave nothing. Where several are left, or none, nothing is
 * known. */
#ifndef TS_CLIENT_FLEET_ALIGN_H
#define TS_CLIENT_FLEET_ALIGN_H

#include <stddef.h>
#include <stdint.h>

/* Fewer may fit by chance. */
#define ALIGN_FEWEST 4

/* On the rank's own stream, in order of time. */
struct align_collective {
	uint64_t name;
	int64_t start_ns, end_ns;
};

struct align_sequence {
	const struct align_collective *collective;
	size_t count;
};

/* How far a clock is ahead: between low and high; of what both ran, the middle one of the
 * differences of ends. */
struct align_offset {
	int64_t low_ns, high_ns, median_ns;
};

enum align_result {
	ALIGN_FOUND = 0,
	ALIGN_NONE = 1,	     /* they have no sequence in common */
	ALIGN_AMBIGUOUS = 2, /* several would do */
};

/* How far `other` is ahead of `one`. `known` is what is known before, which is narrowed; the clocks
 * may drift apart by `drift_ppb`. If found, one's collective i is the other's i + shift.
 * -ENOMEM. */
int align_sequences(const struct align_sequence *one, const struct align_sequence *other,
		    int64_t drift_ppb, struct align_offset *known, int64_t *ret_shift);

#endif
