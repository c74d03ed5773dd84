/* Work_table: reads the rows of a window once, in storage order, and adds them up; the sums are in
 * the order in which they were first met. */
#include "core/store/work_table.h"

#include "core/base/sums.h"
#include "core/limits.h"
#include "core/model/core.h"
#include "core/store/sql.h"
#include "core/store/table_function.h"

enum { BY_STACK = 1, BY_STREAM = 2 };

struct key {
	int64_t name, stack;
	uint32_t process, stream;
	uint32_t bucket, kernel;
};

/* The values are in the order of their columns. */
struct sum {
	struct key key;
	int64_t count, total_ns, min_ns, max_ns, delay_ns;
};

struct cursor {
	struct table_function_cursor base;
	struct sums sums;
};

enum { ARGUMENTS = 6, FIRST_ARGUMENT = 11 };

static const char declaration[] =
	"CREATE TABLE work_sum(process INTEGER, kernel INTEGER, name INTEGER, stack INTEGER,"
	" stream INTEGER, bucket INTEGER, count INTEGER, total_ns INTEGER, min_ns INTEGER,"
	" max_ns INTEGER, delay_ns INTEGER, boot HIDDEN, first HIDDEN, last HIDDEN, pid HIDDEN,"
	" device HIDDEN, by HIDDEN)";

static const char rows_text[] =
	"SELECT process, kind, name, stack, stream, bucket, count, total_ns, min_ns, max_ns,"
	" delay_ns FROM work WHERE boot = ?1 AND second BETWEEN ?2 AND ?3"
	" AND (?4 IS NULL OR process IN (SELECT id FROM process WHERE boot = ?1 AND pid = ?4))"
	" AND (?5 IS NULL OR device = ?5)"
	/* Not the time of a graph whose parts have rows of their own. */
	" AND NOT (kind = ?7 AND detail = ?8)";

/* The numbers of a recording may be anything. */
static void add_to(int64_t *sum, int64_t value)
{
	*sum = (int64_t)((uint64_t)*sum + (uint64_t)value);
}

static int add(struct sums *sums, const struct sum *row)
{
	uint32_t before = sums->count;
	struct sum *sum = sums_get(sums, &row->key, LIMIT_QUERY_SUMS);

	if (!sum) /* the remedy for too many is the same as if it took too long */
		return before == LIMIT_QUERY_SUMS ? SQLITE_INTERRUPT : SQLITE_NOMEM;
	if (sums->count > before) {
		*sum = *row;
		return SQLITE_OK;
	}
	add_to(&sum->count, row->count);
	add_to(&sum->total_ns, row->total_ns);
	sum->min_ns = row->min_ns < sum->min_ns ? row->min_ns : sum->min_ns;
	sum->max_ns = row->max_ns > sum->max_ns ? row->max_ns : sum->max_ns;
	add_to(&sum->delay_ns, row->delay_ns);
	return SQLITE_OK;
}

static struct key read_key(sqlite3_stmt *row, int by)
{
	struct key key = { .process = (uint32_t)sqlite3_column_int64(row, 0) };

	if (sqlite3_column_int(row, 1) != OP_KERNEL)
		return key;
	key.kernel = 1;
	key.name = sqlite3_column_int64(row, 2);
	key.stack = by == BY_STACK ? sqlite3_column_int64(row, 3) : 0;
	key.stream = by == BY_STREAM ? (uint32_t)sqlite3_column_int64(row, 4) : 0;
	key.bucket = (uint32_t)sqlite3_column_int64(row, 5);
	return key;
}

static int add_rows(struct sums *sums, sqlite3_stmt *row, int by)
{
	int code, r = SQLITE_OK;

	while (r == SQLITE_OK && (code = sqlite3_step(row)) == SQLITE_ROW) {
		struct sum sum = {
			.key = read_key(row, by),
			.count = sqlite3_column_int64(row, 6),
			.total_ns = sqlite3_column_int64(row, 7),
			.min_ns = sqlite3_column_int64(row, 8),
			.max_ns = sqlite3_column_int64(row, 9),
			.delay_ns = sqlite3_column_int64(row, 10),
		};

		r = add(sums, &sum);
	}
	return r != SQLITE_OK || code == SQLITE_DONE ? r : code;
}

static int work_fill(struct table_function_cursor *base, sqlite3_stmt *rows,
		     sqlite3_value *const *argument)
{
	struct sums *sums = &((struct cursor *)base)->sums;
	int r;

	*sums = SUMS_OF(struct sum, count);
	sqlite3_bind_int(rows, ARGUMENTS + 1, OP_GRAPH);
	sqlite3_bind_int(rows, ARGUMENTS + 2, WORK_GRAPH_PARTS);
	r = add_rows(sums, rows, sqlite3_value_int(argument[ARGUMENTS - 1]));
	base->count = sums->count;
	return r;
}

static void work_column(const struct table_function_cursor *base, sqlite3_context *context,
			int number)
{
	const struct sum *sum = sums_row(&((const struct cursor *)base)->sums, base->at);
	const struct key *key = &sum->key;
	const int64_t values[FIRST_ARGUMENT] = {
		key->process, key->kernel,   key->name,	  key->stack,  key->stream,   key->bucket,
		sum->count,   sum->total_ns, sum->min_ns, sum->max_ns, sum->delay_ns,
	};

	sqlite3_result_int64(context, values[number]);
}

static void work_clear(struct table_function_cursor *base)
{
	sums_release(&((struct cursor *)base)->sums);
}

static const struct table_function function = {
	.name = "work_sum",
	.declaration = declaration,
	.takes = "work_sum takes boot, first, last, pid, device and by",
	.first_argument = FIRST_ARGUMENT,
	.argument_count = ARGUMENTS,
	.cost = 1e6,
	.rows = 1000,
	.cursor_bytes = sizeof(struct cursor),
	.select = rows_text,
	.fill = work_fill,
	.column = work_column,
	.clear = work_clear,
};

int work_table_register(sqlite3 *db)
{
	return table_function_register(db, &function, 0, NULL);
}
