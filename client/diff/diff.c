/* Diff: collects what both sides report, by section and name, then compares it. diff.h states the
 * rules; each is a function here. */
#include "client/diff/diff.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/map.h"
#include "core/base/vector.h"

static const struct {
	const char *name, *title;
	enum diff_unit unit;
	bool judged;
} sections[DIFF_SECTION_COUNT] = {
#define X(id, name, unit, judged, title) [DIFF_##id] = { name, title, unit, judged },
	DIFF_SECTIONS(X)
#undef X
};

static const char *const verdicts[DIFF_VERDICT_COUNT] = {
#define X(id, name) [DIFF_##id] = name,
	DIFF_VERDICTS(X)
#undef X
};

const char *diff_section_name(enum diff_section section)
{
	return sections[section].name;
}

const char *diff_section_title(enum diff_section section)
{
	return sections[section].title;
}

enum diff_unit diff_section_unit(enum diff_section section)
{
	return sections[section].unit;
}

const char *diff_verdict_name(enum diff_verdict verdict)
{
	return verdicts[verdict];
}

void diff_done(struct diff *diff)
{
	free(diff->row);
	map_clear(&diff->index);
	arena_clear(&diff->arena);
	*diff = (struct diff){ 0 };
}

/* The duration of the op at a rank in its bucket: the first and the last are known, the others get
 * their mean. */
static uint64_t at_rank(const struct diff_bucket *bucket, size_t count, uint64_t rank)
{
	uint64_t before = 0;

	for (size_t i = 0; i < count; before += bucket[i++].count) {
		if (rank > before + bucket[i].count)
			continue;
		if (rank == before + 1)
			return bucket[i].min;
		if (rank == before + bucket[i].count)
			return bucket[i].max;
		return bucket[i].total / bucket[i].count;
	}
	return 0;
}

struct diff_side diff_sum(const struct diff_bucket *bucket, size_t count)
{
	struct diff_side sum = { 0 };

	for (size_t i = 0; i < count; i++) {
		sum.count += bucket[i].count;
		sum.total += bucket[i].total;
	}
	if (count == 0 || bucket[count - 1].max == 0)
		return sum;
	sum.p25 = at_rank(bucket, count, (sum.count + 3) / 4);
	sum.p50 = at_rank(bucket, count, (sum.count + 1) / 2);
	sum.p75 = at_rank(bucket, count, sum.count - sum.count / 4);
	return sum;
}

uint32_t diff_runs(const struct diff *diff, int side)
{
	return diff->runs[side] ? diff->runs[side] : 1;
}

static int make_runs(struct diff *diff, struct diff_row *row)
{
	for (int side = 0; side < 2; side++) {
		size_t size = diff_runs(diff, side) * sizeof(*row->run[side]);

		row->run[side] = arena_get(&diff->arena, size);
		if (!row->run[side])
			return -ENOMEM;
		memset(row->run[side], 0, size);
	}
	return 0;
}

static struct diff_row *row_of(struct diff *diff, enum diff_section section, const char *name)
{
	struct map_key key = map_key_of(name, strlen(name), section);
	uintptr_t number = (uintptr_t)map_get(&diff->index, key);
	struct diff_row row = { .section = section };

	if (number)
		return &diff->row[number - 1];
	if (VECTOR_ROOM(diff->row, diff->room, diff->count + 1) < 0)
		return NULL;
	row.name = arena_text(&diff->arena, name, strlen(name));
	if (!row.name || make_runs(diff, &row) < 0 ||
	    map_put(&diff->index, key, (void *)(diff->count + 1)) < 0)
		return NULL;
	diff->row[diff->count] = row;
	return &diff->row[diff->count++];
}

int diff_add(struct diff *diff, int side, uint32_t run, enum diff_section section, const char *name,
	     const struct diff_side *value)
{
	struct diff_row *row = row_of(diff, section, name);
	struct diff_side *to;

	if (!row)
		return -ENOMEM;
	to = &row->run[side][run].side;
	to->count += value->count;
	to->total += value->total;
	to->bytes += value->bytes;
	to->p25 = value->p25;
	to->p50 = value->p50;
	to->p75 = value->p75;
	return 0;
}

int diff_add_block(struct diff *diff, int side, uint32_t run, enum diff_section section,
		   const char *name, const struct diff_block *block)
{
	struct diff_row *row = row_of(diff, section, name);
	struct diff_run *to;

	if (!row)
		return -ENOMEM;
	to = &row->run[side][run];
	if (!to->block)
		to->block = arena_get(&diff->arena, DIFF_BLOCKS * sizeof(*to->block));
	if (!to->block)
		return -ENOMEM;
	if (to->blocks < DIFF_BLOCKS && block->count > 0)
		to->block[to->blocks++] = *block;
	return 0;
}

/* The sums of all kernels and of all transfers can get slower, too. */
static const struct {
	enum diff_section section;
	const char *name;
} sums[] = { { DIFF_KERNELS, "all kernels" }, { DIFF_TRANSFERS, "all copies and sets" } };
#define SUMS ARRAY_SIZE(sums)

