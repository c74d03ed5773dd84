/* model.h: everything that the model holds. Every member belongs to the file that it is named
 * after. */
#ifndef TS_CORE_MODEL_H
#define TS_CORE_MODEL_H

#include "core/base/list.h"
#include "core/base/map.h"
#include "core/base/pool.h"
#include "core/base/quota.h"
#include "core/base/set.h"
#include "core/base/sums.h"
#include "core/model/context.h"
#include "core/model/core.h"
#include "core/model/exact.h"
#include "core/model/gpu_event.h"
#include "core/model/loss.h"
#include "core/model/memory.h"
#include "core/model/process.h"
#include "core/model/rollup.h"
#include "core/model/state.h"
#include "core/model/stream.h"
#include "core/model/superseded.h"
#include "core/model/thread.h"
#include "core/model/timeline.h"

#define TOLD_NAMES 4096

/* What users share, so that none of them can take all of it. */
enum core_share {
	CORE_SHARE_PROCESSES,
	CORE_SHARE_THREADS,
	CORE_SHARE_STREAMS,
	CORE_SHARE_EVENTS,
	CORE_SHARE_ALLOCATIONS,
	CORE_SHARE_NAMES,
	CORE_SHARE_CALLS, /* rows of rollups, until the checkpoint */
	CORE_SHARE_WORK,
	CORE_SHARE_PLAIN_CALLS, /* without stack and stream */
	CORE_SHARE_PLAIN_WORK,
	CORE_SHARE_RANGES,
	CORE_SHARE_GROWTHS,
	CORE_SHARE_OOMS, /* in a minute */
	CORE_SHARE_COMMUNICATORS,
	CORE_SHARE_COLLECTIVES,
	CORE_SHARE_COLLECTIVE_ROWS, /* until the checkpoint */
	/* Taken away again from whoever has most. */
	CORE_SHARE_PENDING,
	CORE_SHARE_WAITING,
	CORE_SHARE_EDGES,
	CORE_SHARES
};

/* A name that was reported recently, of a process of this user. */
struct told_name {
	uint64_t id, time_ns;
	uint32_t user;
};

struct core {
	struct core_config config;
	struct core_stats stats;
	uint64_t now_ns;    /* the latest time seen anywhere */
	uint64_t ticked_ns; /* the latest time passed in, 0: none yet */
	struct loss loss;   /* of no known process */

	struct quota share[CORE_SHARES];

	struct list processes;
	uint32_t gone; /* of them */
	struct map process_by_pid, process_by_id;
	uint32_t next_process;

	struct map thread_by_tid;
	struct pool thread_pool;

	struct map stream_by_key; /* not the destroyed ones */
	struct map stream_by_id;
	uint32_t next_stream;
	uint64_t next_capture;
	struct list states;

	struct map gpu_event_by_handle;
	struct pool gpu_event_pool;

	struct list timelines; /* of processes with pending work */
	struct pool pending_pool;

	struct set allocation_by_address;
	struct allocation **changed_allocation; /* created or gone, and not yet reported */
	uint32_t changed_count, changed_room;
	struct list changed_accounts;
	struct list changed_allocators;		 /* mempool.c */
	struct pool allocation_pool, block_pool; /* of a framework: smaller */
	uint64_t next_allocation;
	struct superseded_all superseded;

	struct growths growths;

	struct list ooms;
	uint32_t next_oom;

	struct sums calls, work; /* rollup.c */
	struct sums collectives; /* collective.c */

	struct list exacts;
	struct pool ticket_pool, answer_pool;
	uint32_t waiting; /* tickets and answers of all */
	uint32_t edges;	  /* in all sweeps */
	struct told_name told_name[TOLD_NAMES];
};

/* oom.c */
#define OOM_RECENT 128 /* autopsies of a minute, by all users together */
void oom_checkpoint(struct core *core);
void oom_release_all(struct core *core);

static inline void core_emit(struct core *core, const struct op *op)
{
	core->stats.ops++;
	if (op->flags & OP_EXACT && op->kind != OP_STATE && op->kind != OP_SYNC) {
		core->stats.exact++;
		core->stats.joined += !(op->flags & OP_NO_CALL);
	}
	core->config.sink.op(core->config.data, op);
}

/* Hands a row to the sink. */
#define core_tell(core, ...)                                                                       \
	(core)->config.sink.row((core)->config.data, core_row_type(__VA_ARGS__), __VA_ARGS__)

#endif
