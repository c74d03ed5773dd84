/* Path: reads the ops of one process in a window, builds their plan, finds its critical path, and
 * adds up similar pieces of it. */
#include "core/store/path.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/plan/critical.h"
#include "core/plan/plan.h"
#include "core/plan/sort.h"
#include "core/sbt/sbt.h"
#include "core/store/chunk_data.h"
#include "core/store/sql.h"

#define FUNCTIONS_MAX 65536

struct load {
	sqlite3 *db;
	sqlite3_stmt *over; /* says whether the query is over, or NULL */
	uint32_t process;
	uint64_t since_ns, until_ns;
	struct plan_builder *builder;
	struct sbt_codec *codec;
	struct op *op; /* SBT_OPS_MAX */
	uint8_t effect[FUNCTIONS_MAX];
};

static struct load *load_free(struct load *load)
{
	if (!load)
		return NULL;
	sqlite3_finalize(load->over);
	plan_builder_free(load->builder);
	sbt_codec_free(load->codec);
	free(load->op);
	free(load);
	return NULL;
}

CLEANUP_DEFINE(struct load, load_free)

static int load_new(sqlite3 *db, uint32_t process, uint32_t max, struct load **ret)
{
	_cleanup_(load_freep) struct load *load = calloc(1, sizeof(*load));

	if (!load)
		return -ENOMEM;
	load->db = db;
	load->process = process;
	load->op = malloc(SBT_OPS_MAX * sizeof(*load->op));
	if (!load->op || sbt_codec_new(&load->codec) < 0 ||
	    plan_builder_new(load->effect, FUNCTIONS_MAX, max, &load->builder) < 0)
		return -ENOMEM;
	(void)sqlite3_prepare_v2(db, "SELECT query_is_over()", -1, &load->over, NULL);
	*ret = TAKE(load);
	return 0;
}

/* SQLite checks on its own only after many steps of a statement, and here are few. */
static int load_check(const struct load *load)
{
	bool over = load->over && sqlite3_step(load->over) == SQLITE_ROW &&
		    sqlite3_column_int(load->over, 0);

	sqlite3_reset(load->over);
	return over ? -EINTR : 0;
}

/* Each row of the statement, whose parameter 1 is the process. */
static int load_each(struct load *load, const char *sql,
		     int (*take)(struct load *load, sqlite3_stmt *row))
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	int step, r = sql_prepare(load->db, sql, &stmt);

	if (r < 0)
		return r;
	sql_bind(stmt, load->process, (int64_t)load->since_ns, (int64_t)load->until_ns);
	while ((step = sqlite3_step(stmt)) == SQLITE_ROW) {
		r = load_check(load);
		if (r == 0)
			r = take(load, stmt);
		if (r < 0)
			return r;
	}
	return step == SQLITE_DONE ? 0 : sql_error(load->db);
}

static int take_function(struct load *load, sqlite3_stmt *row)
{
	int64_t fn = sqlite3_column_int64(row, 0);

	if (fn >= 0 && fn < FUNCTIONS_MAX)
		load->effect[fn] = (uint8_t)sqlite3_column_int(row, 1);
	return 0;
}

static int take_stream(struct load *load, sqlite3_stmt *row)
{
	struct plan_stream_row stream = {
		.process = load->process,
		.stream = (uint32_t)sqlite3_column_int64(row, 0),
		.handle = (uint64_t)sqlite3_column_int64(row, 1),
		.context = (uint64_t)sqlite3_column_int64(row, 2),
		.non_blocking = sqlite3_column_int(row, 3) != 0,
	};

	return plan_builder_stream(load->builder, &stream);
}

static int take_device(struct load *load, sqlite3_stmt *row)
{
	return plan_builder_device(load->builder, load->process,
				   (int16_t)sqlite3_column_int(row, 0),
				   (uint32_t)sqlite3_column_int64(row, 1));
}

/* A chunk may extend beyond the window. */
static bool load_wants(const struct load *load, const struct op *op)
{
	uint64_t end_ns = op->end_ns > op->gpu_end_ns ? op->end_ns : op->gpu_end_ns;

	return op->start_ns < load->until_ns &&
	       (op->start_ns >= load->since_ns || end_ns > load->since_ns);
}

static int take_chunk(struct load *load, sqlite3_stmt *row)
{
	const void *data = sqlite3_column_blob(row, 0);
	struct sbt_info info;
	size_t count = 0;
	int r;

	if (!data)
		return 0; /* damaged, and counted */
	r = sbt_decode(load->codec, data, (size_t)sqlite3_column_bytes(row, 0), SBT_ALL_COLUMNS,
		       load->op, &info);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < info.count; i++)
		if (load_wants(load, &load->op[i]))
			load->op[count++] = load->op[i];
	return plan_builder_add(load->builder, load->op, count);
}

static int load_all(struct load *load)
{
	int r = load_each(load, "SELECT id, effect FROM function", take_function);

	if (r == 0)
		r = load_each(load,
			      "SELECT id, handle, context, non_blocking FROM stream"
			      " WHERE process = ?1",
			      take_stream);
	if (r == 0)
		r = load_each(load,
			      "SELECT ordinal, multiprocessors FROM device WHERE process = ?1"
			      " AND multiprocessors > 0",
			      take_device);
	if (r == 0)
		r = load_each(load,
			      "SELECT " CHUNK_DATA(
				      "id") " FROM chunk WHERE process = ?1 AND first_ns < ?3"
					    " AND last_ns >= ?2 ORDER BY first_ns, last_ns",
			      take_chunk);
	return r;
}

