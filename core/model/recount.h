/* recount.h: sums and states of ops that are there already, made by the parts of the model that
 * make them from events. Of the exact tier. A device is seen from its process's first submission to
 * its last op. What ops can make it hold is bounded.
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
	/* NULL: memory is not followed. Else it is told at the end, what is live then; and rollups
	 * of what was freed. */
	void (*allocation)(void *data, const struct core_allocation *allocation, bool live);
	void (*memory)(void *data, const struct core_memory *memory);
	void *data;
};

struct recount;

int recount_new(const struct recount_sink *sink, struct recount **ret);
struct recount *recount_free(struct recount *recount);
/* Before their ops; of a process any number. -ENOSPC, here and below: a bound is reached, one may
 * go on. */
int recount_stream(struct recount *recount, uint32_t process, uint32_t stream, int16_t device);
/* In order of start_ns. */
int recount_op(struct recount *recount, const struct op *op);
/* Tells the sums so far, and begins them anew: the same rows may come again, to be added. */
void recount_tell(struct recount *recount);
/* What is still open is told, and the sums. */
void recount_end(struct recount *recount);
uint64_t recount_limited(const struct recount *recount); /* left out since a bound was reached */

CLEANUP_DEFINE(struct recount, recount_free)

#endif
