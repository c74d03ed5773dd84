/* Repair: all first pages are looked at in the file, once the log is empty: what stands there is
 * then what readers get. */
#include "core/store/repair.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/store/page_sum.h"
#include "core/store/row_sql.h"
#include "core/store/sql.h"

#define OBJECTS_MAX 96

/* A table, or an index whose statement is kept. */
struct object {
	char table[64], name[64], statement[512]; /* statement "": of a table */
};

struct objects {
	struct object of[OBJECTS_MAX];
	size_t count;
};

static void copy(char *to, size_t size, sqlite3_stmt *stmt, int column)
{
	const char *text = (const char *)sqlite3_column_text(stmt, column);

	sqlite3_snprintf((int)size, to, "%s", text ? text : "");
}

static bool has_table(const struct objects *objects, const char *table)
{
	for (size_t i = 0; i < objects->count; i++)
		if (!*objects->of[i].statement && !strcmp(objects->of[i].table, table))
			return true;
	return false;
}

/* An index without a statement is a part of its table. */
static int find_damaged(sqlite3 *db, struct objects *ret, uint64_t *pages)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	int code, r = sql_prepare(db,
				  "SELECT rootpage, tbl_name, name, iif(type = 'index', sql, '')"
				  " FROM sqlite_schema WHERE rootpage > 0 ORDER BY type DESC",
				  &stmt);

	if (r < 0)
		return r;
	while ((code = sqlite3_step(stmt)) == SQLITE_ROW) {
		struct object *object = &ret->of[ret->count];

		r = page_sum_look(db, (uint32_t)sqlite3_column_int64(stmt, 0));
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		++*pages;
		if (ret->count == OBJECTS_MAX)
			return -EBADMSG;
		copy(object->table, sizeof(object->table), stmt, 1);
		copy(object->name, sizeof(object->name), stmt, 2);
		copy(object->statement, sizeof(object->statement), stmt, 3);
		/* Its indexes come with it. */
		ret->count += !has_table(ret, object->table);
	}
	return code == SQLITE_DONE ? 0 : sql_error(db);
}

/* The rows of all others are of a boot and, most of them, of a process. */
static const struct row_table *find_table(const char *name)
{
	if (!strcmp(name, "boot") || !strcmp(name, "process"))
		return NULL;
	return row_table_find(name);
}

static int make_anew(sqlite3 *db, const struct object *object)
{
	bool whole = !*object->statement;
	const struct row_table *table = whole ? find_table(object->table) : NULL;
	int r;

	if (whole && !table)
		return -EBADMSG;
	r = sql_exec_made(db, sqlite3_mprintf("DELETE FROM sqlite_schema WHERE %s = %Q",
					      whole ? "tbl_name" : "name",
					      whole ? object->table : object->name));
	if (r == 0)
		r = sql_exec(db, "PRAGMA writable_schema = RESET; PRAGMA writable_schema = 1");
	if (r < 0)
		return r;
	return whole ? sql_exec_made(db, row_sql_create(table)) : sql_exec(db, object->statement);
}

static int make_all_anew(sqlite3 *db, const struct objects *objects)
{
	int r = sql_exec(db, "PRAGMA writable_schema = 1; BEGIN IMMEDIATE");

	for (size_t i = 0; r == 0 && i < objects->count; i++)
		r = make_anew(db, &objects->of[i]);
	if (r == 0)
		r = sql_exec(db, "COMMIT");
	if (r < 0)
		sql_exec(db, "ROLLBACK");
	sql_exec(db, "PRAGMA writable_schema = RESET");
	return r;
}

int repair_first_pages(sqlite3 *db, uint64_t *pages)
{
	struct objects objects = { .count = 0 };
	uint32_t skipped = 0, more = 0;
	int r;

	/* While somebody still reads the log it stays, until the next start. */
	sqlite3_busy_timeout(db, 100);
	r = sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
	sqlite3_busy_timeout(db, 5000);
	if (r != SQLITE_OK)
		return 0;
	r = find_damaged(db, &objects, pages);
	if (r < 0 || !objects.count)
		return r;
	do {
		skipped += more;
		sqlite3_db_release_memory(db);
		r = make_all_anew(db, &objects);
	} while (r == -EBADMSG && (more = page_sum_skip(db)));
	*pages += skipped;
	return r;
}
