/* gpu_pool.h: the memory pools of a process, as CUPTI reports them. */
#ifndef TS_CORE_GPU_POOL_H
#define TS_CORE_GPU_POOL_H

#include <stdbool.h>

#include "core/base/list.h"
#include "core/model/core.h"

struct exact;
struct process;

struct gpu_pool {
	struct list link; /* in exact's */
	struct core_pool row;
	bool untold;
	uint64_t gone_ns; /* destroyed, 0: not */
};

/* At a checkpoint. */
void gpu_pool_tell_all(struct core *core, struct exact *exact, uint64_t now_ns);
/* The process runs another program now. */
void gpu_pool_forget_all(struct core *core, struct exact *exact);
void gpu_pool_free_all(struct exact *exact);

/* Handler of records, see core.c. */
int gpu_pool_take(struct core *core, struct process *process, const struct ts_event *event);

#endif
