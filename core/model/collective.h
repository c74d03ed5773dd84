/* collective.h: what is called on NCCL's communicators, with the kernels that it became. */
#ifndef TS_CORE_COLLECTIVE_H
#define TS_CORE_COLLECTIVE_H

#include <stdint.h>

#include "core/base/list.h"

struct core;
struct function;
struct pending;
struct process;
struct ts_event;

/* Calls in open groups, or whose kernels run, by what tells them apart: 100 bytes each. One user
 * has half of them at most. */
#define COLLECTIVES_TOTAL 65536
/* Open groups of a process: one for each thread that is in one. A group's kinds of calls: each
 * communicator has its own. */
#define GROUPS_MAX 256
#define PARTS_MAX  128

/* Of a process. */
struct collectives {
	struct list groups;   /* struct group */
	struct list launches; /* struct launched */
	uint32_t group_count;
};

void collective_init(struct collectives *collectives);

/* Handler of calls of NCCL. */
int collective_ingest(struct core *core, struct process *process, const struct ts_event *event,
		      const struct function *function);
/* The op of a kernel that belongs to such calls leaves. */
void collective_ran(struct core *core, struct pending *pending);

void collective_checkpoint(struct core *core);
/* The process, or its program, is gone: what was called in open groups came to nothing. */
void collective_end_all(struct core *core, struct process *process);
/* Frees the memory, without reporting. */
void collective_free_all(struct core *core, struct process *process);

#endif
