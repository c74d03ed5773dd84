/* Writer: turns of the queue into transactions, and maintenance of the database in between. Every
 * transaction is all or nothing; nothing is kept in memory that the next one relies on. */
#include "core/store/writer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "core/base/time.h"
#include "core/limits.h"
#include "core/store/condense.h"
#include "core/store/fragment_series.h"
#include "core/store/fragment_table.h"
#include "core/store/merge.h"
#include "core/store/page_sum.h"
#include "core/store/repair.h"
#include "core/store/retain.h"
#include "core/store/schema.h"
#include "core/store/sql.h"
#include "core/store/tables.h"

/* What SQLite leaves of the log once everything in it has moved to the database. */
#define LOG_PRAGMA "PRAGMA journal_size_limit = 8388608"
/* A page that cannot be written before the commit would be an error of the whole cache, which stays
 * until the last reader that shares it is gone. */
#define SPILL_PRAGMA "PRAGMA cache_spill = 0"

enum { JOB_LOG, JOB_MERGE, JOB_CONDENSE, JOB_SETTLE, JOB_RETAIN, JOB_SERIES, JOB_COUNT };

struct writer {
	sqlite3 *db;
	struct sbt_codec *codec;
	struct packer *packer;
	struct tables *tables;
	struct merge *merge;
	struct condense *condense;
	struct retain *retain;
	struct hold *hold;
	int64_t boot, page_bytes;
	int64_t batch; /* number of the last commit that was tried; they grow over all boots */
	uint64_t keep_bytes;
	char *log_path;
	uint64_t damaged_pages; /* taken as they are, and not yet told */
	uint64_t due_ns[JOB_COUNT];
};

CLEANUP_DEFINE(struct writer, writer_close)

/* Whether the damaged pages that were met can be left out from now on. */
static bool leave_out(struct writer *writer)
{
	uint32_t pages = page_sum_skip(writer->db);

	writer->damaged_pages += pages;
	sqlite3_db_release_memory(writer->db);
	return pages > 0;
}

/* A damaged page must not stop the writer for good: what is on it is lost. One that cannot be left
 * out, as it belongs to a long value or is the first of its table, is taken as it is. */
static int past_damage(struct writer *writer, int (*run)(struct writer *writer, void *data),
		       void *data)
{
	int r;

	do {
		r = run(writer, data);
	} while (r == -EBADMSG && leave_out(writer));
	if (r != -EBADMSG)
		return r;
	page_sum_believe(writer->db, true);
	r = run(writer, data);
	writer->damaged_pages += page_sum_believe(writer->db, false);
	return r;
}

static int begin_boot(struct writer *writer, void *data)
{
	const struct store_config *config = data;
	int r;

	if (!sqlite3_get_autocommit(writer->db))
		sql_exec(writer->db, "ROLLBACK");
	r = schema_write_names(writer->db, &config->functions);

	if (r == 0 && config->library_code)
		r = schema_write_setting(writer->db, FRAME_SETTING, config->library_code);
	if (r == 0)
		r = schema_write_boot(writer->db, config, &writer->boot);
	if (r == 0)
		r = schema_close_collects(writer->db);
	if (r == 0)
		r = sql_query_integer(writer->db, "SELECT max(next_batch) - 1 FROM boot",
				      &writer->batch);
	if (r == 0)
		r = sql_query_integer(writer->db, "PRAGMA page_size", &writer->page_bytes);
	return r < 0 ? r
		     : sql_exec(writer->db,
				LOG_PRAGMA "; " SPILL_PRAGMA "; PRAGMA temp_store = MEMORY");
}

static int open_parts(struct writer *writer, const struct store_config *config)
{
	int r = sbt_codec_new(&writer->codec);

	if (r == 0)
		r = packer_new(writer->db, writer->codec, &writer->packer);
	if (r == 0)
		r = tables_new(writer->db, writer->boot, &writer->tables);
	if (r == 0)
		r = merge_new(writer->db, writer->boot, writer->codec, writer->packer,
			      &writer->merge);
	if (r == 0)
		r = condense_new(writer->db, writer->boot, &writer->condense);
	if (r == 0)
		r = retain_new(writer->db, writer->boot, config, &writer->retain);
	if (r == 0)
		r = fragment_table_register(writer->db);
	return r < 0 ? r : hold_new(writer->db, writer->boot, writer->log_path, &writer->hold);
}

int writer_open(const struct store_config *config, struct writer **ret)
{
	_cleanup_(writer_closep) struct writer *writer = calloc(1, sizeof(*writer));
	int r;

	if (!writer || asprintf(&writer->log_path, "%s-wal", config->path) < 0)
		return -ENOMEM;
	writer->keep_bytes = config->keep_bytes;
	r = schema_open(config->path, &writer->db);
	if (r < 0)
		return r;
	r = repair_first_pages(writer->db, &writer->damaged_pages);
	if (r == 0)
		r = past_damage(writer, begin_boot, (void *)config);
	if (r == 0)
		r = open_parts(writer, config);
	if (r < 0)
		return r;
	*ret = TAKE(writer);
	return 0;
}

