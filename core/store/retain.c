/* Retain: moves a horizon over the boots, the oldest first, and deletes what ended before it: ops
 * by whole chunks, sums of seconds, losses, processes with nothing left and everything known about
 * them (row.c says which tables are which). The horizon is at the age limit or, while the file is
 * too big, after the oldest chunks and sums; but before all others the user pays whose chunks take
 * most (shares.h). A name goes when it was last reported a
 * minute (CORE_NAME_AGAIN_NS) before the horizon, and before all recordings that are still known:
 * nothing that is left can have it. The
 * rows with the highest ids stay, so that ids are never reused. */
#include "core/store/retain.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/core.h"
#include "core/store/row.h"
#include "core/store/shares.h"
#include "core/store/sql.h"

/* In one turn: a few milliseconds of work. */
#define CHUNKS_PER_TURN	   64
#define SECONDS_PER_TURN   "60"
#define PROCESSES_PER_TURN "16"
#define STREAMS_PER_TURN   "256"
#define NAMES_PER_TURN	   "256"
#define PAGES_PER_TURN	   "2048"

/* About the largest size of a chunk, to avoid deleting more than needed. */
#define CHUNK_BYTES (256 << 10)

#define NEVER	    "0x7fffffffffffffff"
#define AGAIN_NS    "60000000000"
_Static_assert(CORE_NAME_AGAIN_NS == 60000000000, "it is the same");

enum {
	CUTOFF,
	OLDEST,
	CHUNKS,
	LOSSES,
	STREAMS,
	NAMES,
	TELLERS,
	ENDED,
	FRAMES,
	PROCESS,
	BOOT,
	STATEMENT_COUNT
};

#define TABLES_MAX 32

/* Names may be used as long as what told them since is recorded, or for a while. */
#define FORGOTTEN                                                                                  \
	" min(?2 - " AGAIN_NS                                                                      \
	", coalesce((SELECT min(since_ns) FROM collect WHERE boot=?1), " NEVER "))"                \
	" LIMIT " NAMES_PER_TURN ")"

/* ?1 is the boot or process, ?2 the horizon. */
static const char *const statement_text[] = {
	/* Where the age limit is in each boot. How long a host was off is what only its wall clock
	 * says, which may be wrong by years until somebody sets it: what was up since counts. */
	[CUTOFF] = "SELECT id, ?2 + iif(id = ?1, 0, last_ns + coalesce((SELECT sum(later.last_ns)"
		   " FROM boot later WHERE later.id > boot.id AND later.id <> ?1), 0))"
		   " FROM boot ORDER BY id",
	/* Where the oldest chunks, or sums, of the oldest boot that has any end; %s is of each
	 * table of sums. */
	[OLDEST] = "SELECT id, horizon FROM (SELECT id, min("
		   "coalesce((SELECT max(first_ns) FROM (SELECT first_ns FROM chunk"
		   " WHERE boot=b.id ORDER BY first_ns LIMIT ?3)), " NEVER ")%s) AS horizon"
		   " FROM boot b) WHERE horizon < " NEVER " ORDER BY id LIMIT 1",
	[CHUNKS] = "DELETE FROM chunk WHERE id IN (SELECT id FROM chunk WHERE boot=?1"
		   " AND first_ns<=?2 AND (last_ns<=?2 OR ?3) ORDER BY first_ns LIMIT ?4)",
	[LOSSES] = "DELETE FROM loss WHERE boot=?1 AND second < min(?2 / 1000000000,"
		   " 60 * " SECONDS_PER_TURN " + (SELECT min(second) FROM loss WHERE boot=?1))"
		   " AND end_ns < ?2",
	[STREAMS] = "DELETE FROM stream WHERE id IN (SELECT s.id FROM stream s"
		    " JOIN process p ON p.id=s.process WHERE p.boot=?1 AND s.destroyed_ns < ?2"
		    " AND NOT EXISTS (SELECT 1 FROM chunk WHERE chunk.stream=s.id)"
		    " AND s.id < (SELECT max(id) FROM stream) LIMIT " STREAMS_PER_TURN ")",
	[NAMES] = "DELETE FROM name WHERE id IN (SELECT id FROM name WHERE boot=?1 AND told_ns "
		  "<" FORGOTTEN,
	[TELLERS] = "DELETE FROM teller WHERE (user, name) IN (SELECT user, name FROM teller"
		    " WHERE boot=?1 AND told_ns <" FORGOTTEN,
	[ENDED] = "SELECT id FROM process WHERE boot=?1 AND exit_ns < ?2"
		  " AND NOT EXISTS (SELECT 1 FROM chunk WHERE chunk.process=process.id)"
		  " AND id < (SELECT max(id) FROM process) LIMIT " PROCESSES_PER_TURN,
	[FRAMES] = "DELETE FROM frame WHERE stack IN (SELECT id FROM stack WHERE process=?1)",
	[PROCESS] = "DELETE FROM process WHERE id=?1",
	/* The age of those before it needs it. %s is of each table that refers to a boot. */
	[BOOT] = "DELETE FROM boot WHERE id=?1 AND id < (SELECT max(id) FROM boot)"
		 " AND id = (SELECT min(id) FROM boot)%s",
};

