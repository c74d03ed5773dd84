/* communicator.h: NCCL's communicators of a process. */
#ifndef TS_CORE_COMMUNICATOR_H
#define TS_CORE_COMMUNICATOR_H

#include <stdint.h>

#include "core/base/list.h"
#include "core/base/map.h"
#include "core/model/core.h"

struct process;

/* What a process makes of them in its life: each is a row. Further ones are not told apart. One
 * user has half of those of all. */
#define COMMUNICATORS_MAX   4096
#define COMMUNICATORS_TOTAL (16 * COMMUNICATORS_MAX)

/* Of a process. */
struct communicators {
	struct map by_handle; /* struct communicator */
	struct list list;     /* likewise */
	uint32_t made;	      /* the number of the latest */
};

/* What a call says, as ncclResult_t: it did what it should, or goes on with that. */
static inline bool communicator_result_ok(int32_t result)
{
	return result == 0 || result == 7;
}

void communicator_init(struct communicators *communicators);
/* The number of the one that a call names; 0: it is one of too many. One whose start was not seen
 * is new by that. */
uint32_t communicator_number(struct core *core, struct process *process,
			     const struct ts_event *event);
/* A call of `effect` (EFFECT_COMM_*) that returned well. */
void communicator_called(struct core *core, struct process *process, const struct ts_event *event,
			 enum effect effect);
/* The process, or its program, is gone. */
void communicator_end_all(struct core *core, struct process *process, uint64_t time_ns);
/* Frees the memory, without reporting. */
void communicator_free_all(struct core *core, struct process *process);

#endif
