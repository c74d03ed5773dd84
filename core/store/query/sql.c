/* Sql: one statement of the user's own. The connection cannot write; the authorizer also denies it
 * other files, settings and extensions, and time and rows are limited. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/time.h"
#include "core/base/utf8.h"
#include "core/limits.h"
#include "core/store/query/answer.h"
#include "core/store/sql.h"

#define ROWS_DEFAULT 10000

/* Describes tables and changes nothing. */
static bool pragma_allowed(const char *name)
{
	static const char *const allowed[] = { "table_info", "table_xinfo", "table_list",
					       "index_list", "index_info" };

	for (size_t i = 0; i < ARRAY_SIZE(allowed); i++)
		if (name && strcasecmp(name, allowed[i]) == 0)
			return true;
	return false;
}

static int authorize(void *data, int action, const char *first, const char *second,
		     const char *database, const char *trigger)
{
	switch (action) {
	case SQLITE_SELECT:
	case SQLITE_READ:
	case SQLITE_RECURSIVE:
		return SQLITE_OK;
	case SQLITE_FUNCTION:
		return second && strcasecmp(second, "load_extension") == 0 ? SQLITE_DENY
									   : SQLITE_OK;
	case SQLITE_PRAGMA:
		return pragma_allowed(first) ? SQLITE_OK : SQLITE_DENY;
	default:
		return SQLITE_DENY;
	}
}

static int prepare(struct answer *answer, const char *text, sqlite3_stmt **ret)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL, *second = NULL;
	const char *rest;

	/* Virtual tables declare themselves at their first use, which the authorizer would forbid.
	 */
	if (sqlite3_exec(answer->db,
			 "SELECT 1 FROM op LIMIT 0;"
			 "SELECT 1 FROM critical_path(0, 0, 0, 0) LIMIT 0;"
			 "SELECT 1 FROM waste(0, 0, 0, 0) LIMIT 0;"
			 "SELECT 1 FROM fragment(0, 0, 0, 0) LIMIT 0",
			 NULL, NULL, NULL) != SQLITE_OK)
		return answer_fail_sqlite(answer);
	sqlite3_limit(answer->db, SQLITE_LIMIT_LENGTH, LIMIT_QUERY_VALUE);
	sqlite3_set_authorizer(answer->db, authorize, NULL);
	if (sqlite3_prepare_v2(answer->db, text, -1, &stmt, &rest) != SQLITE_OK)
		return answer_fail_sqlite(answer);
	if (!stmt)
		return answer_fail(answer, REASON(NO_STATEMENT), NULL);
	/* Spaces and comments alone prepare to nothing. */
	if (sqlite3_prepare_v2(answer->db, rest, -1, &second, NULL) != SQLITE_OK || second)
		return answer_fail(answer, REASON(ONE_STATEMENT), NULL);
	if (!sqlite3_stmt_readonly(stmt) || !sqlite3_column_count(stmt))
		return answer_fail(answer, REASON(NO_SELECT), NULL);
	*ret = TAKE(stmt);
	return 0;
}

static Tracesmith__V1__Columns__Type type_of(sqlite3_stmt *stmt, int i)
{
	switch (sqlite3_column_type(stmt, i)) {
	case SQLITE_INTEGER:
		return TRACESMITH__V1__COLUMNS__TYPE__INTEGER;
	case SQLITE_FLOAT:
		return TRACESMITH__V1__COLUMNS__TYPE__REAL;
	default:
		return TRACESMITH__V1__COLUMNS__TYPE__TEXT;
	}
}

/* The values of the first row, if there is one, decide how the columns are shown. */
static int describe(sqlite3_stmt *stmt, struct query_column **ret)
{
	size_t count = sqlite3_column_count(stmt);
	struct query_column *column = calloc(count, sizeof(*column));

	if (!column)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		column[i].name = sqlite3_column_name(stmt, (int)i);
		column[i].type = type_of(stmt, (int)i);
		if (!column[i].name)
			column[i].name = "";
	}
	*ret = column;
	return 0;
}

static void set_bounds(struct answer *answer, const Tracesmith__V1__SqlRequest *request,
		       uint64_t *ret_limit)
{
	uint64_t limit = request->limit ? request->limit : ROWS_DEFAULT;
	uint64_t longest_ns = answer->deadline_ns ? LIMIT_QUERY_MS * NS_PER_MS : INT64_MAX;

	if (request->timeout_ns && request->timeout_ns < longest_ns)
		answer->deadline_ns = answer->begin_ns + request->timeout_ns;
	*ret_limit = limit < LIMIT_QUERY_ROWS ? limit : LIMIT_QUERY_ROWS;
}

int run_sql(struct answer *answer, const Tracesmith__V1__SqlRequest *request)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	_cleanup_(freep) struct query_column *column = NULL;
	bool truncated = false;
	uint64_t limit;
	int step, r;

	if (!utf8_valid(request->text, strlen(request->text)))
		return answer_fail(answer, REASON(NO_UTF8), NULL);
	/* A statement could name the tables behind the views. */
	if (answer->job->own)
		return answer_fail(answer, REASON(SQL_OWN), NULL);
	answer->too_slow = REASON(TOO_SLOW_SQL);
	set_bounds(answer, request, &limit);
	r = prepare(answer, request->text, &stmt);
	if (r < 0)
		return r;
	step = sqlite3_step(stmt);
	if (step != SQLITE_ROW && step != SQLITE_DONE)
		return answer_fail_sqlite(answer);
	r = describe(stmt, &column);
	if (r == 0)
		r = answer_columns(answer, column, sqlite3_column_count(stmt));
	if (r == 0)
		r = answer_rows(answer, stmt, step, column, limit, &truncated);
	if (r < 0)
		return r;
	sqlite3_set_authorizer(answer->db, NULL, NULL); /* what follows is our own */
	return answer_done(answer, truncated);
}