/* A part of a statement, or one, of each table; %w is its name. */
#define OLDEST_OF                                                                                  \
	",coalesce((SELECT (min(second) + " SECONDS_PER_TURN ") * 1000000000 FROM \"%w\""          \
	" WHERE boot=b.id), " NEVER ")"
#define NONE_OF " AND NOT EXISTS (SELECT 1 FROM \"%w\" r WHERE r.boot=boot.id)"
#define DELETE_SECONDS                                                                             \
	"DELETE FROM \"%w\" WHERE boot=?1 AND second < min(?2 / 1000000000,"                       \
	" " SECONDS_PER_TURN " + (SELECT min(second) FROM \"%w\" WHERE boot=?1))"
#define DELETE_OF_PROCESS "DELETE FROM \"%w\" WHERE process=?1"

/* Of all tables that are kept alike. */
struct statements {
	sqlite3_stmt *stmt[TABLES_MAX];
	size_t count;
};

struct retain {
	sqlite3 *db;
	int64_t boot;
	uint64_t keep_ns, keep_bytes;
	sqlite3_stmt *stmt[STATEMENT_COUNT];
	struct statements seconds, of_process;
	struct shares *shares;
};

CLEANUP_DEFINE(struct retain, retain_free)

static bool has_boot(const struct row_table *table)
{
	for (size_t i = 0; i < table->count; i++)
		if (!strcmp(table->column[i].name, "boot"))
			return true;
	return false;
}

/* `whole` with a part for each table that is to have one. */
static char *make_text(const char *whole, const char *part, bool seconds)
{
	sqlite3_str *parts = sqlite3_str_new(NULL);
	char *text, *made;

	for (size_t i = 0; i < row_table_count; i++)
		if (seconds ? row_tables[i].kept == ROW_KEPT_SECOND : has_boot(&row_tables[i]))
			sqlite3_str_appendf(parts, part, row_tables[i].name);
	text = sqlite3_str_finish(parts);
	made = text ? sqlite3_mprintf(whole, text) : NULL;
	sqlite3_free(text);
	return made;
}

static int prepare_each(sqlite3 *db, enum row_kept kept, const char *format, struct statements *ret)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < row_table_count; i++) {
		const char *name = row_tables[i].name;

		if (row_tables[i].kept != kept)
			continue;
		if (ret->count == TABLES_MAX)
			return -E2BIG;
		r = sql_prepare_made(db, sqlite3_mprintf(format, name, name),
				     &ret->stmt[ret->count++]);
	}
	return r;
}

static int prepare(sqlite3 *db, struct retain *retain)
{
	int r = 0;

	for (int i = 0; r == 0 && i < STATEMENT_COUNT; i++) {
		if (i == OLDEST)
			r = sql_prepare_made(db, make_text(statement_text[i], OLDEST_OF, true),
					     &retain->stmt[i]);
		else if (i == BOOT)
			r = sql_prepare_made(db, make_text(statement_text[i], NONE_OF, false),
					     &retain->stmt[i]);
		else
			r = sql_prepare(db, statement_text[i], &retain->stmt[i]);
	}
	if (r == 0)
		r = prepare_each(db, ROW_KEPT_SECOND, DELETE_SECONDS, &retain->seconds);
	if (r == 0)
		r = prepare_each(db, ROW_KEPT_PROCESS, DELETE_OF_PROCESS, &retain->of_process);
	return r < 0 ? r : shares_new(db, &retain->shares);
}

int retain_new(sqlite3 *db, int64_t boot, const struct store_config *config, struct retain **ret)
{
	_cleanup_(retain_freep) struct retain *retain = calloc(1, sizeof(*retain));
	int r;

	if (!retain)
		return -ENOMEM;
	retain->db = db;
	retain->boot = boot;
	retain->keep_ns = config->keep_ns;
	retain->keep_bytes = config->keep_bytes;
	r = prepare(db, retain);
	if (r < 0)
		return r;
	*ret = TAKE(retain);
	return 0;
}

struct retain *retain_free(struct retain *retain)
{
	if (retain) {
		sql_finalize_all(retain->stmt, STATEMENT_COUNT);
		sql_finalize_all(retain->seconds.stmt, retain->seconds.count);
		sql_finalize_all(retain->of_process.stmt, retain->of_process.count);
		shares_free(retain->shares);
	}
	free(retain);
	return NULL;
}

/* Up to where, and how much of it in one turn. */
struct horizon {
	int64_t ns;
	int64_t chunks; /* at the most */
	bool all;	/* also chunks that started before the horizon and end after it */
	/* If it is for the size: one user may have to pay alone. */
	uint64_t now_ns;
	int64_t used_bytes;
};

/* Runs a statement with ?1, and ?2 if it has one. */
static int run(sqlite3_stmt *stmt, int64_t row, int64_t horizon_ns)
{
	sqlite3_bind_int64(stmt, 1, row);
	if (sqlite3_bind_parameter_count(stmt) > 1)
		sqlite3_bind_int64(stmt, 2, horizon_ns);
	return sql_run(stmt);
}

