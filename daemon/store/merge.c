/* Merge: a slow stream's batches make chunks of a few ops, that cost more than their ops.
 * Time is cut in spans. Within a span, chunks of one process, stream and kind that are under half
 * full are joined when there are enough of them to be worth it, and all that are left once the span
 * is over; then the next span's turn comes. So an op is written again a few times at the most, and
 * no chunk covers much more than a span, which keeps time windows and retention sharp. */
#include "daemon/store/merge.h"

#include <errno.h>
#include <stdlib.h>

#include "core/sbt.h"
#include "daemon/store/sql.h"

#define SPAN_NS	      (600 * INT64_C(1000000000))
#define SPAN_GRACE_NS (60 * INT64_C(1000000000)) /* ops are finished some time after they began */
#define SMALL_OPS     (SBT_OPS_MAX / 2)		 /* that of the index chunk_small */
#define ENOUGH	      16

/* The index's expression, word for word, so that it is used. */
#define SMALL                                                                                      \
	"FROM chunk INDEXED BY chunk_small WHERE ops < 4096 AND boot=?1 AND first_ns>=?2"          \
	" AND first_ns<?3"
_Static_assert(SMALL_OPS == 4096, "the index chunk_small is made for this");

enum { OLDEST, GROUP, CHUNKS, DELETE, STATEMENT_COUNT };

static const char *const statement_text[] = {
	[OLDEST] = "SELECT min(first_ns) FROM chunk INDEXED BY chunk_small"
		   " WHERE ops < 4096 AND boot=?1 AND first_ns>=?2",
	[GROUP] = "SELECT process, stream, kind " SMALL
		  " GROUP BY process, stream, kind HAVING count(*)>=?4 LIMIT 1",
	[CHUNKS] = "SELECT id, ops, data " SMALL
		   " AND process=?4 AND stream=?5 AND kind=?6 ORDER BY first_ns",
	[DELETE] = "DELETE FROM chunk WHERE id=?",
};

struct merge {
	sqlite3 *db;
	struct sbt_codec *codec;
	struct packer *packer;
	int64_t boot;
	int64_t span; /* the first that may have something to merge */
	sqlite3_stmt *stmt[STATEMENT_COUNT];
	struct batch batch;
	struct op op[SBT_OPS_MAX];
};

int merge_new(sqlite3 *db, int64_t boot, struct sbt_codec *codec, struct packer *packer,
	      struct merge **ret)
{
	struct merge *merge = calloc(1, sizeof(*merge));
	int r;

	if (!merge)
		return -ENOMEM;
	merge->db = db;
	merge->boot = boot;
	merge->codec = codec;
	merge->packer = packer;
	r = sql_prepare_all(db, statement_text, STATEMENT_COUNT, merge->stmt);
	if (r < 0) {
		free(merge);
		return r;
	}
	*ret = merge;
	return 0;
}

struct merge *merge_free(struct merge *merge)
{
	if (merge) {
		sql_finalize_all(merge->stmt, STATEMENT_COUNT);
		batch_clear(&merge->batch);
	}
	free(merge);
	return NULL;
}

/* Adds a chunk's ops to the batch, and deletes it. */
static int take_chunk(struct merge *merge, sqlite3_stmt *row)
{
	const void *data = sqlite3_column_blob(row, 2);
	struct sbt_info info;
	int r;

	r = sbt_decode(merge->codec, data, (size_t)sqlite3_column_bytes(row, 2), SBT_ALL_COLUMNS,
		       merge->op, &info);
	for (uint32_t i = 0; r == 0 && i < info.count; i++) {
		struct op *slot = batch_add_op(&merge->batch);

		if (!slot && (r = batch_add_block(&merge->batch)) == 0)
			slot = batch_add_op(&merge->batch);
		if (slot)
			*slot = merge->op[i];
	}
	if (r < 0)
		return r;
	sql_bind(merge->stmt[DELETE], sqlite3_column_int64(row, 0));
	return sql_run(merge->stmt[DELETE]);
}

/* As many of the oldest chunks as fit in one. */
static int take_chunks(struct merge *merge, sqlite3_stmt *chunks)
{
	int64_t ops = 0;
	int r = 0, code;

	while ((code = sqlite3_step(chunks)) == SQLITE_ROW) {
		ops += sqlite3_column_int64(chunks, 1);
		if (ops > SBT_OPS_MAX)
			break;
		r = take_chunk(merge, chunks);
		if (r < 0)
			break;
	}
	if (code != SQLITE_ROW && code != SQLITE_DONE)
		r = sql_error(merge->db);
	sqlite3_reset(chunks);
	return r;
}

static int join(struct merge *merge, int64_t span, const int64_t group[3])
{
	struct packer_stats ignored = { 0 };
	int r = sql_exec(merge->db, "BEGIN IMMEDIATE");

	if (r < 0)
		return r;
	sql_bind(merge->stmt[CHUNKS], merge->boot, span * SPAN_NS, (span + 1) * SPAN_NS, group[0],
		 group[1], group[2]);
	r = take_chunks(merge, merge->stmt[CHUNKS]);
	if (r == 0)
		r = packer_write(merge->packer, merge->boot, merge->batch.first_ops, &ignored);
	batch_clear(&merge->batch);
	if (r == 0)
		r = sql_exec(merge->db, "COMMIT");
	if (r < 0)
		sql_exec(merge->db, "ROLLBACK");
	return r;
}

/* 1: something was joined. */
static int merge_span(struct merge *merge, int64_t span, int64_t enough)
{
	sqlite3_stmt *stmt = merge->stmt[GROUP];
	int64_t group[3];
	int code, r;

	sql_bind(stmt, merge->boot, span * SPAN_NS, (span + 1) * SPAN_NS, enough);
	code = sqlite3_step(stmt);
	for (int i = 0; code == SQLITE_ROW && i < 3; i++)
		group[i] = sqlite3_column_int64(stmt, i);
	r = code == SQLITE_ROW || code == SQLITE_DONE ? 0 : sql_error(merge->db);
	sqlite3_reset(stmt);
	if (r < 0 || code == SQLITE_DONE)
		return r;
	r = join(merge, span, group);
	return r < 0 ? r : 1;
}

int merge_turn(struct merge *merge, uint64_t now_ns)
{
	int64_t now = (int64_t)now_ns, oldest;
	int r;

	sql_bind(merge->stmt[OLDEST], merge->boot, merge->span * SPAN_NS);
	r = sql_integer(merge->stmt[OLDEST], &oldest);
	if (r < 0)
		return r;
	if (!oldest)
		oldest = now;
	if (oldest / SPAN_NS > merge->span)
		merge->span = oldest / SPAN_NS;
	if (now < (merge->span + 1) * SPAN_NS + SPAN_GRACE_NS) {
		r = merge_span(merge, merge->span, ENOUGH);
		return r ? r : merge_span(merge, merge->span + 1, ENOUGH);
	}
	r = merge_span(merge, merge->span, 2);
	/* A chunk that cannot be read stays where it is, and its span as it is. */
	if (r == 0 || r == -EBADMSG)
		merge->span++;
	return r == 0 || r == -EBADMSG ? 1 : r;
}
