/* Schema: creates the tables of row.c, and updates older ones. PRAGMA user_version is how many of
 * the steps below a file has seen; a released step is never changed, a new one is appended. All
 * steps together make what row.c describes: a test compares. */
#include "core/store/schema.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/limits.h"
#include "core/model/core.h"
#include "core/model/frame.h"
#include "core/store/page_sum.h"
#include "core/store/row_sql.h"
#include "core/store/sql.h"

#define APPLICATION_ID 0x54534442 /* "TSDB" */

/* See "The Database Header" of SQLite's file format. */
#define HEAD_TEXT      "SQLite format 3"
#define HEAD_SIZE      100
#define APPLICATION_AT 68

static const char *const steps[] = {
	"CREATE TABLE boot(id INTEGER PRIMARY KEY, boot_id TEXT NOT NULL UNIQUE,"
	" wall_offset_ns INTEGER NOT NULL, last_ns INTEGER NOT NULL DEFAULT 0,"
	" next_process INTEGER NOT NULL DEFAULT 1, next_stream INTEGER NOT NULL DEFAULT 1,"
	" next_allocation INTEGER NOT NULL DEFAULT 1);"

	"CREATE TABLE process(id INTEGER PRIMARY KEY, boot INTEGER NOT NULL, pid INTEGER NOT NULL,"
	" ns_pid INTEGER, ppid INTEGER, uid INTEGER, user TEXT, started_ticks INTEGER, comm TEXT,"
	" command TEXT, cgroup_id INTEGER, cgroup TEXT, container TEXT, first_ns INTEGER,"
	" exit_ns INTEGER, exit_code INTEGER);"
	"CREATE INDEX process_pid ON process(pid);"
	"CREATE INDEX process_exit ON process(boot, exit_ns);"

	"CREATE TABLE stream(id INTEGER PRIMARY KEY, process INTEGER NOT NULL, handle INTEGER,"
	" context INTEGER, device INTEGER, tid INTEGER, non_blocking INTEGER, created_ns INTEGER,"
	" destroyed_ns INTEGER);"
	"CREATE INDEX stream_process ON stream(process);"

	"CREATE TABLE function(id INTEGER PRIMARY KEY, name TEXT NOT NULL, kind INTEGER NOT NULL);"
	"CREATE TABLE kind(id INTEGER PRIMARY KEY, name TEXT NOT NULL);"
	"CREATE TABLE detail(kind INTEGER, id INTEGER, name TEXT NOT NULL,"
	" PRIMARY KEY(kind, id)) WITHOUT ROWID;"
	"CREATE TABLE memory_kind(id INTEGER PRIMARY KEY, name TEXT NOT NULL,"
	" counts INTEGER NOT NULL);"
	"CREATE TABLE loss_reason(id INTEGER PRIMARY KEY, name TEXT NOT NULL, text TEXT NOT NULL);"

	"CREATE TABLE chunk(id INTEGER PRIMARY KEY, boot INTEGER NOT NULL, process INTEGER NOT "
	"NULL,"
	" stream INTEGER NOT NULL, kind INTEGER NOT NULL, first_ns INTEGER NOT NULL,"
	" last_ns INTEGER NOT NULL, ops INTEGER NOT NULL, data BLOB NOT NULL);"
	"CREATE INDEX chunk_time ON chunk(boot, first_ns, last_ns);"
	"CREATE INDEX chunk_process ON chunk(process, kind, first_ns, last_ns);"
	"CREATE INDEX chunk_stream ON chunk(stream, kind, first_ns, last_ns);"
	/* What is to be merged: see merge.c. */
	"CREATE INDEX chunk_small ON chunk(boot, first_ns, process, stream, kind, ops)"
	" WHERE ops < 4096;"

	"CREATE TABLE stack(id INTEGER PRIMARY KEY, process INTEGER NOT NULL);"
	"CREATE INDEX stack_process ON stack(process);"
	"CREATE TABLE frame(stack INTEGER, depth INTEGER, address INTEGER, file TEXT,"
	" offset INTEGER, symbol TEXT, PRIMARY KEY(stack, depth)) WITHOUT ROWID;"

	"CREATE TABLE allocation(id INTEGER PRIMARY KEY, process INTEGER NOT NULL,"
	" address INTEGER, bytes INTEGER, start_ns INTEGER, end_ns INTEGER, stack INTEGER,"
	" context INTEGER, tid INTEGER, fn INTEGER, kind INTEGER, device INTEGER);"
	"CREATE INDEX allocation_process ON allocation(process);"

	"CREATE TABLE memory(process INTEGER, device INTEGER, kind INTEGER, live_bytes INTEGER,"
	" live_count INTEGER, peak_bytes INTEGER, PRIMARY KEY(process, device, kind))"
	" WITHOUT ROWID;"

	"CREATE TABLE rollup(boot INTEGER, second INTEGER, process INTEGER, kind INTEGER,"
	" fn INTEGER, detail INTEGER, device INTEGER, stream INTEGER, result INTEGER,"
	" stack INTEGER, freed INTEGER, calls INTEGER, timed INTEGER, total_ns INTEGER,"
	" min_ns INTEGER, max_ns INTEGER, bytes INTEGER, PRIMARY KEY(boot, second, process, kind,"
	" fn, detail, device, stream, result, stack, freed)) WITHOUT ROWID;"

	"CREATE TABLE loss(boot INTEGER, second INTEGER, process INTEGER, reason INTEGER,"
	" start_ns INTEGER, end_ns INTEGER, count INTEGER,"
	" PRIMARY KEY(boot, second, process, reason)) WITHOUT ROWID;",

	/* 2: the exact tier. */
	"ALTER TABLE stream ADD COLUMN number INTEGER;"

	/* boot and told_ns: when a process last reported it. */
	"CREATE TABLE name(id INTEGER PRIMARY KEY, text TEXT NOT NULL, symbol TEXT NOT NULL,"
	" boot INTEGER NOT NULL, told_ns INTEGER NOT NULL);"
	"CREATE INDEX name_told ON name(boot, told_ns);"

	"CREATE TABLE work(boot INTEGER, second INTEGER, process INTEGER, device INTEGER,"
	" stream INTEGER, kind INTEGER, detail INTEGER, name INTEGER, graph INTEGER,"
	" stack INTEGER, bucket INTEGER, count INTEGER, total_ns INTEGER, min_ns INTEGER,"
	" max_ns INTEGER, bytes INTEGER, delay_ns INTEGER, PRIMARY KEY(boot, second, process,"
	" device, stream, kind, detail, name, graph, stack, bucket)) WITHOUT ROWID;"

	"CREATE TABLE busy(boot INTEGER, second INTEGER, process INTEGER, device INTEGER,"
	" state INTEGER, kernels INTEGER, copies INTEGER, ns INTEGER,"
	" PRIMARY KEY(boot, second, process, device, state, kernels, copies)) WITHOUT ROWID;"

	"CREATE TABLE device(process INTEGER, ordinal INTEGER, uuid TEXT, name INTEGER,"
	" memory_bytes INTEGER, multiprocessors INTEGER, clock_khz INTEGER,"
	" PRIMARY KEY(process, ordinal)) WITHOUT ROWID;"

	"CREATE TABLE collect(process INTEGER PRIMARY KEY, boot INTEGER NOT NULL, state INTEGER,"
	" records INTEGER, left_out INTEGER, cupti_version INTEGER, budget_ppm INTEGER,"
	" since_ns INTEGER, changed_ns INTEGER, until_ns INTEGER, busy_ns INTEGER,"
	" own_ns INTEGER, wall_ns INTEGER, taken INTEGER, busiest_ppm INTEGER);"
	"CREATE INDEX collect_since ON collect(boot, since_ns);"
	"CREATE TABLE collect_state(id INTEGER PRIMARY KEY, name TEXT NOT NULL);",

	/* 3 */
	"CREATE TABLE pool(process INTEGER, address INTEGER, device INTEGER, kind INTEGER,"
	" bytes INTEGER, used_bytes INTEGER, threshold_bytes INTEGER, peak_bytes INTEGER,"
	" peak_used_bytes INTEGER, told_ns INTEGER, PRIMARY KEY(process, address))"
	" WITHOUT ROWID;"
	"CREATE TABLE pool_kind(id INTEGER PRIMARY KEY, name TEXT NOT NULL);",

	/* 4: recordings. `batch` is the number of the commit that brought the newest of the ops,
	 * `first_batch` the oldest: they differ where chunks were merged. */
	"ALTER TABLE chunk ADD COLUMN batch INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE chunk ADD COLUMN first_batch INTEGER NOT NULL DEFAULT 0;"
	"CREATE INDEX chunk_batch ON chunk(boot, batch);"
	"DROP INDEX chunk_small;"
	"CREATE INDEX chunk_small ON chunk(boot, first_ns, process, stream, kind, ops, batch)"
	" WHERE ops < 4096;"
	"ALTER TABLE stack ADD COLUMN batch INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE boot ADD COLUMN next_batch INTEGER NOT NULL DEFAULT 1;"
	"ALTER TABLE function ADD COLUMN effect INTEGER NOT NULL DEFAULT 0;",

	/* 5: memory that was only requested is no longer counted. */
	"ALTER TABLE rollup ADD COLUMN captured INTEGER NOT NULL DEFAULT 0;"
	"UPDATE rollup SET bytes = 0 WHERE result <> 0 AND bytes <> 0;",

	/* 6: what keeps physical memory. */
	"ALTER TABLE allocation ADD COLUMN handles INTEGER NOT NULL DEFAULT 1;"
	"ALTER TABLE allocation ADD COLUMN physical INTEGER;",

	/* 7: what a kill loses beyond last_ns. */
	"ALTER TABLE boot ADD COLUMN oldest_pending_ns INTEGER NOT NULL DEFAULT 0;",

	/* 8: the price of the probes, and windows in which hot calls are watched; light mode. */
	"ALTER TABLE process ADD COLUMN light INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE function ADD COLUMN hot INTEGER NOT NULL DEFAULT 0;"
	"CREATE TABLE watch(boot INTEGER, second INTEGER, process INTEGER, part INTEGER,"
	" windows INTEGER, watched_ns INTEGER, all_ns INTEGER, seen INTEGER, missed INTEGER,"
	" missed_by INTEGER, whole INTEGER, missed_missed INTEGER, missed_ms INTEGER,"
	" ms_ms INTEGER, PRIMARY KEY(boot, second, process, part)) WITHOUT ROWID;"
	"CREATE TABLE price(process INTEGER, part INTEGER, measured INTEGER, turns INTEGER,"
	" budget_ppm INTEGER, share_ppm INTEGER, whole_ppm INTEGER, whole_low_ppm INTEGER,"
	" whole_high_ppm INTEGER, cost_ppm INTEGER, cost_low_ppm INTEGER, cost_high_ppm INTEGER,"
	" cold_ppm INTEGER, over INTEGER, until_ns INTEGER, turned_ns INTEGER, calls_per_s "
	"INTEGER, hit_ns INTEGER,"
	" cpu_ppm INTEGER, told_ns INTEGER, PRIMARY KEY(process, part)) WITHOUT ROWID;",

	/* 9: lines, frames of interpreters, and how a stack ends. */
	"ALTER TABLE frame ADD COLUMN kind INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE frame ADD COLUMN source TEXT;"
	"ALTER TABLE frame ADD COLUMN line INTEGER;"
	"ALTER TABLE frame ADD COLUMN inlined INTEGER NOT NULL DEFAULT 0;"
	"CREATE TABLE frame_kind(id INTEGER PRIMARY KEY, name TEXT NOT NULL);"
	"ALTER TABLE stack ADD COLUMN ended INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE stack ADD COLUMN linked INTEGER NOT NULL DEFAULT 0;"
	"CREATE TABLE stack_end(id INTEGER PRIMARY KEY, name TEXT NOT NULL, text TEXT NOT NULL);"
	/* Of the daemon: those that queries need. */
	"CREATE TABLE setting(name TEXT PRIMARY KEY, value TEXT NOT NULL);",

	/* 10: whose share a process counts to. */
	"ALTER TABLE process ADD COLUMN owner INTEGER;",

	/* 11: what does not fade with the seconds. */
	"CREATE TABLE total(process INTEGER, what INTEGER, device INTEGER, part INTEGER,"
	" count INTEGER, ns INTEGER, bytes INTEGER, PRIMARY KEY(process, what, device, part))"
	" WITHOUT ROWID;",

	/* 12: pages with checksums, which a former version would leave wrong. */
	"",

	/* 13: stacks of PyTorch's backward pass, with those of the forward one. */
	"CREATE TABLE backward(id INTEGER PRIMARY KEY, process INTEGER NOT NULL,"
	" stack INTEGER NOT NULL, forward INTEGER NOT NULL);"
	"CREATE INDEX backward_process ON backward(process);"
	"CREATE INDEX backward_stack ON backward(stack);"
	"CREATE INDEX backward_forward ON backward(forward);",

	/* 14: whose share a name counts to. Those of a former version are nobody's. */
	"CREATE TABLE teller(user INTEGER, name INTEGER, process INTEGER NOT NULL,"
	" boot INTEGER NOT NULL, told_ns INTEGER NOT NULL, PRIMARY KEY(user, name)) WITHOUT ROWID;"
	"CREATE INDEX teller_name ON teller(name);"
	"CREATE INDEX teller_told ON teller(boot, told_ns);"
	"INSERT INTO teller SELECT 0, id, 0, boot, told_ns FROM name;",

	/* 15: nodes that were made before a launch of the forward pass. */
	"ALTER TABLE backward ADD COLUMN passed INTEGER NOT NULL DEFAULT 0;",

	/* 16: what becomes of the memory of each stack. */
	"CREATE TABLE growth(process INTEGER, stack INTEGER, fn INTEGER, kind INTEGER,"
	" device INTEGER, verdict INTEGER, confidence INTEGER, since_ns INTEGER, ready_ns INTEGER,"
	" told_ns INTEGER, birth_ns INTEGER, allocations INTEGER, frees INTEGER, usual_ns INTEGER,"
	" kept INTEGER, kept_bytes INTEGER, grows_ns INTEGER, bytes_per_hour INTEGER,"
	" laplace_ppm INTEGER,"
	" PRIMARY KEY(process, stack, fn, kind, device)) WITHOUT ROWID;",

	/* 17: what the next daemon needs to go on judging. */
	"ALTER TABLE growth ADD COLUMN bytes_per_step INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE growth ADD COLUMN peak_bytes INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE growth ADD COLUMN last_ns INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE growth ADD COLUMN calls INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE growth ADD COLUMN ages TEXT NOT NULL DEFAULT '';",

	/* 18: allocations that failed for lack of memory, and who held what then. */
	"ALTER TABLE boot ADD COLUMN next_oom INTEGER NOT NULL DEFAULT 1;"
	"CREATE TABLE oom(id INTEGER PRIMARY KEY, process INTEGER NOT NULL, tid INTEGER,"
	" device INTEGER, fn INTEGER, kind INTEGER, stack INTEGER, time_ns INTEGER,"
	" last_ns INTEGER, failures INTEGER, reports INTEGER, skipped INTEGER,"
	" reported_ns INTEGER, recovered_ns INTEGER, bytes INTEGER, wanted_bytes INTEGER,"
	" held_bytes INTEGER, live_bytes INTEGER, reserved_bytes INTEGER, pieces INTEGER,"
	" pieces_bytes INTEGER, piece_bytes INTEGER, fragment_ppm INTEGER, room_ns INTEGER,"
	" free_bytes INTEGER, total_bytes INTEGER, take INTEGER, left_out INTEGER,"
	" processes_left_out INTEGER);"
	"CREATE INDEX oom_process ON oom(process);"
	"CREATE TABLE oom_memory(oom INTEGER, process INTEGER, kind INTEGER, take INTEGER,"
	" bytes INTEGER, count INTEGER, recent_bytes INTEGER, reserved_bytes INTEGER,"
	" PRIMARY KEY(oom, process, kind)) WITHOUT ROWID;"
	"CREATE INDEX oom_memory_process ON oom_memory(process);"
	"CREATE TABLE oom_stack(oom INTEGER, rank INTEGER, take INTEGER,"
	" process INTEGER NOT NULL, kind INTEGER, fn INTEGER, stack INTEGER, bytes INTEGER,"
	" count INTEGER, recent_bytes INTEGER, PRIMARY KEY(oom, rank)) WITHOUT ROWID;"
	"CREATE INDEX oom_stack_process ON oom_stack(process);",

	/* 19: how far the process was when a stack's last block came or went. */
	"ALTER TABLE growth ADD COLUMN last_calls INTEGER NOT NULL DEFAULT 0;",

	/* 20: how fragmented each pool was, minute by minute. */
	"CREATE TABLE fragmentation(boot INTEGER, second INTEGER, process INTEGER, device INTEGER,"
	" pool INTEGER, segment_bytes INTEGER, used_bytes INTEGER, free_bytes INTEGER,"
	" pieces INTEGER, largest_bytes INTEGER, unusable_bytes INTEGER, index_ppm INTEGER,"
	" PRIMARY KEY(boot, second, process, device, pool)) WITHOUT ROWID;",

	/* 21: what a process is part of. */
	"ALTER TABLE process ADD COLUMN variables TEXT;",

	/* 22: what was asked for of a framework's blocks. */
	"ALTER TABLE allocation ADD COLUMN requested_bytes INTEGER;"
	"ALTER TABLE memory ADD COLUMN requested_bytes INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE memory ADD COLUMN rounding_bytes INTEGER NOT NULL DEFAULT 0;",

	/* 23: communicators, and what is called on them. */
	"CREATE TABLE communicator(process INTEGER, number INTEGER, id INTEGER, handle INTEGER,"
	" parent INTEGER, rank INTEGER, size INTEGER, color INTEGER, split_key INTEGER,"
	" splits INTEGER, device INTEGER, created_ns INTEGER, ended_ns INTEGER,"
	" PRIMARY KEY(process, number)) WITHOUT ROWID;"
	"CREATE TABLE collective(boot INTEGER, second INTEGER, process INTEGER,"
	" communicator INTEGER, operation INTEGER, type INTEGER, reduction INTEGER, peer INTEGER,"
	" size INTEGER, calls INTEGER, bytes INTEGER, runs INTEGER, shared INTEGER, timed INTEGER,"
	" timed_bytes INTEGER, total_ns INTEGER, min_ns INTEGER, max_ns INTEGER,"
	" PRIMARY KEY(boot, second, process, communicator, operation, type, reduction, peer, size))"
	" WITHOUT ROWID;",
	/* Recordings: how often CUPTI was taken out of the process. */
	"ALTER TABLE collect ADD COLUMN cycles INTEGER;",

	/* 24: what else a kill loses. */
	"ALTER TABLE boot ADD COLUMN told_ns INTEGER NOT NULL DEFAULT 0;",

	/* 25: how far an estimate of missed calls may be off, and no longer what that followed
	   from. */
	"ALTER TABLE watch RENAME COLUMN missed_missed TO error2;"
	"ALTER TABLE watch DROP COLUMN missed_ms;"
	"ALTER TABLE watch DROP COLUMN ms_ms;",
};

