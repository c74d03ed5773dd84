/* Resume: what a former daemon wrote in this boot, read over a connection of its own. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/store/page_sum.h"
#include "core/store/sql.h"
#include "core/store/store_private.h"
#include "proto/event.h"

#define COLLECT_STOPPED "5"
_Static_assert(TS_COLLECT_STOPPED == 5, "COLLECT_STOPPED is its number");

/* Calls `row` for every row of a statement from the one number *next on, with ?1 bound. */
static int for_each_next(sqlite3 *db, const char *text, int64_t parameter,
			 int (*row)(void *data, sqlite3_stmt *stmt), void *data, uint64_t *next)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	int r = sql_prepare(db, text, &stmt), code = SQLITE_DONE;
	uint64_t number = 0;

	if (r < 0)
		return r;
	sql_bind(stmt, parameter);
	while (r == 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
		if (number++ < *next)
			continue;
		*next = number;
		r = row(data, stmt);
	}
	return r == 0 && code != SQLITE_DONE ? sql_error(db) : r;
}

/* Of all rows but those on damaged pages: nobody writes here meanwhile. */
static int for_each(sqlite3 *db, const char *text, int64_t parameter,
		    int (*row)(void *data, sqlite3_stmt *stmt), void *data)
{
	uint64_t next = 0;
	int r;

	do {
		sqlite3_db_release_memory(db);
		r = for_each_next(db, text, parameter, row, data, &next);
	} while (r == -EBADMSG && page_sum_skip(db));
	return r;
}

/* A copy of a text column. */
static void copy_text(sqlite3_stmt *stmt, int column, char *to, size_t size)
{
	const char *text = (const char *)sqlite3_column_text(stmt, column);

	memset(to, 0, size);
	if (text)
		memcpy(to, text, strnlen(text, size));
}

static int read_next(void *data, sqlite3_stmt *stmt)
{
	struct store_resume *resume = data;

	resume->next_process = (uint32_t)sqlite3_column_int64(stmt, 0);
	resume->next_stream = (uint32_t)sqlite3_column_int64(stmt, 1);
	resume->next_allocation = (uint64_t)sqlite3_column_int64(stmt, 2);
	resume->last_ns = (uint64_t)sqlite3_column_int64(stmt, 3);
	resume->pending_ns = (uint64_t)sqlite3_column_int64(stmt, 4);
	resume->next_oom = (uint32_t)sqlite3_column_int64(stmt, 5);
	return 0;
}

int store_resume(struct store *store, struct store_resume *ret)
{
	_cleanup_(sqlite3_closep) sqlite3 *db = NULL;
	int r = store_reader_open(store_path(store), 0, &db);

	if (r < 0)
		return r;
	return for_each(db,
			"SELECT max(next_process), max(next_stream), max(next_allocation),"
			" (SELECT last_ns FROM boot WHERE id=?1), (SELECT min(last_ns,"
			" coalesce(nullif(oldest_pending_ns, 0), last_ns),"
			" coalesce(nullif(told_ns, 0), last_ns)) FROM boot WHERE id=?1),"
			" max(next_oom)"
			" FROM boot",
			store_boot(store), read_next, ret);
}

struct process_call {
	void (*call)(void *data, const struct core_process *process);
	void *data;
};

static int read_process(void *data, sqlite3_stmt *stmt)
{
	struct process_call *to = data;
	struct core_process process = {
		.id = (uint32_t)sqlite3_column_int64(stmt, 0),
		.pid = (uint32_t)sqlite3_column_int64(stmt, 1),
		.ns_pid = (uint32_t)sqlite3_column_int64(stmt, 2),
		.ppid = (uint32_t)sqlite3_column_int64(stmt, 3),
		.uid = (uint32_t)sqlite3_column_int64(stmt, 4),
		.user = (uint32_t)sqlite3_column_int64(stmt, 9),
		.started_ticks = (uint64_t)sqlite3_column_int64(stmt, 5),
		.cgroup = (uint64_t)sqlite3_column_int64(stmt, 6),
		.first_ns = (uint64_t)sqlite3_column_int64(stmt, 7),
		.exit_code = EXIT_UNKNOWN,
	};

	copy_text(stmt, 8, process.comm, sizeof(process.comm));
	to->call(to->data, &process);
	return 0;
}

int store_resume_processes(struct store *store,
			   void (*call)(void *data, const struct core_process *process), void *data)
{
	_cleanup_(sqlite3_closep) sqlite3 *db = NULL;
	struct process_call to = { call, data };
	int r = store_reader_open(store_path(store), 0, &db);

	if (r < 0)
		return r;
	return for_each(
		db,
		"SELECT id, pid, ns_pid, ppid, uid, started_ticks, cgroup_id, first_ns, comm,"
		" coalesce(owner, uid)"
		" FROM process WHERE boot=?1 AND exit_ns IS NULL ORDER BY id",
		store_boot(store), read_process, &to);
}

