/* Align: tries each shift of one sequence against the other; all but the right one mostly fail at
 * the first few collectives. */
#include "client/fleet/align.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "core/base/cleanup.h"

#define PPB 1000000000

struct part {
	size_t one, other, count; /* where it starts in both */
};

static struct part overlap(const struct align_sequence *one, const struct align_sequence *other,
			   int64_t shift)
{
	struct part part = { .one = shift < 0 ? (size_t)-shift : 0,
			     .other = shift > 0 ? (size_t)shift : 0 };
	size_t left_one = one->count - part.one, left_other = other->count - part.other;

	part.count = left_one < left_other ? left_one : left_other;
	return part;
}

/* What both are in common, less what the clocks drift until then. False: nothing. */
static bool narrow(const struct align_collective *one, const struct align_collective *other,
		   int64_t drift_ns, struct align_offset *offset)
{
	int64_t low_ns = other->start_ns - one->end_ns - drift_ns;
	int64_t high_ns = other->end_ns - one->start_ns + drift_ns;

	if (one->name != other->name)
		return false;
	if (low_ns > offset->low_ns)
		offset->low_ns = low_ns;
	if (high_ns < offset->high_ns)
		offset->high_ns = high_ns;
	return offset->low_ns <= offset->high_ns;
}

static bool fits(const struct align_sequence *one, const struct align_sequence *other,
		 const struct part *part, int64_t drift_ppb, struct align_offset *offset)
{
	const struct align_collective *a = one->collective + part->one;
	const struct align_collective *b = other->collective + part->other;
	int64_t middle_ns = a[part->count / 2].end_ns;

	for (size_t i = 0; i < part->count; i++) {
		int64_t drift_ns =
			(int64_t)((__int128)llabs(a[i].end_ns - middle_ns) * drift_ppb / PPB);

		if (!narrow(&a[i], &b[i], drift_ns, offset))
			return false;
	}
	return true;
}

static int compare(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static int find_median(const struct align_sequence *one, const struct align_sequence *other,
		       const struct part *part, struct align_offset *offset)
{
	_cleanup_(freep) int64_t *difference = calloc(part->count, sizeof(*difference));

	if (!difference)
		return -ENOMEM;
	for (size_t i = 0; i < part->count; i++)
		difference[i] = other->collective[part->other + i].end_ns -
				one->collective[part->one + i].end_ns;
	qsort(difference, part->count, sizeof(*difference), compare);
	offset->median_ns = difference[part->count / 2];
	if (offset->median_ns < offset->low_ns)
		offset->median_ns = offset->low_ns;
	if (offset->median_ns > offset->high_ns)
		offset->median_ns = offset->high_ns;
	return 0;
}

int align_sequences(const struct align_sequence *one, const struct align_sequence *other,
		    int64_t drift_ppb, struct align_offset *known, int64_t *ret_shift)
{
	size_t fewest = (one->count < other->count ? one->count : other->count) / 2;
	struct align_offset found = { 0 };
	struct part part, best = { 0 };
	int64_t shift;
	int ways = 0, r;

	if (fewest < ALIGN_FEWEST)
		fewest = ALIGN_FEWEST;
	if (one->count < fewest || other->count < fewest)
		return ALIGN_NONE;
	for (shift = -(int64_t)(one->count - fewest); shift <= (int64_t)(other->count - fewest);
	     shift++) {
		struct align_offset offset = *known;

		part = overlap(one, other, shift);
		if (part.count < fewest || !fits(one, other, &part, drift_ppb, &offset))
			continue;
		if (ways++)
			return ALIGN_AMBIGUOUS;
		found = offset;
		best = part;
		*ret_shift = shift;
	}
	if (!ways)
		return ALIGN_NONE;
	r = find_median(one, other, &best, &found);
	if (r == 0)
		*known = found;
	return r;
}
