/* Replay sums: recounts the rows of `rollup`, `work` and `busy`. Full blocks are written. */
#include "client/replay/sums.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/vector.h"
#include "core/model/recount.h"
#include "core/sbt/rows.h"
#include "core/store/row_sql.h"

#define STATE_MIN_NS 20000 /* as in the store: shorter states follow from the ops */

enum sums_table { SUMS_ROLLUP, SUMS_WORK, SUMS_BUSY, SUMS_COUNT };

static const enum core_row types[SUMS_COUNT] = { CORE_ROW_ROLLUP, CORE_ROW_WORK, CORE_ROW_BUSY };

struct sums_writer {
	struct record_file *file;
	struct sbt_rows *rows[SUMS_COUNT];
	int64_t boot;
	struct op *state;
	size_t states, room;
	uint64_t limited; /* what the sums lack */
	int error;
};

static void sums_writer_release(struct sums_writer *writer)
{
	for (int i = 0; i < SUMS_COUNT; i++)
		sbt_rows_free(writer->rows[i]);
	free(writer->state);
}

static int end_block(struct sums_writer *writer, enum sums_table table)
{
	const void *data;
	size_t size;
	int r;

	if (sbt_rows_count(writer->rows[table]) == 0)
		return 0;
	r = sbt_rows_end(writer->rows[table], &data, &size);
	if (r == 0)
		r = record_file_add(writer->file, SBT_BLOCK_ROWS, data, size);
	return r;
}

static int begin_block(struct sums_writer *writer, enum sums_table table)
{
	const struct row_table *row = row_table_of(types[table]);
	const char *column[SBT_ROW_COLUMNS_MAX];

	for (size_t i = 0; i < row->count; i++)
		column[i] = row->column[i].name;
	return sbt_rows_begin(writer->rows[table], row->name, column, row->count);
}

static int add_row(struct sums_writer *writer, enum sums_table table, const void *row)
{
	const struct row_table *of = row_table_of(types[table]);
	const struct row_given given = { .boot = writer->boot };
	struct sbt_value value[SBT_ROW_COLUMNS_MAX];
	int r;

	for (size_t i = 0; i < of->count; i++)
		value[i] = (struct sbt_value){ .type = SBT_INTEGER,
					       .integer = row_number(&of->column[i], row, &given) };
	r = sbt_rows_add(writer->rows[table], value);
	if (r == -ENOSPC) {
		r = end_block(writer, table);
		if (r == 0)
			r = begin_block(writer, table);
		if (r == 0)
			r = sbt_rows_add(writer->rows[table], value);
	}
	return r;
}

static void take_row(void *data, enum core_row type, const void *row)
{
	struct sums_writer *writer = data;

	for (int i = 0; i < SUMS_COUNT && writer->error == 0; i++)
		if (types[i] == type)
			writer->error = add_row(writer, i, row);
}

static void take_state(void *data, const struct op *op)
{
	struct sums_writer *writer = data;

	if (op->end_ns - op->start_ns < STATE_MIN_NS && op->detail != OP_STATE_WAITING &&
	    op->detail != OP_STATE_SYNCING)
		return;
	if (VECTOR_ROOM(writer->state, writer->room, writer->states + 1) < 0) {
		writer->error = -ENOMEM;
		return;
	}
	writer->state[writer->states++] = *op;
}

static int recount_all(struct sums_writer *writer, const struct op *op, size_t count)
{
	const struct recount_sink sink = { .state = take_state, .row = take_row, .data = writer };
	_cleanup_(recount_freep) struct recount *recount = NULL;
	int r = recount_new(&sink, &recount);

	for (size_t i = 0; r == 0 && i < count; i++) {
		if (op[i].stream)
			r = recount_stream(recount, op[i].process, op[i].stream, op[i].device);
		if (r == 0)
			r = recount_op(recount, &op[i]);
	}
	if (r < 0)
		return r;
	recount_end(recount);
	writer->limited = recount_limited(recount);
	return writer->error;
}

/* Whenever it was: the recording's answers are of all its time. */
static int write_loss(struct sums_writer *writer)
{
	const struct core_loss loss = { .end_ns = INT64_MAX,
					.reason = LOSS_LIMIT,
					.count = writer->limited };

	return writer->limited ? record_file_loss(writer->file, writer->boot, &loss) : 0;
}

int replay_sums_write(struct record_file *file, int64_t boot, const struct op *op, size_t count,
		      struct op **ret_state, size_t *ret_state_count)
{
	_cleanup_(sums_writer_release) struct sums_writer writer = { .file = file, .boot = boot };
	int r = 0;

	for (int i = 0; r == 0 && i < SUMS_COUNT; i++) {
		r = sbt_rows_new(&writer.rows[i]);
		if (r == 0)
			r = begin_block(&writer, i);
	}
	if (r == 0)
		r = recount_all(&writer, op, count);
	if (r == 0)
		r = write_loss(&writer);
	for (int i = 0; r == 0 && i < SUMS_COUNT; i++)
		r = end_block(&writer, i);
	if (r < 0)
		return r;
	*ret_state = TAKE(writer.state);
	*ret_state_count = writer.states;
	return 0;
}
