/* row.h: a cycle of windows as a row of `watch`, from which queries compute estimates and their
 * errors. Pure. */
#ifndef TS_PRICE_ROW_H
#define TS_PRICE_ROW_H

#include "core/model/core.h"
#include "core/price/watch.h"

struct core_watch row_of_cycle(const struct watch_cycle *cycle, uint32_t process,
			       enum price_part part);

#endif