struct writer *writer_close(struct writer *writer)
{
	if (!writer)
		return NULL;
	hold_free(writer->hold);
	retain_free(writer->retain);
	condense_free(writer->condense);
	merge_free(writer->merge);
	tables_free(writer->tables);
	packer_free(writer->packer);
	sbt_codec_free(writer->codec);
	sqlite3_close(writer->db);
	free(writer->log_path);
	free(writer);
	return NULL;
}

int64_t writer_boot(const struct writer *writer)
{
	return writer->boot;
}

/* A row that the tables refuse is left out: it must not block the others forever. */
static int write_rows(struct writer *writer, const struct batch *batch, uint64_t *ret_rows)
{
	struct record_cursor cursor = { 0 };
	const struct record *record;
	uint64_t rows = 0;

	while ((record = batch_next_record(batch, &cursor))) {
		int r = tables_write(writer->tables, record->type, record->data);

		if (r < 0 && r != -EINVAL)
			return r;
		rows++;
	}
	*ret_rows = rows;
	return 0;
}

static int write_drop(struct writer *writer, const struct drop *drop)
{
	struct core_loss ops = {
		.start_ns = drop->first_ns,
		.end_ns = drop->last_ns,
		.process = drop->process,
		.reason = LOSS_STORE,
		.count = drop->ops,
	};
	struct core_loss rows = {
		.start_ns = drop->rows_first_ns,
		.end_ns = drop->rows_last_ns,
		.process = drop->process,
		.reason = LOSS_STORE_ROWS,
		.count = drop->rows,
	};
	int r = ops.count ? tables_write(writer->tables, CORE_ROW_LOSS, &ops) : 0;

	return r == 0 && rows.count ? tables_write(writer->tables, CORE_ROW_LOSS, &rows) : r;
}

/* And the totals, as nothing that has any comes after it. */
static int write_drops(struct writer *writer, const struct drops *drops)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < drops->count; i++)
		r = write_drop(writer, &drops->of[i]);
	return r < 0 ? r : tables_write_totals(writer->tables);
}

/* What was on a damaged page may be wrong in every answer about the time so far. The row itself is
 * of now, or it would be deleted as old. */
static int write_damage(struct writer *writer, uint64_t now_ns)
{
	const struct core_loss loss = {
		.start_ns = now_ns,
		.end_ns = now_ns,
		.reason = LOSS_DAMAGED,
		.count = writer->damaged_pages,
	};

	int r = loss.count ? tables_write(writer->tables, CORE_ROW_LOSS, &loss) : 0;

	if (r < 0 || !loss.count)
		return r;
	return sql_exec_made(
		writer->db,
		sqlite3_mprintf("UPDATE loss SET start_ns = 0 WHERE reason = %d", LOSS_DAMAGED));
}

static int write_turn(struct writer *writer, const struct queue_turn *turn,
		      struct packer_stats *stats, uint64_t *ret_rows)
{
	struct packer_place place = { writer->boot, writer->batch, writer->batch };
	int r;

	tables_set_time(writer->tables, turn->now_ns, &turn->pending, writer->batch);
	r = write_rows(writer, &turn->batch, ret_rows);
	if (r == 0)
		r = packer_write(writer->packer, &place, turn->batch.first_ops, stats);
	if (r == 0)
		r = write_drops(writer, &turn->drops);
	if (r == 0)
		r = write_damage(writer, turn->now_ns);
	return r < 0 ? r : tables_write_time(writer->tables);
}

static int write_through(struct writer *writer, const struct queue_turn *turn,
			 struct packer_stats *stats)
{
	struct packer_stats sum = *stats;
	uint64_t rows;
	int r = sql_exec(writer->db, "BEGIN IMMEDIATE");

	if (r < 0)
		return r;
	/* A failed one may be on disk even so. */
	writer->batch++;
	r = write_turn(writer, turn, &sum, &rows);
	if (r == 0)
		r = sql_exec(writer->db, "COMMIT");
	if (r < 0)
		sql_exec(writer->db, "ROLLBACK");
	else
		*stats = sum;
	if (r == 0)
		writer->damaged_pages = 0;
	return r;
}

struct through {
	const struct queue_turn *turn;
	struct packer_stats *stats;
};

static int run_through(struct writer *writer, void *data)
{
	const struct through *through = data;

	return write_through(writer, through->turn, through->stats);
}

struct into_hold {
	struct writer *writer;
	const struct queue_turn *turn;
	struct packer_stats added;
	uint64_t rows;
};

static int run_into_hold(void *data)
{
	struct into_hold *into = data;

	into->writer->batch++;
	return write_turn(into->writer, into->turn, &into->added, &into->rows);
}

/* All or nothing, in the held transaction. */
static int write_into_hold(struct writer *writer, const struct queue_turn *turn)
{
	struct into_hold into = { .writer = writer, .turn = turn };
	int r = hold_bound(writer->hold);

	if (r == 0)
		r = sql_in_savepoint(writer->db, run_into_hold, &into);
	if (r == 0)
		hold_add(writer->hold, turn, into.rows, &into.added);
	return r;
}

