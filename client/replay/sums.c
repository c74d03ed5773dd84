/* Replay sums: recounts the rows of `rollup`, `work` and `busy`. Full blocks are written. */
#include "client/replay/sums.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/vector.h"
#include "core/model/recount.h"
#include "core/sbt/rows.h"

#define STATE_MIN_NS 20000 /* as in the store: shorter states follow from the ops */
#define COLUMNS_MAX  18

enum sums_table { SUMS_ROLLUP, SUMS_WORK, SUMS_BUSY, SUMS_COUNT };

static const struct {
	const char *name;
	const char *column[COLUMNS_MAX];
	size_t count;
} tables[SUMS_COUNT] = {
	[SUMS_ROLLUP] = { "rollup",
			  { "boot", "second", "process", "kind", "fn", "detail", "device", "stream",
			    "result", "stack", "freed", "calls", "timed", "total_ns", "min_ns",
			    "max_ns", "bytes", "captured" },
			  18 },
	[SUMS_WORK] = { "work",
			{ "boot", "second", "process", "device", "stream", "kind", "detail", "name",
			  "graph", "stack", "bucket", "count", "total_ns", "min_ns", "max_ns",
			  "bytes", "delay_ns" },
			17 },
	[SUMS_BUSY] = { "busy",
			{ "boot", "second", "process", "device", "state", "kernels", "copies",
			  "ns" },
			8 },
};

struct sums_writer {
	struct record_file *file;
	struct sbt_rows *rows[SUMS_COUNT];
	int64_t boot;
	struct op *state;
	size_t states, room;
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
	return sbt_rows_begin(writer->rows[table], tables[table].name, tables[table].column,
			      tables[table].count);
}

static void add_row(struct sums_writer *writer, enum sums_table table, const int64_t *number)
{
	struct sbt_value value[COLUMNS_MAX];
	int r;

	if (writer->error)
		return;
	for (size_t i = 0; i < tables[table].count; i++)
		value[i] = (struct sbt_value){ .type = SBT_INTEGER, .integer = number[i] };
	r = sbt_rows_add(writer->rows[table], value);
	if (r == -ENOSPC) {
		r = end_block(writer, table);
		if (r == 0)
			r = begin_block(writer, table);
		if (r == 0)
			r = sbt_rows_add(writer->rows[table], value);
	}
	writer->error = r;
}

static void take_rollup(void *data, const struct core_rollup *row)
{
	struct sums_writer *writer = data;
	const int64_t number[] = { writer->boot,
				   (int64_t)row->second,
				   row->process,
				   row->kind,
				   row->fn,
				   row->detail,
				   row->device,
				   row->stream,
				   row->result,
				   (int64_t)row->stack_id,
				   row->freed,
				   (int64_t)row->calls,
				   (int64_t)row->timed,
				   (int64_t)row->total_ns,
				   (int64_t)row->min_ns,
				   (int64_t)row->max_ns,
				   (int64_t)row->bytes,
				   (int64_t)row->captured };

	add_row(writer, SUMS_ROLLUP, number);
}

static void take_work(void *data, const struct core_work *row)
{
	struct sums_writer *writer = data;
	const int64_t number[] = { writer->boot,
				   (int64_t)row->second,
				   row->process,
				   row->device,
				   row->stream,
				   row->kind,
				   row->detail,
				   (int64_t)row->name,
				   row->graph,
				   (int64_t)row->stack_id,
				   row->bucket,
				   (int64_t)row->count,
				   (int64_t)row->total_ns,
				   (int64_t)row->min_ns,
				   (int64_t)row->max_ns,
				   (int64_t)row->bytes,
				   (int64_t)row->delay_ns };

	add_row(writer, SUMS_WORK, number);
}

static void take_busy(void *data, const struct core_busy *row)
{
	struct sums_writer *writer = data;
	const int64_t number[] = { writer->boot, (int64_t)row->second, row->process,
				   row->device,	 row->state,	       row->kernels,
				   row->copies,	 (int64_t)row->ns };

	add_row(writer, SUMS_BUSY, number);
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
	const struct recount_sink sink = {
		.state = take_state,
		.rollup = take_rollup,
		.work = take_work,
		.busy = take_busy,
		.data = writer,
	};
	_cleanup_(recount_freep) struct recount *recount = NULL;
	int r = recount_new(&sink, &recount);

	for (size_t i = 0; r == 0 && i < count; i++) {
		if (op[i].stream)
			r = recount_stream(recount, op[i].process, op[i].stream, op[i].device);
		if (r == 0)
			r = recount_op(recount, &op[i]);
	}
	if (r == 0)
		recount_end(recount);
	return r < 0 ? r : writer->error;
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
	for (int i = 0; r == 0 && i < SUMS_COUNT; i++)
		r = end_block(&writer, i);
	if (r < 0)
		return r;
	*ret_state = TAKE(writer.state);
	*ret_state_count = writer.states;
	return 0;
}