#define VERSION ((int64_t)ARRAY_SIZE(steps))

/* Checks, without changing it, whether the file is ours and not from the future. */
static int check(sqlite3 *db, int64_t *ret_version)
{
	int64_t version, application, tables;
	int r;

	if ((r = sql_query_integer(db, "PRAGMA user_version", &version)) < 0 ||
	    (r = sql_query_integer(db, "PRAGMA application_id", &application)) < 0 ||
	    (r = sql_query_integer(db, "SELECT count(*) FROM sqlite_schema", &tables)) < 0)
		return r;
	if (application != APPLICATION_ID && (tables || version))
		return -EBADMSG;
	if (version > VERSION)
		return -EPROTO;
	*ret_version = version;
	return 0;
}

static int make_tables(sqlite3 *db)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < row_table_count; i++)
		r = sql_exec_made(db, row_sql_create(&row_tables[i]));
	return r;
}

static int run_steps(sqlite3 *db, int64_t from, int64_t to)
{
	int r = 0;

	for (; r == 0 && from < to; from++)
		r = sql_exec(db, steps[from]);
	return r;
}

static int set_version(sqlite3 *db, int64_t version)
{
	char pragma[80];

	snprintf(pragma, sizeof(pragma), "PRAGMA application_id = %d; PRAGMA user_version = %d",
		 APPLICATION_ID, (int)version);
	return sql_exec(db, pragma);
}

