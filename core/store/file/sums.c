/* Sums: the ops of all chunks, in order, go through a model (core/model/recount.h), and its results
 * are written as by the daemon's store (tables.h). Per process and table, only what is later than
 * the rows that the recording has. */
#include "core/store/file/sums.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/map.h"
#include "core/base/time.h"
#include "core/model/recount.h"
#include "core/sbt/order.h"
#include "core/sbt/sbt.h"
#include "core/store/condense.h"
#include "core/store/sql.h"
#include "core/store/tables.h"

#define SECOND_MAX "10000000000" /* of CLOCK_MONOTONIC: some hundred years */
#define TELL_OPS   (1u << 18)
#define TIME_MAX   (UINT64_MAX / 8) /* so that a few can be added */
/* Bounds for what a hostile file can make the model hold. */
#define RUNS_MAX   8192	 /* that overlap: at most 50 KB each */
#define DEVICE_MAX 255	 /* ordinal */
#define PLACES_MAX 16384 /* devices of processes: 2 KB each */

enum { ROLLUP, WORK, BUSY, SUMS };

struct sums {
	const struct file_sums_job *job;
	struct tables *tables;
	struct recount *recount;
	struct sbt_order *order;
	struct sbt_codec *codec;
	struct op *op;		/* SBT_OPS_MAX */
	struct map first[SUMS]; /* of processes: the first missing second */
	struct map place;	/* devices of processes */
	uint64_t last_ns;	/* start of the last op */
	uint64_t ops, limited;
	int error; /* of a row */
};

static void sums_release(struct sums *sums)
{
	tables_free(sums->tables);
	recount_free(sums->recount);
	sbt_order_free(sums->order);
	sbt_codec_free(sums->codec);
	free(sums->op);
	for (int i = 0; i < SUMS; i++)
		map_clear(&sums->first[i]);
	map_clear(&sums->place);
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static bool names(const char *sql, const char *table)
{
	size_t size = strlen(table);

	for (const char *at = sql; (at = strcasestr(at, table)); at++)
		if ((at == sql || !is_word(at[-1])) && !is_word(at[size]))
			return true;
	return false;
}

bool file_sums_named(const char *sql)
{
	static const char *const tables[] = { "rollup", "work",	      "work_sum", "busy",
					      "memory", "allocation", "live_sum", "fragment" };

	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		if (names(sql, tables[i]))
			return true;
	return false;
}

/* --- what the model reports --- */

static bool lacks(const struct sums *sums, int table, uint32_t process, uint64_t second)
{
	struct map_key key = { process, 0 };

	return second >= (uintptr_t)map_get(&sums->first[table], key);
}

static void no_state(void *data, const struct op *op)
{
}

static bool is_missing(const struct sums *sums, enum core_row type, const void *row)
{
	const struct core_rollup *rollup = row;
	const struct core_work *work = row;
	const struct core_busy *busy = row;

	switch (type) {
	case CORE_ROW_ROLLUP:
		return lacks(sums, ROLLUP, rollup->process, rollup->second);
	case CORE_ROW_WORK:
		return lacks(sums, WORK, work->process, work->second);
	case CORE_ROW_BUSY:
		return lacks(sums, BUSY, busy->process, busy->second);
	default:
		return true;
	}
}

static void take_row(void *data, enum core_row type, const void *row)
{
	struct sums *sums = data;

	if (sums->error == 0 && is_missing(sums, type, row))
		sums->error = tables_write(sums->tables, type, row);
}

/* --- what it is given --- */

/* Checked for order, too: a chunk's head may have claimed another time. */
static bool has_time(const struct sums *sums, const struct op *op)
{
	return op->start_ns >= sums->last_ns && op->start_ns < TIME_MAX && op->end_ns < TIME_MAX &&
	       op->gpu_start_ns < TIME_MAX && op->gpu_end_ns < TIME_MAX;
}

static bool has_place(struct sums *sums, const struct op *op)
{
	struct map_key key = { op->process, (uint16_t)op->device };

	if (op->device > DEVICE_MAX || op->device < DEVICE_UNKNOWN)
		return false;
	if (map_get(&sums->place, key))
		return true;
	return sums->place.count < PLACES_MAX && map_put(&sums->place, key, sums) == 0;
}

static int count_op(struct sums *sums, const struct op *op)
{
	int r = -ENOSPC;

	if (op->process && has_time(sums, op) && has_place(sums, op))
		r = op->stream ? recount_stream(sums->recount, op->process, op->stream, op->device)
			       : 0;
	if (r == 0) {
		sums->last_ns = op->start_ns;
		r = recount_op(sums->recount, op);
	}
	if (r == -ENOSPC)
		sums->limited++;
	else if (r < 0)
		return r;
	if (++sums->ops % TELL_OPS == 0)
		recount_tell(sums->recount);
	return sums->error;
}

static int count_until(struct sums *sums, uint64_t before_ns)
{
	const struct op *op;
	int r = 1;

	while (r > 0) {
		r = sbt_order_next(sums->order, before_ns, &op);
		if (r > 0) {
			r = count_op(sums, op);
			r = r < 0 ? r : 1;
		}
	}
	return r;
}

static int take_chunk(struct sums *sums, sqlite3_stmt *row)
{
	const void *data = sqlite3_column_blob(row, 1);
	struct sbt_info info;
	int r;

	if (sums->job->cancelled(sums->job->data))
		return -ECANCELED;
	r = count_until(sums, (uint64_t)sqlite3_column_int64(row, 0));
	if (r < 0 || !data)
		return r;
	if (sbt_order_count(sums->order) >= RUNS_MAX)
		return -E2BIG;
	r = sbt_decode(sums->codec, data, (size_t)sqlite3_column_bytes(row, 1), SBT_ALL_COLUMNS,
		       sums->op, &info);
	return r < 0 ? r : sbt_order_add(sums->order, sums->op, info.count);
}

static int each_row(struct sums *sums, const char *sql, int64_t parameter,
		    int (*take)(struct sums *sums, sqlite3_stmt *row))
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	int step = SQLITE_DONE, r = sql_prepare(sums->job->db, sql, &stmt);

	if (r < 0)
		return r;
	sql_bind(stmt, parameter);
	while (r == 0 && (step = sqlite3_step(stmt)) == SQLITE_ROW)
		r = take(sums, stmt);
	return r < 0 || step == SQLITE_DONE ? r : sql_error(sums->job->db);
}

