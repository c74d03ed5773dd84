/* Path_table: the critical path as SQL sees it: all its rows are computed when it is opened. */
#include "core/store/path_table.h"

#include <errno.h>

#include "core/base/sums.h"
#include "core/store/path.h"
#include "core/store/sql.h"
#include "core/store/table_function.h"

struct cursor {
	struct table_function_cursor base;
	struct sums rows;
};

enum { ARGUMENTS = 4, FIRST_ARGUMENT = 10 };

static const char declaration[] =
	"CREATE TABLE critical_path(process INTEGER, what TEXT, kind INTEGER, detail INTEGER,"
	" fn INTEGER, name INTEGER, stack INTEGER, count INTEGER, ns INTEGER, idle_ns INTEGER,"
	" boot HIDDEN, since HIDDEN, until HIDDEN, pid HIDDEN)";

static const char processes_text[] =
	"SELECT DISTINCT process FROM chunk WHERE boot = ?1 AND first_ns < ?3 AND last_ns >= ?2"
	" AND (?4 IS NULL OR process IN (SELECT id FROM process WHERE boot = ?1 AND pid = ?4))";

static const char *const whats[PATH_WHATS] = {
	[PATH_KERNEL] = "kernel", [PATH_COPY] = "copy",	      [PATH_SET] = "set",
	[PATH_GRAPH] = "graph",	  [PATH_WORK] = "work",	      [PATH_CALL] = "call",
	[PATH_HOST] = "host",	  [PATH_LATENCY] = "latency", [PATH_WAKE_UP] = "wake-up",
};

static int path_fail(struct table_function_table *table, int error)
{
	if (error == -ENOMEM)
		return SQLITE_NOMEM;
	if (error == -E2BIG) {
		table_function_say(
			table,
			sqlite3_mprintf("The window has more than %u operations of one process",
					table->bound));
		return SQLITE_FULL;
	}
	if (error == -EINTR || sqlite3_errcode(table->db) == SQLITE_INTERRUPT)
		return SQLITE_INTERRUPT;
	table_function_say(table, sqlite3_mprintf("a chunk is damaged"));
	return SQLITE_CORRUPT_VTAB;
}

static int path_fill(struct table_function_cursor *base, sqlite3_stmt *processes,
		     sqlite3_value *const *argument)
{
	struct cursor *cursor = (struct cursor *)base;
	struct table_function_table *table = (struct table_function_table *)base->base.pVtab;
	uint64_t since_ns = (uint64_t)sqlite3_value_int64(argument[1]),
		 until_ns = (uint64_t)sqlite3_value_int64(argument[2]);
	int code;

	cursor->rows = SUMS_OF(struct path_row, count);
	while ((code = sqlite3_step(processes)) == SQLITE_ROW) {
		int r = path_add(table->db, (uint32_t)sqlite3_column_int64(processes, 0), since_ns,
				 until_ns, table->bound, &cursor->rows);

		if (r < 0)
			return path_fail(table, r);
	}
	base->count = cursor->rows.count;
	return code == SQLITE_DONE ? SQLITE_OK : code;
}

static void path_column(const struct table_function_cursor *base, sqlite3_context *context,
			int number)
{
	const struct path_row *row = sums_row(&((const struct cursor *)base)->rows, base->at);
	const struct path_key *key = &row->key;
	const int64_t values[FIRST_ARGUMENT] = {
		key->process,
		0,
		key->kind,
		(int64_t)key->detail,
		key->fn,
		(int64_t)key->name,
		(int64_t)key->stack,
		(int64_t)row->count,
		(int64_t)row->ns,
		(int64_t)row->idle_ns,
	};

	if (number == 1)
		sqlite3_result_text(context, whats[key->what], -1, SQLITE_STATIC);
	else
		sqlite3_result_int64(context, values[number]);
}

static void path_clear(struct table_function_cursor *base)
{
	sums_release(&((struct cursor *)base)->rows);
}

static const struct table_function function = {
	.name = "critical_path",
	.declaration = declaration,
	.takes = "critical_path takes boot, since, until and pid",
	.first_argument = FIRST_ARGUMENT,
	.argument_count = ARGUMENTS,
	.cost = 1e7,
	.rows = 100,
	.cursor_bytes = sizeof(struct cursor),
	.select = processes_text,
	.fill = path_fill,
	.column = path_column,
	.clear = path_clear,
};

int path_table_register(sqlite3 *db, uint32_t plan_ops)
{
	return table_function_register(db, &function, plan_ops, NULL);
}
