/* Diff interval: how much a thing changed, and within which bounds. Runs are the samples if there
 * are enough of them. Otherwise blocks within the runs are, and the interval extends from the
 * measured change in each direction as far as in any pair of runs. */
#include <math.h>
#include <string.h>

#include "client/diff/diff.h"

#define SURE	   0.95
#define SURE_MIN   0.90 /* 3 and 3 recordings */
#define SURE_WALL  0.98 /* 5 and 5 */
#define BLOCKS_MIN 5

/* The value that is compared, of a run or of a block. */
static double cost(const struct diff *diff, const struct diff_row *row, uint64_t count,
		   uint64_t total, uint64_t bytes, bool by_call)
{
	if (!by_call)
		return (double)total;
	if (row->section == DIFF_TRANSFERS && bytes > 0)
		return (double)total / (double)bytes;
	return (double)total / (double)count;
}

static size_t costs_of_runs(const struct diff *diff, const struct diff_row *row, int side,
			    double *cost_of)
{
	bool by_call = diff_by_call(diff, row);
	size_t count = 0;

	for (uint32_t i = 0; i < diff_runs(diff, side); i++) {
		const struct diff_side *run = &row->run[side][i].side;

		if (run->count > 0 || !by_call)
			cost_of[count++] =
				cost(diff, row, run->count, run->total, run->bytes, by_call);
	}
	return count;
}

static bool between_runs(const struct diff *diff, const struct diff_row *row, struct interval *ret)
{
	bool wall = diff_is_wall(row->section);
	double a[DIFF_RUNS_MAX], b[DIFF_RUNS_MAX];
	size_t a_count = costs_of_runs(diff, row, 0, a), b_count = costs_of_runs(diff, row, 1, b);

	if (a_count == 0 || b_count == 0)
		return false;
	*ret = interval_ratio(a, a_count, b, b_count, wall ? SURE_WALL : SURE);
	return ret->confidence >= (wall ? SURE_WALL : SURE_MIN);
}

static size_t costs_of_blocks(const struct diff *diff, const struct diff_row *row,
			      const struct diff_run *run, double cost_of[DIFF_BLOCKS])
{
	for (uint32_t i = 0; i < run->blocks; i++)
		cost_of[i] = cost(diff, row, run->block[i].count, run->block[i].total,
				  run->block[i].bytes, true);
	return run->blocks;
}

/* The distance of the ends from the ratio of two runs, as factors. */
static bool between_blocks(const struct diff *diff, const struct diff_row *row,
			   const struct diff_run *a, const struct diff_run *b, struct interval *ret)
{
	double x[DIFF_BLOCKS], y[DIFF_BLOCKS];
	size_t x_count, y_count;

	if (a->blocks < BLOCKS_MIN || b->blocks < BLOCKS_MIN)
		return false;
	x_count = costs_of_blocks(diff, row, a, x);
	y_count = costs_of_blocks(diff, row, b, y);
	*ret = interval_ratio(x, x_count, y, y_count, SURE);
	return ret->ratio > 0 && isfinite(ret->high);
}

/* The ratio of a run of B to what a run of A lets expect. */
static double times_of(const struct diff_row *row, const struct diff_side *a,
		       const struct diff_side *b)
{
	double times = (double)row->side[1].total / row->expected;
	const struct diff_side *of[] = { &row->side[0], &row->side[1] };

	/* The side's median stands for the run, except for its cost per call. */
	times *= (double)b->total / (double)b->count * (double)of[1]->count / (double)of[1]->total;
	return times * ((double)of[0]->total / (double)of[0]->count) /
	       ((double)a->total / (double)a->count);
}

/* Encloses all pairs of runs. */
static bool inside_runs(const struct diff *diff, const struct diff_row *row, struct interval *ret)
{
	struct interval hull = { .low = INFINITY, .high = 0, .confidence = 1 };

	for (uint32_t i = 0; i < diff_runs(diff, 0); i++) {
		for (uint32_t j = 0; j < diff_runs(diff, 1); j++) {
			const struct diff_run *a = &row->run[0][i], *b = &row->run[1][j];
			struct interval one;
			double times;

			if (!between_blocks(diff, row, a, b, &one))
				return false;
			times = times_of(row, &a->side, &b->side);
			hull.low = fmin(hull.low, times * one.low / one.ratio);
			hull.high = fmax(hull.high, times * one.high / one.ratio);
			hull.confidence = fmin(hull.confidence, one.confidence);
		}
	}
	*ret = hull;
	return true;
}

/* The interval of a sum, from those of its terms, as if all were at the same end. A term without
 * one may be zero, or twice as much. */
static bool inside_sum(const struct diff *diff, const struct diff_row *sum, struct interval *ret)
{
	enum diff_section section =
		strcmp(sum->name, "all kernels") == 0 ? DIFF_KERNELS : DIFF_TRANSFERS;
	double low = 0, high = 0, confidence = 1;
	bool any = false;

	for (size_t i = 0; i < diff->count; i++) {
		const struct diff_row *row = &diff->row[i];

		if (row->section != section)
			continue;
		if (row->confidence > 0) {
			low += row->expected * (1 + row->low);
			high += row->expected * (1 + row->high);
			confidence = fmin(confidence, row->confidence);
			any = true;
		} else {
			high += 2 * (double)row->side[1].total;
		}
	}
	*ret = (struct interval){
		.low = low / sum->expected,
		.high = high / sum->expected,
		.confidence = confidence,
	};
	return any;
}

static bool has_inside(enum diff_section section)
{
	return section == DIFF_KERNELS || section == DIFF_TRANSFERS;
}

void diff_interval(const struct diff *diff, struct diff_row *row)
{
	struct interval interval;
	bool there = row->side[0].count > 0 && row->side[1].count > 0, sure;

	row->change = row->expected > 0 ? row->difference / row->expected : NAN;
	if (!there || !(row->expected > 0) || (!diff->alike && !diff_has_calls(row->section)))
		return;
	sure = between_runs(diff, row, &interval);
	if (sure) {
		row->change = interval.ratio - 1;
		row->difference = row->change * row->expected;
	} else if (row->section == DIFF_TIME) {
		sure = inside_sum(diff, row, &interval);
	} else if (has_inside(row->section)) {
		sure = inside_runs(diff, row, &interval);
	}
	if (!sure || !isfinite(interval.low) || !isfinite(interval.high))
		return;
	row->low = interval.low - 1;
	row->high = interval.high - 1;
	row->confidence = interval.confidence;
}
