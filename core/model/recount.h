/* recount.h: sums and states from existing ops, computed by the same parts of the model that
 * compute them from events. For the exact tier. A device is seen from its process's first
 * submission to its last op. The memory that ops can make it hold is bounded.
 */
#ifndef TS_CORE_RECOUNT_H
#define TS_CORE_RECOUNT_H

#include <stddef.h>

#include "core/base/cleanup.h"
#include "core/model/core.h"

/* What comes out is valid during the call only. */
struct recount_sink {
	void (*state)(void *data, const struct op *op);
	void (*rollup)(void *data, const struct core_rollup *rollup);
	void (*work)(void *data, const struct core_work *work);
	void (*busy)(void *data, const struct core_busy *busy);
	/* NULL: memory is not followed. Otherwise what is live is reported at the end, with rollups
	 * of what was freed. */
	void (*allocation)(void *data, const struct core_allocation *allocation, bool live);
	void (*memory)(void *data, const struct core_memory *memory);
	void *data;
};

struct recount;

int recount_new(const struct recount_sink *sink, struct recount **ret);
struct recount *recount_free(struct recount *recount);
/* Before their ops; any number per process. -ENOSPC, here and below: a limit is reached, the caller
 * may continue. */
int recount_stream(struct recount *recount, uint32_t process, uint32_t stream, int16_t device);
/* In order of start_ns. */
int recount_op(struct recount *recount, const struct op *op);
/* Reports the sums so far and resets them: the same rows may come again, to be added. */
void recount_tell(struct recount *recount);
/* Reports what is still open, and the sums. */
void recount_end(struct recount *recount);
uint64_t recount_limited(const struct recount *recount); /* left out since a bound was reached */

CLEANUP_DEFINE(struct recount, recount_free)

#endif
