/* Total: adds up the rows of a commit, and then each sum to its row: many seconds, stacks and
 * streams come down to one total. */
#include "core/store/total.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/sums.h"
#include "core/store/row_sql.h"
#include "core/store/sql.h"

#define NOT_READY	   600 /* an answer, not an error */
#define PROCESSES_PER_TURN "64"

/* ?1 is the boot, ?2 the time before which they ended; or ?1 is the process. */
static const char *const statement_text[] = {
	"SELECT t.process FROM (SELECT DISTINCT process FROM total WHERE process > 0) t"
	" LEFT JOIN process p ON p.id = t.process"
	" WHERE p.id IS NULL OR p.boot <> ?1 OR p.exit_ns < ?2 LIMIT " PROCESSES_PER_TURN,
	"INSERT INTO total SELECT 0, what, device, part, count, ns, bytes FROM total"
	" WHERE process = ?1 ON CONFLICT DO UPDATE SET count = count + excluded.count,"
	" ns = ns + excluded.ns, bytes = bytes + excluded.bytes",
	"DELETE FROM total WHERE process = ?1",
};

enum { ENDED, PASS_ON, DELETE, STATEMENT_COUNT };

struct totals {
	sqlite3 *db;
	sqlite3_stmt *write, *stmt[STATEMENT_COUNT];
	struct sums sums; /* struct row_total */
};

int totals_new(sqlite3 *db, struct totals **ret)
{
	_cleanup_(totals_freep) struct totals *totals = calloc(1, sizeof(*totals));
	int r;

	if (!totals)
		return -ENOMEM;
	totals->db = db;
	totals->sums = SUMS_OF(struct row_total, count);
	r = sql_prepare_made(db, row_sql_write(row_table_find("total")), &totals->write);
	if (r == 0)
		r = sql_prepare_all(db, statement_text, STATEMENT_COUNT, totals->stmt);
	if (r < 0)
		return r;
	*ret = TAKE(totals);
	return 0;
}

struct totals *totals_free(struct totals *totals)
{
	if (!totals)
		return NULL;
	sqlite3_finalize(totals->write);
	sql_finalize_all(totals->stmt, STATEMENT_COUNT);
	sums_release(&totals->sums);
	free(totals);
	return NULL;
}

void totals_begin(struct totals *totals)
{
	sums_empty(&totals->sums);
}

static int add(struct totals *totals, const struct row_total *row)
{
	struct row_total key = *row, *sum;

	if (key.device >= TOTAL_ORDINALS || key.device < 0)
		key.device = -1;
	sum = sums_get(&totals->sums, &key, UINT32_MAX);
	if (!sum)
		return -ENOMEM;
	sum->count += row->count;
	sum->ns += row->ns;
	sum->bytes += row->bytes;
	return 0;
}

static bool is_error(int32_t result)
{
	return result != 0 && result != NOT_READY;
}

static int add_errors(struct totals *totals, const struct core_rollup *rollup,
		      struct row_total total)
{
	bool known = rollup->result > 0 && rollup->result < TOTAL_CODES;
	int r;

	total.what = TOTAL_FAILED;
	total.ns = total.bytes = 0;
	r = add(totals, &total);
	total.what = TOTAL_ERRORS;
	total.device = -1;
	total.part = known ? rollup->result : TOTAL_CODES - 1; /* CUDA_ERROR_UNKNOWN */
	return r < 0 ? r : add(totals, &total);
}

/* What is freed is in the rollups of the call and once more in those of its allocation. */
static int add_rollup(struct totals *totals, const struct core_rollup *rollup)
{
	struct row_total total = {
		.process = rollup->process,
		.part = rollup->kind,
		.device = rollup->device,
		.what = TOTAL_CALLS,
		.count = rollup->calls,
		.ns = rollup->total_ns,
		.bytes = rollup->bytes,
	};
	int r;

	if (rollup->freed)
		return 0;
	r = add(totals, &total);
	if (r == 0 && is_error(rollup->result))
		r = add_errors(totals, rollup, total);
	if (r < 0 || rollup->kind != OP_COPY || is_error(rollup->result))
		return r;
	total.what = TOTAL_COPIES;
	total.part = rollup->detail;
	total.count -= rollup->captured < total.count ? rollup->captured : total.count;
	return add(totals, &total);
}

static int power_of(uint64_t ns)
{
	return ns ? 63 - __builtin_clzll(ns) : 0;
}

