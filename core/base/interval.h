/* interval.h: how far the ratio of two small samples, or the middle of one, may be from the
 * measured one. Pure.
 *
 * The ratio is the median of all ratios of one of B to one of A, and the ends of its interval are
 * order statistics of these: for the logarithms, the estimate of Hodges and Lehmann and the
 * interval of Moses, from the exact distribution of the Mann-Whitney statistic (M. Hollander, D. A.
 * Wolfe, E. Chicken: Nonparametric Statistical Methods, 3rd edition, 4.2 and 4.3). It only assumes
 * that the samples are independent and differ by a factor; an outlier does not move it. Small
 * samples have limited confidence: 3 and 3 of 90 %, 4 and 4 of 97 %, 5 and 5 of 99 %.
 *
 * The middle of one sample is the median of the means of all its pairs, with the interval of the
 * signed-rank statistic (J. W. Tukey; the same book, 3.2 and 3.3). It assumes that the samples are
 * independent and spread alike to both sides. 5 samples have a confidence of 94 %.
 */
#ifndef TS_INTERVAL_H
#define TS_INTERVAL_H

#include <stddef.h>

#define INTERVAL_SAMPLES_MAX 32 /* of each, so that counts of their orders fit in 64 bits */

struct interval {
	double ratio, low, high; /* of one sample: its middle */
	double confidence;	 /* probability that the true one is in between */
};

/* The narrowest of at least this confidence, or the widest possible. Samples are not negative; each
 * side has at least one. */
struct interval interval_ratio(const double *a, size_t a_count, const double *b, size_t b_count,
			       double confidence);
/* The same of one sample, of any sign. */
struct interval interval_middle(const double *x, size_t count, double confidence);

#endif
