/* process.h: the processes that are followed, and everything that belongs to one. */
#ifndef TS_CORE_PROCESS_H
#define TS_CORE_PROCESS_H

#include "core/base/list.h"
#include "core/leak/growth.h"
#include "core/model/collective.h"
#include "core/model/communicator.h"
#include "core/model/context.h"
#include "core/model/loss.h"
#include "core/model/oom_row.h"
#include "core/model/range.h"
#include "core/model/timeline.h"

struct call;

struct process {
	struct core_process row;
	struct list link;	/* in core's processes, oldest first */
	struct list contexts;	/* struct context, the unknown one first */
	struct context unknown; /* holds what is not known to belong to a context */
	uint32_t context_count; /* without the unknown one */
	/* Of the primary context of each device: the program's retains that were seen. */
	uint32_t retains[CONTEXT_DEVICES_MAX];
	struct list threads;	/* struct thread */
	struct list gpu_events; /* struct gpu_event */
	bool events_told;	/* the creation of events is seen */
	bool event_missed;	/* but one of them could not be kept */
	struct list accounts;	/* struct account */
	struct growing growing;
	struct list devices;	/* struct device */
	struct list capturing;	/* struct stream */
	struct list mappings;	/* struct allocation: mappings */
	struct list mempools;	/* struct mempool */
	struct list allocators; /* struct allocator */
	struct list sizes;	/* struct device_size */
	bool sums_only;		/* and their blocks are not followed */
	struct oom_room room;
	uint64_t emptied_ns;	/* the latest start of another program in it */
	struct ranges ranges;	/* of the range library */
	struct map range_names; /* ids, and when each was last told */
	struct communicators communicators;
	struct collectives collectives;
	struct timeline timeline;
	uint32_t mempool_count;
	struct loss loss;
	bool unreturned;     /* what a call made is unknown, as its return was not seen */
	uint64_t init_ns;    /* when it first initialized the driver, 0: not seen */
	uint64_t used_ns;    /* when it first used the driver, as far as seen; 0: not yet */
	uint64_t gone_ns;    /* seen gone before its EXIT came; 0: not */
	struct exact *exact; /* NULL: no library was seen in it */
};

struct process *process_by_pid(const struct core *core, uint32_t pid);
struct process *process_by_id(const struct core *core, uint32_t id);

/* Under the id in the row. NULL: the limit is reached. Reports nothing. */
struct process *process_add(struct core *core, const struct core_process *row);
void process_end(struct core *core, struct process *process, uint64_t time_ns, int32_t exit_code);

/* It has ended; its EXIT, and its last events, may still come. */
void process_gone(struct core *core, struct process *process, uint64_t time_ns);
/* Ends those whose EXIT did not come in time, or (UINT64_MAX) will not come any more. */
void process_tick(struct core *core, uint64_t now_ns);

/* Handlers of records, see core.c. */
int process_announced(struct core *core, struct process *process, const struct ts_event *event);
int process_executed(struct core *core, struct process *process, const struct ts_event *event);
int process_exited(struct core *core, struct process *process, const struct ts_event *event);

/* A call of it succeeded, or its return is not probed. */
void process_used(struct process *process, uint64_t start_ns);
void process_initialized(struct call *call);
/* Whether all its use of the driver was seen: nothing happened before tracing started. */
bool process_is_whole(const struct process *process);

/* Frees the memory of a process and of what belongs to it, without reporting. */
void process_free(struct core *core, struct process *process);

#endif
