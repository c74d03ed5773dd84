/* View list: a table with one line per op. Text has the columns that matter to people; JSON and CSV
 * have the columns of the table `op` that describe what the op did. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "client/output/table.h"
#include "client/view/view.h"
#include "core/base/array.h"

/* Holds the texts of a row until it is written. */
struct row {
	char at[VIEW_TIME_BYTES], gpu_at[VIEW_TIME_BYTES];
	char process[SHOW_NAME_BYTES];
	char size[VIEW_SIZE_BYTES], marks[VIEW_MARKS_BYTES];
};

struct cell {
	const struct view *view;
	const struct op *op;
	struct row *row;
	Tracesmith__V1__Value *value;
};

static void put_text(const struct cell *cell, const char *text)
{
	if (!text || !*text)
		return;
	cell->value->value_case = TRACESMITH__V1__VALUE__VALUE_TEXT;
	cell->value->text = (char *)text;
}

static void put_integer(const struct cell *cell, bool known, uint64_t value)
{
	if (!known)
		return;
	cell->value->value_case = TRACESMITH__V1__VALUE__VALUE_INTEGER;
	cell->value->integer = (int64_t)value;
}

static bool knows_gpu(const struct op *op)
{
	return show_is_submission(op) && op->gpu_start_ns != 0;
}

static void get_at(const struct cell *cell)
{
	char text[VIEW_TIME_BYTES];

	view_time(cell->view, cell->op->start_ns, text);
	snprintf(cell->row->at, sizeof(cell->row->at), "%11s", text); /* aligned for up to a day */
	put_text(cell, cell->row->at);
}

static void get_gpu_at(const struct cell *cell)
{
	char text[VIEW_TIME_BYTES];

	if (!knows_gpu(cell->op))
		return;
	view_time(cell->view, cell->op->gpu_start_ns, text);
	snprintf(cell->row->gpu_at, sizeof(cell->row->gpu_at), "%11s", text);
	put_text(cell, cell->row->gpu_at);
}

static void get_process(const struct cell *cell)
{
	const struct meta_process *process =
		meta_process(cell->view->trace.meta, cell->op->process);

	snprintf(cell->row->process, sizeof(cell->row->process), "%.40s (%" PRIu32 ")",
		 process->name->text, process->pid);
	put_text(cell, cell->row->process);
}

static void get_pid(const struct cell *cell)
{
	put_integer(cell, true, meta_process(cell->view->trace.meta, cell->op->process)->pid);
}

static void get_process_name(const struct cell *cell)
{
	put_text(cell, meta_process(cell->view->trace.meta, cell->op->process)->name->text);
}

static void get_kind(const struct cell *cell)
{
	put_text(cell, show_kind_name(cell->op->kind));
}

static void get_name(const struct cell *cell)
{
	put_text(cell, view_name(cell->view->trace.meta, cell->op)->text);
}

static void get_fn(const struct cell *cell)
{
	const struct meta_text *fn = meta_function(cell->view->trace.meta, cell->op->fn);

	put_text(cell, fn ? fn->text : NULL);
}

static void get_detail(const struct cell *cell)
{
	put_text(cell, show_detail_name(cell->op->kind, cell->op->detail));
}

static void get_size(const struct cell *cell)
{
	view_size(cell->op, cell->row->size);
	put_text(cell, cell->row->size);
}

static void get_marks(const struct cell *cell)
{
	view_marks(cell->op, cell->row->marks);
	put_text(cell, cell->row->marks);
}

static void get_delay(const struct cell *cell)
{
	const struct op *op = cell->op;

	put_integer(cell,
		    show_has_work(op) && !(op->flags & OP_NO_CALL) &&
			    op->gpu_start_ns >= op->start_ns,
		    op->gpu_start_ns - op->start_ns);
}

/* name, whether it is known, value */
#define INTEGERS(X)                                                                                \
	X(tid, op->tid, op->tid)                                                                   \
	X(start_ns, true, op->start_ns)                                                            \
	X(end_ns, op->end_ns, op->end_ns)                                                          \
	X(duration_ns, op->end_ns >= op->start_ns, op->end_ns - op->start_ns)                      \
	X(gpu_start_ns, knows_gpu(op), op->gpu_start_ns)                                           \
	X(gpu_end_ns, knows_gpu(op) && op->gpu_end_ns, op->gpu_end_ns)                             \
	X(gpu_ns, knows_gpu(op) && op->gpu_end_ns, op->gpu_end_ns - op->gpu_start_ns)              \
	X(device, op->device != DEVICE_UNKNOWN, op->device)                                        \
	X(stream, op->stream, op->stream)                                                          \
	X(result, op->flags &OP_RETURNED, op->result)                                              \
	X(bytes, true, op->bytes)                                                                  \
	X(address, true, op->address)                                                              \
	X(source, true, op->source)                                                                \
	X(handle, true, op->handle)                                                                \
	X(stack, true, op->stack_id)                                                               \
	X(correlation, true, op->correlation)                                                      \
	X(grid_x, true, op->grid[0])                                                               \
	X(grid_y, true, op->grid[1])                                                               \
	X(grid_z, true, op->grid[2])                                                               \
	X(block_x, true, op->block[0])                                                             \
	X(block_y, true, op->block[1])                                                             \
	X(block_z, true, op->block[2])                                                             \
	X(shared_bytes, true, op->shared_bytes)                                                    \
	X(bounds, true, !!(op->flags & OP_BOUNDS))                                                 \
	X(exact, true, !!(op->flags & OP_EXACT))

