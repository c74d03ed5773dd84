/* Retain: moves a horizon over the boots, the oldest first, and deletes what ended before it: ops
 * by whole chunks, rollups, work, busy times, losses, processes with nothing left and everything
 * known about them. The horizon is at the age limit or, while the file is too big, after the oldest
 * chunks and sums. A name goes when it was last reported before the horizon and before all
 * recordings that are still known: nothing that is left can have it. The rows with the highest ids
 * stay, so that ids are never reused. */
#include "core/store/retain.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

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

enum {
	CUTOFF,
	OLDEST,
	CHUNKS,
	ROLLUPS,
	WORK,
	BUSY,
	LOSSES,
	STREAMS,
	NAMES,
	PROCESS,
	FIRST_OF_PROCESS,
	LAST_OF_PROCESS = FIRST_OF_PROCESS + 8,
	BOOT,
	STATEMENT_COUNT
};

#define OLDEST_OF(table)                                                                           \
	"coalesce((SELECT (min(second) + " SECONDS_PER_TURN ") * 1000000000 FROM " table           \
	" WHERE boot=b.id), " NEVER ")"
#define DELETE_OF(table)                                                                           \
	"DELETE FROM " table " WHERE boot=?1 AND second < min(?2 / 1000000000,"                    \
	" " SECONDS_PER_TURN " + (SELECT min(second) FROM " table " WHERE boot=?1))"

/* ?1 is the boot or process, ?2 the horizon. */
static const char *const statement_text[] = {
	/* Where the age limit is in each boot, by wall time. */
	[CUTOFF] = "SELECT b.id, ?2 - (b.wall_offset_ns - here.wall_offset_ns)"
		   " FROM boot b, boot here WHERE here.id=?1 ORDER BY b.id",
	/* Where the oldest chunks, or sums, of the oldest boot that has any end. */
	[OLDEST] = "SELECT id, horizon FROM (SELECT id, min("
		   "coalesce((SELECT max(first_ns) FROM (SELECT first_ns FROM chunk"
		   " WHERE boot=b.id ORDER BY first_ns LIMIT ?3)), " NEVER
		   ")," OLDEST_OF("rollup") "," OLDEST_OF("work") "," OLDEST_OF(
			   "busy") ") AS horizon FROM boot b)"
				   " WHERE horizon < " NEVER " ORDER BY id LIMIT 1",
	[CHUNKS] = "DELETE FROM chunk WHERE id IN (SELECT id FROM chunk WHERE boot=?1"
		   " AND first_ns<=?2 AND (last_ns<=?2 OR ?3) ORDER BY first_ns LIMIT ?4)",
	[ROLLUPS] = DELETE_OF("rollup"),
	[WORK] = DELETE_OF("work"),
	[BUSY] = DELETE_OF("busy"),
	[LOSSES] = "DELETE FROM loss WHERE boot=?1 AND second < min(?2 / 1000000000,"
		   " 60 * " SECONDS_PER_TURN " + (SELECT min(second) FROM loss WHERE boot=?1))"
		   " AND end_ns < ?2",
	[STREAMS] = "DELETE FROM stream WHERE id IN (SELECT s.id FROM stream s"
		    " JOIN process p ON p.id=s.process WHERE p.boot=?1 AND s.destroyed_ns < ?2"
		    " AND NOT EXISTS (SELECT 1 FROM chunk WHERE chunk.stream=s.id)"
		    " AND s.id < (SELECT max(id) FROM stream) LIMIT " STREAMS_PER_TURN ")",
	[NAMES] = "DELETE FROM name WHERE id IN (SELECT id FROM name WHERE boot=?1 AND told_ns <"
		  " min(?2, coalesce((SELECT min(since_ns) FROM collect WHERE boot=?1), " NEVER "))"
		  " LIMIT " NAMES_PER_TURN ")",
	[PROCESS] = "SELECT id FROM process WHERE boot=?1 AND exit_ns < ?2"
		    " AND NOT EXISTS (SELECT 1 FROM chunk WHERE chunk.process=process.id)"
		    " AND id < (SELECT max(id) FROM process) LIMIT " PROCESSES_PER_TURN,
	[FIRST_OF_PROCESS] =
		"DELETE FROM frame WHERE stack IN (SELECT id FROM stack WHERE process=?1)",
	"DELETE FROM stack WHERE process=?1",
	"DELETE FROM memory WHERE process=?1",
	"DELETE FROM allocation WHERE process=?1",
	"DELETE FROM stream WHERE process=?1",
	"DELETE FROM device WHERE process=?1",
	"DELETE FROM pool WHERE process=?1",
	"DELETE FROM collect WHERE process=?1",
	[LAST_OF_PROCESS] = "DELETE FROM process WHERE id=?1",
	[BOOT] = "DELETE FROM boot WHERE id=?1 AND id < (SELECT max(id) FROM boot)"
		 " AND NOT EXISTS (SELECT 1 FROM process WHERE process.boot=boot.id)"
		 " AND NOT EXISTS (SELECT 1 FROM chunk WHERE chunk.boot=boot.id)"
		 " AND NOT EXISTS (SELECT 1 FROM rollup WHERE rollup.boot=boot.id)"
		 " AND NOT EXISTS (SELECT 1 FROM work WHERE work.boot=boot.id)"
		 " AND NOT EXISTS (SELECT 1 FROM busy WHERE busy.boot=boot.id)"
		 " AND NOT EXISTS (SELECT 1 FROM name WHERE name.boot=boot.id)"
		 " AND NOT EXISTS (SELECT 1 FROM loss WHERE loss.boot=boot.id)",
};

