/* Row: of the second in which the window opened, which has its calls. Rows of a second are added
 * up. */
#include "core/price/row.h"

#include "core/base/time.h"

struct core_watch row_of_cycle(const struct watch_cycle *cycle, uint32_t process,
			       enum price_part part)
{
	return (struct core_watch){
		.second = cycle->opened_ns / (uint64_t)NS_PER_S,
		.process = process,
		.part = (uint8_t)part,
		.windows = cycle->window,
		.watched_ns = cycle->watched_ns,
		.all_ns = cycle->end_ns - cycle->start_ns,
		.seen = cycle->hits,
		.missed = cycle->missed,
		.missed_by = cycle->missed_by,
		.error2 = cycle->error2,
	};
}
