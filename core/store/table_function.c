/* Table_function: arguments are equality constraints on hidden columns. */
#include "core/store/table_function.h"

void table_function_say(sqlite3_vtab *base, char *text)
{
	sqlite3_free(base->zErrMsg);
	base->zErrMsg = text;
}

int table_function_arguments(sqlite3_vtab *base, sqlite3_index_info *info, int first, int count,
			     const char *takes)
{
	unsigned int given = 0;

	for (int i = 0; i < info->nConstraint; i++) {
		int argument = info->aConstraint[i].iColumn - first;

		if (argument < 0 || info->aConstraint[i].op != SQLITE_INDEX_CONSTRAINT_EQ)
			continue;
		if (!info->aConstraint[i].usable)
			return SQLITE_CONSTRAINT;
		info->aConstraintUsage[i].argvIndex = argument + 1;
		info->aConstraintUsage[i].omit = 1;
		given |= 1u << argument;
	}
	if (given == (1u << count) - 1)
		return SQLITE_OK;
	table_function_say(base, sqlite3_mprintf("%s", takes));
	return SQLITE_ERROR;
}