/* The time in which at least one work runs, during a walk along it. */
struct busy {
	const struct plan *plan;
	struct plan_key *key, *spare, *sorted; /* works by their start */
	size_t count, next;
	uint64_t start_ns, end_ns; /* the current stretch */
};

static void busy_release(struct busy *busy)
{
	free(busy->key);
	free(busy->spare);
}

static int busy_init(struct busy *busy, const struct plan *plan)
{
	busy->plan = plan;
	busy->key = malloc((plan->work_count + 1ul) * sizeof(*busy->key));
	busy->spare = malloc((plan->work_count + 1ul) * sizeof(*busy->spare));
	if (!busy->key || !busy->spare)
		return -ENOMEM;
	for (uint32_t i = 0; i < plan->work_count; i++)
		if (plan->work[i].end_ns > plan->work[i].start_ns)
			busy->key[busy->count++] =
				(struct plan_key){ plan->work[i].start_ns - plan->start_ns, i };
	busy->sorted = plan_sort(busy->key, busy->spare, busy->count);
	return 0;
}

static bool busy_advance(struct busy *busy)
{
	const struct plan_work *work;

	if (busy->next == busy->count)
		return false;
	work = &busy->plan->work[busy->sorted[busy->next].number];
	if (work->start_ns > busy->end_ns)
		busy->start_ns = work->start_ns;
	if (work->end_ns > busy->end_ns)
		busy->end_ns = work->end_ns;
	busy->next++;
	return true;
}

/* How much of it no work ran; calls are in order: each piece starts where the last ended. */
static uint64_t busy_idle_ns(struct busy *busy, uint64_t start_ns, uint64_t end_ns)
{
	uint64_t idle_ns = 0;

	while (start_ns < end_ns) {
		while (busy->end_ns <= start_ns)
			if (!busy_advance(busy))
				return idle_ns + end_ns - start_ns;
		if (busy->start_ns > start_ns) {
			uint64_t until_ns = busy->start_ns < end_ns ? busy->start_ns : end_ns;

			idle_ns += until_ns - start_ns;
			start_ns = until_ns;
		} else {
			start_ns = busy->end_ns;
		}
	}
	return idle_ns;
}

static uint8_t work_what(const struct op *op)
{
	switch (op->kind) {
	case OP_LAUNCH:
		return op->graph ? PATH_GRAPH : PATH_KERNEL;
	case OP_KERNEL:
		return PATH_KERNEL;
	case OP_COPY:
		return PATH_COPY;
	case OP_SET:
		return PATH_SET;
	case OP_GRAPH:
		return PATH_GRAPH;
	default:
		return PATH_WORK;
	}
}

static struct path_key path_key(const struct plan *plan, const struct critical_piece *piece)
{
	bool work = piece->work != PLAN_NONE;
	const struct op *op =
		&plan->op[work ? plan->work[piece->work].op : plan->call[piece->call].op];
	struct path_key key = { .process = op->process, .fn = op->fn, .stack = op->stack_id };

	key.what = piece->why == CRITICAL_WORK	 ? work_what(op)
		   : piece->why == CRITICAL_CALL ? PATH_CALL
		   : piece->why == CRITICAL_HOST ? PATH_HOST
		   : work			 ? PATH_LATENCY
						 : PATH_WAKE_UP;
	if (!work)
		return key;
	key.kind = op->kind;
	key.name = op->name;
	key.detail = op->kind == OP_COPY ? op->detail : 0;
	/* A kernel is one however it was launched. */
	if (key.name || key.detail)
		key.fn = 0;
	return key;
}

static uint64_t clip_ns(const struct load *load, uint64_t ns)
{
	return ns < load->since_ns ? load->since_ns : ns > load->until_ns ? load->until_ns : ns;
}

static int add_rows(const struct load *load, const struct plan *plan,
		    const struct critical *critical, struct sums *rows)
{
	_cleanup_(busy_release) struct busy busy = { 0 };
	int r = busy_init(&busy, plan);

	for (size_t i = 0; r == 0 && i < critical->count; i++) {
		const struct critical_piece *piece = &critical->piece[i];
		uint64_t start_ns = clip_ns(load, piece->start_ns),
			 end_ns = clip_ns(load, piece->end_ns);
		struct path_key key = path_key(plan, piece);
		struct path_row *row;

		if (start_ns == end_ns)
			continue;
		row = sums_get(rows, &key, UINT32_MAX);
		if (!row)
			return -ENOMEM;
		row->count++;
		row->ns += end_ns - start_ns;
		row->idle_ns += busy_idle_ns(&busy, start_ns, end_ns);
	}
	return r;
}

int path_add(sqlite3 *db, uint32_t process, uint64_t since_ns, uint64_t until_ns, uint32_t max,
	     struct sums *rows)
{
	_cleanup_(load_freep) struct load *load = NULL;
	_cleanup_(plan_freep) struct plan *plan = NULL;
	_cleanup_(plan_times_freep) struct plan_times *times = NULL;
	_cleanup_(critical_freep) struct critical *critical = NULL;
	int r = load_new(db, process, max, &load);

	if (r < 0)
		return r;
	load->since_ns = since_ns;
	load->until_ns = until_ns;
	r = load_all(load);
	if (r == 0)
		r = plan_builder_end(load->builder, &plan);
	if (r == 0)
		r = load_check(load);
	if (r == 0)
		r = plan_times_new(plan, &times);
	if (r == 0)
		r = critical_find(plan, times, &critical);
	return r < 0 ? r : add_rows(load, plan, critical, rows);
}
