/* Row: the tables. Columns stand in the order of the database, where new ones come last. What a
 * released version has stays as it is: old databases get a change by a step of schema.c. */
#include "core/store/row.h"

#include <string.h>

#include "core/base/array.h"
#include "core/store/record.h"

#define MEMBER(type, member) (((struct type *)0)->member)
#define SOURCE(type, member)                                                                       \
	_Generic(MEMBER(type, member),                                                             \
		bool: ROW_U8,                                                                      \
		uint8_t: ROW_U8,                                                                   \
		uint16_t: ROW_U16,                                                                 \
		uint32_t: ROW_U32,                                                                 \
		uint64_t: ROW_64,                                                                  \
		int64_t: ROW_64,                                                                  \
		int16_t: ROW_I16,                                                                  \
		int32_t: ROW_I32,                                                                  \
		const char *: ROW_TEXT,                                                            \
		char *: ROW_CHARS,                                                                 \
		uint8_t *: ROW_UUID)
#define COLUMN(column, declared, merged, ...)                                                      \
	{                                                                                          \
		.name = #column, .type = declared, .merge = ROW_##merged, __VA_ARGS__              \
	}
/* A member of the struct, as a column of the same name and INTEGER, or as another. */
#define FIELD(type, member, merged) FIELD_AS(type, member, merged, member, "INTEGER", 0)
#define FIELD_AS(struct_of, member, merged, column, declared, flag)                                \
	COLUMN(column, declared, merged, .flags = (flag), .source = SOURCE(struct_of, member),     \
	       .offset = offsetof(struct struct_of, member),                                       \
	       .size = sizeof(MEMBER(struct_of, member)))
#define SECOND_OF(struct_of, column, member, merged)                                               \
	COLUMN(column, "INTEGER", merged, .source = ROW_SECOND,                                    \
	       .offset = offsetof(struct struct_of, member))
