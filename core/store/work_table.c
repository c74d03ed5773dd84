/* Work_table: reads the rows of a window once, in storage order, into a hash table of sums, and
 * returns these in the order in which they were first met. */
#include "core/store/work_table.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
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

struct sums {
	struct sum *sum;
	uint32_t *slot; /* number of a sum and 1, 0: empty; twice as many as sums at the least */
	uint32_t count, capacity;
};

struct cursor {
	sqlite3_vtab_cursor base;
	struct sums sums;
	uint32_t at;
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
	" AND NOT (kind = ?6 AND detail = ?7)";

static size_t hash(const struct key *key)
{
	const uint64_t prime = 0x9e3779b97f4a7c15u;
	uint64_t h = (uint64_t)key->name * prime ^ (uint64_t)key->stack;

	h = h * prime ^ ((uint64_t)key->process << 32 | key->stream);
	h = h * prime ^ ((uint64_t)key->kernel << 32 | key->bucket);
	return h * prime >> 24;
}

static uint32_t *find_slot(const struct sums *sums, const struct key *key)
{
	size_t mask = 2 * (size_t)sums->capacity - 1, at = hash(key) & mask;

	while (sums->slot[at] && memcmp(&sums->sum[sums->slot[at] - 1].key, key, sizeof(*key)) != 0)
		at = (at + 1) & mask;
	return &sums->slot[at];
}

static void sums_clear(struct sums *sums)
{
	free(sums->sum);
	free(sums->slot);
	*sums = (struct sums){ 0 };
}

static int grow(struct sums *sums)
{
	uint32_t capacity = sums->capacity ? 2 * sums->capacity : 1024;
	struct sum *sum;

	if (capacity > LIMIT_QUERY_SUMS)
		return SQLITE_INTERRUPT; /* the remedy is the same as if it took too long */
	sum = reallocarray(sums->sum, capacity, sizeof(*sum));
	if (!sum)
		return SQLITE_NOMEM;
	sums->sum = sum;
	free(sums->slot);
	sums->capacity = capacity;
	sums->slot = calloc(2 * (size_t)capacity, sizeof(*sums->slot));
	if (!sums->slot)
		return SQLITE_NOMEM;
	for (uint32_t i = 0; i < sums->count; i++)
		*find_slot(sums, &sums->sum[i].key) = i + 1;
	return SQLITE_OK;
}

/* The numbers of a recording may be anything. */
static void add_to(int64_t *sum, int64_t value)
{
	*sum = (int64_t)((uint64_t)*sum + (uint64_t)value);
}

static int add(struct sums *sums, const struct sum *row)
{
	uint32_t *slot;
	struct sum *sum;

	if (sums->count == sums->capacity) {
		int r = grow(sums);

		if (r != SQLITE_OK)
			return r;
	}
	slot = find_slot(sums, &row->key);
	if (!*slot) {
		sums->sum[sums->count] = *row;
		*slot = ++sums->count;
		return SQLITE_OK;
	}
	sum = &sums->sum[*slot - 1];
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

static const struct table_function function = {
	.name = "work_sum",
	.declaration = declaration,
	.takes = "work_sum takes boot, first, last, pid, device and by",
	.first_argument = FIRST_ARGUMENT,
	.argument_count = ARGUMENTS,
	.cost = 1e6,
	.rows = 1000,
	.cursor_bytes = sizeof(struct cursor),
};

static int work_close(sqlite3_vtab_cursor *base)
{
	struct cursor *cursor = (struct cursor *)base;

	sums_clear(&cursor->sums);
	free(cursor);
	return SQLITE_OK;
}

static int work_filter(sqlite3_vtab_cursor *base, int number, const char *text, int count,
		       sqlite3_value **value)
{
	struct cursor *cursor = (struct cursor *)base;
	struct table_function_table *table = (struct table_function_table *)base->pVtab;
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *rows = NULL;
	int r = sqlite3_prepare_v2(table->db, rows_text, -1, &rows, NULL);

	sums_clear(&cursor->sums);
	cursor->at = 0;
	if (r != SQLITE_OK)
		return r;
	for (int i = 0; i < ARGUMENTS - 1; i++)
		sqlite3_bind_value(rows, i + 1, value[i]);
	sqlite3_bind_int(rows, ARGUMENTS, OP_GRAPH);
	sqlite3_bind_int(rows, ARGUMENTS + 1, WORK_GRAPH_PARTS);
	return add_rows(&cursor->sums, rows, sqlite3_value_int(value[ARGUMENTS - 1]));
}

static int work_next(sqlite3_vtab_cursor *base)
{
	((struct cursor *)base)->at++;
	return SQLITE_OK;
}

static int work_eof(sqlite3_vtab_cursor *base)
{
	struct cursor *cursor = (struct cursor *)base;

	return cursor->at >= cursor->sums.count;
}

static int work_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int number)
{
	struct cursor *cursor = (struct cursor *)base;
	const struct sum *sum = &cursor->sums.sum[cursor->at];
	const struct key *key = &sum->key;
	const int64_t values[FIRST_ARGUMENT] = {
		key->process, key->kernel,   key->name,	  key->stack,  key->stream,   key->bucket,
		sum->count,   sum->total_ns, sum->min_ns, sum->max_ns, sum->delay_ns,
	};

	if (number < FIRST_ARGUMENT)
		sqlite3_result_int64(context, values[number]);
	return SQLITE_OK;
}

static int work_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret)
{
	*ret = ((struct cursor *)base)->at;
	return SQLITE_OK;
}

static const sqlite3_module module = {
	.xConnect = table_function_connect,
	.xDisconnect = table_function_disconnect,
	.xBestIndex = table_function_best_index,
	.xOpen = table_function_open,
	.xClose = work_close,
	.xFilter = work_filter,
	.xNext = work_next,
	.xEof = work_eof,
	.xColumn = work_column,
	.xRowid = work_rowid,
};

int work_table_register(sqlite3 *db)
{
	return table_function_register(db, &function, &module, 0);
}
