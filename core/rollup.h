/* rollup.h: sums over like calls, since the last checkpoint. */
#ifndef TS_CORE_ROLLUP_H
#define TS_CORE_ROLLUP_H

#include "core/core.h"

struct rollup_row {
	struct core_rollup sum;
	uint32_t next; /* in its bucket: 1 + index, 0 ends it */
};

struct rollups {
	struct rollup_row *row;
	uint32_t count, room;
	uint32_t *bucket; /* 1 + index of its first row, 0: none */
	uint32_t bucket_mask;
};

int rollup_init(struct core *core);
void rollup_add_call(struct core *core, const struct op *op);
void rollup_add_freed(struct core *core, const struct core_allocation *allocation,
		      uint64_t time_ns);
void rollup_checkpoint(struct core *core);
void rollup_release(struct core *core);

#endif