static int upgrade(sqlite3 *db, int64_t version)
{
	int r;

	if (version == VERSION)
		return 0;
	r = sql_exec(db, "BEGIN IMMEDIATE");
	if (r == 0)
		r = version ? run_steps(db, version, VERSION) : make_tables(db);
	if (r == 0)
		r = set_version(db, VERSION);
	return r < 0 ? r : sql_exec(db, "COMMIT");
}

int schema_make(sqlite3 *db)
{
	return upgrade(db, 0);
}

int schema_make_version(sqlite3 *db, int64_t version)
{
	int r = version > 0 && version <= VERSION ? run_steps(db, 0, version) : -EINVAL;

	return r < 0 ? r : set_version(db, version);
}

/* A file of a former version is written anew once. One that is too large for it, or for the disk,
 * stays without checksums. */
static int sum_pages(sqlite3 *db)
{
	int64_t pages;
	int r = page_sum_is_reserved(db);

	if (r == 0)
		r = sql_query_integer(db, "PRAGMA page_count", &pages);
	if (r != 0 || pages > LIMIT_STORE_REWRITTEN_PAGES)
		return r < 0 ? r : 0;
	r = page_sum_reserve(db);
	if (r == 0)
		r = sql_exec(db, "VACUUM");
	if (r < 0)
		page_sum_unreserve(db);
	return r == -EBADMSG || r == -ENOMEM ? r : 0;
}

