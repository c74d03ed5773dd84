/* Rows: each block becomes one statement, made of the table's own names for the columns that
 * both have, and is run for each row. A value has the declared type of its column. */
#include "client/file/rows.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/complain.h"
#include "core/sbt/rows.h"
#include "core/store/row.h"
#include "core/store/sql.h"

#define NAME_MAX_BYTES (2 * SBT_ROW_NAME_MAX + 2) /* table.column */
#define UNKNOWN_MAX    16			  /* distinct ones */

struct file_rows {
	sqlite3 *db;
	const char *path;
	char nonsense[NAME_MAX_BYTES + 64];
	char unknown[UNKNOWN_MAX][NAME_MAX_BYTES];
	unsigned int unknown_count;
};

/* How the columns of a block map to the statement. */
struct plan {
	sqlite3_stmt *stmt;
	struct {
		int parameter; /* 0: unknown column */
		enum sbt_value_type type;
	} column[SBT_ROW_COLUMNS_MAX];
};

int file_rows_new(sqlite3 *db, const char *path, struct file_rows **ret)
{
	struct file_rows *rows = calloc(1, sizeof(*rows));

	if (!rows)
		return -ENOMEM;
	rows->db = db;
	rows->path = path;
	*ret = rows;
	return 0;
}

struct file_rows *file_rows_free(struct file_rows *rows)
{
	free(rows);
	return NULL;
}

const char *file_rows_nonsense(const struct file_rows *rows)
{
	return rows->nonsense;
}

void file_rows_say_unknown(const struct file_rows *rows)
{
	if (rows->unknown_count == 1)
		complain("'%s' has '%s', which this tsctl does not know: update tsctl", rows->path,
			 rows->unknown[0]);
	else if (rows->unknown_count > 1)
		complain("'%s' has '%s' and %u more, which this tsctl does not know: update tsctl",
			 rows->path, rows->unknown[0], rows->unknown_count - 1);
}

static void add_unknown(struct file_rows *rows, const char *table, const char *column)
{
	char name[NAME_MAX_BYTES];

	snprintf(name, sizeof(name), "%s%s%s", table, column ? "." : "", column ? column : "");
	for (unsigned int i = 0; i < rows->unknown_count; i++)
		if (!strcmp(rows->unknown[i], name))
			return;
	if (rows->unknown_count < UNKNOWN_MAX)
		memcpy(rows->unknown[rows->unknown_count++], name, sizeof(name));
}

static int nonsense(struct file_rows *rows, const struct sbt_view *view, size_t column,
		    const char *what)
{
	snprintf(rows->nonsense, sizeof(rows->nonsense), "'%s.%s' %s", sbt_view_table(view),
		 sbt_view_column(view, column), what);
	return -EBADMSG;
}

/* The recording's own table, or one that is recorded; NULL: neither. */
static const char *find_table(const char *name)
{
	static const char recording[] = "recording";
	const struct row_table *table = row_table_find(name);

	if (!strcmp(name, recording))
		return recording;
	return table && table->recorded != ROW_RECORDED_NEVER ? table->name : NULL;
}

/* SBT_NULL: the column takes values of any type; -ENOENT: there is no such column. */
static int column_type(sqlite3 *db, const char *table, const char *column)
{
	const char *type;

	if (sqlite3_table_column_metadata(db, NULL, table, column, &type, NULL, NULL, NULL, NULL) !=
	    SQLITE_OK)
		return -ENOENT;
	if (!type || !*type)
		return SBT_NULL;
	return strcmp(type, "TEXT") ? SBT_INTEGER : SBT_TEXT;
}

/* 1: there are columns to insert. */
static int make_plan(struct file_rows *rows, const struct sbt_view *view, const char *table,
		     struct plan *plan)
{
	sqlite3_str *sql = sqlite3_str_new(rows->db);
	int count = 0, r = 0;
	char *text;

	sqlite3_str_appendf(sql, "INSERT OR REPLACE INTO \"%w\"(", table);
	for (size_t i = 0; i < sbt_view_column_count(view); i++) {
		const char *column = sbt_view_column(view, i);
		int type = column_type(rows->db, table, column);

		plan->column[i].parameter = type < 0 ? 0 : ++count;
		plan->column[i].type = (enum sbt_value_type)type;
		if (type < 0)
			add_unknown(rows, table, column);
		else
			sqlite3_str_appendf(sql, "%s\"%w\"", count > 1 ? "," : "", column);
	}
	sqlite3_str_appendall(sql, ") VALUES(");
	for (int i = 0; i < count; i++)
		sqlite3_str_appendall(sql, i ? ",?" : "?");
	sqlite3_str_appendall(sql, ")");
	text = sqlite3_str_finish(sql);
	if (!text)
		return -ENOMEM;
	if (count)
		r = sql_prepare(rows->db, text, &plan->stmt);
	sqlite3_free(text);
	return r < 0 ? r : count > 0;
}

static int bind_value(const struct plan *plan, size_t i, const struct sbt_value *value)
{
	enum sbt_value_type wanted = plan->column[i].type;
	int parameter = plan->column[i].parameter;

	if (value->type == SBT_NULL || parameter == 0)
		return 0;
	if (wanted != SBT_NULL && wanted != value->type)
		return -EBADMSG;
	if (value->type == SBT_INTEGER)
		sqlite3_bind_int64(plan->stmt, parameter, value->integer);
	else
		sqlite3_bind_text(plan->stmt, parameter, value->text, (int)value->size,
				  SQLITE_STATIC);
	return 0;
}

static int add_row(struct file_rows *rows, const struct sbt_view *view, const struct plan *plan,
		   const struct sbt_value *value)
{
	int r = 0;

	for (size_t i = 0; i < sbt_view_column_count(view); i++) {
		r = bind_value(plan, i, &value[i]);
		if (r < 0)
			return nonsense(rows, view, i,
					value[i].type == SBT_TEXT ? "is text" : "is a number");
	}
	r = sql_run(plan->stmt);
	if (r == -EINVAL) /* of a constraint, which a NULL breaks */
		snprintf(rows->nonsense, sizeof(rows->nonsense), "a row of '%s' is incomplete",
			 sbt_view_table(view));
	return r == -EINVAL ? -EBADMSG : r;
}

static int add_rows(struct file_rows *rows, struct sbt_view *view, const char *table)
{
	const struct sbt_value *value;
	struct plan plan = { 0 };
	int r = make_plan(rows, view, table, &plan);

	while (r > 0 && (value = sbt_view_next(view))) {
		r = add_row(rows, view, &plan, value);
		r = r < 0 ? r : 1;
	}
	sqlite3_finalize(plan.stmt);
	return r < 0 ? r : 0;
}

int file_rows_add(struct file_rows *rows, const void *data, size_t size)
{
	_cleanup_(sbt_view_freep) struct sbt_view *view = NULL;
	const char *table;
	int r = sbt_view_new(data, size, &view);

	rows->nonsense[0] = '\0';
	if (r < 0)
		return r;
	table = find_table(sbt_view_table(view));
	if (table)
		return add_rows(rows, view, table);
	add_unknown(rows, sbt_view_table(view), NULL);
	return 0;
}
