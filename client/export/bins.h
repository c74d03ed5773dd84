/* bins.h: amounts over time, in a bounded number of equal spans.
 *
 * A span is a power of two of nanoseconds, at first about a millisecond; it doubles when there are
 * too many spans. Amounts may come in any order of time. */
#ifndef TS_CLIENT_EXPORT_BINS_H
#define TS_CLIENT_EXPORT_BINS_H

#include <stdint.h>

#define BINS_MAX 2048

/* Zeroed is empty. */
struct bins {
	uint64_t first; /* number of the first span: its start >> shift */
	uint32_t count;
	uint8_t shift;
	double amount[BINS_MAX];
};

/* Spreads an amount evenly from start to end; adds nothing if the end is not after the start. */
void bins_add(struct bins *bins, uint64_t start_ns, uint64_t end_ns, double amount);

static inline uint64_t bins_start_ns(const struct bins *bins, uint32_t i)
{
	return (bins->first + i) << bins->shift;
}

static inline uint64_t bins_width_ns(const struct bins *bins)
{
	return UINT64_C(1) << bins->shift;
}

#endif
