/* interval.h: how far the ratio of two small samples may be from the one that was measured. Pure.
 *
 * The ratio is the median of all ratios of one of B to one of A, and the ends of its interval are
 * order statistics of these: of the logarithms, the estimate of Hodges and Lehmann and the interval
 * of Moses, from the exact distribution of the Mann-Whitney statistic (M. Hollander, D. A. Wolfe,
 * E. Chicken: Nonparametric Statistical Methods, 3rd edition, 4.2 and 4.3). It takes nothing for
 * granted but that the samples are independent and differ by a factor; one that is far off does
 * not move it. Small samples cannot be sure of much: 3 and 3 of 90 %, 4 and 4 of 97 %, 5 and 5 of
 * 99 %.
 */
#ifndef TS_CLIENT_INTERVAL_H
#define TS_CLIENT_INTERVAL_H

#include <stddef.h>

#define INTERVAL_SAMPLES_MAX 32 /* of each, so that counts of their orders fit in 64 bits */

struct interval {
	double ratio, low, high;
	double confidence; /* that the true ratio lies between: a share */
};

/* The narrowest of at least this confidence, or the widest there is. Samples are not negative;
 * there is one of each at least. */
struct interval interval_ratio(const double *a, size_t a_count, const double *b, size_t b_count,
			       double confidence);

#endif
