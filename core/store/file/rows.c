/* Rows: each block becomes one statement, made of the columns of the table's description that the
 * block has, and is run for each row. A value has the type of its column. */
#include "core/store/file/rows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/sbt/rows.h"
#include "core/store/file/facts.h"
#include "core/store/row_sql.h"
#include "core/store/sql.h"

#define NAME_SIZE   (2 * SBT_ROW_NAME_MAX + 2) /* table.column */
#define UNKNOWN_MAX 16			       /* distinct ones */

struct file_rows {
	sqlite3 *db;
	enum file_reason fault;
	char fault_name[NAME_SIZE];
	char unknown[UNKNOWN_MAX][NAME_SIZE];
	unsigned int unknown_count;
};

/* How the columns of a block map to the statement. */
struct plan {
	sqlite3_stmt *stmt;
	int parameter[SBT_ROW_COLUMNS_MAX];	       /* 0: unknown column */
	enum sbt_value_type type[SBT_ROW_COLUMNS_MAX]; /* SBT_NULL: any */
};

int file_rows_new(sqlite3 *db, struct file_rows **ret)
{
	struct file_rows *rows = calloc(1, sizeof(*rows));

	if (!rows)
		return -ENOMEM;
	rows->db = db;
	*ret = rows;
	return 0;
}

struct file_rows *file_rows_free(struct file_rows *rows)
{
	free(rows);
	return NULL;
}

struct file_remark file_rows_fault(const struct file_rows *rows)
{
	return (struct file_remark){ .reason = rows->fault, .name = rows->fault_name };
}

bool file_rows_unknown(const struct file_rows *rows, struct file_remark *ret)
{
	if (rows->unknown_count == 0)
		return false;
	*ret = (struct file_remark){
		.reason = FILE_UNKNOWN_NAMES,
		.name = rows->unknown[0],
		.others = rows->unknown_count - 1,
	};
	return true;
}

static void write_name(char name[NAME_SIZE], const char *table, const char *column)
{
	snprintf(name, NAME_SIZE, "%s%s%s", table, column ? "." : "", column ? column : "");
}

static void add_unknown(struct file_rows *rows, const char *table, const char *column)
{
	char name[NAME_SIZE];

	write_name(name, table, column);
	for (unsigned int i = 0; i < rows->unknown_count; i++)
		if (!strcmp(rows->unknown[i], name))
			return;
	if (rows->unknown_count < UNKNOWN_MAX)
		memcpy(rows->unknown[rows->unknown_count++], name, sizeof(name));
}

static int fault(struct file_rows *rows, enum file_reason reason, const char *table,
		 const char *column)
{
	rows->fault = reason;
	write_name(rows->fault_name, table, column);
	return -EBADMSG;
}

/* The recording's own table, or one that is recorded; NULL: neither. */
static const struct row_table *find_table(const char *name)
{
	const struct row_table *table = row_table_find(name);

	if (!strcmp(name, file_facts_table.name))
		return &file_facts_table;
	return table && table->recorded != ROW_RECORDED_NEVER ? table : NULL;
}

static const struct row_column *column_of(const struct row_table *table, const char *name)
{
	for (size_t i = 0; i < table->count; i++)
		if (!strcmp(table->column[i].name, name))
			return &table->column[i];
	return NULL;
}

/* By its name, or by that of older recordings. */
static const struct row_column *find_column(const struct row_table *table, const char *name,
					    bool *ret_gone)
{
	static const struct {
		const char *table, *was, *is;
	} renamed[] = {
		/* How far an estimate is off followed from sums over windows. */
		{ "watch", "missed_missed", "error2" },
		{ "watch", "missed_ms", NULL },
		{ "watch", "ms_ms", NULL },
	};

	*ret_gone = false;
	for (size_t i = 0; i < ARRAY_SIZE(renamed); i++) {
		if (strcmp(table->name, renamed[i].table) || strcmp(name, renamed[i].was))
			continue;
		*ret_gone = !renamed[i].is;
		return renamed[i].is ? column_of(table, renamed[i].is) : NULL;
	}
	return column_of(table, name);
}

static enum sbt_value_type type_of(const struct row_column *column)
{
	if (!*column->type)
		return SBT_NULL;
	return strncmp(column->type, "TEXT", strlen("TEXT")) ? SBT_INTEGER : SBT_TEXT;
}

/* 1: there are columns to insert. */
static int make_plan(struct file_rows *rows, const struct sbt_view *view,
		     const struct row_table *table, struct plan *plan)
{
	const struct row_column *column[SBT_ROW_COLUMNS_MAX];
	int count = 0, r;

	for (size_t i = 0; i < sbt_view_column_count(view); i++) {
		const char *name = sbt_view_column(view, i);
		bool gone;
		const struct row_column *known = find_column(table, name, &gone);

		if (!known) {
			if (!gone)
				add_unknown(rows, table->name, name);
			continue;
		}
		plan->type[i] = type_of(known);
		column[count++] = known;
		plan->parameter[i] = count;
	}
	if (count == 0)
		return 0;
	r = sql_prepare_made(rows->db, row_sql_replace(table, column, (size_t)count), &plan->stmt);
	return r < 0 ? r : 1;
}

static int bind_value(const struct plan *plan, size_t i, const struct sbt_value *value)
{
	int parameter = plan->parameter[i];

	if (value->type == SBT_NULL || parameter == 0)
		return 0;
	if (plan->type[i] != SBT_NULL && plan->type[i] != value->type)
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
	int r;

	for (size_t i = 0; i < sbt_view_column_count(view); i++)
		if (bind_value(plan, i, &value[i]) < 0)
			return fault(rows,
				     value[i].type == SBT_TEXT ? FILE_BAD_TEXT : FILE_BAD_NUMBER,
				     sbt_view_table(view), sbt_view_column(view, i));
	r = sql_run(plan->stmt);
	/* Of a constraint, which a NULL breaks. */
	return r == -EINVAL ? fault(rows, FILE_BAD_ROW, sbt_view_table(view), NULL) : r;
}

static int add_rows(struct file_rows *rows, struct sbt_view *view, const struct row_table *table)
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
	const struct row_table *table;
	int r = sbt_view_new(data, size, &view);

	if (r == -EBADMSG)
		rows->fault = FILE_BAD_BLOCK;
	if (r < 0)
		return r;
	table = find_table(sbt_view_table(view));
	if (table)
		return add_rows(rows, view, table);
	add_unknown(rows, sbt_view_table(view), NULL);
	return 0;
}
