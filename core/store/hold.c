/* Hold: when a commit fails, the next transaction is kept open. SQLite keeps its pages in memory,
 * since it must not spill them, so that sums add up and names are found as in any other
 * transaction, and what is held stays small: an op takes ten bytes.
 *
 * SQLite gives a transaction up when its commit fails, so none is tried before as many bytes could
 * be written after the log as it will take, and once more as many, which the database will take.
 */
#include "core/store/hold.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/time.h"
#include "core/limits.h"
#include "core/model/core.h"
#include "core/store/sql.h"

#define TRY_NS	     NS_PER_S
#define TRY_MAX_NS   60000000000ull
#define ROOM_BYTES   (1 << 20) /* besides the pages: headers of frames and of the log */
#define CHUNKS_LEAST 64	       /* dropped at a time */

#define OLD_CHUNKS   "(SELECT id FROM chunk WHERE id > ?1 ORDER BY id LIMIT ?2)"

enum { LOSE, FORGET, COUNT_OLD, STATEMENT_COUNT };

static const char *const statement_text[] = {
	[COUNT_OLD] = "SELECT sum(ops) FROM chunk WHERE id IN " OLD_CHUNKS,
	[LOSE] = "INSERT INTO loss(boot, second, process, reason, start_ns, end_ns, count)"
		 " SELECT ?3, min(first_ns) / 1000000000, process, ?4, min(first_ns), max(last_ns),"
		 " sum(ops) FROM chunk WHERE id IN " OLD_CHUNKS
		 " GROUP BY process ON CONFLICT DO UPDATE SET"
		 " start_ns=min(start_ns, excluded.start_ns), end_ns=max(end_ns, excluded.end_ns),"
		 " count=count+excluded.count",
	[FORGET] = "DELETE FROM chunk WHERE id IN " OLD_CHUNKS,
};

struct hold {
	sqlite3 *db;
	sqlite3_stmt *stmt[STATEMENT_COUNT];
	const char *log_path;
	int64_t boot, page_bytes;
	int error;
	int64_t last_chunk, free_pages; /* when it started */
	uint64_t tried_ns, wait_ns;
	struct packer_stats stats; /* of what is held */
	struct drops held;
	struct drops told; /* losses that are rows of the transaction */
	struct drops lost; /* to be reported in the next */
	uint64_t ops_dropped, rows_dropped;
};

CLEANUP_DEFINE(struct hold, hold_free)

int hold_new(sqlite3 *db, int64_t boot, const char *log_path, struct hold **ret)
{
	_cleanup_(hold_freep) struct hold *hold = calloc(1, sizeof(*hold));
	int r;

	if (!hold)
		return -ENOMEM;
	hold->db = db;
	hold->boot = boot;
	hold->log_path = log_path;
	r = sql_query_integer(db, "PRAGMA page_size", &hold->page_bytes);
	if (r == 0)
		r = sql_prepare_all(db, statement_text, STATEMENT_COUNT, hold->stmt);
	if (r < 0)
		return r;
	*ret = TAKE(hold);
	return 0;
}

struct hold *hold_free(struct hold *hold)
{
	if (hold)
		sql_finalize_all(hold->stmt, STATEMENT_COUNT);
	free(hold);
	return NULL;
}

bool hold_is_open(const struct hold *hold)
{
	return hold->error && !sqlite3_get_autocommit(hold->db);
}

int hold_error(const struct hold *hold)
{
	return hold->error;
}

/* SQLite has given the transaction up: the disk could not even be read, or failed at the last
 * moment. */
static void lose(struct hold *hold)
{
	drops_add(&hold->lost, &hold->told);
	drops_add(&hold->lost, &hold->held);
	hold->told = (struct drops){ 0 };
	hold->ops_dropped += hold->held.ops;
	hold->rows_dropped += hold->held.rows;
	hold->held = (struct drops){ 0 };
	hold->stats = (struct packer_stats){ 0 };
}

int hold_begin(struct hold *hold, int error, uint64_t now_ns)
{
	int r = sql_exec(hold->db, "BEGIN IMMEDIATE");

	if (r == 0)
		r = sql_query_integer(hold->db, "SELECT max(id) FROM chunk", &hold->last_chunk);
	if (r == 0)
		r = sql_query_integer(hold->db, "PRAGMA freelist_count", &hold->free_pages);
	if (r < 0)
		return r;
	if (!hold->error) {
		hold->wait_ns = TRY_NS;
		hold->tried_ns = now_ns;
	}
	hold->error = error;
	lose(hold);
	return 0;
}

void hold_add(struct hold *hold, const struct queue_turn *turn, uint64_t rows,
	      const struct packer_stats *stats)
{
	for (const struct op_block *block = turn->batch.first_ops; block; block = block->next)
		drops_add_ops(&hold->held, block->op, block->count);
	drops_add_rows(&hold->held, 0, rows, turn->now_ns);
	drops_add(&hold->told, &turn->drops);
	hold->stats.ops += stats->ops;
	hold->stats.chunks += stats->chunks;
	hold->stats.bytes += stats->bytes;
}

