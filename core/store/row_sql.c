/* Row_sql: each statement is a list of columns between fixed words. A list is made of a pattern, in
 * which '$' is the column's name. */
#include "core/store/row_sql.h"

#include <stdio.h>
#include <string.h>

#include "core/base/time.h"
#include "core/store/sql.h"

/* How a column is merged with the row that is there, and how several rows become one. */
static const struct {
	const char *update, *sum;
} merges[] = {
	[ROW_REPLACE] = { "$=excluded.$", NULL },
	[ROW_SUM] = { "$=$+excluded.$", "sum($)" },
	[ROW_MIN] = { "$=min($,excluded.$)", "min($)" },
	[ROW_MAX] = { "$=max($,excluded.$)", "max($)" },
	[ROW_MIN_TIMED] = { "$=CASE WHEN timed=0 THEN excluded.$ WHEN excluded.timed=0 THEN $"
			    " ELSE min($,excluded.$) END",
			    "coalesce(min($) FILTER (WHERE timed>0),0)" },
	[ROW_KEEP] = { NULL, NULL },
	[ROW_KEY] = { NULL, "$" },
};

static void append(sqlite3_str *sql, const char *pattern, const char *name)
{
	for (; *pattern; pattern++) {
		if (*pattern == '$')
			sqlite3_str_appendall(sql, name);
		else
			sqlite3_str_appendchar(sql, 1, *pattern);
	}
}

/* One more of a list: `between` stands before all but the first. */
static void append_next(sqlite3_str *sql, bool *any, const char *between, const char *pattern,
			const char *name)
{
	if (*any)
		sqlite3_str_appendall(sql, between);
	*any = true;
	append(sql, pattern, name);
}

static unsigned int key_count(const struct row_table *table)
{
	unsigned int count = 0;

	for (size_t i = 0; i < table->count; i++)
		count += table->column[i].merge == ROW_KEY;
	return count;
}

static void append_keys(sqlite3_str *sql, const struct row_table *table, const char *between,
			const char *pattern)
{
	bool any = false;

	for (size_t i = 0; i < table->count; i++)
		if (table->column[i].merge == ROW_KEY)
			append_next(sql, &any, between, pattern, table->column[i].name);
}

static void append_updates(sqlite3_str *sql, const struct row_table *table)
{
	bool any = false;

	sqlite3_str_appendall(sql, " ON CONFLICT DO UPDATE SET ");
	for (size_t i = 0; i < table->count; i++) {
		const struct row_column *column = &table->column[i];

		if (column->source != ROW_OWN && merges[column->merge].update)
			append_next(sql, &any, ",", merges[column->merge].update, column->name);
	}
}

/* A key of one column is SQLite's own number of the row. */
char *row_sql_create(const struct row_table *table)
{
	sqlite3_str *sql = sqlite3_str_new(NULL);
	bool any = false, single = key_count(table) == 1;

	sqlite3_str_appendf(sql, "CREATE TABLE %s(", table->name);
	for (size_t i = 0; i < table->count; i++) {
		append_next(sql, &any, ", ", "$ ", table->column[i].name);
		sqlite3_str_appendall(sql, table->column[i].type);
		if (single && table->column[i].merge == ROW_KEY)
			sqlite3_str_appendall(sql, " PRIMARY KEY");
	}
	if (!single) {
		sqlite3_str_appendall(sql, ", PRIMARY KEY(");
		append_keys(sql, table, ", ", "$");
		sqlite3_str_appendall(sql, ")");
	}
	sqlite3_str_appendf(sql, ")%s; %s", single ? "" : " WITHOUT ROWID",
			    table->indexes ? table->indexes : "");
	return sqlite3_str_finish(sql);
}

char *row_sql_write(const struct row_table *table)
{
	sqlite3_str *sql = sqlite3_str_new(NULL);
	bool any = false, any_value = false;

	sqlite3_str_appendf(sql, "INSERT INTO %s(", table->name);
	for (size_t i = 0; i < table->count; i++)
		if (table->column[i].source != ROW_OWN)
			append_next(sql, &any, ",", "$", table->column[i].name);
	sqlite3_str_appendall(sql, ") VALUES(");
	for (size_t i = 0; i < table->count; i++)
		if (table->column[i].source != ROW_OWN)
			append_next(sql, &any_value, ",", "?", NULL);
	sqlite3_str_appendall(sql, ")");
	append_updates(sql, table);
	return sqlite3_str_finish(sql);
}

char *row_sql_replace(const struct row_table *table, const struct row_column *const *column,
		      size_t count)
{
	sqlite3_str *sql = sqlite3_str_new(NULL);
	bool any = false, any_value = false;

	sqlite3_str_appendf(sql, "INSERT OR REPLACE INTO %s(", table->name);
	for (size_t i = 0; i < count; i++)
		append_next(sql, &any, ",", "$", column[i]->name);
	sqlite3_str_appendall(sql, ") VALUES(");
	for (size_t i = 0; i < count; i++)
		append_next(sql, &any_value, ",", "?", NULL);
	sqlite3_str_appendall(sql, ")");
	return sqlite3_str_finish(sql);
}

