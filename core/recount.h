/* recount.h: sums and states of ops that are there already, made by the parts of the model that
 * make them from events. Of the exact tier. A device is seen from its process's first submission to
 * its last op.
 */
#ifndef TS_CORE_RECOUNT_H
#define TS_CORE_RECOUNT_H

#include <stddef.h>

#include "core/base/cleanup.h"
#include "core/core.h"

/* What comes out is valid during the call only. */
struct recount_sink {
	void (*state)(void *data, const struct op *op);
	void (*rollup)(void *data, const struct core_rollup *rollup);
	void (*work)(void *data, const struct core_work *work);
	void (*busy)(void *data, const struct core_busy *busy);
	void *data;
};

struct recount;

int recount_new(const struct recount_sink *sink, struct recount **ret);
struct recount *recount_free(struct recount *recount);
/* Before their ops; of a process any number. */
int recount_stream(struct recount *recount, uint32_t process, uint32_t stream, int16_t device);
/* In order of start_ns. */
int recount_op(struct recount *recount, const struct op *op);
/* What is still open is told, and the sums. */
void recount_end(struct recount *recount);

CLEANUP_DEFINE(struct recount, recount_free)

#endif
