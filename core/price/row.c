/* Row: of the second in which the window opened, which has its calls. */
#include "core/price/row.h"

#include "core/base/time.h"

struct core_watch row_of_cycle(const struct watch_cycle *cycle, uint32_t process,
			       enum price_part part)
{
	uint64_t all_ns = cycle->end_ns - cycle->start_ns;
	uint64_t ms = (all_ns - cycle->watched_ns) / (uint64_t)NS_PER_MS;

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
		.missed_missed = cycle->missed * cycle->missed,
		.missed_ms = cycle->missed * ms,
		.ms_ms = ms * ms,
	};
}
