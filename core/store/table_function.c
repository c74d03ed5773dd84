/* Table_function: arguments are equality constraints on hidden columns. */
#include "core/store/table_function.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/cleanup.h"
#include "core/store/sql.h"

/* What a module knows of its table. */
struct registered {
	const struct table_function *function;
	uint32_t bound;
	void *data;
};

static const struct table_function *function_of(const struct table_function_cursor *cursor)
{
	return ((const struct table_function_table *)cursor->base.pVtab)->function;
}

static int table_connect(sqlite3 *db, void *data, int count, const char *const *argument,
			 sqlite3_vtab **ret, char **ret_error)
{
	const struct registered *registered = data;
	struct table_function_table *table;
	int r = sqlite3_declare_vtab(db, registered->function->declaration);

	if (r != SQLITE_OK)
		return r;
	sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
	table = calloc(1, sizeof(*table));
	if (!table)
		return SQLITE_NOMEM;
	table->db = db;
	table->function = registered->function;
	table->bound = registered->bound;
	table->data = registered->data;
	*ret = &table->base;
	return SQLITE_OK;
}

static int table_disconnect(sqlite3_vtab *base)
{
	free(base);
	return SQLITE_OK;
}

/* All arguments are required; they are passed on to xFilter, in order. */
static int table_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
	struct table_function_table *table = (struct table_function_table *)base;
	const struct table_function *function = table->function;
	unsigned int given = 0;

	for (int i = 0; i < info->nConstraint; i++) {
		int argument = info->aConstraint[i].iColumn - function->first_argument;

		if (argument < 0 || info->aConstraint[i].op != SQLITE_INDEX_CONSTRAINT_EQ)
			continue;
		if (!info->aConstraint[i].usable)
			return SQLITE_CONSTRAINT; /* not by this plan */
		info->aConstraintUsage[i].argvIndex = argument + 1;
		info->aConstraintUsage[i].omit = 1;
		given |= 1u << argument;
	}
	if (given != (1u << function->argument_count) - 1) {
		table_function_say(table, sqlite3_mprintf("%s", function->takes));
		return SQLITE_ERROR;
	}
	info->estimatedCost = function->cost;
	info->estimatedRows = function->rows;
	return SQLITE_OK;
}

static int table_open(sqlite3_vtab *base, sqlite3_vtab_cursor **ret)
{
	struct table_function_table *table = (struct table_function_table *)base;
	struct table_function_cursor *cursor = calloc(1, table->function->cursor_bytes);

	if (!cursor)
		return SQLITE_NOMEM;
	*ret = &cursor->base;
	return SQLITE_OK;
}

static int table_close(sqlite3_vtab_cursor *base)
{
	struct table_function_cursor *cursor = (struct table_function_cursor *)base;

	function_of(cursor)->clear(cursor);
	free(cursor);
	return SQLITE_OK;
}

static int table_filter(sqlite3_vtab_cursor *base, int number, const char *text, int count,
			sqlite3_value **value)
{
	struct table_function_cursor *cursor = (struct table_function_cursor *)base;
	const struct table_function *function = function_of(cursor);
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *select = NULL;
	int r = sqlite3_prepare_v2(((struct table_function_table *)base->pVtab)->db,
				   function->select, -1, &select, NULL);

	function->clear(cursor);
	cursor->at = cursor->count = 0;
	if (r != SQLITE_OK)
		return r;
	for (int i = 0; r == SQLITE_OK && i < function->argument_count; i++)
		r = sqlite3_bind_value(select, i + 1, value[i]);
	return r != SQLITE_OK ? r : function->fill(cursor, select, value);
}

static int table_next(sqlite3_vtab_cursor *base)
{
	((struct table_function_cursor *)base)->at++;
	return SQLITE_OK;
}

static int table_eof(sqlite3_vtab_cursor *base)
{
	struct table_function_cursor *cursor = (struct table_function_cursor *)base;

	return cursor->at >= cursor->count;
}

static int table_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int number)
{
	struct table_function_cursor *cursor = (struct table_function_cursor *)base;
	const struct table_function *function = function_of(cursor);

	if (number < function->first_argument)
		function->column(cursor, context, number);
	return SQLITE_OK;
}

static int table_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret)
{
	*ret = (sqlite3_int64)((struct table_function_cursor *)base)->at;
	return SQLITE_OK;
}

/* Without xCreate the table exists in every connection, and needs no CREATE. */
static const sqlite3_module module = {
	.xConnect = table_connect,
	.xDisconnect = table_disconnect,
	.xBestIndex = table_best_index,
	.xOpen = table_open,
	.xClose = table_close,
	.xFilter = table_filter,
	.xNext = table_next,
	.xEof = table_eof,
	.xColumn = table_column,
	.xRowid = table_rowid,
};

void table_function_say(struct table_function_table *table, char *text)
{
	sqlite3_free(table->base.zErrMsg);
	table->base.zErrMsg = text;
}

int table_function_register(sqlite3 *db, const struct table_function *function, uint32_t bound,
			    void *data)
{
	struct registered *registered = malloc(sizeof(*registered));

	if (!registered)
		return -ENOMEM;
	*registered = (struct registered){ function, bound, data };
	/* SQLite frees it, also if this fails. */
	return sqlite3_create_module_v2(db, function->name, &module, registered, free) == SQLITE_OK
		       ? 0
		       : sql_error(db);
}
