/* Export bins: unused spans hold 0. */
#include "client/export/bins.h"

#include <string.h>

#define FIRST_SHIFT 20

static void double_spans(struct bins *bins)
{
	uint64_t first = bins->first >> 1;
	uint32_t count = (uint32_t)(((bins->first + bins->count - 1) >> 1) - first + 1);

	for (uint32_t i = 0; i < bins->count; i++) {
		double amount = bins->amount[i];

		bins->amount[i] = 0;
		bins->amount[((bins->first + i) >> 1) - first] += amount;
	}
	bins->first = first;
	bins->count = count;
	bins->shift++;
}

/* Makes the spans cover both times. */
static void reach(struct bins *bins, uint64_t low_ns, uint64_t high_ns)
{
	uint64_t low, high;

	if (bins->count == 0) {
		bins->shift = FIRST_SHIFT;
		bins->first = low_ns >> FIRST_SHIFT;
		bins->count = 1;
	}
	for (;;) {
		uint64_t last = bins->first + bins->count - 1;

		low = low_ns >> bins->shift;
		high = high_ns >> bins->shift;
		low = low < bins->first ? low : bins->first;
		high = high > last ? high : last;
		if (high - low < BINS_MAX)
			break;
		double_spans(bins);
	}
	if (low < bins->first) {
		uint64_t by = bins->first - low;

		memmove(bins->amount + by, bins->amount, bins->count * sizeof(bins->amount[0]));
		memset(bins->amount, 0, by * sizeof(bins->amount[0]));
	}
	bins->first = low;
	bins->count = (uint32_t)(high - low + 1);
}

void bins_add(struct bins *bins, uint64_t start_ns, uint64_t end_ns, double amount)
{
	double per_ns;

	if (end_ns <= start_ns)
		return;
	reach(bins, start_ns, end_ns - 1);
	per_ns = amount / (double)(end_ns - start_ns);
	while (start_ns < end_ns) {
		uint64_t number = start_ns >> bins->shift;
		uint64_t next = (number + 1) << bins->shift;
		uint64_t stop = next > start_ns && next < end_ns ? next : end_ns;

		bins->amount[number - bins->first] += per_ns * (double)(stop - start_ns);
		start_ns = stop;
	}
}
