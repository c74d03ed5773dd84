/* Live_table: reads the allocations once, in storage order, and adds them up; the sums are in the
 * order in which they were first met. */
#include "core/store/live_table.h"

#include "core/base/sums.h"
#include "core/limits.h"
#include "core/store/sql.h"
#include "core/store/table_function.h"

struct key {
	int64_t process, stack;
	int32_t fn, kind, device, unused;
};

struct sum {
	struct key key;
	int64_t bytes, count, oldest_ns;
	/* Of blocks of which it is known what was asked for: that, and what they have beyond. */
	int64_t requested, rounding;
};

struct cursor {
	struct table_function_cursor base;
	struct sums sums;
};

enum { ARGUMENTS = 3, FIRST_ARGUMENT = 10 };

static const char declaration[] =
	"CREATE TABLE live_sum(process INTEGER, stack INTEGER, fn INTEGER, kind INTEGER,"
	" device INTEGER, bytes INTEGER, count INTEGER, oldest_ns INTEGER, requested_bytes INTEGER,"
	" rounding_bytes INTEGER, boot HIDDEN, pid HIDDEN, until HIDDEN)";

/* Of one process by its index, of all without one. */
#define COLUMNS                                                                                    \
	"SELECT process, stack, fn, kind, device, bytes, start_ns, requested_bytes"                \
	" FROM allocation WHERE "
static const char rows_text[] =
	COLUMNS "?2 IS NULL AND start_ns <= ?3 UNION ALL " COLUMNS
		"process IN (SELECT id FROM process WHERE boot = ?1 AND pid = ?2)"
		" AND start_ns <= ?3";

/* Where there are too many, those of further stacks are added up without theirs. */
static struct sum *find(struct sums *sums, struct key *key)
{
	struct sum *sum = sums_get(sums, key, LIMIT_QUERY_SUMS);

	if (sum || sums->count < LIMIT_QUERY_SUMS)
		return sum;
	key->stack = 0;
	return sums_get(sums, key, 2 * LIMIT_QUERY_SUMS);
}

/* The numbers of a recording may be anything. */
static int64_t sum_of(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int add(struct sums *sums, struct key *key, sqlite3_stmt *row)
{
	int64_t bytes = sqlite3_column_int64(row, 5), start_ns = sqlite3_column_int64(row, 6);
	int64_t requested = sqlite3_column_int64(row, 7);
	uint32_t before = sums->count;
	struct sum *sum = find(sums, key);

	if (!sum)
		return SQLITE_NOMEM;
	if (sums->count > before || start_ns < sum->oldest_ns)
		sum->oldest_ns = start_ns;
	sum->bytes = sum_of(sum->bytes, bytes);
	if (requested) {
		sum->requested = sum_of(sum->requested, requested);
		sum->rounding =
			sum_of(sum->rounding, (int64_t)((uint64_t)bytes - (uint64_t)requested));
	}
	sum->count++;
	return SQLITE_OK;
}

static int live_fill(struct table_function_cursor *base, sqlite3_stmt *row,
		     sqlite3_value *const *argument)
{
	struct sums *sums = &((struct cursor *)base)->sums;
	int code, r = SQLITE_OK;

	*sums = SUMS_OF(struct sum, bytes);
	while (r == SQLITE_OK && (code = sqlite3_step(row)) == SQLITE_ROW) {
		struct key key = {
			.process = sqlite3_column_int64(row, 0),
			.stack = sqlite3_column_int64(row, 1),
			.fn = sqlite3_column_int(row, 2),
			.kind = sqlite3_column_int(row, 3),
			.device = sqlite3_column_int(row, 4),
		};

		r = add(sums, &key, row);
	}
	base->count = sums->count;
	return r != SQLITE_OK || code == SQLITE_DONE ? r : code;
}

static void live_column(const struct table_function_cursor *base, sqlite3_context *context,
			int number)
{
	const struct sum *sum = sums_row(&((const struct cursor *)base)->sums, base->at);
	const int64_t values[FIRST_ARGUMENT] = {
		sum->key.process, sum->key.stack, sum->key.fn,	  sum->key.kind,  sum->key.device,
		sum->bytes,	  sum->count,	  sum->oldest_ns, sum->requested, sum->rounding,
	};

	sqlite3_result_int64(context, values[number]);
}

static void live_clear(struct table_function_cursor *base)
{
	sums_release(&((struct cursor *)base)->sums);
}

static const struct table_function function = {
	.name = "live_sum",
	.declaration = declaration,
	.takes = "live_sum takes boot, pid and until",
	.first_argument = FIRST_ARGUMENT,
	.argument_count = ARGUMENTS,
	.cost = 1e6,
	.rows = 1000,
	.cursor_bytes = sizeof(struct cursor),
	.select = rows_text,
	.fill = live_fill,
	.column = live_column,
	.clear = live_clear,
};

int live_table_register(sqlite3 *db)
{
	return table_function_register(db, &function, 0, NULL);
}
