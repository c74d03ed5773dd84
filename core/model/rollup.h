/* rollup.h: sums over similar calls, and over similar device work, since the last checkpoint. */
#ifndef TS_CORE_ROLLUP_H
#define TS_CORE_ROLLUP_H

#include "core/base/sums.h"
#include "core/model/core.h"

void rollup_init(struct core *core);
void rollup_add_call(struct core *core, const struct op *op);
void rollup_add_freed(struct core *core, const struct core_allocation *allocation,
		      uint64_t time_ns);
/* Of an op with exact times. */
void rollup_add_work(struct core *core, const struct op *op);
void rollup_checkpoint(struct core *core);
void rollup_release(struct core *core);

#endif
