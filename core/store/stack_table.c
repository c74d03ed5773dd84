/* Stack_table: a sum over a second has no order within it, so its samples stand for all of it: a
 * step of the estimate. Threads are not distinguished. */
#include "core/store/stack_table.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/cleanup.h"
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
	struct row *next;
	const struct kernel *kernel;
	uint64_t stack;
	uint64_t count, total_ns, sampled;
};

struct cursor {
	sqlite3_vtab_cursor base;
	struct map kernel_by_key, row_by_key;
	struct arena arena;
	struct row *row; /* the newest first */
	const struct row *at;
	uint32_t rows;
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

static void clear(struct cursor *cursor)
{
	map_clear(&cursor->kernel_by_key);
	map_clear(&cursor->row_by_key);
	arena_clear(&cursor->arena);
	cursor->row = NULL;
	cursor->at = NULL;
	cursor->rows = 0;
}

static const struct kernel *kernel_of(struct cursor *cursor, uint32_t process, int64_t name)
{
	struct map_key place = { (uint64_t)name, process };
	struct kernel *kernel = map_get(&cursor->kernel_by_key, place);

	if (kernel)
		return kernel;
	kernel = arena_get(&cursor->arena, sizeof(*kernel));
	if (!kernel || map_put(&cursor->kernel_by_key, place, kernel) < 0)
		return NULL;
	*kernel = (struct kernel){ name, process };
	return kernel;
}

static int take(void *data, const struct estimate_result *result)
{
	struct cursor *cursor = data;
	struct map_key place = { (uintptr_t)result->owner, result->stack };
	struct row *row = map_get(&cursor->row_by_key, place);

	if (!row) {
		if (cursor->rows++ == LIMIT_QUERY_SUMS)
			return -E2BIG;
		row = arena_get(&cursor->arena, sizeof(*row));
		if (!row || map_put(&cursor->row_by_key, place, row) < 0)
			return -ENOMEM;
		*row = (struct row){
			.next = cursor->row,
			.kernel = result->owner,
			.stack = result->stack,
		};
		cursor->row = row;
	}
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

static int fill(struct cursor *cursor, struct estimate *estimate, sqlite3_stmt *row)
{
	int code, r = SQLITE_OK;

	while (r == SQLITE_OK && (code = sqlite3_step(row)) == SQLITE_ROW)
		r = add(cursor, estimate, row);
	if (r != SQLITE_OK || code != SQLITE_DONE)
		return r != SQLITE_OK ? r : code;
	r = estimate_end(estimate, take, cursor);
	/* The remedy is the same as if it took too long. */
	return r == 0 ? SQLITE_OK : r == -E2BIG ? SQLITE_INTERRUPT : SQLITE_NOMEM;
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
};

static int stack_close(sqlite3_vtab_cursor *base)
{
	clear((struct cursor *)base);
	free(base);
	return SQLITE_OK;
}

static int stack_filter(sqlite3_vtab_cursor *base, int number, const char *text, int count,
			sqlite3_value **value)
{
	struct cursor *cursor = (struct cursor *)base;
	struct table_function_table *table = (struct table_function_table *)base->pVtab;
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *rows = NULL;
	struct estimate estimate = { 0 };
	int r = sqlite3_prepare_v2(table->db, rows_text, -1, &rows, NULL);

	clear(cursor);
	if (r != SQLITE_OK)
		return r;
	for (int i = 0; i < ARGUMENTS; i++)
		sqlite3_bind_value(rows, i + 1, value[i]);
	sqlite3_bind_int(rows, ARGUMENTS + 1, OP_KERNEL);
	r = fill(cursor, &estimate, rows);
	estimate_clear(&estimate);
	cursor->at = cursor->row;
	return r;
}

static int stack_next(sqlite3_vtab_cursor *base)
{
	struct cursor *cursor = (struct cursor *)base;

	cursor->at = cursor->at->next;
	return SQLITE_OK;
}

static int stack_eof(sqlite3_vtab_cursor *base)
{
	return !((struct cursor *)base)->at;
}

static int stack_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int number)
{
	const struct row *row = ((struct cursor *)base)->at;
	const int64_t values[FIRST_ARGUMENT] = {
		row->kernel->process, row->kernel->name,      (int64_t)row->stack,
		(int64_t)row->count,  (int64_t)row->total_ns, (int64_t)row->sampled,
	};

	if (number < FIRST_ARGUMENT)
		sqlite3_result_int64(context, values[number]);
	return SQLITE_OK;
}

static int stack_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret)
{
	*ret = (sqlite3_int64)(uintptr_t)((struct cursor *)base)->at;
	return SQLITE_OK;
}

static const sqlite3_module module = {
	.xConnect = table_function_connect,
	.xDisconnect = table_function_disconnect,
	.xBestIndex = table_function_best_index,
	.xOpen = table_function_open,
	.xClose = stack_close,
	.xFilter = stack_filter,
	.xNext = stack_next,
	.xEof = stack_eof,
	.xColumn = stack_column,
	.xRowid = stack_rowid,
};

int stack_table_register(sqlite3 *db)
{
	return table_function_register(db, &function, &module, 0);
}