/* It contains command lines of others; SQLite creates its other files like this one. */
static int make_file(const char *path)
{
	_cleanup_(closep) int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640);

	return fd < 0 && errno != EEXIST ? -errno : 0;
}

static int prepare(sqlite3 *db)
{
	int64_t version;
	int r = check(db, &version);

	if (r < 0)
		return r;
	/* auto_vacuum and checksums must come before the first table. */
	if (!version)
		r = page_sum_reserve(db);
	if (r == 0)
		r = sql_exec(db, "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;"
				 "PRAGMA synchronous = NORMAL");
	if (r == 0)
		r = upgrade(db, version);
	return r < 0 ? r : sum_pages(db);
}

bool schema_is_ours(const char *path)
{
	_cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint8_t head[HEAD_SIZE];
	uint32_t id;

	if (fd < 0 || pread(fd, head, sizeof(head), 0) != sizeof(head))
		return false;
	memcpy(&id, head + APPLICATION_AT, sizeof(id));
	return memcmp(head, HEAD_TEXT, sizeof(HEAD_TEXT)) == 0 && be32toh(id) == APPLICATION_ID;
}

int schema_open(const char *path, sqlite3 **ret)
{
	_cleanup_(sqlite3_closep) sqlite3 *db = NULL;
	int r = make_file(path);

	if (r < 0)
		return r;
	if (sqlite3_open_v2(path, &db,
			    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
				    SQLITE_OPEN_SHAREDCACHE,
			    page_sum_vfs()) != SQLITE_OK)
		return db ? sql_error(db) : -ENOMEM;
	sqlite3_busy_timeout(db, 5000);
	r = prepare(db);
	if (r < 0)
		return r;
	*ret = TAKE(db);
	return 0;
}

