/* mempool.h: the memory pools of a process. */
#ifndef TS_CORE_MEMPOOL_H
#define TS_CORE_MEMPOOL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/list.h"

struct allocation;
struct call;
struct core;
struct process;
struct ts_event;

struct mempool {
	struct list link; /* in the process */
	uint64_t handle;
	int16_t device; /* DEVICE_UNKNOWN: of the host */
};

/* The device of allocations from it; DEVICE_UNKNOWN also for an unknown pool. */
int16_t mempool_device(const struct process *process, uint64_t handle);

void mempool_known(struct call *call);
void mempool_destroy(struct call *call);
void mempool_forget_all(struct process *process);

/* The allocator of a framework reports a block. */
void mempool_tensor(struct call *call);
/* For the block the program asked for these bytes. False: it has fewer, or far too many. */
bool mempool_set_request(struct core *core, struct allocation *allocation, uint64_t bytes);
void mempool_forget_request(struct core *core, struct allocation *allocation);
/* Of a block it should be known by now, if it is for others. */
void mempool_compare(struct core *core, const struct allocation *allocation);
/* What the program asked for, of the block that its thread has just got. */
int mempool_requested(struct core *core, struct process *process, const struct ts_event *event);
/* What one says of itself between two blocks that are followed. False: no such process. */
struct core_sums;
bool mempool_told(struct core *core, const struct core_sums *sums);
void mempool_checkpoint(struct core *core);
/* The process, or its address space, is gone. Without a core nothing is reported. */
void mempool_forget_allocators(struct core *core, struct process *process);

#endif
