/* Tables: the rows of the fleet's database. Names take the place of the numbers that they have in
 * the daemon's, so that rows of many hosts can be added up; queries add up rows that then have the
 * same key. */
#include "client/ship/tables.h"

#include <string.h>

#include "core/base/array.h"

#define U8(name)                                                                                   \
	{                                                                                          \
#name, ROWBINARY_U8                                                                \
	}
#define U32(name)                                                                                  \
	{                                                                                          \
#name, ROWBINARY_U32                                                               \
	}
#define U64(name)                                                                                  \
	{                                                                                          \
#name, ROWBINARY_U64                                                               \
	}
#define I32(name)                                                                                  \
	{                                                                                          \
#name, ROWBINARY_I32                                                               \
	}
#define I64(name)                                                                                  \
	{                                                                                          \
#name, ROWBINARY_I64                                                               \
	}
#define TIME(name)                                                                                 \
	{                                                                                          \
#name, ROWBINARY_TIME                                                              \
	}
#define TEXT(name)                                                                                 \
	{                                                                                          \
#name, ROWBINARY_TEXT                                                              \
	}

/* clang-format off */
const struct table tables[] = {
	{ "stack", TABLE_ONCE, "ship-stack", /* before what names it */
	  { I64(process), I64(stack), TIME(time), TEXT(site), { "frames", ROWBINARY_LINES } } },
	{ "process", TABLE_IDENTITY | TABLE_WITH_OPS | TABLE_NEEDED, "ship-process",
	  { I64(process), TIME(time), U32(pid), U32(ns_pid), U32(ppid), U32(uid), TEXT(user),
	    TEXT(comm), TEXT(command), TEXT(container), TEXT(tier), U64(first_ns), U64(exit_ns),
	    I32(exit_code), TEXT(pod), TEXT(namespace), TEXT(slurm_job), TEXT(slurm_step),
	    TEXT(job), I32(rank), I32(local_rank), I32(world_size) } },
	{ "device", TABLE_WITH_OPS | TABLE_NEEDED, "ship-device",
	  { I64(process), I32(device), TIME(time), TEXT(uuid), TEXT(name), U64(memory_bytes),
	    U32(multiprocessors), U32(clock_khz) } },
	{ "rollup", TABLE_SUMS | TABLE_KEPT, "ship-rollup",
	  { I64(process), TIME(time), U32(second), TEXT(kind), TEXT(fn), TEXT(detail), I32(device),
	    I32(result), U8(freed), U64(calls), U64(timed), U64(captured), U64(total_ns),
	    U64(min_ns), U64(max_ns), U64(bytes) } },
	{ "work", TABLE_SUMS | TABLE_KEPT, "ship-work",
	  { I64(process), TIME(time), U32(second), I32(device), TEXT(kind), TEXT(detail),
	    TEXT(name), U64(count), U64(total_ns), U64(min_ns), U64(max_ns), U64(bytes),
	    U64(delay_ns) } },
	{ "busy", TABLE_SUMS | TABLE_KEPT, "ship-busy",
	  { I64(process), TIME(time), U32(second), I32(device), TEXT(state), U64(ns) } },
	{ "collective", TABLE_SUMS, "ship-collective",
	  { I64(process), TIME(time), U32(second), U32(number), TEXT(communicator), I32(rank),
	    U32(size), TEXT(operation), TEXT(type), TEXT(reduction), I32(peer), U8(log2_bytes),
	    U64(calls), U64(bytes), U64(runs), U64(shared), U64(timed), U64(timed_bytes),
	    U64(total_ns), U64(min_ns), U64(max_ns) } },
	{ "memory", 0, "ship-memory",
	  { I64(process), TIME(time), U32(second), I32(device), TEXT(kind), U64(live_bytes),
	    U64(live_count), U64(peak_bytes) } },
	{ "growth", 0, "ship-growth",
	  { I64(process), I64(stack), TEXT(fn), TEXT(kind), I32(device), TIME(time), TIME(seen),
	    TEXT(verdict), U32(confidence), U64(kept), U64(kept_bytes), I64(bytes_per_hour),
	    I64(bytes_per_step), U64(allocations), U64(frees) } },
	{ "price", 0, "ship-price",
	  { I64(process), TEXT(part), TIME(time), TIME(seen), U8(measured), U32(budget_ppm),
	    U32(share_ppm), I64(cost_ppm), I64(cost_low_ppm), I64(cost_high_ppm) } },
	{ "incident", 0, "ship-incident",
	  { TEXT(kind), I64(id), TIME(time), I64(process), I32(device), I64(stack), U64(time_ns),
	    U64(last_ns), U64(bytes), TEXT(text), TEXT(detail) } },
	{ "op", TABLE_OPS, "ship-op",
	  { I64(process), TIME(time), TEXT(kind), TEXT(fn), TEXT(detail), TEXT(name), I32(device),
	    I64(stream), U32(tid), U64(start_ns), U64(end_ns), U64(gpu_start_ns), U64(gpu_end_ns),
	    U64(seen_ns), I32(result), U64(bytes), U64(live_bytes), U32(flags), U64(correlation),
	    U64(node), I64(stack) } },
	{ "loss", TABLE_SUMS | TABLE_WITH_OPS, "ship-loss",
	  { I64(process), TIME(time), U32(second), TEXT(reason), U64(count), U64(start_ns),
	    U64(end_ns) } },
	{ "clock", TABLE_WITH_OPS | TABLE_NEEDED, NULL,
	  { TEXT(server), TIME(time), U64(at_ns), I64(offset_ns), I64(drift_ppb), U64(bound_ns),
	    U64(drift_bound_ppb), U64(round_trip_ns), I64(wall_offset_ns) } },
	{ "host", TABLE_WITH_OPS | TABLE_NEEDED, NULL,
	  { TEXT(machine), TIME(time), TIME(seen), U32(lag_s), TEXT(tracesmith), TEXT(kernel),
	    TEXT(driver), U32(cpus), U32(gpus), I64(wall_offset_ns) } },
};
/* clang-format on */

const size_t tables_count = ARRAY_SIZE(tables);

const struct table *tables_find(const char *name, size_t size)
{
	for (size_t i = 0; i < tables_count; i++)
		if (strlen(tables[i].name) == size && memcmp(tables[i].name, name, size) == 0)
			return &tables[i];
	return NULL;
}

uint32_t tables_bit(const struct table *table)
{
	return 1u << (table - tables);
}

size_t tables_columns(const struct table *table)
{
	size_t count = 0;

	while (count < TABLES_COLUMNS_MAX && table->column[count].name)
		count++;
	return count;
}