/* A row of a table of names: parameters ?1 to ?4 of its statement. */
struct name {
	int64_t id, second;
	const char *name, *text;
};

static const struct name kinds[] = {
#define X(number, identifier, name) { number, 0, name, NULL },
	OP_KINDS(X)
#undef X
};

static const struct name memory_kinds[] = {
#define X(number, identifier, name, space, counts) { number, counts, name, NULL },
	MEMORY_KINDS(X)
#undef X
};

static const struct name loss_reasons[] = {
#define X(number, identifier, counts, alarm, misses, noun, name, text) { number, 0, name, text },
	LOSS_REASONS(X)
#undef X
};

static const struct name details[] = {
#define X(number, identifier, name, ...) { OP_ALLOC, number, name, NULL },
	MEMORY_KINDS(X)
#undef X
#define X(number, identifier, name, ...) { OP_FREE, number, name, NULL },
		MEMORY_KINDS(X)
#undef X
#define X(number, identifier, name) { OP_COPY, number, name, NULL },
			COPY_KINDS(X)
#undef X
#define X(number, identifier, name, ...) { OP_STATE, number, name, NULL },
				OP_STATES(X)
#undef X
};

static const struct name collect_states[] = {
#define X(number, identifier, name) { number, 0, name, NULL },
	TS_COLLECT_STATES(X)
#undef X
};

