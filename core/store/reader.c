/* Reader: connections that can only read, whatever SQL they are given. */
#include "core/store/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/limits.h"
#include "core/store/chunk_data.h"
#include "core/store/fragment_table.h"
#include "core/store/live_table.h"
#include "core/store/op_table.h"
#include "core/store/page_sum.h"
#include "core/store/path_table.h"
#include "core/store/row.h"
#include "core/store/sql.h"
#include "core/store/stack_table.h"
#include "core/store/store.h"
#include "core/store/waste_table.h"
#include "core/store/work_table.h"

/* Memory limit of a statement, so that a query cannot crash the daemon. */
#define LENGTH_MAX (64 << 20)
#define CACHE	   "PRAGMA cache_size = -8192"
/* The last setting applies to everyone who shares the cache: same as in writer.c and schema.c. */
#define SHARED "PRAGMA cache_spill = 0; PRAGMA synchronous = NORMAL; PRAGMA read_uncommitted = 1"
#define OF_PROCESS(id)                                                                             \
	"EXISTS (SELECT 1 FROM main.process AS p WHERE p.id = " id                                 \
	" AND coalesce(p.owner, p.uid) = %u)"
#define STATE_VIEW                                                                                 \
	"CREATE TEMP VIEW state AS SELECT boot, process, pid, device, stream, detail AS state,"    \
	" start_ns, end_ns, duration_ns FROM op WHERE kind = 'state'"

static void now_function(sqlite3_context *context, int count, sqlite3_value **value)
{
	const uint64_t *now_ns = sqlite3_user_data(context);

	sqlite3_result_int64(context, (int64_t)*now_ns);
}

static int harden(sqlite3 *db)
{
	sqlite3_limit(db, SQLITE_LIMIT_LENGTH, LENGTH_MAX);
	sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
	sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
	return sql_exec(db, "PRAGMA query_only = 1");
}

static int add_now(sqlite3 *db, uint64_t now_ns)
{
	uint64_t *copy = malloc(sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	*copy = now_ns;
	/* SQLite frees it, even on failure. */
	if (sqlite3_create_function_v2(db, "now_ns", 0, SQLITE_UTF8 | SQLITE_INNOCUOUS, copy,
				       now_function, NULL, NULL, free) != SQLITE_OK)
		return sql_error(db);
	return 0;
}

int reader_make(sqlite3 *db, uint64_t now_ns, uint32_t plan_ops)
{
	int r = chunk_data_register(db);

	if (r == 0)
		r = op_table_register(db);
	if (r == 0)
		r = work_table_register(db);
	if (r == 0)
		r = live_table_register(db);
	if (r == 0)
		r = fragment_table_register(db);
	if (r == 0)
		r = stack_table_register(db);
	if (r == 0)
		r = path_table_register(db, plan_ops);
	if (r == 0)
		r = waste_table_register(db);
	if (r == 0)
		r = add_now(db, now_ns);
	if (r == 0)
		r = sql_exec(db, STATE_VIEW);
	return r < 0 ? r : harden(db);
}

static bool has_column(const struct row_table *table, const char *name)
{
	for (size_t i = 0; i < table->count; i++)
		if (strcmp(table->column[i].name, name) == 0)
			return true;
	return false;
}

/* Which rows of a table are of processes of a user. NULL: it has nothing of any process, or only
 * names. */
static const char *own_rows(const struct row_table *table)
{
	if (strcmp(table->name, "process") == 0)
		return OF_PROCESS("t.id");
	if (strcmp(table->name, "loss") == 0)
		return "t.process = 0 OR " OF_PROCESS("t.process");
	if (strcmp(table->name, "frame") == 0)
		return "EXISTS (SELECT 1 FROM main.stack AS s WHERE s.id = t.stack"
		       " AND " OF_PROCESS("s.process") ")";
	return has_column(table, "process") ? OF_PROCESS("t.process") : NULL;
}

static int add_view(sqlite3 *db, const char *table, const char *rows, uint32_t owner)
{
	char *where = sqlite3_mprintf(rows, owner);
	char *sql = where ? sqlite3_mprintf("CREATE TEMP VIEW %s AS SELECT * FROM main.%s AS t"
					    " WHERE %s",
					    table, table, where)
			  : NULL;
	int r = sql ? sql_exec(db, sql) : -ENOMEM;

	sqlite3_free(where);
	sqlite3_free(sql);
	return r;
}

int reader_show_own(sqlite3 *db, uint32_t owner)
{
	int r = sql_exec(db, "PRAGMA query_only = 0");

	for (size_t i = 0; r == 0 && i < row_table_count; i++) {
		const char *rows = own_rows(&row_tables[i]);

		if (rows)
			r = add_view(db, row_tables[i].name, rows, owner);
	}
	return r < 0 ? r : sql_exec(db, "PRAGMA query_only = 1");
}

void reader_reset(sqlite3 *db)
{
	sqlite3_set_authorizer(db, NULL, NULL);
	sqlite3_progress_handler(db, 0, NULL, NULL);
	sqlite3_limit(db, SQLITE_LIMIT_LENGTH, LENGTH_MAX);
}

static int open_reader(const char *path, int flags, const char *pragma, uint64_t now_ns,
		       sqlite3 **ret)
{
	_cleanup_(sqlite3_closep) sqlite3 *db = NULL;
	int r;

	if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | flags,
			    page_sum_vfs()) != SQLITE_OK)
		return db ? sql_error(db) : -ENOMEM;
	sqlite3_busy_timeout(db, 5000);
	r = sql_exec(db, pragma);
	if (r == 0)
		r = reader_make(db, now_ns, LIMIT_PLAN_OPS);
	if (r < 0)
		return r;
	*ret = TAKE(db);
	return 0;
}

int store_reader_open(const char *path, uint64_t now_ns, sqlite3 **ret)
{
	return open_reader(path, 0, CACHE, now_ns, ret);
}

/* Sees the pages of the writer's transaction. An error ends a transaction: this has its own, so
 * that the writer's continues. */
int store_reader_open_held(const char *path, uint64_t now_ns, sqlite3 **ret)
{
	return open_reader(path, SQLITE_OPEN_SHAREDCACHE, SHARED, now_ns, ret);
}
