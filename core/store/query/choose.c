/* Choose: the rows of a query that an answer has, and their order: by any of its columns, then as
 * the query orders them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/glob.h"
#include "core/limits.h"
#include "core/store/query/answer.h"
#include "core/store/sql.h"

#define COLUMNS_TEXT_MAX 512

static bool sorts(const struct query_column *column)
{
	return column->type != TRACESMITH__V1__COLUMNS__TYPE__STACK;
}

/* The columns to sort by, with spaces between. */
static const char *columns_text(const struct query *query, char text[COLUMNS_TEXT_MAX])
{
	size_t used = 0;

	text[0] = '\0';
	for (const struct query_column *column = query->column; column->name; column++)
		if (sorts(column) && used < COLUMNS_TEXT_MAX)
			used += (size_t)snprintf(text + used, COLUMNS_TEXT_MAX - used, "%s%s",
						 used ? " " : "", column->name);
	return text;
}

/* The number of a column, from 1 on; 0: there is none of this name. */
static int column_number(const struct query *query, const char *name)
{
	for (int i = 0; query->column[i].name; i++)
		if (strcmp(query->column[i].name, name) == 0)
			return i + 1;
	return 0;
}

/* NULLs come last either way. */
static int sort(struct answer *answer, const struct query *query, const char *by, char *ret,
		size_t size)
{
	const char *name = by + (*by == '-' || *by == '+');
	int number = column_number(query, name);
	char columns[COLUMNS_TEXT_MAX];
	bool rises;

	if (!number || !sorts(&query->column[number - 1]))
		return answer_fail(answer, REASON(QUERY_SORT), query->name, name,
				   columns_text(query, columns), NULL);
	rises = *by == '-' ? false : *by == '+' ? true : query->column[number - 1].rises;
	snprintf(ret, size, "%d %s NULLS LAST, ", number, rises ? "ASC" : "DESC");
	return 0;
}

/* LIMIT is left out where an answer can have all rows: SQLite sorts many rows more slowly with it.
 */
int choose_prepare(struct answer *answer, const struct query *query,
		   const Tracesmith__V1__QueryRequest *request, uint64_t limit, sqlite3_stmt **ret)
{
	_cleanup_(freep) char *sql = NULL;
	char first[48] = "";
	int r = 0;

	if (answer_given(request->sort))
		r = sort(answer, query, request->sort, first, sizeof(first));
	if (r < 0)
		return r;
	if (answer_given(request->match)) {
		answer->match = request->match;
		answer->match_column = column_number(query, query->search) - 1;
	}
	if (asprintf(&sql, "%s\nORDER BY %s%s%s", query->sql, first, query->order,
		     limit < LIMIT_QUERY_ROWS && !answer->match ? "\nLIMIT :limit" : "") < 0)
		return -ENOMEM;
	return answer_prepare(answer, sql, ret);
}

bool choose_takes(struct answer *answer, sqlite3_stmt *stmt)
{
	const char *name;

	if (!answer->match)
		return true;
	name = (const char *)sqlite3_column_text(stmt, answer->match_column);
	if (name && glob_find(answer->match, name))
		return true;
	answer->passed_over++;
	return false;
}