static const struct name stack_ends[] = {
#define X(number, identifier, name, text) { number, 0, name, text },
	TS_STACK_ENDS(X)
#undef X
};

static const struct name frame_kinds[] = {
#define X(number, identifier, name) { number, 0, name, NULL },
	FRAME_KINDS(X)
#undef X
};

static const struct name pool_kinds[] = {
	{ CORE_POOL_OWN, 0, "own", NULL },
	{ CORE_POOL_IMPORTED, 0, "imported", NULL },
	{ CORE_POOL_ALLOCATOR, 0, "allocator", NULL },
};

static const struct {
	const char *sql;
	const struct name *row;
	size_t count;
} names[] = {
	{ "INSERT OR REPLACE INTO kind VALUES(?1, ?3)", kinds, ARRAY_SIZE(kinds) },
	{ "INSERT OR REPLACE INTO memory_kind VALUES(?1, ?3, ?2)", memory_kinds,
	  ARRAY_SIZE(memory_kinds) },
	{ "INSERT OR REPLACE INTO loss_reason VALUES(?1, ?3, ?4)", loss_reasons,
	  ARRAY_SIZE(loss_reasons) },
	{ "INSERT OR REPLACE INTO detail VALUES(?1, ?2, ?3)", details, ARRAY_SIZE(details) },
	{ "INSERT OR REPLACE INTO collect_state VALUES(?1, ?3)", collect_states,
	  ARRAY_SIZE(collect_states) },
	{ "INSERT OR REPLACE INTO stack_end VALUES(?1, ?3, ?4)", stack_ends,
	  ARRAY_SIZE(stack_ends) },
	{ "INSERT OR REPLACE INTO pool_kind VALUES(?1, ?3)", pool_kinds, ARRAY_SIZE(pool_kinds) },
	{ "INSERT OR REPLACE INTO frame_kind VALUES(?1, ?3)", frame_kinds,
	  ARRAY_SIZE(frame_kinds) },
};