#define GIVEN(column, declared, from, merged, flag)                                                \
	COLUMN(column, declared, merged, .flags = (flag), .source = ROW_##from)
/* Written by statements of its own. */
#define OWN(column, declared) GIVEN(column, declared, OWN, REPLACE, 0)
#define OWN_KEY(column)	      GIVEN(column, "INTEGER", OWN, KEY, 0)

static const struct row_column kind_columns[] = {
	OWN_KEY(id),
	OWN(name, "TEXT NOT NULL"),
};

static const struct row_column memory_kind_columns[] = {
	OWN_KEY(id),
	OWN(name, "TEXT NOT NULL"),
	OWN(counts, "INTEGER NOT NULL"),
};

static const struct row_column setting_columns[] = {
	GIVEN(name, "TEXT", OWN, KEY, 0),
	OWN(value, "TEXT NOT NULL"),
};

static const struct row_column stack_end_columns[] = {
	OWN_KEY(id),
	OWN(name, "TEXT NOT NULL"),
	OWN(text, "TEXT NOT NULL"),
};

static const struct row_column loss_reason_columns[] = {
	OWN_KEY(id),
	OWN(name, "TEXT NOT NULL"),
	OWN(text, "TEXT NOT NULL"),
};

static const struct row_column detail_columns[] = {
	OWN_KEY(kind),
	OWN_KEY(id),
	OWN(name, "TEXT NOT NULL"),
};

static const struct row_column function_columns[] = {
	OWN_KEY(id),
	OWN(name, "TEXT NOT NULL"),
	OWN(kind, "INTEGER NOT NULL"),
	OWN(effect, "INTEGER NOT NULL DEFAULT 0"),
	OWN(hot, "INTEGER NOT NULL DEFAULT 0"),
};

static const struct row_column boot_columns[] = {
	OWN_KEY(id),
	OWN(boot_id, "TEXT NOT NULL UNIQUE"),
	OWN(wall_offset_ns, "INTEGER NOT NULL"),
	OWN(last_ns, "INTEGER NOT NULL DEFAULT 0"),
	OWN(next_process, "INTEGER NOT NULL DEFAULT 1"),
	OWN(next_stream, "INTEGER NOT NULL DEFAULT 1"),
	OWN(next_allocation, "INTEGER NOT NULL DEFAULT 1"),
	OWN(next_batch, "INTEGER NOT NULL DEFAULT 1"),
	GIVEN(oldest_pending_ns, "INTEGER NOT NULL DEFAULT 0", OWN, REPLACE, ROW_UNRECORDED),
	GIVEN(next_oom, "INTEGER NOT NULL DEFAULT 1", OWN, REPLACE, ROW_UNRECORDED),
	GIVEN(told_ns, "INTEGER NOT NULL DEFAULT 0", OWN, REPLACE, ROW_UNRECORDED),
};

static const struct row_column process_columns[] = {
	FIELD(core_process, id, KEY),
	GIVEN(boot, "INTEGER NOT NULL", BOOT, KEEP, 0),
	FIELD_AS(core_process, pid, REPLACE, pid, "INTEGER NOT NULL", 0),
	FIELD(core_process, ns_pid, REPLACE),
	FIELD(core_process, ppid, REPLACE),
	FIELD(core_process, uid, REPLACE),
	OWN(user, "TEXT"),
	FIELD(core_process, started_ticks, REPLACE),
	FIELD_AS(core_process, comm, REPLACE, comm, "TEXT", 0),
	OWN(command, "TEXT"),
	FIELD_AS(core_process, cgroup, REPLACE, cgroup_id, "INTEGER", 0),
	OWN(cgroup, "TEXT"),
	OWN(container, "TEXT"),
	FIELD(core_process, first_ns, KEEP),
	FIELD_AS(core_process, exit_ns, REPLACE, exit_ns, "INTEGER", ROW_ZERO_IS_NULL),
	FIELD_AS(core_process, exit_code, REPLACE, exit_code, "INTEGER", ROW_MINUS_ONE_IS_NULL),
	FIELD_AS(core_process, light, REPLACE, light, "INTEGER NOT NULL DEFAULT 0", 0),
	FIELD_AS(core_process, user, REPLACE, owner, "INTEGER", ROW_UNRECORDED),
	GIVEN(variables, "TEXT", OWN, REPLACE, ROW_UNRECORDED),
};

static const struct row_column device_columns[] = {
	FIELD(core_device, process, KEY),
	FIELD(core_device, ordinal, KEY),
	FIELD_AS(core_device, uuid, REPLACE, uuid, "TEXT", 0),
	FIELD(core_device, name, REPLACE),
	FIELD(core_device, memory_bytes, REPLACE),
	FIELD(core_device, multiprocessors, REPLACE),
	FIELD(core_device, clock_khz, REPLACE),
};

static const struct row_column stream_columns[] = {
	FIELD(core_stream, id, KEY),
	FIELD_AS(core_stream, process, REPLACE, process, "INTEGER NOT NULL", 0),
	FIELD(core_stream, handle, REPLACE),
	FIELD(core_stream, context, REPLACE),
	FIELD(core_stream, device, REPLACE),
	FIELD(core_stream, tid, REPLACE),
	FIELD(core_stream, non_blocking, REPLACE),
	FIELD_AS(core_stream, created_ns, REPLACE, created_ns, "INTEGER", ROW_ZERO_IS_NULL),
	FIELD_AS(core_stream, destroyed_ns, REPLACE, destroyed_ns, "INTEGER", ROW_ZERO_IS_NULL),
	FIELD_AS(core_stream, number, REPLACE, number, "INTEGER", ROW_ZERO_IS_NULL),
};

static const struct row_column name_columns[] = {
	OWN_KEY(id),
	OWN(text, "TEXT NOT NULL"),
	OWN(symbol, "TEXT NOT NULL"),
	OWN(boot, "INTEGER NOT NULL"),
	OWN(told_ns, "INTEGER NOT NULL"),
};

static const struct row_column teller_columns[] = {
	OWN_KEY(user),
	OWN_KEY(name),
	OWN(process, "INTEGER NOT NULL"),
	OWN(boot, "INTEGER NOT NULL"),
	OWN(told_ns, "INTEGER NOT NULL"),
};

static const struct row_column stack_columns[] = {
	FIELD(record_stack, id, KEY),
	FIELD_AS(record_stack, process, REPLACE, process, "INTEGER NOT NULL", 0),
	GIVEN(batch, "INTEGER NOT NULL DEFAULT 0", BATCH, REPLACE, ROW_UNRECORDED),
	FIELD_AS(record_stack, end, REPLACE, ended, "INTEGER NOT NULL DEFAULT 0", 0),
	FIELD_AS(record_stack, linked, REPLACE, linked, "INTEGER NOT NULL DEFAULT 0", 0),
};

static const struct row_column backward_columns[] = {
	FIELD(core_backward, id, KEY),
	FIELD_AS(core_backward, process, REPLACE, process, "INTEGER NOT NULL", 0),
	FIELD_AS(core_backward, stack_id, REPLACE, stack, "INTEGER NOT NULL", 0),
	FIELD_AS(core_backward, forward_id, REPLACE, forward, "INTEGER NOT NULL", 0),
	FIELD_AS(core_backward, passed, REPLACE, passed, "INTEGER NOT NULL DEFAULT 0", 0),
};

static const struct row_column frame_columns[] = {
	FIELD(row_frame, stack, KEY),
	FIELD(row_frame, depth, KEY),
	FIELD(row_frame, address, REPLACE),
	FIELD_AS(row_frame, file, REPLACE, file, "TEXT", 0),
	FIELD_AS(row_frame, offset, REPLACE, offset, "INTEGER", ROW_MINUS_ONE_IS_NULL),
	FIELD_AS(row_frame, symbol, REPLACE, symbol, "TEXT", 0),
	FIELD_AS(row_frame, kind, REPLACE, kind, "INTEGER NOT NULL DEFAULT 0", 0),
	FIELD_AS(row_frame, source, REPLACE, source, "TEXT", 0),
	FIELD_AS(row_frame, line, REPLACE, line, "INTEGER", ROW_ZERO_IS_NULL),
	FIELD_AS(row_frame, inlined, REPLACE, inlined, "INTEGER NOT NULL DEFAULT 0", 0),
};

static const struct row_column loss_columns[] = {
	GIVEN(boot, "INTEGER", BOOT, KEY, 0), SECOND_OF(core_loss, second, start_ns, KEY),
	FIELD(core_loss, process, KEY),	      FIELD(core_loss, reason, KEY),
	FIELD(core_loss, start_ns, MIN),      FIELD(core_loss, end_ns, MAX),
	FIELD(core_loss, count, SUM),
};

static const struct row_column rollup_columns[] = {
	GIVEN(boot, "INTEGER", BOOT, KEY, 0),
	FIELD(core_rollup, second, KEY),
	FIELD(core_rollup, process, KEY),
	FIELD(core_rollup, kind, KEY),
	FIELD(core_rollup, fn, KEY),
	FIELD(core_rollup, detail, KEY),
	FIELD(core_rollup, device, KEY),
	FIELD(core_rollup, stream, KEY),
	FIELD(core_rollup, result, KEY),
	FIELD_AS(core_rollup, stack_id, KEY, stack, "INTEGER", 0),
	FIELD(core_rollup, freed, KEY),
	FIELD(core_rollup, calls, SUM),
	FIELD(core_rollup, timed, SUM),
	FIELD(core_rollup, total_ns, SUM),
	FIELD(core_rollup, min_ns, MIN_TIMED),
	FIELD(core_rollup, max_ns, MAX),
	FIELD(core_rollup, bytes, SUM),
	FIELD_AS(core_rollup, captured, SUM, captured, "INTEGER NOT NULL DEFAULT 0", 0),
};

static const struct row_column work_columns[] = {
	GIVEN(boot, "INTEGER", BOOT, KEY, 0),
	FIELD(core_work, second, KEY),
	FIELD(core_work, process, KEY),
	FIELD(core_work, device, KEY),
	FIELD(core_work, stream, KEY),
	FIELD(core_work, kind, KEY),
	FIELD(core_work, detail, KEY),
	FIELD(core_work, name, KEY),
	FIELD(core_work, graph, KEY),
	FIELD_AS(core_work, stack_id, KEY, stack, "INTEGER", 0),
	FIELD(core_work, bucket, KEY),
	FIELD(core_work, count, SUM),
	FIELD(core_work, total_ns, SUM),
	FIELD(core_work, min_ns, MIN),
	FIELD(core_work, max_ns, MAX),
	FIELD(core_work, bytes, SUM),
	FIELD(core_work, delay_ns, SUM),
};

static const struct row_column communicator_columns[] = {
	FIELD(core_communicator, process, KEY),
	FIELD(core_communicator, number, KEY),
	FIELD(core_communicator, id, REPLACE),
	FIELD(core_communicator, handle, REPLACE),
	FIELD(core_communicator, parent, REPLACE),
	FIELD_AS(core_communicator, rank, REPLACE, rank, "INTEGER", ROW_MINUS_ONE_IS_NULL),
	FIELD_AS(core_communicator, size, REPLACE, size, "INTEGER", ROW_ZERO_IS_NULL),
	FIELD(core_communicator, color, REPLACE),
	FIELD(core_communicator, split_key, REPLACE),
	FIELD(core_communicator, splits, REPLACE),
	FIELD(core_communicator, device, REPLACE),
	FIELD_AS(core_communicator, created_ns, REPLACE, created_ns, "INTEGER", ROW_ZERO_IS_NULL),
	FIELD_AS(core_communicator, ended_ns, REPLACE, ended_ns, "INTEGER", ROW_ZERO_IS_NULL)
};

static const struct row_column collective_columns[] = {
	GIVEN(boot, "INTEGER", BOOT, KEY, 0),	   FIELD(core_collective, second, KEY),
	FIELD(core_collective, process, KEY),	   FIELD(core_collective, communicator, KEY),
	FIELD(core_collective, operation, KEY),	   FIELD(core_collective, type, KEY),
	FIELD(core_collective, reduction, KEY),	   FIELD(core_collective, peer, KEY),
	FIELD(core_collective, size, KEY),	   FIELD(core_collective, calls, SUM),
	FIELD(core_collective, bytes, SUM),	   FIELD(core_collective, runs, SUM),
	FIELD(core_collective, shared, SUM),	   FIELD(core_collective, timed, SUM),
	FIELD(core_collective, timed_bytes, SUM),  FIELD(core_collective, total_ns, SUM),
	FIELD(core_collective, min_ns, MIN_TIMED), FIELD(core_collective, max_ns, MAX),
};

static const struct row_column busy_columns[] = {
	GIVEN(boot, "INTEGER", BOOT, KEY, 0), FIELD(core_busy, second, KEY),
	FIELD(core_busy, process, KEY),	      FIELD(core_busy, device, KEY),
	FIELD(core_busy, state, KEY),	      FIELD(core_busy, kernels, KEY),
	FIELD(core_busy, copies, KEY),	      FIELD(core_busy, ns, SUM),
};

static const struct row_column watch_columns[] = {
	GIVEN(boot, "INTEGER", BOOT, KEY, 0), FIELD(core_watch, second, KEY),
	FIELD(core_watch, process, KEY),      FIELD(core_watch, part, KEY),
	FIELD(core_watch, windows, SUM),      FIELD(core_watch, watched_ns, SUM),
	FIELD(core_watch, all_ns, SUM),	      FIELD(core_watch, seen, SUM),
	FIELD(core_watch, missed, SUM),	      FIELD(core_watch, missed_by, SUM),
	FIELD(core_watch, whole, SUM),	      FIELD(core_watch, error2, SUM),
};

static const struct row_column price_columns[] = {
	FIELD(core_price, process, KEY),
	FIELD(core_price, part, KEY),
	FIELD(core_price, measured, REPLACE),
	FIELD(core_price, turns, REPLACE),
	FIELD(core_price, budget_ppm, REPLACE),
	FIELD(core_price, share_ppm, REPLACE),
	FIELD(core_price, whole_ppm, REPLACE),
	FIELD(core_price, whole_low_ppm, REPLACE),
	FIELD(core_price, whole_high_ppm, REPLACE),
	FIELD(core_price, cost_ppm, REPLACE),
	FIELD(core_price, cost_low_ppm, REPLACE),
	FIELD(core_price, cost_high_ppm, REPLACE),
	FIELD(core_price, cold_ppm, REPLACE),
	FIELD(core_price, over, REPLACE),
	FIELD(core_price, until_ns, REPLACE),
	FIELD(core_price, turned_ns, REPLACE),
	FIELD(core_price, calls_per_s, REPLACE),
	FIELD(core_price, hit_ns, REPLACE),
	FIELD(core_price, cpu_ppm, REPLACE),
	FIELD(core_price, told_ns, REPLACE),
};

static const struct row_column total_columns[] = {
	FIELD(row_total, process, KEY), FIELD(row_total, what, KEY),  FIELD(row_total, device, KEY),
	FIELD(row_total, part, KEY),	FIELD(row_total, count, SUM), FIELD(row_total, ns, SUM),
	FIELD(row_total, bytes, SUM),
};

static const struct row_column collect_columns[] = {
	FIELD(core_collect, process, KEY),
	GIVEN(boot, "INTEGER NOT NULL", BOOT, REPLACE, 0),
	FIELD(core_collect, state, REPLACE),
	FIELD(core_collect, records, REPLACE),
	FIELD(core_collect, left_out, REPLACE),
	FIELD(core_collect, cupti_version, REPLACE),
	FIELD(core_collect, budget_ppm, REPLACE),
	FIELD(core_collect, since_ns, REPLACE),
	FIELD(core_collect, changed_ns, REPLACE),
	FIELD_AS(core_collect, until_ns, REPLACE, until_ns, "INTEGER", ROW_ZERO_IS_NULL),
	FIELD(core_collect, busy_ns, REPLACE),
	FIELD(core_collect, own_ns, REPLACE),
	FIELD(core_collect, wall_ns, REPLACE),
	FIELD(core_collect, taken, REPLACE),
	FIELD(core_collect, busiest_ppm, REPLACE),
	FIELD(core_collect, cycles, REPLACE),
};

static const struct row_column allocation_columns[] = {
	FIELD(core_allocation, id, KEY),
	FIELD_AS(core_allocation, process, REPLACE, process, "INTEGER NOT NULL", 0),
	FIELD(core_allocation, address, REPLACE),
	FIELD(core_allocation, bytes, REPLACE),
	FIELD(core_allocation, start_ns, REPLACE),
	FIELD(core_allocation, end_ns, REPLACE),
	FIELD_AS(core_allocation, stack_id, REPLACE, stack, "INTEGER", 0),
	FIELD(core_allocation, context, REPLACE),
	FIELD(core_allocation, tid, REPLACE),
	FIELD(core_allocation, fn, REPLACE),
	FIELD(core_allocation, kind, REPLACE),
	FIELD(core_allocation, device, REPLACE),
	FIELD_AS(core_allocation, handles, REPLACE, handles, "INTEGER NOT NULL DEFAULT 1",
		 ROW_UNRECORDED),
	FIELD_AS(core_allocation, physical, REPLACE, physical, "INTEGER",
		 ROW_ZERO_IS_NULL | ROW_UNRECORDED),
	FIELD_AS(core_allocation, requested_bytes, REPLACE, requested_bytes, "INTEGER",
		 ROW_ZERO_IS_NULL),
};

static const struct row_column memory_columns[] = {
	FIELD(core_memory, process, KEY),
	FIELD(core_memory, device, KEY),
	FIELD(core_memory, kind, KEY),
	FIELD(core_memory, live_bytes, REPLACE),
	FIELD(core_memory, live_count, REPLACE),
	FIELD(core_memory, peak_bytes, REPLACE),
	FIELD_AS(core_memory, requested_bytes, REPLACE, requested_bytes,
		 "INTEGER NOT NULL DEFAULT 0", 0),
	FIELD_AS(core_memory, rounding_bytes, REPLACE, rounding_bytes, "INTEGER NOT NULL DEFAULT 0",
		 0),
};

static const struct row_column growth_columns[] = {
	FIELD(core_growth, process, KEY),
	FIELD_AS(core_growth, stack_id, KEY, stack, "INTEGER", 0),
	FIELD(core_growth, fn, KEY),
	FIELD(core_growth, kind, KEY),
	FIELD(core_growth, device, KEY),
	FIELD(core_growth, verdict, REPLACE),
	FIELD(core_growth, confidence, REPLACE),
	FIELD(core_growth, since_ns, REPLACE),
	FIELD_AS(core_growth, ready_ns, REPLACE, ready_ns, "INTEGER", ROW_ZERO_IS_NULL),
	FIELD(core_growth, told_ns, REPLACE),
	FIELD(core_growth, birth_ns, REPLACE),
	FIELD(core_growth, allocations, REPLACE),
	FIELD(core_growth, frees, REPLACE),
	FIELD(core_growth, usual_ns, REPLACE),
	FIELD(core_growth, kept, REPLACE),
	FIELD(core_growth, kept_bytes, REPLACE),
	FIELD_AS(core_growth, grows_ns, REPLACE, grows_ns, "INTEGER", ROW_ZERO_IS_NULL),
	FIELD(core_growth, bytes_per_hour, REPLACE),
	FIELD(core_growth, laplace_ppm, REPLACE),
	FIELD_AS(core_growth, bytes_per_step, REPLACE, bytes_per_step, "INTEGER NOT NULL DEFAULT 0",
		 0),
	FIELD_AS(core_growth, peak_bytes, REPLACE, peak_bytes, "INTEGER NOT NULL DEFAULT 0", 0),
	FIELD_AS(core_growth, last_ns, REPLACE, last_ns, "INTEGER NOT NULL DEFAULT 0", 0),
	FIELD_AS(core_growth, calls, REPLACE, calls, "INTEGER NOT NULL DEFAULT 0", 0),
	FIELD_AS(core_growth, ages, REPLACE, ages, "TEXT NOT NULL DEFAULT ''", 0),
	FIELD_AS(core_growth, last_calls, REPLACE, last_calls, "INTEGER NOT NULL DEFAULT 0", 0),
};

static const struct row_column oom_columns[] = {
	FIELD(core_oom, id, KEY),
	FIELD_AS(core_oom, process, REPLACE, process, "INTEGER NOT NULL", 0),
	FIELD(core_oom, tid, REPLACE),
	FIELD(core_oom, device, REPLACE),
	FIELD(core_oom, fn, REPLACE),
	FIELD(core_oom, kind, REPLACE),
	FIELD_AS(core_oom, stack_id, REPLACE, stack, "INTEGER", 0),
	FIELD(core_oom, time_ns, REPLACE),
	FIELD(core_oom, last_ns, REPLACE),
	FIELD(core_oom, failures, REPLACE),
	FIELD(core_oom, reports, REPLACE),
	FIELD(core_oom, skipped, REPLACE),
	FIELD_AS(core_oom, reported_ns, REPLACE, reported_ns, "INTEGER", ROW_ZERO_IS_NULL),
	FIELD_AS(core_oom, recovered_ns, REPLACE, recovered_ns, "INTEGER", ROW_ZERO_IS_NULL),
	FIELD_AS(core_oom, bytes, REPLACE, bytes, "INTEGER", ROW_ZERO_IS_NULL),
	FIELD_AS(core_oom, wanted_bytes, REPLACE, wanted_bytes, "INTEGER", ROW_ZERO_IS_NULL),
	FIELD(core_oom, held_bytes, REPLACE),
	FIELD(core_oom, live_bytes, REPLACE),
	FIELD(core_oom, reserved_bytes, REPLACE),
	FIELD(core_oom, pieces, REPLACE),
	FIELD(core_oom, pieces_bytes, REPLACE),
	FIELD(core_oom, piece_bytes, REPLACE),
	FIELD(core_oom, fragment_ppm, REPLACE),
	FIELD_AS(core_oom, room_ns, REPLACE, room_ns, "INTEGER", ROW_ZERO_IS_NULL),
	FIELD(core_oom, free_bytes, REPLACE),
	FIELD(core_oom, total_bytes, REPLACE),
	FIELD(core_oom, take, REPLACE),
	FIELD(core_oom, left_out, REPLACE),
	FIELD(core_oom, processes_left_out, REPLACE),
};

static const struct row_column oom_memory_columns[] = {
	FIELD(core_oom_memory, oom, KEY),
	FIELD(core_oom_memory, process, KEY),
	FIELD(core_oom_memory, kind, KEY),
	FIELD(core_oom_memory, take, REPLACE),
	FIELD(core_oom_memory, bytes, REPLACE),
	FIELD(core_oom_memory, count, REPLACE),
	FIELD(core_oom_memory, recent_bytes, REPLACE),
	FIELD(core_oom_memory, reserved_bytes, REPLACE),
};

static const struct row_column oom_stack_columns[] = {
	FIELD(core_oom_stack, oom, KEY),
	FIELD(core_oom_stack, rank, KEY),
	FIELD(core_oom_stack, take, REPLACE),
	FIELD_AS(core_oom_stack, process, REPLACE, process, "INTEGER NOT NULL", 0),
	FIELD(core_oom_stack, kind, REPLACE),
	FIELD(core_oom_stack, fn, REPLACE),
	FIELD_AS(core_oom_stack, stack_id, REPLACE, stack, "INTEGER", 0),
	FIELD(core_oom_stack, bytes, REPLACE),
	FIELD(core_oom_stack, count, REPLACE),
	FIELD(core_oom_stack, recent_bytes, REPLACE),
};

static const struct row_column pool_columns[] = {
	FIELD(core_pool, process, KEY),
	FIELD(core_pool, address, KEY),
	FIELD(core_pool, device, REPLACE),
	FIELD(core_pool, kind, REPLACE),
	FIELD(core_pool, bytes, REPLACE),
	FIELD(core_pool, used_bytes, REPLACE),
	FIELD(core_pool, threshold_bytes, REPLACE),
	FIELD(core_pool, peak_bytes, MAX),
	FIELD(core_pool, peak_used_bytes, MAX),
	FIELD(core_pool, told_ns, REPLACE),
};

/* Written by a statement of its own; of a minute the most. */
static const struct row_column fragmentation_columns[] = {
	OWN_KEY(boot),
	OWN_KEY(second),
	OWN_KEY(process),
	OWN_KEY(device),
	OWN_KEY(pool),
	GIVEN(segment_bytes, "INTEGER", 64, MAX, 0),
	GIVEN(used_bytes, "INTEGER", 64, MAX, 0),
	GIVEN(free_bytes, "INTEGER", 64, MAX, 0),
	GIVEN(pieces, "INTEGER", 64, MAX, 0),
	GIVEN(largest_bytes, "INTEGER", 64, MAX, 0),
	GIVEN(unusable_bytes, "INTEGER", 64, MAX, 0),
	GIVEN(index_ppm, "INTEGER", 64, MAX, 0),
};

static const struct row_column chunk_columns[] = {
	OWN_KEY(id),
	OWN(boot, "INTEGER NOT NULL"),
	OWN(process, "INTEGER NOT NULL"),
	OWN(stream, "INTEGER NOT NULL"),
	OWN(kind, "INTEGER NOT NULL"),
	OWN(first_ns, "INTEGER NOT NULL"),
	OWN(last_ns, "INTEGER NOT NULL"),
	OWN(ops, "INTEGER NOT NULL"),
	OWN(data, "BLOB NOT NULL"),
	OWN(batch, "INTEGER NOT NULL DEFAULT 0"),
	OWN(first_batch, "INTEGER NOT NULL DEFAULT 0"),
};

#define COLUMNS_LIKE(other, table)                                                                 \
	.name = #table, .column = other##_columns, .count = ARRAY_SIZE(other##_columns)
#define COLUMNS(table)		COLUMNS_LIKE(table, table)
#define ROWS(number, struct_of) .type = CORE_ROW_##number, .size = sizeof(struct struct_of)

const struct row_table row_tables[] = {
	{ COLUMNS(kind), .recorded = ROW_RECORDED_FIRST, .kept = ROW_KEPT_ALWAYS },
	{ COLUMNS(memory_kind), .recorded = ROW_RECORDED_FIRST, .kept = ROW_KEPT_ALWAYS },
	{ COLUMNS_LIKE(kind, pool_kind), .recorded = ROW_RECORDED_FIRST, .kept = ROW_KEPT_ALWAYS },
	{ COLUMNS(setting), .recorded = ROW_RECORDED_FIRST, .kept = ROW_KEPT_ALWAYS },
	{ COLUMNS_LIKE(kind, frame_kind), .recorded = ROW_RECORDED_FIRST, .kept = ROW_KEPT_ALWAYS },
	{ COLUMNS_LIKE(kind, collect_state), .recorded = ROW_RECORDED_FIRST,
	  .kept = ROW_KEPT_ALWAYS },
	{ COLUMNS(stack_end), .recorded = ROW_RECORDED_FIRST, .kept = ROW_KEPT_ALWAYS },
	{ COLUMNS(loss_reason), .recorded = ROW_RECORDED_FIRST, .kept = ROW_KEPT_ALWAYS },
	{ COLUMNS(detail), .recorded = ROW_RECORDED_FIRST, .kept = ROW_KEPT_ALWAYS },
	{ COLUMNS(function), .recorded = ROW_RECORDED_FIRST, .kept = ROW_KEPT_ALWAYS },
	{ COLUMNS(boot), .recorded = ROW_RECORDED_OWN, .kept = ROW_KEPT_OWN },
	{ COLUMNS(process), .recorded = ROW_RECORDED_OWN, .kept = ROW_KEPT_OWN,
	  ROWS(PROCESS, core_process),
	  .indexes = "CREATE INDEX process_pid ON process(pid);"
		     "CREATE INDEX process_exit ON process(boot, exit_ns);" },
	{ COLUMNS(device), .recorded = ROW_RECORDED_USED, .kept = ROW_KEPT_PROCESS,
	  ROWS(DEVICE, core_device) },
	{ COLUMNS(stream), .recorded = ROW_RECORDED_OWN, .kept = ROW_KEPT_PROCESS,
	  ROWS(STREAM, core_stream), .indexes = "CREATE INDEX stream_process ON stream(process);" },
	{ COLUMNS(name), .recorded = ROW_RECORDED_OWN, .kept = ROW_KEPT_OWN,
	  .indexes = "CREATE INDEX name_told ON name(boot, told_ns);" },
	{ COLUMNS(teller), .recorded = ROW_RECORDED_NEVER, .kept = ROW_KEPT_OWN,
	  .indexes = "CREATE INDEX teller_name ON teller(name);"
		     "CREATE INDEX teller_told ON teller(boot, told_ns);" },
	{ COLUMNS(stack), .recorded = ROW_RECORDED_OWN, .kept = ROW_KEPT_PROCESS,
	  ROWS(STACK, record_stack), .indexes = "CREATE INDEX stack_process ON stack(process);" },
	{ COLUMNS(backward), .recorded = ROW_RECORDED_NEVER, .kept = ROW_KEPT_PROCESS,
	  ROWS(BACKWARD, core_backward),
	  .indexes = "CREATE INDEX backward_process ON backward(process);"
		     "CREATE INDEX backward_stack ON backward(stack);"
		     "CREATE INDEX backward_forward ON backward(forward);" },
	{ COLUMNS(frame), .recorded = ROW_RECORDED_OWN, .kept = ROW_KEPT_OWN },
	{ COLUMNS(loss), .recorded = ROW_RECORDED_OWN, .kept = ROW_KEPT_OWN,
	  ROWS(LOSS, core_loss) },
	{ COLUMNS(rollup), .recorded = ROW_RECORDED_SECOND, .kept = ROW_KEPT_SECOND,
	  ROWS(ROLLUP, core_rollup) },
	{ COLUMNS(work), .recorded = ROW_RECORDED_SECOND, .kept = ROW_KEPT_SECOND,
	  ROWS(WORK, core_work) },
	{ COLUMNS(communicator), .recorded = ROW_RECORDED_USED, .kept = ROW_KEPT_PROCESS,
	  ROWS(COMMUNICATOR, core_communicator) },
	{ COLUMNS(collective), .recorded = ROW_RECORDED_SECOND, .kept = ROW_KEPT_SECOND,
	  ROWS(COLLECTIVE, core_collective) },
	{ COLUMNS(busy), .recorded = ROW_RECORDED_SECOND, .kept = ROW_KEPT_SECOND,
	  ROWS(BUSY, core_busy) },
	{ COLUMNS(watch), .recorded = ROW_RECORDED_SECOND, .kept = ROW_KEPT_SECOND,
	  ROWS(WATCH, core_watch) },
	{ COLUMNS(fragmentation), .recorded = ROW_RECORDED_SECOND, .kept = ROW_KEPT_SECOND },
	{ COLUMNS(total), .recorded = ROW_RECORDED_NEVER, .kept = ROW_KEPT_OWN },
	{ COLUMNS(price), .recorded = ROW_RECORDED_USED, .kept = ROW_KEPT_PROCESS,
	  ROWS(PRICE, core_price) },
	{ COLUMNS(collect), .recorded = ROW_RECORDED_USED, .kept = ROW_KEPT_PROCESS,
	  ROWS(COLLECT, core_collect),
	  .indexes = "CREATE INDEX collect_since ON collect(boot, since_ns);" },
	{ COLUMNS(allocation), .recorded = ROW_RECORDED_LAST, .kept = ROW_KEPT_PROCESS,
	  ROWS(ALLOCATION, core_allocation), .gone = offsetof(struct core_allocation, gone),
	  .indexes = "CREATE INDEX allocation_process ON allocation(process);" },
	{ COLUMNS(memory), .recorded = ROW_RECORDED_LAST, .kept = ROW_KEPT_PROCESS,
	  ROWS(MEMORY, core_memory) },
	{ COLUMNS(growth), .recorded = ROW_RECORDED_LAST, .kept = ROW_KEPT_PROCESS,
	  ROWS(GROWTH, core_growth) },
	{ COLUMNS(oom), .recorded = ROW_RECORDED_LAST, .kept = ROW_KEPT_PROCESS,
	  ROWS(OOM, core_oom), .indexes = "CREATE INDEX oom_process ON oom(process);" },
	{ COLUMNS(oom_memory), .recorded = ROW_RECORDED_LAST, .kept = ROW_KEPT_PROCESS,
	  ROWS(OOM_MEMORY, core_oom_memory),
	  .indexes = "CREATE INDEX oom_memory_process ON oom_memory(process);" },
	{ COLUMNS(oom_stack), .recorded = ROW_RECORDED_LAST, .kept = ROW_KEPT_PROCESS,
	  ROWS(OOM_STACK, core_oom_stack),
	  .indexes = "CREATE INDEX oom_stack_process ON oom_stack(process);" },
	{ COLUMNS(pool), .recorded = ROW_RECORDED_LAST, .kept = ROW_KEPT_PROCESS,
	  ROWS(POOL, core_pool), .gone = offsetof(struct core_pool, gone) },
	{ COLUMNS(chunk), .recorded = ROW_RECORDED_NEVER, .kept = ROW_KEPT_OWN,
	  .indexes = "CREATE INDEX chunk_time ON chunk(boot, first_ns, last_ns);"
		     "CREATE INDEX chunk_process ON chunk(process, kind, first_ns, last_ns);"
		     "CREATE INDEX chunk_stream ON chunk(stream, kind, first_ns, last_ns);"
		     "CREATE INDEX chunk_batch ON chunk(boot, batch);"
		     "CREATE INDEX chunk_small ON chunk(boot, first_ns, process, stream, kind, "
		     "ops, batch) WHERE ops < 4096;" },
};

const size_t row_table_count = ARRAY_SIZE(row_tables);

const struct row_table *row_table_find(const char *name)
{
	for (size_t i = 0; i < row_table_count; i++)
		if (!strcmp(row_tables[i].name, name))
			return &row_tables[i];
	return NULL;
}

const struct row_table *row_table_of(enum core_row type)
{
	for (size_t i = 0; i < row_table_count; i++)
		if (row_tables[i].size && row_tables[i].type == type)
			return &row_tables[i];
	return NULL;
}
