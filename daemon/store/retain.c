/* Retain: moves a horizon over the boots, the oldest first. What ended before it goes: ops by whole
 * chunks, rollups, losses, processes with nothing left and all that is known of them. The horizon
 * is where the age limit puts it, or, while the file is too big, behind the oldest chunks and
 * rollups. The rows with the highest ids stay, so that ids are never given out twice. */
#include "daemon/store/retain.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "daemon/store/sql.h"

#define SECOND_NS INT64_C(1000000000)

/* Of one turn: a few milliseconds of work. */
#define CHUNKS_PER_TURN	   "64"
#define SECONDS_PER_TURN   "60"
#define PROCESSES_PER_TURN "16"
#define STREAMS_PER_TURN   "256"
#define PAGES_PER_TURN	   "2048"

#define NEVER		   "0x7fffffffffffffff"

enum {
	CUTOFF,
	OLDEST,
	CHUNKS,
	ROLLUPS,
	LOSSES,
	STREAMS,
	PROCESS,
	FIRST_OF_PROCESS,
	LAST_OF_PROCESS = FIRST_OF_PROCESS + 5,
	BOOT,
	STATEMENT_COUNT
};

/* ?1 is the boot or process, ?2 the horizon. */
static const char *const statement_text[] = {
	/* Where the age limit lies in each boot, by wall time. */
	[CUTOFF] = "SELECT b.id, ?2 - (b.wall_offset_ns - here.wall_offset_ns)"
		   " FROM boot b, boot here WHERE here.id=?1 ORDER BY b.id",
	/* Where the oldest chunks, or rollups, of the oldest boot that has any end. */
	[OLDEST] = "SELECT id, horizon FROM (SELECT id, min("
		   "coalesce((SELECT max(first_ns) FROM (SELECT first_ns FROM chunk"
		   " WHERE boot=b.id ORDER BY first_ns LIMIT " CHUNKS_PER_TURN ")), " NEVER "),"
		   "coalesce((SELECT (min(second) + " SECONDS_PER_TURN ") * 1000000000 FROM rollup"
		   " WHERE boot=b.id), " NEVER ")) AS horizon FROM boot b)"
		   " WHERE horizon < " NEVER " ORDER BY id LIMIT 1",
	[CHUNKS] = "DELETE FROM chunk WHERE id IN (SELECT id FROM chunk WHERE boot=?1"
		   " AND first_ns<=?2 AND (last_ns<=?2 OR ?3) ORDER BY first_ns"
		   " LIMIT " CHUNKS_PER_TURN ")",
	[ROLLUPS] = "DELETE FROM rollup WHERE boot=?1 AND second < min(?2 / 1000000000,"
		    " " SECONDS_PER_TURN " + (SELECT min(second) FROM rollup WHERE boot=?1))",
	[LOSSES] = "DELETE FROM loss WHERE boot=?1 AND second < min(?2 / 1000000000,"
		   " 60 * " SECONDS_PER_TURN " + (SELECT min(second) FROM loss WHERE boot=?1))"
		   " AND end_ns < ?2",
	[STREAMS] = "DELETE FROM stream WHERE id IN (SELECT s.id FROM stream s"
		    " JOIN process p ON p.id=s.process WHERE p.boot=?1 AND s.destroyed_ns < ?2"
		    " AND NOT EXISTS (SELECT 1 FROM chunk WHERE chunk.stream=s.id)"
		    " AND s.id < (SELECT max(id) FROM stream) LIMIT " STREAMS_PER_TURN ")",
	[PROCESS] = "SELECT id FROM process WHERE boot=?1 AND exit_ns < ?2"
		    " AND NOT EXISTS (SELECT 1 FROM chunk WHERE chunk.process=process.id)"
		    " AND id < (SELECT max(id) FROM process) LIMIT " PROCESSES_PER_TURN,
	[FIRST_OF_PROCESS] =
		"DELETE FROM frame WHERE stack IN (SELECT id FROM stack WHERE process=?1)",
	"DELETE FROM stack WHERE process=?1",
	"DELETE FROM memory WHERE process=?1",
	"DELETE FROM allocation WHERE process=?1",
	"DELETE FROM stream WHERE process=?1",
	[LAST_OF_PROCESS] = "DELETE FROM process WHERE id=?1",
	[BOOT] = "DELETE FROM boot WHERE id=?1 AND id < (SELECT max(id) FROM boot)"
		 " AND NOT EXISTS (SELECT 1 FROM process WHERE process.boot=boot.id)"
		 " AND NOT EXISTS (SELECT 1 FROM chunk WHERE chunk.boot=boot.id)"
		 " AND NOT EXISTS (SELECT 1 FROM rollup WHERE rollup.boot=boot.id)"
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

static int run(struct retain *retain, int statement, int64_t first, int64_t second, int64_t third)
{
	sql_bind(retain->stmt[statement], first, second, third);
	return sql_run(retain->stmt[statement]);
}

static int delete_processes(struct retain *retain, int64_t boot, int64_t horizon_ns)
{
	sqlite3_stmt *stmt = retain->stmt[PROCESS];
	int code, r = 0;

	sql_bind(stmt, boot, horizon_ns);
	while (r == 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW)
		for (int i = FIRST_OF_PROCESS; r == 0 && i <= LAST_OF_PROCESS; i++)
			r = run(retain, i, sqlite3_column_int64(stmt, 0), 0, 0);
	if (r == 0 && code != SQLITE_DONE)
		r = sql_error(retain->db);
	sqlite3_reset(stmt);
	return r;
}

/* `all`: also chunks that began before the horizon and end behind it. */
static int delete_before(struct retain *retain, int64_t boot, int64_t horizon_ns, bool all)
{
	int r = run(retain, CHUNKS, boot, horizon_ns, all);

	for (int i = ROLLUPS; r == 0 && i <= STREAMS; i++)
		r = run(retain, i, boot, horizon_ns, 0);
	r = r < 0 ? r : delete_processes(retain, boot, horizon_ns);
	return r < 0 ? r : run(retain, BOOT, boot, 0, 0);
}

/* What statement `which` gives, boots and horizons, deleted. */
static int delete_each(struct retain *retain, int which, int64_t cutoff_ns, bool all)
{
	sqlite3_stmt *stmt = retain->stmt[which];
	int code, r = 0;

	sql_bind(stmt, retain->boot, cutoff_ns);
	while (r == 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW)
		r = delete_before(retain, sqlite3_column_int64(stmt, 0),
				  sqlite3_column_int64(stmt, 1), all);
	if (r == 0 && code != SQLITE_DONE)
		r = sql_error(retain->db);
	sqlite3_reset(stmt);
	return r;
}

static int delete_turn(struct retain *retain, int which, int64_t cutoff_ns, bool all)
{
	int64_t before = sqlite3_total_changes64(retain->db);
	int r = sql_exec(retain->db, "BEGIN IMMEDIATE");

	if (r < 0)
		return r;
	r = delete_each(retain, which, cutoff_ns, all);
	if (r == 0)
		r = sql_exec(retain->db, "COMMIT");
	if (r < 0)
		sql_exec(retain->db, "ROLLBACK");
	return r < 0 ? r : sqlite3_total_changes64(retain->db) != before;
}

/* Free pages go back to the file system before anything more is deleted. */
static int shrink_turn(struct retain *retain)
{
	int64_t free_pages;
	int r = sql_query_integer(retain->db, "PRAGMA freelist_count", &free_pages);

	if (r < 0)
		return r;
	if (!free_pages)
		return delete_turn(retain, OLDEST, 0, true);
	r = sql_exec(retain->db, "PRAGMA incremental_vacuum(" PAGES_PER_TURN ")");
	return r < 0 ? r : 1;
}

int retain_turn(struct retain *retain, uint64_t now_ns, uint64_t bytes)
{
	if (retain->keep_bytes && bytes > retain->keep_bytes)
		return shrink_turn(retain);
	if (!retain->keep_ns)
		return 0;
	return delete_turn(retain, CUTOFF, (int64_t)now_ns - (int64_t)retain->keep_ns, false);
}
