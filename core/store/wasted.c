/* Wasted: reads the latest chunks first, until there is no more room. What kernels did between a
 * launch and a synchronization that nobody saw lasts until the end of the next work of their stream
 * of which the end is known, or for ever. */
#include "core/store/wasted.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "core/sbt/sbt.h"
#include "core/store/chunk_data.h"
#include "core/store/query/phrase.h"
#include "core/store/sql.h"
#include "core/waste/waste.h"

#define COLUMN(name) (1u << SBT_COLUMN_##name)
#define WORK_COLUMNS (COLUMN(START_NS) | COLUMN(GPU_END_NS) | COLUMN(FLAGS) | COLUMN(DEVICE))
#define EVENT_COLUMNS                                                                              \
	(WORK_COLUMNS | COLUMN(END_NS) | COLUMN(FN) | COLUMN(DETAIL) | COLUMN(RESULT) |            \
	 COLUMN(ADDRESS) | COLUMN(SOURCE) | COLUMN(BYTES) | COLUMN(STACK_ID))

#define OF_CHUNKS	" FROM chunk WHERE process = ?1 AND first_ns <= ?3 AND last_ns >= ?2"
#define OF_KINDS(names) " AND kind IN (SELECT id FROM kind WHERE name IN (" names "))"
#define EVENTS		OF_CHUNKS OF_KINDS("'alloc', 'free', 'copy', 'set', 'memory'")
#define WORK		OF_CHUNKS OF_KINDS("'launch', 'kernel'")

/* Times in which calls that use memory may have been made that are not there: they were not seen,
 * or they still wait for a synchronization, or for a record. What waits longest of all processes is
 * no call of one that has made none since then; sums have each at once, or those of the exact tier
 * with their record, the older ones by the minute. */
#define LOSSES                                                                                     \
	"SELECT start_ns, end_ns FROM loss WHERE (process = ?1 OR process = 0)"                    \
	" AND start_ns <= ?3 AND end_ns >= ?2"                                                     \
	" AND boot = (SELECT boot FROM process WHERE id = ?1)"                                     \
	" AND " IS_UNSEEN " UNION ALL SELECT oldest_pending_ns, ?3 FROM boot"                      \
	" WHERE oldest_pending_ns > 0 AND oldest_pending_ns <= ?3"                                 \
	" AND id = (SELECT boot FROM process WHERE id = ?1 AND coalesce(exit_ns, 0) = 0)"          \
	" AND (EXISTS (SELECT 1 FROM collect WHERE process = ?1)"                                  \
	" OR EXISTS (SELECT 1 FROM rollup WHERE rollup.boot = boot.id AND process = ?1"            \
	" AND second >= oldest_pending_ns / 60000000000 * 60))"

struct load {
	sqlite3 *db;
	sqlite3_stmt *over; /* says whether the query is over, or NULL */
	uint32_t process;
	uint64_t since_ns, until_ns;
	uint64_t from_ns; /* what is older is not whole */
	struct waste *waste;
	struct sbt_codec *codec;
	struct op *op; /* SBT_OPS_MAX */
	/* Work of a stream, the latest first: one that starts no earlier is over by then. */
	uint32_t stream;
	uint64_t known_start_ns, known_end_ns; /* 0: not known of any */
};

static struct load *load_free(struct load *load)
{
	if (!load)
		return NULL;
	sqlite3_finalize(load->over);
	waste_free(load->waste);
	sbt_codec_free(load->codec);
	free(load->op);
	free(load);
	return NULL;
}

CLEANUP_DEFINE(struct load, load_free)

static int load_new(sqlite3 *db, uint32_t process, struct load **ret)
{
	_cleanup_(load_freep) struct load *load = calloc(1, sizeof(*load));

	if (!load)
		return -ENOMEM;
	load->db = db;
	load->process = process;
	load->op = malloc(SBT_OPS_MAX * sizeof(*load->op));
	if (!load->op || sbt_codec_new(&load->codec) < 0)
		return -ENOMEM;
	(void)sqlite3_prepare_v2(db, "SELECT query_is_over()", -1, &load->over, NULL);
	*ret = TAKE(load);
	return 0;
}

static int load_check(const struct load *load)
{
	bool over = load->over && sqlite3_step(load->over) == SQLITE_ROW &&
		    sqlite3_column_int(load->over, 0);

	sqlite3_reset(load->over);
	return over ? -EINTR : 0;
}

/* Each row, until one is taken with a positive answer. */
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
		if (r)
			return r < 0 ? r : 0;
	}
	return step == SQLITE_DONE ? 0 : sql_error(load->db);
}