static int run_each(const struct statements *statements, int64_t row, int64_t horizon_ns)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < statements->count; i++)
		r = run(statements->stmt[i], row, horizon_ns);
	return r;
}

static int delete_process(struct retain *retain, int64_t process)
{
	int r = run(retain->stmt[FRAMES], process, 0);

	if (r == 0)
		r = run_each(&retain->of_process, process, 0);
	return r < 0 ? r : run(retain->stmt[PROCESS], process, 0);
}

static int delete_processes(struct retain *retain, int64_t boot, int64_t horizon_ns)
{
	sqlite3_stmt *stmt = retain->stmt[ENDED];
	int code, r = 0;

	sql_bind(stmt, boot, horizon_ns);
	while (r == 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW)
		r = delete_process(retain, sqlite3_column_int64(stmt, 0));
	if (r == 0 && code != SQLITE_DONE)
		r = sql_error(retain->db);
	sqlite3_reset(stmt);
	return r;
}

static int delete_before(struct retain *retain, int64_t boot, const struct horizon *horizon)
{
	int r;

	sql_bind(retain->stmt[CHUNKS], boot, horizon->ns, horizon->all, horizon->chunks);
	r = sql_run(retain->stmt[CHUNKS]);
	if (r == 0)
		r = run_each(&retain->seconds, boot, horizon->ns);
	for (int i = LOSSES; r == 0 && i <= TELLERS; i++)
		r = run(retain->stmt[i], boot, horizon->ns);
	r = r < 0 ? r : delete_processes(retain, boot, horizon->ns);
	return r < 0 ? r : run(retain->stmt[BOOT], boot, 0);
}

/* Statement `which` gives boots, and the horizon of each. */
static int delete_each(struct retain *retain, int which, const struct horizon *limit)
{
	sqlite3_stmt *stmt = retain->stmt[which];
	struct horizon horizon = *limit;
	int code, r = 0;

	sql_bind(stmt, retain->boot, limit->ns, limit->chunks);
	while (r == 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
		horizon.ns = sqlite3_column_int64(stmt, 1);
		r = delete_before(retain, sqlite3_column_int64(stmt, 0), &horizon);
	}
	if (r == 0 && code != SQLITE_DONE)
		r = sql_error(retain->db);
	sqlite3_reset(stmt);
	return r;
}

static int delete_turn(struct retain *retain, int which, const struct horizon *limit)
{
	int64_t before = sqlite3_total_changes64(retain->db);
	int r = sql_exec(retain->db, "BEGIN IMMEDIATE");

	if (r < 0)
		return r;
	if (limit->used_bytes)
		r = shares_delete(retain->shares, limit->now_ns, limit->used_bytes, limit->chunks);
	if (r == 0)
		r = delete_each(retain, which, limit);
	if (r >= 0)
		r = sql_exec(retain->db, "COMMIT");
	if (r < 0)
		sql_exec(retain->db, "ROLLBACK");
	return r < 0 ? r : sqlite3_total_changes64(retain->db) != before;
}

/* Deletes while too much is used, then gives pages back while the file is too large. What is used
 * stays somewhat below the limit, so that new rows find free pages and the file keeps its size.
 */
static int shrink_turn(struct retain *retain, uint64_t now_ns, int64_t log_bytes)
{
	struct horizon limit = { .all = true, .now_ns = now_ns };
	int64_t pages, free_pages, page_bytes, keep = (int64_t)retain->keep_bytes, excess;
	int r;

	if ((r = sql_query_integer(retain->db, "PRAGMA page_count", &pages)) < 0 ||
	    (r = sql_query_integer(retain->db, "PRAGMA freelist_count", &free_pages)) < 0 ||
	    (r = sql_query_integer(retain->db, "PRAGMA page_size", &page_bytes)) < 0)
		return r;
	excess = (pages - free_pages) * page_bytes + log_bytes - (keep - keep / 16);
	if (excess > 0) {
		limit.used_bytes = (pages - free_pages) * page_bytes;
		limit.chunks = 1 + excess / CHUNK_BYTES;
		limit.chunks = limit.chunks < CHUNKS_PER_TURN ? limit.chunks : CHUNKS_PER_TURN;
		return delete_turn(retain, OLDEST, &limit);
	}
	if (!free_pages || pages * page_bytes + log_bytes <= keep)
		return 0;
	r = sql_exec(retain->db, "PRAGMA incremental_vacuum(" PAGES_PER_TURN ")");
	return r < 0 ? r : 1;
}

int retain_turn(struct retain *retain, uint64_t now_ns, uint64_t log_bytes)
{
	struct horizon limit = { .ns = (int64_t)(now_ns - retain->keep_ns),
				 .chunks = CHUNKS_PER_TURN };
	int r = retain->keep_bytes ? shrink_turn(retain, now_ns, (int64_t)log_bytes) : 0, more;

	/* The last page of the file may be one that was left out as damaged: that it cannot shrink
	 * is no reason to keep what is old. */
	if ((r && r != -EBADMSG) || !retain->keep_ns)
		return r;
	more = delete_turn(retain, CUTOFF, &limit);
	return more ? more : r;
}