/* --- what the recording has --- */

static int take_last(struct sums *sums, sqlite3_stmt *row)
{
	struct map_key key = { (uint64_t)sqlite3_column_int64(row, 1), 0 };
	uintptr_t second = (uintptr_t)sqlite3_column_int64(row, 2);
	uint64_t told_s = sums->job->told_ns / NS_PER_S;

	/* The row of a minute. */
	if (second % CONDENSE_TO_S == 0 && second + CONDENSE_AFTER_S <= told_s)
		second += CONDENSE_TO_S - 1;
	return map_put(&sums->first[sqlite3_column_int(row, 0)], key, (void *)(second + 1));
}

#define LAST_OF(number, table)                                                                     \
	"SELECT " number ", process, max(second) FROM " table                                      \
	" WHERE boot = ?1 AND second BETWEEN 0 AND " SECOND_MAX " GROUP BY process"

static int prepare(struct sums *sums, bool memory)
{
	struct recount_sink sink = {
		.state = no_state,
		.row = take_row,
		.with_memory = memory,
		.data = sums,
	};
	int r = each_row(sums,
			 LAST_OF("0", "rollup") " UNION ALL " LAST_OF(
				 "1", "work") " UNION ALL " LAST_OF("2", "busy"),
			 sums->job->boot, take_last);

	if (r == 0)
		r = tables_new(sums->job->db, sums->job->boot, &sums->tables);
	if (r == 0)
		r = recount_new(&sink, &sums->recount);
	if (r == 0)
		r = sbt_order_new(&sums->order);
	if (r == 0)
		r = sbt_codec_new(&sums->codec);
	sums->op = calloc(SBT_OPS_MAX, sizeof(*sums->op));
	return r < 0 || sums->op ? r : -ENOMEM;
}

static int write_limited(struct sums *sums)
{
	struct core_loss loss = {
		.start_ns = 0,
		.end_ns = sums->job->now_ns,
		.reason = LOSS_LIMIT,
		.count = sums->limited + recount_limited(sums->recount),
	};

	return loss.count ? tables_write(sums->tables, CORE_ROW_LOSS, &loss) : 0;
}

static int count_all(struct sums *sums)
{
	/* The model reports them all at the end, or none. */
	int64_t recorded = 0;
	int r = sql_query_integer(sums->job->db, "SELECT count(*) FROM memory", &recorded);

	if (r == 0 && !recorded)
		r = sql_exec(sums->job->db, "DELETE FROM allocation");
	if (r == 0)
		r = prepare(sums, !recorded);
	if (r == 0)
		r = each_row(sums,
			     "SELECT first_ns, data FROM chunk WHERE kind <> ?1"
			     " ORDER BY first_ns, last_ns",
			     OP_STATE, take_chunk);
	if (r == 0)
		r = count_until(sums, UINT64_MAX);
	if (r < 0)
		return r;
	recount_end(sums->recount);
	if (sums->error < 0)
		return sums->error;
	return write_limited(sums);
}

/* A process that ended holds nothing any more. */
#define ENDED " WHERE process IN (SELECT id FROM process WHERE coalesce(exit_ns, 0))"

int file_sums_add(const struct file_sums_job *job)
{
	_cleanup_(sums_release) struct sums sums = { .job = job };
	int r = sql_exec(job->db, "BEGIN"), end;

	if (r < 0)
		return r;
	r = count_all(&sums);
	if (r == 0)
		r = sql_exec(job->db, "DELETE FROM allocation" ENDED
				      ";UPDATE memory SET live_bytes = 0, live_count = 0" ENDED);
	end = sql_exec(job->db, "COMMIT");
	return r < 0 ? r : end;
}