/* The number of ops; 0: it is damaged, and counted. */
static int load_chunk(struct load *load, sqlite3_stmt *row, uint32_t columns)
{
	const void *data = sqlite3_column_blob(row, 0);
	struct sbt_info info;
	int r;

	if (!data)
		return 0;
	r = sbt_decode(load->codec, data, (size_t)sqlite3_column_bytes(row, 0), columns, load->op,
		       &info);
	return r < 0 ? r : (int)info.count;
}

static int take_extent(struct load *load, sqlite3_stmt *row)
{
	uint64_t first_ns = (uint64_t)sqlite3_column_int64(row, 0),
		 last_ns = (uint64_t)sqlite3_column_int64(row, 1);

	if (first_ns > load->since_ns)
		load->since_ns = first_ns;
	if (last_ns < load->until_ns)
		load->until_ns = last_ns;
	load->from_ns = load->since_ns;
	return 0;
}

static int take_events(struct load *load, sqlite3_stmt *row)
{
	int count = load_chunk(load, row, EVENT_COLUMNS), r = 0;

	for (int i = 0; r == 0 && i < count; i++)
		if (load->op[i].start_ns >= load->since_ns &&
		    load->op[i].start_ns <= load->until_ns)
			r = waste_add(load->waste, &load->op[i]);
	if (r == -E2BIG) {
		/* All that is left was over by the end of this one. */
		load->from_ns = (uint64_t)sqlite3_column_int64(row, 1) + 1;
		return 1;
	}
	return count < 0 ? count : r;
}

static uint64_t work_end_ns(struct load *load, const struct op *op)
{
	if (op->gpu_end_ns) {
		load->known_start_ns = op->start_ns;
		load->known_end_ns = op->gpu_end_ns;
		return op->gpu_end_ns;
	}
	return load->known_end_ns && op->start_ns <= load->known_start_ns ? load->known_end_ns
									  : UINT64_MAX;
}

static int take_work(struct load *load, sqlite3_stmt *row)
{
	int count = load_chunk(load, row, WORK_COLUMNS), r = 0;
	uint32_t stream = (uint32_t)sqlite3_column_int64(row, 1);

	if (stream != load->stream)
		load->known_end_ns = 0;
	load->stream = stream;
	for (int i = count; r == 0 && i-- > 0;) {
		const struct op *op = &load->op[i];

		if (op->start_ns <= load->until_ns && !(op->flags & OP_CAPTURED))
			r = waste_ran(load->waste, op->device, op->start_ns, work_end_ns(load, op));
	}
	return count < 0 ? count : r;
}

static int take_loss(struct load *load, sqlite3_stmt *row)
{
	return waste_ran(load->waste, DEVICE_UNKNOWN, (uint64_t)sqlite3_column_int64(row, 0),
			 (uint64_t)sqlite3_column_int64(row, 1));
}

static int count_left_out(const struct load *load, uint64_t *left_out)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	int64_t count = 0;
	int r;

	if (load->from_ns <= load->since_ns)
		return 0;
	r = sql_prepare(load->db, "SELECT CAST(total(ops) AS INTEGER)" EVENTS " AND last_ns < ?4",
			&stmt);
	if (r < 0)
		return r;
	sql_bind(stmt, load->process, (int64_t)load->since_ns, (int64_t)load->until_ns,
		 (int64_t)load->from_ns);
	r = sql_integer(stmt, &count);
	if (count > 0)
		*left_out += (uint64_t)count;
	return r;
}

static int load_all(struct load *load, uint32_t max)
{
	int r = load_each(load, "SELECT min(first_ns), max(last_ns)" OF_CHUNKS, take_extent);

	if (r == 0)
		r = waste_new(load->process, load->since_ns, load->until_ns, max, &load->waste);
	if (r == 0)
		r = load_each(load,
			      "SELECT " CHUNK_DATA("id") ", last_ns" EVENTS
							 " ORDER BY last_ns DESC",
			      take_events);
	if (r == 0)
		r = load_each(load,
			      "SELECT " CHUNK_DATA("id") ", stream" WORK
							 " ORDER BY stream, first_ns DESC",
			      take_work);
	if (r == 0)
		r = load_each(load, LOSSES, take_loss);
	return r;
}

int wasted_add(sqlite3 *db, uint32_t process, uint64_t since_ns, uint64_t until_ns, uint32_t max,
	       struct sums *rows, uint64_t *left_out)
{
	_cleanup_(load_freep) struct load *load = NULL;
	int r = load_new(db, process, &load);

	if (r < 0)
		return r;
	load->since_ns = since_ns;
	load->until_ns = until_ns;
	r = load_all(load, max);
	if (r == 0)
		r = waste_find(load->waste, load->from_ns, rows);
	return r == 0 ? count_left_out(load, left_out) : r;
}
