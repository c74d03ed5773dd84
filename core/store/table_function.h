/* table_function.h: shared by virtual tables that are used like functions: their last columns are
 * hidden, and are the arguments. */
#ifndef TS_TABLE_FUNCTION_H
#define TS_TABLE_FUNCTION_H

#include <sqlite3.h>

/* Why a statement fails; `text` is from sqlite3_mprintf(). */
void table_function_say(sqlite3_vtab *base, char *text);

/* The part of xBestIndex that passes the columns from `first` on to xFilter, in order. All are
 * required: otherwise it says what the table takes and returns SQLITE_ERROR. SQLITE_CONSTRAINT: not
 * by this plan. */
int table_function_arguments(sqlite3_vtab *base, sqlite3_index_info *info, int first, int count,
			     const char *takes);

#endif
