/* Interval: the distribution of the Mann-Whitney statistic is that of the coefficients of a
 * Gaussian binomial, and that of the signed-rank statistic counts the sums of subsets of 1, 2, …,
 * n.
 */
#include "core/base/interval.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define RATIOS_MAX (INTERVAL_SAMPLES_MAX * INTERVAL_SAMPLES_MAX)
#define MEANS_MAX  (INTERVAL_SAMPLES_MAX * (INTERVAL_SAMPLES_MAX + 1) / 2)

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(const double *sorted, size_t count)
{
	return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

/* Counts in how many orders of both samples the statistic is 0, 1, …; returns the sum. */
static double count_orders(size_t a_count, size_t b_count, int64_t *orders)
{
	size_t most = a_count * b_count;
	double all = 0;

	memset(orders, 0, (most + 1) * sizeof(*orders));
	orders[0] = 1;
	for (size_t i = 1; i <= a_count; i++) { /* times (1 - q^(b + i)) / (1 - q^i) */
		for (size_t j = most; j >= b_count + i; j--)
			orders[j] -= orders[j - b_count - i];
		for (size_t j = i; j <= most; j++)
			orders[j] += orders[j - i];
	}
	for (size_t j = 0; j <= most; j++)
		all += (double)orders[j];
	return all;
}

/* Counts which signs of the samples give the sum of positive ranks 0, 1, …; returns the sum. */
static double count_signs(size_t count, int64_t *signs)
{
	size_t most = count * (count + 1) / 2;

	memset(signs, 0, (most + 1) * sizeof(*signs));
	signs[0] = 1;
	for (size_t rank = 1; rank <= count; rank++)
		for (size_t j = most; j >= rank; j--)
			signs[j] += signs[j - rank];
	return (double)(INT64_C(1) << count);
}

/* How many of `most` values are outside at each end of the narrowest interval that has the
 * confidence, if the statistic has the value i in orders[i] of `all` cases. */
static size_t cut(const int64_t *orders, double all, size_t most, double confidence,
		  double *ret_confidence)
{
	double below = (double)orders[0];
	size_t out = 0;

	*ret_confidence = 1 - 2 * below / all;
	while (2 * (out + 1) < most) {
		below += (double)orders[out + 1];
		if (1 - 2 * below / all < confidence)
			break;
		*ret_confidence = 1 - 2 * below / all;
		out++;
	}
	return out;
}

/* Of values that the statistic orders, which it sorts. */
static struct interval interval_of(double *value, size_t count, const int64_t *orders, double all,
				   double confidence)
{
	struct interval interval;
	size_t out = cut(orders, all, count, confidence, &interval.confidence);

	qsort(value, count, sizeof(*value), by_value);
	interval.low = value[out];
	interval.high = value[count - 1 - out];
	interval.ratio = median(value, count);
	return interval;
}

struct interval interval_ratio(const double *a, size_t a_count, const double *b, size_t b_count,
			       double confidence)
{
	double ratio[RATIOS_MAX] = { 0 }, all;
	int64_t orders[RATIOS_MAX + 1];
	size_t count = 0;

	if (a_count > INTERVAL_SAMPLES_MAX)
		a_count = INTERVAL_SAMPLES_MAX;
	if (b_count > INTERVAL_SAMPLES_MAX)
		b_count = INTERVAL_SAMPLES_MAX;
	for (size_t i = 0; i < a_count; i++)
		for (size_t j = 0; j < b_count; j++)
			ratio[count++] = b[j] == a[i] ? 1 : b[j] / a[i]; /* also if both are 0 */
	all = count_orders(a_count, b_count, orders);
	return interval_of(ratio, count, orders, all, confidence);
}

struct interval interval_middle(const double *x, size_t count, double confidence)
{
	double mean[MEANS_MAX] = { 0 }, all;
	int64_t signs[MEANS_MAX + 1];
	size_t means = 0;

	if (count > INTERVAL_SAMPLES_MAX)
		count = INTERVAL_SAMPLES_MAX;
	for (size_t i = 0; i < count; i++)
		for (size_t j = i; j < count; j++)
			mean[means++] = (x[i] + x[j]) / 2;
	all = count_signs(count, signs);
	return interval_of(mean, means, signs, all, confidence);
}