static int64_t cache_bytes(struct hold *hold)
{
	int bytes = 0, high;

	sqlite3_db_status(hold->db, SQLITE_DBSTATUS_CACHE_USED, &bytes, &high, 0);
	return bytes;
}

/* Freed pages stay in the cache for the next ones needed. */
static int64_t held_bytes(struct hold *hold)
{
	int64_t pages = 0;

	sql_query_integer(hold->db, "PRAGMA freelist_count", &pages);
	pages = pages > hold->free_pages ? pages - hold->free_pages : 0;
	return cache_bytes(hold) - pages * hold->page_bytes;
}

static void forget(struct hold *hold, int64_t ops)
{
	drops_move_ops(&hold->held, (uint64_t)ops, &hold->told);
	hold->ops_dropped += ops;
	hold->stats.ops -= ops;
}

static int let_go(struct hold *hold, int64_t chunks, int64_t *ret_ops)
{
	int r;

	sql_bind(hold->stmt[COUNT_OLD], hold->last_chunk, chunks);
	sql_bind(hold->stmt[LOSE], hold->last_chunk, chunks, hold->boot, LOSS_STORE);
	sql_bind(hold->stmt[FORGET], hold->last_chunk, chunks);
	r = sql_integer(hold->stmt[COUNT_OLD], ret_ops);
	if (r == 0)
		r = sql_run(hold->stmt[LOSE]);
	return r < 0 ? r : sql_run(hold->stmt[FORGET]);
}

int hold_bound(struct hold *hold)
{
	int64_t chunks = CHUNKS_LEAST, ops;
	int r;

	if (held_bytes(hold) <= LIMIT_STORE_HELD_BYTES)
		return 0;
	/* An eighth at a time, so that this is not needed every time. */
	while (held_bytes(hold) > LIMIT_STORE_HELD_BYTES / 8 * 7) {
		r = let_go(hold, chunks, &ops);
		if (r < 0)
			return r;
		if (!ops)
			return -ENOSPC;
		forget(hold, ops);
		chunks *= 2;
	}
	return 0;
}

static int append_zeros(int fd, off_t from, uint64_t bytes)
{
	static const char zeros[65536];

	for (uint64_t done = 0; done < bytes;) {
		uint64_t part = bytes - done < sizeof(zeros) ? bytes - done : sizeof(zeros);
		ssize_t r = pwrite(fd, zeros, part, from + (off_t)done);

		if (r < 0)
			return -errno;
		done += (uint64_t)r;
	}
	return fdatasync(fd) < 0 ? -errno : 0;
}

/* Zeros after the log are no part of it. Nobody else writes there while the transaction is open. */
static int make_room(struct hold *hold)
{
	_cleanup_(closep) int fd = open(hold->log_path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	uint64_t needed;
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	sqlite3_db_release_memory(hold->db);
	needed = (uint64_t)cache_bytes(hold) + ROOM_BYTES;
	r = append_zeros(fd, st.st_size, 2 * needed);
	if (ftruncate(fd, r < 0 ? st.st_size : st.st_size + (off_t)needed) < 0 && r == 0)
		r = -errno;
	return r;
}

static void end(struct hold *hold, struct packer_stats *stats)
{
	stats->ops += hold->stats.ops;
	stats->chunks += hold->stats.chunks;
	stats->bytes += hold->stats.bytes;
	hold->stats = (struct packer_stats){ 0 };
	hold->held = hold->told = (struct drops){ 0 };
	hold->error = 0;
	sqlite3_db_release_memory(hold->db);
}

int hold_end(struct hold *hold, uint64_t now_ns, struct packer_stats *stats)
{
	int r;

	if (!hold_is_open(hold) || (now_ns && now_ns - hold->tried_ns < hold->wait_ns))
		return hold->error;
	hold->tried_ns = now_ns;
	r = make_room(hold);
	if (r == 0) {
		r = sql_exec(hold->db, "COMMIT");
		if (r == 0) {
			end(hold, stats);
			return 0;
		}
		/* The next attempt is later: what is held may go with it. */
		hold->wait_ns = 2 * hold->wait_ns < TRY_MAX_NS ? 2 * hold->wait_ns : TRY_MAX_NS;
		if (!hold_is_open(hold))
			lose(hold);
	}
	hold->error = r;
	return r;
}

struct drops hold_take_lost(struct hold *hold)
{
	struct drops lost = hold->lost;

	drops_add(&hold->told, &lost);
	hold->lost = (struct drops){ 0 };
	return lost;
}

void hold_stats(const struct hold *hold, struct hold_stats *ret)
{
	*ret = (struct hold_stats){
		.error = hold->error,
		.ops = hold->held.ops,
		.ops_dropped = hold->ops_dropped,
		.rows_dropped = hold->rows_dropped,
	};
}
