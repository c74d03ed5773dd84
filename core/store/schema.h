/* schema.h: the tables of the database; docs/tables.md describes what users of `tsctl sql` see of
 * them. */
#ifndef TS_SCHEMA_H
#define TS_SCHEMA_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/store/store.h"

/* Opens the file for writing and updates its tables. Errors like store_open. */
int schema_open(const char *path, sqlite3 **ret);
/* Whether the head of the file says that it is a database of ours. */
bool schema_is_ours(const char *path);
/* Creates the tables in an empty database of any kind. */
int schema_make(sqlite3 *db);
/* The same as a former version had them, for tests; -EINVAL: there was no such version. */
int schema_make_version(sqlite3 *db, int64_t version);
/* Names of kinds, functions and reasons as this program knows them. */
int schema_write_names(sqlite3 *db, const struct function_table *functions);
/* A row of `setting`. */
int schema_write_setting(sqlite3 *db, const char *name, const char *value);
/* The row of this boot, created if there is none. */
int schema_write_boot(sqlite3 *db, const struct store_config *config, int64_t *ret_boot);
/* Sets the end of recordings that have none. */
int schema_close_collects(sqlite3 *db);

#endif
