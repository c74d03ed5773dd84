/* Reader: connections that can do nothing but read, whatever SQL they are given. */
#include <errno.h>
#include <time.h>

#include "daemon/store/op_table.h"
#include "daemon/store/sql.h"
#include "daemon/store/store.h"
#include "daemon/store/work_table.h"

/* What a statement may use up of memory, so that a query cannot end the daemon. */
#define LENGTH_MAX (64 << 20)
#define CACHE	   "PRAGMA cache_size = -8192"
#define STATE_VIEW                                                                                 \
	"CREATE TEMP VIEW state AS SELECT boot, process, pid, device, stream, detail AS state,"    \
	" start_ns, end_ns, duration_ns FROM op WHERE kind = 'state'"

static void now_function(sqlite3_context *context, int count, sqlite3_value **value)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	sqlite3_result_int64(context, (int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
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

static int add_helpers(sqlite3 *db)
{
	int r = op_table_register(db);

	if (r == 0)
		r = work_table_register(db);
	if (r < 0)
		return r;
	if (sqlite3_create_function(db, "now_ns", 0, SQLITE_UTF8 | SQLITE_INNOCUOUS, NULL,
				    now_function, NULL, NULL) != SQLITE_OK)
		return sql_error(db);
	return sql_exec(db, CACHE "; " STATE_VIEW);
}

int store_reader_open(const char *path, sqlite3 **ret)
{
	_cleanup_(sqlite3_closep) sqlite3 *db = NULL;
	int r;

	if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) !=
	    SQLITE_OK)
		return db ? sql_error(db) : -ENOMEM;
	sqlite3_busy_timeout(db, 5000);
	r = add_helpers(db);
	if (r == 0)
		r = harden(db);
	if (r < 0)
		return r;
	*ret = TAKE(db);
	return 0;
}
