/* Chunk_data: a chunk is read by a statement of its own, whose error is the chunk's alone. The
 * statement belongs to the one that calls: SQLite keeps it with the constant first argument. */
#include "core/store/chunk_data.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "core/base/vector.h"
#include "core/sbt/sbt.h"
#include "core/store/sql.h"

enum { DATA, PROCESS, STREAM, KIND, OPS, FIRST, LAST };

#define OF(columns) "SELECT " columns " FROM main.chunk WHERE id=?"
#define TEXT	    OF("data, process, stream, kind, ops, first_ns, last_ns")
#define OPS_TEXT    OF("ops")

struct damage {
	sqlite3 *db;
	int64_t *id;
	size_t count, room;
	uint64_t ops;
};

static void damage_free(void *data)
{
	struct damage *damage = data;

	free(damage->id);
	free(damage);
}

static bool is_known(const struct damage *damage, int64_t id)
{
	for (size_t i = 0; i < damage->count; i++)
		if (damage->id[i] == id)
			return true;
	return false;
}

/* The number of ops lies elsewhere than the data, unless that page is damaged as well: one then
 * stands for them all. */
static int note(struct damage *damage, int64_t id)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	int64_t ops = 0;

	if (is_known(damage, id))
		return 0;
	if (VECTOR_ROOM(damage->id, damage->room, damage->count + 1) < 0)
		return -ENOMEM;
	damage->id[damage->count++] = id;
	if (sql_prepare(damage->db, OPS_TEXT, &stmt) == 0) {
		sql_bind(stmt, id);
		(void)sql_integer(stmt, &ops);
	}
	damage->ops += ops > 0 && ops <= SBT_OPS_MAX ? (uint64_t)ops : 1;
	return 0;
}

/* The checksum is that of the bytes; the row says what they are of. */
static bool is_whole(sqlite3_stmt *row, const void *data)
{
	struct sbt_info info;

	return sbt_check(data, (size_t)sqlite3_column_bytes(row, DATA), &info) == 0 &&
	       info.process == sqlite3_column_int64(row, PROCESS) &&
	       info.stream == sqlite3_column_int64(row, STREAM) &&
	       info.kind == sqlite3_column_int64(row, KIND) &&
	       info.count == sqlite3_column_int64(row, OPS) &&
	       (int64_t)info.first_ns == sqlite3_column_int64(row, FIRST) &&
	       (int64_t)info.last_ns == sqlite3_column_int64(row, LAST);
}

static void finalize(void *stmt)
{
	sqlite3_finalize(stmt);
}

static int statement(sqlite3_context *context, sqlite3_stmt **ret)
{
	struct damage *damage = sqlite3_user_data(context);
	sqlite3_stmt *stmt = sqlite3_get_auxdata(context, 0);
	int r;

	if (!stmt) {
		r = sql_prepare(damage->db, TEXT, &stmt);
		if (r < 0)
			return r;
		sqlite3_set_auxdata(context, 0, stmt, finalize);
		/* It is gone at once if there is no memory for it. */
		if (sqlite3_get_auxdata(context, 0) != stmt)
			return -ENOMEM;
	}
	*ret = stmt;
	return 0;
}

static int give(sqlite3_context *context, sqlite3_stmt *row, int64_t id)
{
	struct damage *damage = sqlite3_user_data(context);
	const void *data;

	sql_bind(row, id);
	switch (sqlite3_step(row)) {
	case SQLITE_ROW:
		data = sqlite3_column_blob(row, DATA);
		if (!data)
			return 0; /* lost from a recording, and counted */
		if (!is_whole(row, data))
			return note(damage, id);
		sqlite3_result_blob(context, data, sqlite3_column_bytes(row, DATA),
				    SQLITE_TRANSIENT);
		return 0;
	case SQLITE_DONE:
		return 0;
	default:
		return sql_error(damage->db) == -EBADMSG ? note(damage, id) : -EIO;
	}
}

static void chunk_data(sqlite3_context *context, int count, sqlite3_value **value)
{
	struct damage *damage = sqlite3_user_data(context);
	sqlite3_stmt *row;
	int r = statement(context, &row);

	if (r == 0) {
		r = give(context, row, sqlite3_value_int64(value[1]));
		if (r == -EIO)
			sqlite3_result_error_code(context, sqlite3_extended_errcode(damage->db));
		sqlite3_reset(row);
	}
	if (r == -ENOMEM)
		sqlite3_result_error_nomem(context);
}

static void damaged_ops(sqlite3_context *context, int count, sqlite3_value **value)
{
	const struct damage *damage = sqlite3_user_data(context);

	sqlite3_result_int64(context, (int64_t)damage->ops);
}

int chunk_data_register(sqlite3 *db)
{
	const int flags = SQLITE_UTF8 | SQLITE_INNOCUOUS;
	struct damage *damage = calloc(1, sizeof(*damage));

	if (!damage)
		return -ENOMEM;
	damage->db = db;
	/* SQLite frees it, even on failure. */
	if (sqlite3_create_function_v2(db, "chunk_data", 2, flags, damage, chunk_data, NULL, NULL,
				       damage_free) != SQLITE_OK ||
	    sqlite3_create_function_v2(db, "damaged_ops", 0, flags, damage, damaged_ops, NULL, NULL,
				       NULL) != SQLITE_OK)
		return sql_error(db);
	return 0;
}
