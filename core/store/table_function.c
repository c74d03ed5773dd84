/* Table_function: arguments are equality constraints on hidden columns. */
#include "core/store/table_function.h"

#include <errno.h>
#include <stdlib.h>

#include "core/store/sql.h"

/* What a module knows of its table. */
struct registered {
	const struct table_function *function;
	uint32_t bound;
};

int table_function_connect(sqlite3 *db, void *data, int count, const char *const *argument,
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
	*ret = &table->base;
	return SQLITE_OK;
}

int table_function_disconnect(sqlite3_vtab *base)
{
	free(base);
	return SQLITE_OK;
}

int table_function_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
	const struct table_function *function = ((struct table_function_table *)base)->function;
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
		table_function_say(base, sqlite3_mprintf("%s", function->takes));
		return SQLITE_ERROR;
	}
	info->estimatedCost = function->cost;
	info->estimatedRows = function->rows;
	return SQLITE_OK;
}

int table_function_open(sqlite3_vtab *base, sqlite3_vtab_cursor **ret)
{
	*ret = calloc(1, ((struct table_function_table *)base)->function->cursor_bytes);
	return *ret ? SQLITE_OK : SQLITE_NOMEM;
}

void table_function_say(sqlite3_vtab *base, char *text)
{
	sqlite3_free(base->zErrMsg);
	base->zErrMsg = text;
}

int table_function_register(sqlite3 *db, const struct table_function *function,
			    const sqlite3_module *module, uint32_t bound)
{
	struct registered *registered = malloc(sizeof(*registered));

	if (!registered)
		return -ENOMEM;
	*registered = (struct registered){ function, bound };
	/* SQLite frees it, also if this fails. */
	return sqlite3_create_module_v2(db, function->name, module, registered, free) == SQLITE_OK
		       ? 0
		       : sql_error(db);
}