#define X(name, known, number)                                                                     \
	static void get_##name(const struct cell *cell)                                            \
	{                                                                                          \
		const struct op *op = cell->op;                                                    \
                                                                                                   \
		put_integer(cell, known, (uint64_t)(number));                                      \
	}
INTEGERS(X)
#undef X

struct column {
	const char *name;
	Tracesmith__V1__Columns__Type type;
	void (*get)(const struct cell *cell);
};

/* The last column takes the rest of the line. */
static const struct column shown[] = {
	{ "at", TRACESMITH__V1__COLUMNS__TYPE__TEXT, get_at },
	{ "call", TRACESMITH__V1__COLUMNS__TYPE__NANOSECONDS, get_duration_ns },
	{ "process", TRACESMITH__V1__COLUMNS__TYPE__TEXT, get_process },
	{ "thread", TRACESMITH__V1__COLUMNS__TYPE__INTEGER, get_tid },
	{ "gpu", TRACESMITH__V1__COLUMNS__TYPE__INTEGER, get_device },
	{ "stream", TRACESMITH__V1__COLUMNS__TYPE__INTEGER, get_stream },
	{ "kind", TRACESMITH__V1__COLUMNS__TYPE__TEXT, get_kind },
	{ "gpu at", TRACESMITH__V1__COLUMNS__TYPE__TEXT, get_gpu_at },
	{ "gpu time", TRACESMITH__V1__COLUMNS__TYPE__NANOSECONDS, get_gpu_ns },
	{ "delay", TRACESMITH__V1__COLUMNS__TYPE__NANOSECONDS, get_delay },
	{ "size", TRACESMITH__V1__COLUMNS__TYPE__TEXT, get_size },
	{ "marks", TRACESMITH__V1__COLUMNS__TYPE__TEXT, get_marks },
	{ "name", TRACESMITH__V1__COLUMNS__TYPE__TEXT, get_name },
};

static const struct column told[] = {
#define X(name, known, number) { #name, TRACESMITH__V1__COLUMNS__TYPE__INTEGER, get_##name },
	INTEGERS(X)
#undef X
		{ "delay_ns", TRACESMITH__V1__COLUMNS__TYPE__INTEGER, get_delay },
	{ "pid", TRACESMITH__V1__COLUMNS__TYPE__INTEGER, get_pid },
	{ "process_name", TRACESMITH__V1__COLUMNS__TYPE__TEXT, get_process_name },
	{ "kind", TRACESMITH__V1__COLUMNS__TYPE__TEXT, get_kind },
	{ "fn", TRACESMITH__V1__COLUMNS__TYPE__TEXT, get_fn },
	{ "detail", TRACESMITH__V1__COLUMNS__TYPE__TEXT, get_detail },
	{ "name", TRACESMITH__V1__COLUMNS__TYPE__TEXT, get_name },
	{ "marks", TRACESMITH__V1__COLUMNS__TYPE__TEXT, get_marks },
};

#define COLUMNS_MAX ARRAY_SIZE(told)
_Static_assert(ARRAY_SIZE(shown) <= COLUMNS_MAX, "as many values as the wider form has");

struct list {
	struct view *view;
	struct table table;
	const struct column *column;
	size_t column_count;
	uint64_t left; /* rows still allowed */
	bool begun;
	bool truncated;
};

static int begin(struct list *list)
{
	Tracesmith__V1__Columns__Column column[COLUMNS_MAX], *at[COLUMNS_MAX];
	Tracesmith__V1__Columns columns = TRACESMITH__V1__COLUMNS__INIT;

	for (size_t i = 0; i < list->column_count; i++) {
		tracesmith__v1__columns__column__init(&column[i]);
		column[i].name = (char *)list->column[i].name;
		column[i].type = list->column[i].type;
		at[i] = &column[i];
	}
	columns.n_column = list->column_count;
	columns.column = at;
	return table_columns(&list->table, &columns);
}

static int take_op(void *data, const struct op *op)
{
	struct list *list = data;
	Tracesmith__V1__Value value[COLUMNS_MAX], *at[COLUMNS_MAX];
	Tracesmith__V1__Row row = TRACESMITH__V1__ROW__INIT;
	struct row texts;

	if (list->left == 0) {
		list->truncated = true;
		return 0;
	}
	list->left--;
	if (!list->begun && list->column == shown)
		view_begin(list->view);
	list->begun = true;
	for (size_t i = 0; i < list->column_count; i++) {
		struct cell cell = { list->view, op, &texts, &value[i] };

		tracesmith__v1__value__init(&value[i]);
		list->column[i].get(&cell);
		at[i] = &value[i];
	}
	row.n_value = list->column_count;
	row.value = at;
	return table_row(&list->table, &row);
}

static int run(struct list *list)
{
	_cleanup_(reply_freep) Tracesmith__V1__Reply *end = NULL;
	int r = begin(list);

	if (r == 0)
		r = view_read(list->view, take_op, list, &end);
	if (r < 0)
		return r;
	end->done->truncated = list->truncated;
	return table_end(&list->table, end->done);
}

int view_list(struct view *view)
{
	const struct options *options = view->options;
	bool people = !(options->given & OPTIONS_TABLE);
	struct list list = {
		.view = view,
		.column = people ? shown : told,
		.column_count = people ? ARRAY_SIZE(shown) : ARRAY_SIZE(told),
		.left = view_limit(view),
	};
	int r;

	table_init(&list.table, options, "view", view->trace.meta->wall_offset_ns);
	list.table.out = view->out;
	r = run(&list);
	table_done(&list.table);
	return r;
}
