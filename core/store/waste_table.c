/* Waste_table: all its rows are computed when it is opened. */
#include "core/store/waste_table.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/limits.h"
#include "core/store/sql.h"
#include "core/store/table_function.h"
#include "core/store/wasted.h"
#include "core/waste/waste.h"

struct cursor {
	struct table_function_cursor base;
	struct sums rows;
};

enum { ARGUMENTS = 4, FIRST_ARGUMENT = 12 };

static const char declaration[] =
	"CREATE TABLE waste(process INTEGER, pattern INTEGER, certainty INTEGER, kind INTEGER,"
	" detail INTEGER, fn INTEGER, device INTEGER, stack INTEGER, count INTEGER, bytes INTEGER,"
	" lost_ns INTEGER, held_ns INTEGER, boot HIDDEN, since HIDDEN, until HIDDEN, pid HIDDEN)";

static const char processes_text[] =
	"SELECT DISTINCT process FROM chunk WHERE boot = ?1 AND first_ns <= ?3 AND last_ns >= ?2"
	" AND (?4 IS NULL OR process IN (SELECT id FROM process WHERE boot = ?1 AND pid = ?4))";

static int waste_fail(struct table_function_table *table, int error)
{
	if (error == -ENOMEM)
		return SQLITE_NOMEM;
	if (error == -EINTR || sqlite3_errcode(table->db) == SQLITE_INTERRUPT)
		return SQLITE_INTERRUPT;
	table_function_say(table, sqlite3_mprintf("a chunk is damaged"));
	return SQLITE_CORRUPT_VTAB;
}

static int waste_fill(struct table_function_cursor *base, sqlite3_stmt *processes,
		      sqlite3_value *const *argument)
{
	struct cursor *cursor = (struct cursor *)base;
	struct table_function_table *table = (struct table_function_table *)base->base.pVtab;
	uint64_t since_ns = (uint64_t)sqlite3_value_int64(argument[1]),
		 until_ns = (uint64_t)sqlite3_value_int64(argument[2]);
	uint64_t *left_out = table->data;
	int code, r = 0;

	cursor->rows = WASTE_ROWS;
	*left_out = 0;
	while ((code = sqlite3_step(processes)) == SQLITE_ROW && r == 0)
		r = wasted_add(table->db, (uint32_t)sqlite3_column_int64(processes, 0), since_ns,
			       until_ns, table->bound, &cursor->rows, left_out);
	if (r < 0)
		return waste_fail(table, r);
	base->count = cursor->rows.count;
	return code == SQLITE_DONE ? SQLITE_OK : code;
}

static void waste_column(const struct table_function_cursor *base, sqlite3_context *context,
			 int number)
{
	const struct waste_row *row = sums_row(&((const struct cursor *)base)->rows, base->at);
	const struct waste_key *key = &row->key;
	const int64_t values[FIRST_ARGUMENT] = {
		key->process,	     key->pattern,	    key->certainty,
		key->kind,	     key->detail,	    key->fn,
		key->device,	     (int64_t)key->stack,   (int64_t)row->count,
		(int64_t)row->bytes, (int64_t)row->lost_ns, (int64_t)row->held_ns,
	};

	sqlite3_result_int64(context, values[number]);
}

static void waste_clear(struct table_function_cursor *base)
{
	sums_release(&((struct cursor *)base)->rows);
}

static const struct table_function function = {
	.name = "waste",
	.declaration = declaration,
	.takes = "waste takes boot, since, until and pid",
	.first_argument = FIRST_ARGUMENT,
	.argument_count = ARGUMENTS,
	.cost = 1e7,
	.rows = 100,
	.cursor_bytes = sizeof(struct cursor),
	.select = processes_text,
	.fill = waste_fill,
	.column = waste_column,
	.clear = waste_clear,
};

static const struct number_text {
	const char *name;
	const char *(*text)(uint8_t number);
} texts[] = {
	{ "waste_pattern", waste_pattern_name },
	{ "waste_advice", waste_pattern_advice },
	{ "certainty", certainty_name },
};

static void text_of(sqlite3_context *context, int count, sqlite3_value **value)
{
	const struct number_text *text = sqlite3_user_data(context);
	int64_t number = sqlite3_value_int64(value[0]);

	if (number >= 0 && number <= UINT8_MAX)
		sqlite3_result_text(context, text->text((uint8_t)number), -1, SQLITE_STATIC);
}

static void take_left_out(sqlite3_context *context, int count, sqlite3_value **value)
{
	uint64_t *left_out = sqlite3_user_data(context);

	sqlite3_result_int64(context, (int64_t)*left_out);
	*left_out = 0;
}

int waste_table_register(sqlite3 *db)
{
	const int flags = SQLITE_UTF8 | SQLITE_INNOCUOUS;
	uint64_t *left_out = calloc(1, sizeof(*left_out));

	if (!left_out)
		return -ENOMEM;
	/* SQLite frees it with the connection, even on failure. */
	if (sqlite3_create_function_v2(db, "waste_left_out", 0, flags, left_out, take_left_out,
				       NULL, NULL, free) != SQLITE_OK)
		return sql_error(db);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (sqlite3_create_function_v2(db, texts[i].name, 1, flags | SQLITE_DETERMINISTIC,
					       (void *)&texts[i], text_of, NULL, NULL,
					       NULL) != SQLITE_OK)
			return sql_error(db);
	return table_function_register(db, &function, LIMIT_WASTE_OPS, left_out);
}
