/* Row: of the second in which the window opened, which has its calls. Rows of a second are added
 * up: the squares of a cycle that is told in parts must come to those of the whole. */
#include "core/price/row.h"

#include "core/base/time.h"

struct core_watch row_of_cycle(const struct watch_cycle *cycle, uint32_t process,
			       enum price_part part)
{
	uint64_t all_ns = cycle->end_ns - cycle->start_ns;
	uint64_t ms_before = cycle->before_ns / (uint64_t)NS_PER_MS;
	uint64_t ms = (cycle->before_ns + all_ns - cycle->watched_ns) / (uint64_t)NS_PER_MS;
	uint64_t before = cycle->before_missed, missed = before + cycle->missed;

	return (struct core_watch){
		.second = cycle->opened_ns / (uint64_t)NS_PER_S,
		.process = process,
		.part = (uint8_t)part,
		.windows = cycle->window,
		.watched_ns = cycle->watched_ns,
		.all_ns = all_ns,
		.seen = cycle->hits,
		.missed = cycle->missed,
		.missed_by = cycle->missed_by,
		.missed_missed = missed * missed - before * before,
		.missed_ms = missed * ms - before * ms_before,
		.ms_ms = ms * ms - ms_before * ms_before,
	};
}
