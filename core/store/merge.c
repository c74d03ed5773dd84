/* Merge: a slow stream's batches make chunks of a few ops, which cost more than their ops. Time is
 * divided into spans. Within a span, chunks of one process, stream and kind are joined when there
 * are sixteen of about the same size, and once the span is over all that are under half full; then
 * the next span follows. So an op is rewritten at most three or four times, and no chunk covers
 * much more than a span, which keeps time windows and retention precise. Recently written chunks
 * stay as they are, so that a recorder that looks every second sees each of them. */
#include "core/store/merge.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/time.h"
#include "core/base/vector.h"
#include "core/sbt/sbt.h"
#include "core/store/sql.h"

#define SPAN_NS	      (600 * NS_PER_S)
#define SPAN_GRACE_NS (60 * NS_PER_S) /* ops are finished some time after they started */
#define REST_NS	      (10 * NS_PER_S) /* at least this long, and at most twice that */
#define ENOUGH	      16	      /* the levels below go with it */
#define OPS_PER_TURN  65536	      /* a few tens of milliseconds of work */
#define LISTED_MAX    65536

enum { OLDEST, LIST, DATA, DELETE, STATEMENT_COUNT };

/* The condition on ops is that of the index, word for word, so that the index can be used. */
static const char *const statement_text[] = {
	[OLDEST] = "SELECT min(first_ns) FROM chunk INDEXED BY chunk_small"
		   " WHERE ops < 4096 AND boot=?1 AND first_ns>=?2",
	/* ?4 is 1 to keep chunks of different sizes apart. */
	[LIST] = "SELECT id, ops, process, stream, kind, ((ops >= 16) + (ops >= 256)) * ?4 AS level"
		 " FROM chunk INDEXED BY chunk_small"
		 " WHERE ops < 4096 AND boot=?1 AND first_ns>=?2 AND first_ns<?3 AND batch<=?6"
		 " ORDER BY process, stream, kind, level, first_ns LIMIT ?5",
	[DATA] = "SELECT data, batch, first_batch FROM chunk WHERE id=?",
	[DELETE] = "DELETE FROM chunk WHERE id=?",
};
_Static_assert(SBT_OPS_MAX / 2 == 4096, "any two chunks of the index fit in one");

struct small {
	int64_t id, ops, group[4];
};

struct merge {
	sqlite3 *db;
	struct sbt_codec *codec;
	struct packer *packer;
	int64_t boot;
	int64_t span; /* the first that may have something to merge */
	/* Commits up to these were before these times; the first is REST_NS ago at least. */
	struct mark {
		int64_t batch, ns;
	} rested, resting;
	sqlite3_stmt *stmt[STATEMENT_COUNT];
	struct small *small;
	size_t small_count, small_room;
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
		free(merge->small);
	}
	free(merge);
	return NULL;
}

static int add_op(struct batch *batch, const struct op *op)
{
	struct op *slot = batch->last_ops ? op_block_add(batch->last_ops) : NULL;

	if (!slot) {
		if (!batch_add_block(batch, 0))
			return -ENOMEM;
		slot = op_block_add(batch->last_ops);
	}
	*slot = *op;
	return 0;
}

static int read_chunk(struct merge *merge, int64_t id, struct packer_place *place)
{
	sqlite3_stmt *stmt = merge->stmt[DATA];
	int64_t batch, first_batch;
	struct sbt_info info;
	int r = -EBADMSG;

	sql_bind(stmt, id);
	if (sqlite3_step(stmt) == SQLITE_ROW) {
		batch = sqlite3_column_int64(stmt, 1);
		first_batch = sqlite3_column_int64(stmt, 2);
		place->batch = batch > place->batch ? batch : place->batch;
		place->first_batch =
			first_batch < place->first_batch ? first_batch : place->first_batch;
		r = sbt_decode(merge->codec, sqlite3_column_blob(stmt, 0),
			       sqlite3_column_bytes(stmt, 0), SBT_ALL_COLUMNS, merge->op, &info);
	}
	sqlite3_reset(stmt);
	for (uint32_t i = 0; r == 0 && i < info.count; i++)
		r = add_op(&merge->batch, &merge->op[i]);
	return r;
}

/* One chunk, or more if ops came in between, replaces several. */
static int join(struct merge *merge, const struct small *small, size_t count)
{
	struct packer_place place = { .boot = merge->boot, .first_batch = INT64_MAX };
	struct packer_stats ignored = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++) {
		r = read_chunk(merge, small[i].id, &place);
		if (r == 0) {
			sql_bind(merge->stmt[DELETE], small[i].id);
			r = sql_run(merge->stmt[DELETE]);
		}
	}
	if (r == 0)
		r = packer_write(merge->packer, &place, merge->batch.first_ops, &ignored);
	batch_clear(&merge->batch);
	return r;
}

