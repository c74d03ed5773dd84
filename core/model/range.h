/* range.h: what libraries report about their threads and CUPTI: ranges, waits, overhead. */
#ifndef TS_CORE_RANGE_H
#define TS_CORE_RANGE_H

#include <stdint.h>

#include "core/base/list.h"
#include "core/base/map.h"
#include "proto/event.h"

struct core;
struct process;

/* Open ranges of one process, and of all: some 300 bytes each. One user has half of them at most.
 * Those of CUPTI and those of the range library have a bound each. */
#define RANGES_MAX   4096
#define RANGES_TOTAL (16 * RANGES_MAX)

/* The open ranges of one source. */
struct ranges {
	struct map by_number;
	struct list list; /* struct range, oldest first */
};

void ranges_init(struct ranges *ranges);
/* Open ranges end then. */
void range_end_all(struct core *core, struct ranges *ranges, struct process *process,
		   uint64_t time_ns);
/* Those of the range library, of all processes. */
void range_flush(struct core *core, uint64_t time_ns);

/* Frees the memory, without reporting. */
void range_free_all(struct core *core, struct ranges *ranges, const struct process *process);

/* A call of the range library: `part` is enum ts_range_part. */
int range_called(struct core *core, struct process *process, const struct ts_event *event,
		 uint8_t part);

/* Handlers of records, see core.c. */
int range_take(struct core *core, struct process *process, const struct ts_event *event);
int range_overhead(struct core *core, struct process *process, const struct ts_event *event);
int range_sync(struct core *core, struct process *process, const struct ts_event *event);

#endif
