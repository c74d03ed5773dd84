/* range.h: what libraries report about their threads and CUPTI: ranges, waits, overhead. */
#ifndef TS_CORE_RANGE_H
#define TS_CORE_RANGE_H

#include <stdint.h>

#include "proto/event.h"

struct core;
struct exact;
struct process;

/* Open ranges of one process, and of all: 220 bytes each. One user has half of them at most. */
#define RANGES_MAX   4096
#define RANGES_TOTAL (16 * RANGES_MAX)

/* Open ranges end then. */
void range_end_all(struct core *core, struct exact *exact, uint64_t time_ns);

/* Frees the memory, without reporting. */
void range_free_all(struct core *core, struct exact *exact);

/* Handlers of records, see core.c. */
int range_take(struct core *core, struct process *process, const struct ts_event *event);
int range_overhead(struct core *core, struct process *process, const struct ts_event *event);
int range_sync(struct core *core, struct process *process, const struct ts_event *event);

#endif
