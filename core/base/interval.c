/* Interval: the distribution of the Mann-Whitney statistic is that of the coefficients of a
 * Gaussian binomial, which are counted. */
#include "core/base/interval.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define RATIOS_MAX (INTERVAL_SAMPLES_MAX * INTERVAL_SAMPLES_MAX)

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
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

/* How many ratios are outside at each end of the narrowest interval that has the confidence. */
static size_t cut(size_t a_count, size_t b_count, double confidence, double *ret_confidence)
{
	int64_t orders[RATIOS_MAX + 1];
	double all = count_orders(a_count, b_count, orders), below = (double)orders[0];
	size_t out = 0;

	*ret_confidence = 1 - 2 * below / all;
	while (2 * (out + 1) < a_count * b_count) {
		below += (double)orders[out + 1];
		if (1 - 2 * below / all < confidence)
			break;
		*ret_confidence = 1 - 2 * below / all;
		out++;
	}
	return out;
}

struct interval interval_ratio(const double *a, size_t a_count, const double *b, size_t b_count,
			       double confidence)
{
	double ratio[RATIOS_MAX] = { 0 };
	size_t count = 0, out;
	struct interval interval;

	if (a_count > INTERVAL_SAMPLES_MAX)
		a_count = INTERVAL_SAMPLES_MAX;
	if (b_count > INTERVAL_SAMPLES_MAX)
		b_count = INTERVAL_SAMPLES_MAX;
	for (size_t i = 0; i < a_count; i++)
		for (size_t j = 0; j < b_count; j++)
			ratio[count++] = b[j] == a[i] ? 1 : b[j] / a[i]; /* also if both are 0 */
	qsort(ratio, count, sizeof(*ratio), by_value);
	out = cut(a_count, b_count, confidence, &interval.confidence);
	interval.low = ratio[out];
	interval.high = ratio[count - 1 - out];
	interval.ratio =
		count % 2 ? ratio[count / 2] : (ratio[count / 2 - 1] + ratio[count / 2]) / 2;
	return interval;
}
