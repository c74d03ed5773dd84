/* table_function.h: what virtual tables that are asked like functions have in common: their last
 * columns are hidden, and are the arguments. */
#ifndef TS_TABLE_FUNCTION_H
#define TS_TABLE_FUNCTION_H

#include <sqlite3.h>

/* Why a statement fails; `text` is from sqlite3_mprintf(). */
void table_function_say(sqlite3_vtab *base, char *text);

/* The part of xBestIndex that hands the columns from `first` on to xFilter, in their order. All
 * have to be given: else it says what the table takes and returns SQLITE_ERROR. SQLITE_CONSTRAINT:
 * not by this plan. */
int table_function_arguments(sqlite3_vtab *base, sqlite3_index_info *info, int first, int count,
			     const char *takes);

#endif
