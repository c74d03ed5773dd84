/* recount.h: sums and states from existing ops, computed by the same parts of the model that
 * compute them from events. For the exact tier. A device is seen from its process's first
 * submission to its last op. The memory that ops can make it hold is bounded.
 */
#ifndef TS_CORE_RECOUNT_H
#define TS_CORE_RECOUNT_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/cleanup.h"
#include "core/model/core.h"

/* What comes out is valid during the call only. */
struct recount_sink {
	void (*state)(void *data, const struct op *op);
	/* Rows of ROLLUP, WORK and BUSY; with memory also ALLOCATION and MEMORY. */
	void (*row)(void *data, enum core_row type, const void *row);
	/* Follows memory: what is live is reported at the end, with rollups of what was freed. */
	bool with_memory;
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