struct retain {
	sqlite3 *db;
	int64_t boot;
	uint64_t keep_ns, keep_bytes;
	sqlite3_stmt *stmt[STATEMENT_COUNT];
};

int retain_new(sqlite3 *db, int64_t boot, const struct store_config *config, struct retain **ret)
{
	struct retain *retain = calloc(1, sizeof(*retain));
	int r;

	if (!retain)
		return -ENOMEM;
	retain->db = db;
	retain->boot = boot;
	retain->keep_ns = config->keep_ns;
	retain->keep_bytes = config->keep_bytes;
	r = sql_prepare_all(db, statement_text, STATEMENT_COUNT, retain->stmt);
	if (r < 0) {
		free(retain);
		return r;
	}
	*ret = retain;
	return 0;
}

struct retain *retain_free(struct retain *retain)
{
	if (retain)
		sql_finalize_all(retain->stmt, STATEMENT_COUNT);
	free(retain);
	return NULL;
}

/* Up to where, and how much of it in one turn. */
struct horizon {
	int64_t ns;
	int64_t chunks; /* at the most */
	bool all;	/* also chunks that started before the horizon and end after it */
};

static int run(struct retain *retain, int statement, int64_t row)
{
	sql_bind(retain->stmt[statement], row);
	return sql_run(retain->stmt[statement]);
}

static int delete_processes(struct retain *retain, int64_t boot, int64_t horizon_ns)
{
	sqlite3_stmt *stmt = retain->stmt[PROCESS];
	int code, r = 0;

	sql_bind(stmt, boot, horizon_ns);
	while (r == 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW)
		for (int i = FIRST_OF_PROCESS; r == 0 && i <= LAST_OF_PROCESS; i++)
			r = run(retain, i, sqlite3_column_int64(stmt, 0));
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
	for (int i = ROLLUPS; r == 0 && i <= NAMES; i++) {
		sql_bind(retain->stmt[i], boot, horizon->ns);
		r = sql_run(retain->stmt[i]);
	}
	r = r < 0 ? r : delete_processes(retain, boot, horizon->ns);
	return r < 0 ? r : run(retain, BOOT, boot);
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
	r = delete_each(retain, which, limit);
	if (r == 0)
		r = sql_exec(retain->db, "COMMIT");
	if (r < 0)
		sql_exec(retain->db, "ROLLBACK");
	return r < 0 ? r : sqlite3_total_changes64(retain->db) != before;
}

/* Deletes while too much is used, then gives pages back while the file is too large. What is used
 * stays somewhat below the limit, so that new rows find free pages and the file keeps its size.
 */
static int shrink_turn(struct retain *retain, int64_t log_bytes)
{
	struct horizon limit = { .all = true };
	int64_t pages, free_pages, page_bytes, keep = (int64_t)retain->keep_bytes, excess;
	int r;

	if ((r = sql_query_integer(retain->db, "PRAGMA page_count", &pages)) < 0 ||
	    (r = sql_query_integer(retain->db, "PRAGMA freelist_count", &free_pages)) < 0 ||
	    (r = sql_query_integer(retain->db, "PRAGMA page_size", &page_bytes)) < 0)
		return r;
	excess = (pages - free_pages) * page_bytes + log_bytes - (keep - keep / 16);
	if (excess > 0) {
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
	int r = retain->keep_bytes ? shrink_turn(retain, (int64_t)log_bytes) : 0;

	if (r || !retain->keep_ns)
		return r;
	return delete_turn(retain, CUTOFF, &limit);
}