static struct diff_side sum_of(const struct diff *diff, enum diff_section section, int side,
			       uint32_t run)
{
	struct diff_side sum = { 0 };

	for (size_t i = 0; i < diff->count; i++) {
		if (diff->row[i].section != section)
			continue;
		sum.count += diff->row[i].run[side][run].side.count;
		sum.total += diff->row[i].run[side][run].side.total;
		sum.bytes += diff->row[i].run[side][run].side.bytes;
	}
	return sum;
}

uint64_t diff_gpu(const struct diff *diff, int side, uint32_t run)
{
	return sum_of(diff, DIFF_KERNELS, side, run).total +
	       sum_of(diff, DIFF_TRANSFERS, side, run).total;
}

static int add_sums(struct diff *diff)
{
	for (size_t s = 0; s < SUMS; s++) {
		for (int side = 0; side < 2; side++) {
			for (uint32_t run = 0; run < diff_runs(diff, side); run++) {
				struct diff_side sum = sum_of(diff, sums[s].section, side, run);

				if (sum.count > 0 &&
				    diff_add(diff, side, run, DIFF_TIME, sums[s].name, &sum) < 0)
					return -ENOMEM;
			}
		}
	}
	return 0;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Losses add up; everything else takes the median run. */
static uint64_t settle_field(const struct diff_row *row, int side, uint32_t runs, size_t offset)
{
	uint64_t value[DIFF_RUNS_MAX], sum = 0;

	for (uint32_t run = 0; run < runs; run++) {
		memcpy(&value[run], (const char *)&row->run[side][run].side + offset,
		       sizeof(value[run]));
		sum += value[run];
	}
	if (row->section == DIFF_LOST)
		return sum;
	qsort(value, runs, sizeof(*value), by_size);
	return value[(runs - 1) / 2];
}

static void settle(struct diff *diff, struct diff_row *row)
{
	static const size_t field[] = {
		offsetof(struct diff_side, count), offsetof(struct diff_side, total),
		offsetof(struct diff_side, bytes), offsetof(struct diff_side, p25),
		offsetof(struct diff_side, p50),   offsetof(struct diff_side, p75),
	};

	for (int side = 0; side < 2; side++) {
		for (size_t i = 0; i < ARRAY_SIZE(field); i++) {
			uint64_t value = settle_field(row, side, diff_runs(diff, side), field[i]);

			memcpy((char *)&row->side[side] + field[i], &value, sizeof(value));
		}
		if (row->section == DIFF_KERNELS || row->section == DIFF_TRANSFERS)
			diff->gpu[side] += row->side[side].total;
	}
}

static int by_ratio(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* How many times as often B ran what both ran at least this often: the median. 0: nothing. */
static int median_ratio(const struct diff *diff, enum diff_section section, uint64_t least,
			double *ret)
{
	double *ratio = calloc(diff->count + 1, sizeof(*ratio));
	size_t count = 0;

	if (!ratio)
		return -ENOMEM;
	for (size_t i = 0; i < diff->count; i++) {
		const struct diff_side *a = &diff->row[i].side[0], *b = &diff->row[i].side[1];

		if (diff->row[i].section == section && a->count >= least && b->count >= least)
			ratio[count++] = (double)b->count / (double)a->count;
	}
	qsort(ratio, count, sizeof(*ratio), by_ratio);
	*ret = count > 0 ? ratio[(count - 1) / 2] : 0;
	free(ratio);
	return 0;
}

static int find_ratio(struct diff *diff)
{
	/* What ran only a few times may belong to the start-up. */
	int r = median_ratio(diff, DIFF_KERNELS, DIFF_COUNT_MIN, &diff->ratio);

	if (r == 0 && diff->ratio == 0)
		r = median_ratio(diff, DIFF_KERNELS, 1, &diff->ratio);
	if (r == 0 && diff->ratio == 0)
		r = median_ratio(diff, DIFF_LAUNCHES, 1, &diff->ratio);
	diff->common = diff->ratio > 0;
	if (!diff->common)
		diff->ratio = 1;
	diff->alike = fabs(diff->ratio - 1) * DIFF_PPM <= DIFF_ALIKE_PPM;
	return r;
}

bool diff_is_wall(enum diff_section section)
{
	return section == DIFF_WALL || section == DIFF_RANGES;
}

bool diff_has_calls(enum diff_section section)
{
	return section == DIFF_KERNELS || section == DIFF_TRANSFERS || section == DIFF_RANGES ||
	       section == DIFF_APIS;
}

bool diff_by_call(const struct diff *diff, const struct diff_row *row)
{
	return !diff->alike && diff_has_calls(row->section);
}

static double expect(const struct diff *diff, const struct diff_row *row)
{
	const struct diff_side *a = &row->side[0], *b = &row->side[1];
	double total = (double)a->total;

	if (diff->alike || a->count == 0 || row->section == DIFF_MEMORY ||
	    row->section == DIFF_LOST)
		return total;
	if (b->count == 0 || !diff_has_calls(row->section))
		return total * diff->ratio;
	if (row->section == DIFF_TRANSFERS && a->bytes > 0)
		return total / (double)a->bytes * (double)b->bytes;
	return total / (double)a->count * (double)b->count;
}

/* What a row of this side is weighed against: the GPU time, or the peak memory. */
static double weight_of(const struct diff *diff, const struct diff_row *row, int side)
{
	uint64_t most = 0;

	if (row->section != DIFF_MEMORY)
		return (double)diff->gpu[side];
	for (size_t i = 0; i < diff->count; i++)
		if (diff->row[i].section == DIFF_MEMORY && diff->row[i].side[side].total > most)
			most = diff->row[i].side[side].total;
	return (double)most;
}

static bool is_light(const struct diff *diff, const struct diff_row *row)
{
	for (int side = 0; side < 2; side++)
		if ((double)row->side[side].total * DIFF_PPM >=
		    weight_of(diff, row, side) * DIFF_WEIGHT_PPM)
			return false;
	return true;
}

/* The middle halves of the durations overlap, and the count did not change. */
static bool is_noise(const struct diff *diff, const struct diff_row *row, double limit)
{
	const struct diff_side *a = &row->side[0], *b = &row->side[1];
	double more = (double)b->count / (double)a->count - 1;

	if (a->p75 == 0 || b->p75 == 0 || a->p25 > b->p75 || b->p25 > a->p75)
		return false;
	return !diff->alike || (row->difference > 0 ? more <= limit : more >= -limit);
}

/* The verdict from the interval, or from the change itself if there is none. */
static enum diff_verdict compare(const struct diff_row *row, double limit)
{
	/* Measured once, and the same in every run. */
	bool known = row->confidence == 0 && row->section == DIFF_MEMORY;
	double low = known ? row->change : row->low, high = known ? row->change : row->high;

	if (row->confidence == 0 && !known)
		return fabs(row->change) <= limit ? DIFF_SAME : DIFF_OPEN;
	if (low > limit)
		return DIFF_WORSE;
	if (high < -limit)
		return DIFF_BETTER;
	return low >= -limit && high <= limit ? DIFF_SAME : DIFF_OPEN;
}

static enum diff_verdict judge(const struct diff *diff, const struct diff_row *row, double limit)
{
	const struct diff_side *a = &row->side[0], *b = &row->side[1];
	bool calls = diff_has_calls(row->section);
	enum diff_verdict verdict;

	if (!sections[row->section].judged || (!diff->alike && !calls))
		return DIFF_NONE;
	if (a->count == 0 || b->count == 0)
		return a->count == 0 ? DIFF_NEW : DIFF_GONE;
	if (is_light(diff, row))
		return DIFF_LIGHT;
	verdict = isnan(row->change) ? DIFF_OPEN : compare(row, limit);
	if (verdict == DIFF_SAME)
		return verdict;
	if (calls && row->confidence == 0 &&
	    (a->count < DIFF_COUNT_MIN || b->count < DIFF_COUNT_MIN))
		return DIFF_FEW;
	if (calls && is_noise(diff, row, limit))
		return DIFF_NOISE;
	return verdict;
}

bool diff_may_be_worse(const struct diff_row *row, double share)
{
	return !((row->confidence > 0 ? row->high : row->change) <= share);
}

bool diff_is_part(const struct diff *diff, int side, uint32_t run)
{
	for (size_t i = 0; i < diff->count; i++) {
		const struct diff_row *row = &diff->row[i];

		if (row->section == DIFF_LOST && row->run[side][run].side.count > 0 &&
		    (strcmp(row->name, "cut-off") == 0 || strcmp(row->name, "damaged") == 0))
			return true;
	}
	return false;
}

static int by_rank(const void *a, const void *b)
{
	const struct diff_row *x = a, *y = b;
	double left = fabs(x->difference), right = fabs(y->difference);

	if (x->section != y->section)
		return x->section < y->section ? -1 : 1;
	if (left != right)
		return left > right ? -1 : 1;
	return strcmp(x->name, y->name);
}

int diff_end(struct diff *diff, uint32_t share_ppm)
{
	double share = (double)share_ppm / DIFF_PPM;
	int r = add_sums(diff);

	for (size_t i = 0; i < diff->count; i++)
		settle(diff, &diff->row[i]);
	if (r == 0)
		r = find_ratio(diff);
	if (r < 0)
		return r;
	for (size_t i = 0; i < diff->count; i++) {
		struct diff_row *row = &diff->row[i];

		row->expected = expect(diff, row);
		row->difference = (double)row->side[1].total - row->expected;
		diff_interval(diff, row); /* sums come last */
	}
	for (size_t i = 0; i < diff->count; i++)
		diff->row[i].verdict = judge(diff, &diff->row[i], share);
	if (diff->count > 0)
		qsort(diff->row, diff->count, sizeof(*diff->row), by_rank);
	return 0;
}
