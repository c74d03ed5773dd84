/* Bench_exact: what the model pays for a record of the exact tier; the sink does nothing. Prints a
 * table; best of several rounds. */
#include <stdio.h>

#include "core/base/array.h"
#include "tests/bench/counting_sink.h"
#include "tests/bench/exact_load.h"

#define ROUNDS	  7
#define PER_ROUND 400000

static const struct core_config config = {
	EXACT_LIMITS,
	.sink = COUNTING_SINK,
};

int main(void)
{
	static struct burst b;

	printf("%-30s %10s %12s %9s %9s\n", "load", "ns/record", "million/s", "joined", "lost");
	for (size_t i = 0; i < ARRAY_SIZE(exact_loads); i++) {
		struct core_stats stats;
		double best = 0;

		b.load = &exact_loads[i];
		b.number = 0;
		if (core_new(&config, &b.core) < 0)
			return 1;
		begin(b.core);
		for (int r = 0; r < ROUNDS; r++) {
			b.records = 0;
			b.spent = 0;
			for (int done = 0; done < PER_ROUND; done += BURST) {
				burst_make_all(&b);
				burst_give(&b);
			}
			if (!best || b.spent / (double)b.records < best)
				best = b.spent / (double)b.records;
		}
		core_stats(b.core, &stats);
		printf("%-30s %10.1f %12.2f %8.2f%% %9llu\n", b.load->name, best, 1e3 / best,
		       100.0 * (double)stats.joined / (double)stats.exact,
		       (unsigned long long)(stats.bad + stats.stray + stats.limited));
		core_free(b.core);
	}
	return told == 0;
}