static int write_held(struct writer *writer, const struct queue_turn *turn, int error,
		      struct packer_stats *stats)
{
	int r = 0;

	if (!hold_is_open(writer->hold)) {
		struct drops lost;

		r = hold_begin(writer->hold, error, turn->now_ns);
		if (r < 0)
			return r;
		lost = hold_take_lost(writer->hold);
		r = write_drops(writer, &lost);
		if (r < 0)
			sql_exec(writer->db, "ROLLBACK");
	}
	if (r == 0)
		r = write_into_hold(writer, turn);
	hold_end(writer->hold, turn->now_ns, stats);
	return r;
}

/* Retrying these is just as good. */
static bool is_passing(int error)
{
	return error == -ENOMEM || error == -EBUSY;
}

int writer_write(struct writer *writer, const struct queue_turn *turn, struct packer_stats *stats)
{
	int r = hold_error(writer->hold);

	/* A held transaction stays held, whatever its last commit failed with. */
	if (r < 0)
		return write_held(writer, turn, r, stats);
	r = past_damage(writer, run_through, &(struct through){ turn, stats });
	return r < 0 && !is_passing(r) ? write_held(writer, turn, r, stats) : r;
}

void writer_finish(struct writer *writer, struct packer_stats *stats)
{
	if (hold_is_open(writer->hold))
		hold_end(writer->hold, 0, stats);
}

void writer_held(const struct writer *writer, struct hold_stats *ret)
{
	hold_stats(writer->hold, ret);
}

static uint64_t log_bytes(const struct writer *writer)
{
	struct stat st;

	return stat(writer->log_path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

bool writer_is_summed(const struct writer *writer)
{
	return page_sum_is_reserved(writer->db) > 0;
}

uint64_t writer_bytes(struct writer *writer)
{
	int64_t pages = 0;

	sql_query_integer(writer->db, "PRAGMA page_count", &pages);
	return (uint64_t)(pages * writer->page_bytes) + log_bytes(writer);
}

/* SQLite empties the log on its own; a reader that stays keeps it growing. When it has grown too
 * much, it is emptied as soon as no reader is in it, before new ones come. */
static uint64_t log_limit(const struct writer *writer)
{
	uint64_t share = writer->keep_bytes / 8;

	return share && share < LIMIT_STORE_WAL_BYTES ? share : LIMIT_STORE_WAL_BYTES;
}

static int log_job(struct writer *writer, uint64_t now_ns)
{
	if (log_bytes(writer) <= log_limit(writer))
		return 0;
	sqlite3_busy_timeout(writer->db, 100);
	sqlite3_wal_checkpoint_v2(writer->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
	sqlite3_busy_timeout(writer->db, 5000);
	return 0;
}

static int merge_job(struct writer *writer, uint64_t now_ns)
{
	return merge_turn(writer->merge, now_ns, writer->batch);
}

static int condense_job(struct writer *writer, uint64_t now_ns)
{
	return condense_turn(writer->condense, now_ns);
}

static int settle_job(struct writer *writer, uint64_t now_ns)
{
	return tables_settle(writer->tables, now_ns);
}

static int retain_job(struct writer *writer, uint64_t now_ns)
{
	uint64_t log = log_bytes(writer), limit = log_limit(writer);

	return retain_turn(writer->retain, now_ns, log < limit ? log : limit);
}

static int series_job(struct writer *writer, uint64_t now_ns)
{
	return fragment_series_take(writer->db, writer->boot, now_ns);
}

static const struct {
	int (*run)(struct writer *writer, uint64_t now_ns);
	uint64_t period_ns;
	bool held; /* also while the disk cannot be written */
} jobs[JOB_COUNT] = {
	[JOB_LOG] = { log_job, NS_PER_S, false },
	[JOB_MERGE] = { merge_job, 2000000000, false },
	[JOB_CONDENSE] = { condense_job, 10 * NS_PER_S, true },
	[JOB_SETTLE] = { settle_job, 10 * NS_PER_S, false },
	[JOB_RETAIN] = { retain_job, 2000000000, false },
	[JOB_SERIES] = { series_job, 60 * NS_PER_S, false },
};

struct due {
	int job;
	uint64_t now_ns;
};

static int run_job(struct writer *writer, void *data)
{
	const struct due *due = data;

	return jobs[due->job].run(writer, due->now_ns);
}

int writer_upkeep(struct writer *writer, uint64_t now_ns)
{
	int more = 0;

	for (int i = 0; i < JOB_COUNT; i++) {
		int r;

		if (now_ns < writer->due_ns[i] || (hold_error(writer->hold) && !jobs[i].held))
			continue;
		r = past_damage(writer, run_job, &(struct due){ i, now_ns });
		if (r > 0)
			more = 1;
		else
			writer->due_ns[i] = now_ns + jobs[i].period_ns;
	}
	return more;
}
