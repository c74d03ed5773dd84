/* Stack_table: a sum over a second has no order within it, so its samples stand for all of it: a
 * step of the estimate. Threads are not distinguished. */
#include "core/store/stack_table.h"

#include <errno.h>

#include "core/base/arena.h"
#include "core/base/map.h"
#include "core/base/sums.h"
#include "core/limits.h"
#include "core/model/core.h"
#include "core/model/estimate.h"
#include "core/store/sql.h"
#include "core/store/table_function.h"

enum { ARGUMENTS = 5, FIRST_ARGUMENT = 6 };

struct kernel {
	int64_t name;
	uint32_t process;
};

struct row {
	const struct kernel *kernel;
	uint64_t stack;
	uint64_t count, total_ns, sampled;
};

struct cursor {
	struct table_function_cursor base;
	struct map kernel_by_key;
	struct arena kernels;
	struct sums rows;
};

static const char declaration[] =
	"CREATE TABLE stack_sum(process INTEGER, name INTEGER, stack INTEGER, count INTEGER,"
	" total_ns INTEGER, sampled INTEGER, boot HIDDEN, first HIDDEN, last HIDDEN, pid HIDDEN,"
	" device HIDDEN)";

/* In the order of the key, which is that of time. */
static const char rows_text[] =
	"SELECT process, name, graph, stream, second, stack, count, total_ns"
	" FROM work WHERE boot = ?1 AND second BETWEEN ?2 AND ?3"
	" AND (?4 IS NULL OR process IN (SELECT id FROM process WHERE boot = ?1 AND pid = ?4))"
	" AND (?5 IS NULL OR device = ?5) AND kind = ?6 AND count > 0"
	" ORDER BY boot, second";

static const struct kernel *kernel_of(struct cursor *cursor, uint32_t process, int64_t name)
{
	struct map_key place = { (uint64_t)name, process };
	struct kernel *kernel = map_get(&cursor->kernel_by_key, place);

	if (kernel)
		return kernel;
	kernel = arena_get(&cursor->kernels, sizeof(*kernel));
	if (!kernel || map_put(&cursor->kernel_by_key, place, kernel) < 0)
		return NULL;
	*kernel = (struct kernel){ name, process };
	return kernel;
}

static int take(void *data, const struct estimate_result *result)
{
	struct sums *rows = data;
	struct row key = { .kernel = result->owner, .stack = result->stack };
	struct row *row = sums_get(rows, &key, LIMIT_QUERY_SUMS);

	if (!row)
		return rows->count == LIMIT_QUERY_SUMS ? -E2BIG : -ENOMEM;
	row->count += result->sum.count;
	row->total_ns += result->sum.ns;
	row->sampled += result->sampled;
	return 0;
}

static int add(struct cursor *cursor, struct estimate *estimate, sqlite3_stmt *row)
{
	struct estimate_key key = {
		.what = (uint64_t)sqlite3_column_int64(row, 1),
		.process = (uint32_t)sqlite3_column_int64(row, 0),
		.graph = (uint32_t)sqlite3_column_int64(row, 2),
		.stream = (uint32_t)sqlite3_column_int64(row, 3),
	};
	struct estimate_sum sum = {
		.count = (uint64_t)sqlite3_column_int64(row, 6),
		.ns = (uint64_t)sqlite3_column_int64(row, 7),
	};
	struct estimate_part *part = estimate_part(estimate, &key);

	if (part && !part->owner)
		part->owner = kernel_of(cursor, key.process, (int64_t)key.what);
	if (!part || !part->owner)
		return SQLITE_NOMEM;
	return estimate_add(estimate, part, (uint64_t)sqlite3_column_int64(row, 4),
			    (uint64_t)sqlite3_column_int64(row, 5), &sum) < 0
		       ? SQLITE_NOMEM
		       : SQLITE_OK;
}

static int add_all(struct cursor *cursor, struct estimate *estimate, sqlite3_stmt *row)
{
	int code, r = SQLITE_OK;

	while (r == SQLITE_OK && (code = sqlite3_step(row)) == SQLITE_ROW)
		r = add(cursor, estimate, row);
	if (r != SQLITE_OK || code != SQLITE_DONE)
		return r != SQLITE_OK ? r : code;
	r = estimate_end(estimate, take, &cursor->rows);
	/* The remedy is the same as if it took too long. */
	return r == 0 ? SQLITE_OK : r == -E2BIG ? SQLITE_INTERRUPT : SQLITE_NOMEM;
}

static int stack_fill(struct table_function_cursor *base, sqlite3_stmt *rows,
		      sqlite3_value *const *argument)
{
	struct cursor *cursor = (struct cursor *)base;
	struct estimate estimate = { 0 };
	int r;

	cursor->rows = SUMS_OF(struct row, count);
	sqlite3_bind_int(rows, ARGUMENTS + 1, OP_KERNEL);
	r = add_all(cursor, &estimate, rows);
	estimate_clear(&estimate);
	base->count = cursor->rows.count;
	return r;
}

static void stack_column(const struct table_function_cursor *base, sqlite3_context *context,
			 int number)
{
	const struct row *row = sums_row(&((const struct cursor *)base)->rows, base->at);
	const int64_t values[FIRST_ARGUMENT] = {
		row->kernel->process, row->kernel->name,      (int64_t)row->stack,
		(int64_t)row->count,  (int64_t)row->total_ns, (int64_t)row->sampled,
	};

	sqlite3_result_int64(context, values[number]);
}

static void stack_clear(struct table_function_cursor *base)
{
	struct cursor *cursor = (struct cursor *)base;

	map_clear(&cursor->kernel_by_key);
	arena_clear(&cursor->kernels);
	sums_release(&cursor->rows);
}

static const struct table_function function = {
	.name = "stack_sum",
	.declaration = declaration,
	.takes = "stack_sum takes boot, first, last, pid and device",
	.first_argument = FIRST_ARGUMENT,
	.argument_count = ARGUMENTS,
	.cost = 1e6,
	.rows = 1000,
	.cursor_bytes = sizeof(struct cursor),
	.select = rows_text,
	.fill = stack_fill,
	.column = stack_column,
	.clear = stack_clear,
};

int stack_table_register(sqlite3 *db)
{
	return table_function_register(db, &function, 0, NULL);
}