char *row_sql_delete(const struct row_table *table)
{
	sqlite3_str *sql = sqlite3_str_new(NULL);

	sqlite3_str_appendf(sql, "DELETE FROM %s WHERE ", table->name);
	append_keys(sql, table, " AND ", "$=?");
	return sqlite3_str_finish(sql);
}

static bool is_place(const struct row_column *column)
{
	return !strcmp(column->name, "boot") || !strcmp(column->name, "second");
}

char *row_sql_condense(const struct row_table *table)
{
	sqlite3_str *sql = sqlite3_str_new(NULL);
	bool any = true, any_group = false;

	sqlite3_str_appendf(sql, "INSERT INTO %s(boot,second", table->name);
	for (size_t i = 0; i < table->count; i++)
		if (!is_place(&table->column[i]))
			append_next(sql, &any, ",", "$", table->column[i].name);
	sqlite3_str_appendall(sql, ") SELECT ?1,?4");
	for (size_t i = 0; i < table->count; i++)
		if (!is_place(&table->column[i]))
			append_next(sql, &any, ",", merges[table->column[i].merge].sum,
				    table->column[i].name);
	sqlite3_str_appendf(sql, " FROM %s WHERE boot=?1 AND second BETWEEN ?2 AND ?3 GROUP BY ",
			    table->name);
	for (size_t i = 0; i < table->count; i++)
		if (table->column[i].merge == ROW_KEY && !is_place(&table->column[i]))
			append_next(sql, &any_group, ",", "$", table->column[i].name);
	append_updates(sql, table);
	return sqlite3_str_finish(sql);
}

char *row_sql_select(const struct row_table *table, const char *from)
{
	sqlite3_str *sql = sqlite3_str_new(NULL);
	bool any = false;

	sqlite3_str_appendall(sql, "SELECT ");
	for (size_t i = 0; i < table->count; i++)
		if (!(table->column[i].flags & ROW_UNRECORDED))
			append_next(sql, &any, ",", "$", table->column[i].name);
	sqlite3_str_appendf(sql, " %s", from);
	return sqlite3_str_finish(sql);
}

int64_t row_number(const struct row_column *column, const void *row, const struct row_given *given)
{
	const void *at = (const char *)row + column->offset;

	switch (column->source) {
	case ROW_BOOT:
		return given->boot;
	case ROW_BATCH:
		return given->batch;
	case ROW_U8:
		return *(const uint8_t *)at;
	case ROW_U16:
		return *(const uint16_t *)at;
	case ROW_U32:
		return *(const uint32_t *)at;
	case ROW_I16:
		return *(const int16_t *)at;
	case ROW_I32:
		return *(const int32_t *)at;
	case ROW_64:
		return *(const int64_t *)at;
	case ROW_SECOND:
		return (int64_t)(*(const uint64_t *)at / (uint64_t)NS_PER_S);
	default:
		return 0;
	}
}

/* As nvidia-smi writes them; empty: it is not known. */
static void format_uuid(const uint8_t *uuid, char *out)
{
	static const uint8_t groups[] = { 4, 2, 2, 2, 6 }, unknown[16];

	*out = '\0';
	if (memcmp(uuid, unknown, sizeof(unknown)) == 0)
		return;
	out += sprintf(out, "GPU");
	for (size_t i = 0; i < sizeof(groups); i++) {
		*out++ = '-';
		for (uint8_t k = 0; k < groups[i]; k++)
			out += sprintf(out, "%02x", *uuid++);
	}
}

static void bind_chars(sqlite3_stmt *stmt, int parameter, const char *chars, size_t size)
{
	char text[64];

	size = size < sizeof(text) ? size : sizeof(text) - 1;
	memcpy(text, chars, size);
	text[size] = '\0';
	sql_bind_text(stmt, parameter, text);
}

static void bind_column(const struct row_column *column, const void *row,
			const struct row_given *given, sqlite3_stmt *stmt, int parameter)
{
	const char *at = (const char *)row + column->offset;
	int64_t number;
	char uuid[48];

	switch (column->source) {
	case ROW_CHARS:
		bind_chars(stmt, parameter, at, column->size);
		return;
	case ROW_TEXT:
		sql_bind_text(stmt, parameter, *(const char *const *)at);
		return;
	case ROW_UUID:
		format_uuid((const uint8_t *)at, uuid);
		sql_bind_text(stmt, parameter, uuid);
		return;
	default:
		number = row_number(column, row, given);
	}
	if ((column->flags & ROW_ZERO_IS_NULL && number == 0) ||
	    (column->flags & ROW_MINUS_ONE_IS_NULL && number == -1))
		sqlite3_bind_null(stmt, parameter);
	else
		sqlite3_bind_int64(stmt, parameter, number);
}

void row_bind(const struct row_table *table, const void *row, const struct row_given *given,
	      sqlite3_stmt *stmt)
{
	int parameter = 0;

	for (size_t i = 0; i < table->count; i++)
		if (table->column[i].source != ROW_OWN)
			bind_column(&table->column[i], row, given, stmt, ++parameter);
}

void row_bind_key(const struct row_table *table, const void *row, const struct row_given *given,
		  sqlite3_stmt *stmt)
{
	int parameter = 0;

	for (size_t i = 0; i < table->count; i++)
		if (table->column[i].merge == ROW_KEY)
			bind_column(&table->column[i], row, given, stmt, ++parameter);
}