static int read_since(void *data, sqlite3_stmt *stmt)
{
	uint64_t *since_ns = data;

	*since_ns = (uint64_t)sqlite3_column_int64(stmt, 0);
	return 0;
}

/* A second of `busy` is reported when nothing that comes can change it, after all earlier ones. It
 * is a few seconds behind. That in which a daemon stopped is there up to then. */
int store_resume_collect(struct store *store, uint32_t process, uint64_t *ret_since_ns)
{
	_cleanup_(sqlite3_closep) sqlite3 *db = NULL;
	uint64_t since_ns = 0;
	int r = store_reader_open(store_path(store), 0, &db);

	if (r == 0)
		r = for_each(db,
			     "SELECT min(t.last_ns, coalesce((SELECT b.second * 1000000000"
			     " + min(min(b.ns, 1000000000)) FROM (SELECT second, sum(ns) AS ns"
			     " FROM busy WHERE boot = t.id AND process = c.process"
			     " AND second >= t.last_ns / 1000000000 - 60"
			     " GROUP BY second, device) b"
			     " GROUP BY b.second ORDER BY b.second DESC LIMIT 1), t.last_ns))"
			     " FROM collect c JOIN boot t ON t.id = c.boot"
			     " WHERE c.process = ?1 AND c.state <> " COLLECT_STOPPED,
			     process, read_since, &since_ns);
	if (r < 0)
		return r;
	*ret_since_ns = since_ns;
	return since_ns > 0;
}

static int read_stream(void *data, sqlite3_stmt *stmt)
{
	return core_restore_stream(data,
				   &(struct core_stream){
					   .id = (uint32_t)sqlite3_column_int64(stmt, 0),
					   .process = (uint32_t)sqlite3_column_int64(stmt, 1),
					   .handle = (uint64_t)sqlite3_column_int64(stmt, 2),
					   .context = (uint64_t)sqlite3_column_int64(stmt, 3),
					   .device = (int16_t)sqlite3_column_int(stmt, 4),
					   .tid = (uint32_t)sqlite3_column_int64(stmt, 5),
					   .non_blocking = sqlite3_column_int(stmt, 6),
					   .created_ns = (uint64_t)sqlite3_column_int64(stmt, 7),
					   .number = (uint32_t)sqlite3_column_int64(stmt, 8),
				   });
}

/* One that cannot be is left out, and known again by its handle alone. */
static int read_communicator(void *data, sqlite3_stmt *stmt)
{
	(void)core_restore_communicator(
		data, &(struct core_communicator){
			      .process = (uint32_t)sqlite3_column_int64(stmt, 0),
			      .number = (uint32_t)sqlite3_column_int64(stmt, 1),
			      .id = (uint64_t)sqlite3_column_int64(stmt, 2),
			      .handle = (uint64_t)sqlite3_column_int64(stmt, 3),
			      .parent = (uint64_t)sqlite3_column_int64(stmt, 4),
			      .rank = (int32_t)sqlite3_column_int64(stmt, 5),
			      .size = (uint32_t)sqlite3_column_int64(stmt, 6),
			      .color = (int32_t)sqlite3_column_int64(stmt, 7),
			      .split_key = (int32_t)sqlite3_column_int64(stmt, 8),
			      .splits = (uint32_t)sqlite3_column_int64(stmt, 9),
			      .device = (int16_t)sqlite3_column_int64(stmt, 10),
			      .created_ns = (uint64_t)sqlite3_column_int64(stmt, 11),
		      });
	return 0;
}

static int read_allocation(void *data, sqlite3_stmt *stmt)
{
	return core_restore_allocation(
		data, &(struct core_allocation){
			      .id = (uint64_t)sqlite3_column_int64(stmt, 0),
			      .process = (uint32_t)sqlite3_column_int64(stmt, 1),
			      .address = (uint64_t)sqlite3_column_int64(stmt, 2),
			      .bytes = (uint64_t)sqlite3_column_int64(stmt, 3),
			      .start_ns = (uint64_t)sqlite3_column_int64(stmt, 4),
			      .end_ns = (uint64_t)sqlite3_column_int64(stmt, 5),
			      .stack_id = (uint64_t)sqlite3_column_int64(stmt, 6),
			      .context = (uint64_t)sqlite3_column_int64(stmt, 7),
			      .tid = (uint32_t)sqlite3_column_int64(stmt, 8),
			      .fn = (uint16_t)sqlite3_column_int(stmt, 9),
			      .kind = (uint8_t)sqlite3_column_int(stmt, 10),
			      .device = (int16_t)sqlite3_column_int(stmt, 11),
			      .handles = (uint32_t)sqlite3_column_int64(stmt, 12),
			      .physical = (uint64_t)sqlite3_column_int64(stmt, 13),
			      .requested_bytes = (uint64_t)sqlite3_column_int64(stmt, 14),
		      });
}