/* From the start of a call to that of its kernel or graph. */
static int add_delays(struct totals *totals, const struct core_work *work)
{
	struct row_total total = {
		.process = work->process,
		.device = work->device,
		.what = TOTAL_DELAYS,
		.count = work->count,
		.ns = work->delay_ns,
	};
	int r = add(totals, &total);

	total.what = TOTAL_STARTS;
	total.ns = 0;
	for (unsigned int i = 0; r == 0 && i < WORK_DELAYS; i++) {
		total.part = (int32_t)work_delay_power(i);
		total.count = work->delays[i];
		r = total.count ? add(totals, &total) : 0;
	}
	return r;
}

static int add_work(struct totals *totals, const struct core_work *work)
{
	struct row_total total = {
		.process = work->process,
		.part = work->detail,
		.device = work->device,
		.what = TOTAL_DEVICE_COPIES,
		.count = work->count,
		.ns = work->total_ns,
		.bytes = work->bytes,
	};
	int r;

	if (work->kind == OP_COPY)
		return add(totals, &total);
	if (work->kind == OP_GRAPH)
		return add_delays(totals, work);
	if (work->kind != OP_KERNEL)
		return 0;
	total.what = TOTAL_KERNELS;
	total.part = power_of(work_bucket_ns(work->bucket));
	r = add(totals, &total);
	return r < 0 ? r : add_delays(totals, work);
}

static int add_busy(struct totals *totals, const struct core_busy *busy)
{
	return add(totals, &(struct row_total){
				   .process = busy->process,
				   .part = busy->state,
				   .device = busy->device,
				   .what = TOTAL_STATES,
				   .ns = busy->ns,
			   });
}

static int add_loss(struct totals *totals, const struct core_loss *loss)
{
	return add(totals, &(struct row_total){
				   .process = loss->process,
				   .part = loss->reason,
				   .device = -1,
				   .what = TOTAL_LOSSES,
				   .count = loss->count,
			   });
}

static int add_watch(struct totals *totals, const struct core_watch *watch)
{
	return add(totals, &(struct row_total){
				   .process = watch->process,
				   .part = watch->part,
				   .device = -1,
				   .what = TOTAL_MISSED,
				   .count = watch->missed > 0 ? (uint64_t)watch->missed : 0,
			   });
}

/* What a program did get in the end is none. */
static int add_oom(struct totals *totals, const struct core_oom *oom)
{
	return add(totals, &(struct row_total){
				   .process = oom->process,
				   .device = oom->device,
				   .what = TOTAL_SHORTAGES,
				   .count = oom->news,
			   });
}

int totals_add(struct totals *totals, uint32_t type, const void *data)
{
	switch (type) {
	case CORE_ROW_ROLLUP:
		return add_rollup(totals, data);
	case CORE_ROW_WORK:
		return add_work(totals, data);
	case CORE_ROW_BUSY:
		return add_busy(totals, data);
	case CORE_ROW_LOSS:
		return add_loss(totals, data);
	case CORE_ROW_WATCH:
		return add_watch(totals, data);
	case CORE_ROW_OOM:
		return add_oom(totals, data);
	default:
		return 0;
	}
}

int totals_write(struct totals *totals)
{
	const struct row_table *table = row_table_find("total");
	const struct row_given none = { 0 };
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < totals->sums.count; i++) {
		row_bind(table, sums_row(&totals->sums, i), &none, totals->write);
		r = sql_run(totals->write);
	}
	totals_begin(totals);
	return r;
}

static int pass_on(struct totals *totals, int64_t process)
{
	int r;

	sql_bind(totals->stmt[PASS_ON], process);
	r = sql_run(totals->stmt[PASS_ON]);
	sql_bind(totals->stmt[DELETE], process);
	return r < 0 ? r : sql_run(totals->stmt[DELETE]);
}

struct settling {
	struct totals *totals;
	int64_t boot, before_ns;
};

static int pass_on_ended(void *data)
{
	const struct settling *settling = data;
	struct totals *totals = settling->totals;
	sqlite3_stmt *stmt = totals->stmt[ENDED];
	int code, r = 0, count = 0;
	int64_t process[64];

	sql_bind(stmt, settling->boot, settling->before_ns);
	while ((code = sqlite3_step(stmt)) == SQLITE_ROW)
		process[count++] = sqlite3_column_int64(stmt, 0);
	if (code != SQLITE_DONE)
		r = sql_error(totals->db);
	sqlite3_reset(stmt);
	for (int i = 0; r == 0 && i < count; i++)
		r = pass_on(totals, process[i]);
	return r < 0 ? r : count > 0;
}

int totals_settle(struct totals *totals, int64_t boot, uint64_t now_ns)
{
	struct settling settling = {
		.totals = totals,
		.boot = boot,
		.before_ns = now_ns > TOTAL_KEPT_NS ? (int64_t)(now_ns - TOTAL_KEPT_NS) : 0,
	};

	return sql_in_savepoint(totals->db, pass_on_ended, &settling);
}