static int write_names(sqlite3 *db, const char *sql, const struct name *row, size_t count)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	int r = sql_prepare(db, sql, &stmt);

	for (size_t i = 0; r == 0 && i < count; i++) {
		sql_bind(stmt, row[i].id, row[i].second);
		sql_bind_text(stmt, 3, row[i].name);
		sql_bind_text(stmt, 4, row[i].text);
		r = sql_run(stmt);
	}
	return r;
}

static int write_functions(sqlite3 *db, const struct function_table *functions)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	int r = sql_prepare(db,
			    "INSERT OR REPLACE INTO function(id, kind, effect, hot, name)"
			    " VALUES(?,?,?,?,?)",
			    &stmt);

	for (uint32_t i = 0; r == 0 && i < functions->count; i++) {
		if (!functions->row[i].name)
			continue;
		sql_bind(stmt, i, functions->row[i].kind, functions->row[i].effect,
			 functions->row[i].hot);
		sql_bind_text(stmt, 5, functions->row[i].name);
		r = sql_run(stmt);
	}
	return r;
}

int schema_write_names(sqlite3 *db, const struct function_table *functions)
{
	int r = sql_exec(db, "BEGIN IMMEDIATE");

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(names); i++)
		r = write_names(db, names[i].sql, names[i].row, names[i].count);
	if (r == 0)
		r = write_functions(db, functions);
	return r < 0 ? r : sql_exec(db, "COMMIT");
}

int schema_write_setting(sqlite3 *db, const char *name, const char *value)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	int r = sql_prepare(db, "INSERT OR REPLACE INTO setting(name, value) VALUES(?, ?)", &stmt);

	if (r < 0)
		return r;
	sql_bind_text(stmt, 1, name);
	sql_bind_text(stmt, 2, value);
	return sql_run(stmt);
}

/* What a former daemon was recording, or left to a library, ended with it, or continues when it is
 * reported again. */
int schema_close_collects(sqlite3 *db)
{
	return sql_exec(db, "UPDATE collect SET until_ns = coalesce((SELECT last_ns FROM boot"
			    " WHERE boot.id = collect.boot), 0) WHERE until_ns IS NULL;"
			    "UPDATE process SET light = 0 WHERE light");
}

int schema_write_boot(sqlite3 *db, const struct store_config *config, int64_t *ret_boot)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	int r = sql_prepare(db,
			    "INSERT INTO boot(wall_offset_ns, boot_id, next_process, next_batch)"
			    " SELECT ?1, ?2, first, first FROM"
			    " (SELECT iif(EXISTS (SELECT 1 FROM boot), 1, max(?3, 1)) AS first)"
			    " WHERE true ON CONFLICT(boot_id) DO UPDATE"
			    " SET wall_offset_ns = excluded.wall_offset_ns RETURNING id",
			    &stmt);

	if (r < 0)
		return r;
	sql_bind(stmt, config->wall_offset_ns);
	sql_bind_text(stmt, 2, config->boot_id);
	sqlite3_bind_int64(stmt, 3, config->first_id);
	return sql_integer(stmt, ret_boot);
}