/* How many chunks at the start of the list are of one group and fit in one chunk. */
static size_t find_run(const struct small *small, size_t count, int64_t *ret_ops)
{
	int64_t ops = 0;
	size_t run = 0;

	while (run < count && !memcmp(small[run].group, small[0].group, sizeof(small[0].group)) &&
	       ops + small[run].ops <= SBT_OPS_MAX)
		ops += small[run++].ops;
	*ret_ops = ops;
	return run;
}

/* Joins if there are `enough` chunks, or enough for a full one; returns the number of ops. */
static int64_t join_runs(struct merge *merge, size_t enough)
{
	int64_t sum = 0, ops;
	size_t run;

	for (size_t i = 0; i < merge->small_count && sum < OPS_PER_TURN; i += run) {
		int r;

		run = find_run(&merge->small[i], merge->small_count - i, &ops);
		if (run < enough && (run < 2 || ops < SBT_OPS_MAX / 2))
			continue;
		r = join(merge, &merge->small[i], run);
		if (r < 0)
			return r;
		sum += ops;
	}
	return sum;
}

static int add_small(struct merge *merge, sqlite3_stmt *row)
{
	struct small *small;

	if (VECTOR_ROOM(merge->small, merge->small_room, merge->small_count + 1) < 0)
		return -ENOMEM;
	small = &merge->small[merge->small_count++];
	small->id = sqlite3_column_int64(row, 0);
	small->ops = sqlite3_column_int64(row, 1);
	for (int i = 0; i < 4; i++)
		small->group[i] = sqlite3_column_int64(row, 2 + i);
	return 0;
}

static int list_small(struct merge *merge, int64_t span, bool levels)
{
	sqlite3_stmt *stmt = merge->stmt[LIST];
	int code, r = 0;

	merge->small_count = 0;
	sql_bind(stmt, merge->boot, span * SPAN_NS, (span + 1) * SPAN_NS, levels, LISTED_MAX,
		 merge->rested.batch);
	while (r == 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW)
		r = add_small(merge, stmt);
	if (r == 0 && code != SQLITE_DONE)
		r = sql_error(merge->db);
	sqlite3_reset(stmt);
	return r;
}

/* 1: something was joined. */
static int merge_span(struct merge *merge, int64_t span, bool over)
{
	int64_t ops;
	int r = list_small(merge, span, !over);

	if (r < 0 || merge->small_count < 2)
		return r;
	r = sql_exec(merge->db, "BEGIN IMMEDIATE");
	if (r < 0)
		return r;
	ops = join_runs(merge, over ? 2 : ENOUGH);
	r = ops < 0 ? (int)ops : sql_exec(merge->db, "COMMIT");
	if (r < 0)
		sql_exec(merge->db, "ROLLBACK");
	return r < 0 ? r : ops > 0;
}

/* Moves the boundary between old and recent. */
static void move_mark(struct merge *merge, int64_t now, int64_t batch)
{
	if (merge->resting.ns && now < merge->resting.ns + REST_NS)
		return;
	merge->rested = merge->resting;
	merge->resting = (struct mark){ batch, now };
}

int merge_turn(struct merge *merge, uint64_t now_ns, int64_t batch)
{
	int64_t oldest;
	int r;

	move_mark(merge, (int64_t)now_ns, batch);
	if (!merge->rested.ns)
		return 0;
	sql_bind(merge->stmt[OLDEST], merge->boot, merge->span * SPAN_NS);
	r = sql_integer(merge->stmt[OLDEST], &oldest);
	if (r < 0)
		return r;
	if (!oldest)
		oldest = merge->rested.ns;
	if (oldest / SPAN_NS > merge->span)
		merge->span = oldest / SPAN_NS;
	if (merge->rested.ns < (merge->span + 1) * SPAN_NS + SPAN_GRACE_NS) {
		r = merge_span(merge, merge->span, false);
		return r ? r : merge_span(merge, merge->span + 1, false);
	}
	r = merge_span(merge, merge->span, true);
	/* An unreadable chunk stays where it is, and its span as it is. */
	if (r == 0 || r == -EBADMSG)
		merge->span++;
	return r == 0 || r == -EBADMSG ? 1 : r;
}