/* One that cannot be is left out: its blocks are in doubt, then. */
static int read_growth(void *data, sqlite3_stmt *stmt)
{
	struct core_growth growth = {
		.process = (uint32_t)sqlite3_column_int64(stmt, 0),
		.stack_id = (uint64_t)sqlite3_column_int64(stmt, 1),
		.fn = (uint16_t)sqlite3_column_int(stmt, 2),
		.kind = (uint8_t)sqlite3_column_int(stmt, 3),
		.device = (int16_t)sqlite3_column_int(stmt, 4),
		.since_ns = (uint64_t)sqlite3_column_int64(stmt, 5),
		.told_ns = (uint64_t)sqlite3_column_int64(stmt, 6),
		.birth_ns = (uint64_t)sqlite3_column_int64(stmt, 7),
		.allocations = (uint64_t)sqlite3_column_int64(stmt, 8),
		.frees = (uint64_t)sqlite3_column_int64(stmt, 9),
		.peak_bytes = (uint64_t)sqlite3_column_int64(stmt, 10),
		.last_ns = (uint64_t)sqlite3_column_int64(stmt, 11),
		.calls = (uint64_t)sqlite3_column_int64(stmt, 12),
		.last_calls = (uint64_t)sqlite3_column_int64(stmt, 13),
	};

	copy_text(stmt, 14, growth.ages, sizeof(growth.ages) - 1);
	(void)core_restore_growth(data, &growth);
	return 0;
}

static int read_memory(void *data, sqlite3_stmt *stmt)
{
	return core_restore_peak(data,
				 &(struct core_memory){
					 .process = (uint32_t)sqlite3_column_int64(stmt, 0),
					 .device = (int16_t)sqlite3_column_int(stmt, 1),
					 .kind = (uint8_t)sqlite3_column_int(stmt, 2),
					 .live_bytes = (uint64_t)sqlite3_column_int64(stmt, 3),
					 .live_count = (uint64_t)sqlite3_column_int64(stmt, 4),
					 .peak_bytes = (uint64_t)sqlite3_column_int64(stmt, 5),
				 });
}

static int read_cycles(void *data, sqlite3_stmt *stmt)
{
	return core_restore_cycles(data, (uint32_t)sqlite3_column_int64(stmt, 0),
				   (uint32_t)sqlite3_column_int64(stmt, 1));
}

static const struct {
	const char *text;
	int (*row)(void *data, sqlite3_stmt *stmt);
} states[] = {
	{ "SELECT id, process, handle, context, device, tid, non_blocking, created_ns,"
	  " number FROM stream"
	  " WHERE process=?1 AND destroyed_ns IS NULL ORDER BY id",
	  read_stream },
	{ "SELECT process, number, id, handle, parent, coalesce(rank, -1), size, color, split_key,"
	  " splits, device, created_ns FROM communicator"
	  " WHERE process=?1 AND ended_ns IS NULL ORDER BY number",
	  read_communicator },
	{ "SELECT process, stack, fn, kind, device, since_ns, told_ns, birth_ns, allocations,"
	  " frees, peak_bytes, last_ns, calls, last_calls, ages FROM growth WHERE process=?1 ORDER "
	  "BY told_ns",
	  read_growth },
	{ "SELECT id, process, address, bytes, start_ns, end_ns, stack, context, tid, fn, kind,"
	  " device, handles, physical, requested_bytes FROM allocation WHERE process=?1 ORDER BY "
	  "id",
	  read_allocation },
	{ "SELECT process, device, kind, live_bytes, live_count, peak_bytes FROM memory"
	  " WHERE process=?1",
	  read_memory },
	{ "SELECT process, cycles FROM collect WHERE process=?1 AND cycles > 0", read_cycles },
};

int store_resume_state(struct store *store, uint32_t process, struct core *core)
{
	_cleanup_(sqlite3_closep) sqlite3 *db = NULL;
	int r = store_reader_open(store_path(store), 0, &db);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(states); i++)
		r = for_each(db, states[i].text, process, states[i].row, core);
	return r;
}
