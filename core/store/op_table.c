/* Op_table: walks the chunks that a statement's constraints leave, decodes only the columns that
 * the statement uses, and returns op by op. xBestIndex writes the SQL that finds the chunks; a
 * constraint means there what it means in the statement, except that times are those of the whole
 * chunk: SQLite itself still checks each op's times. */
#include "core/store/op_table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/sbt/sbt.h"
#include "core/store/chunk_data.h"
#include "core/store/name_cache.h"
#include "core/store/names.h"
#include "core/store/sql.h"

struct op_table {
	sqlite3_vtab base;
	sqlite3 *db;
	struct sbt_codec *codec;
	struct names *names;
	struct name_cache *name_cache;
};

struct cursor {
	sqlite3_vtab_cursor base;
	sqlite3_stmt *chunks;
	char *sql;	  /* of `chunks` */
	uint32_t columns; /* of struct op, that are decoded */
	bool end;
	int64_t chunk, boot, pid;
	uint32_t at, count;
	struct op op[SBT_OPS_MAX];
};

/* name, columns of a chunk that it needs (bits), value. NULL if the condition before is false. */
#define BIT(identifier) (1u << SBT_COLUMN_##identifier)
#define INTEGERS(X)                                                                                \
	X(process, 0, true, op->process)                                                           \
	X(pid, 0, true, cursor->pid)                                                               \
	X(tid, BIT(TID), true, op->tid)                                                            \
	X(start_ns, BIT(START_NS), true, op->start_ns)                                             \
	X(end_ns, BIT(END_NS), op->end_ns, op->end_ns)                                             \
	X(duration_ns, BIT(START_NS) | BIT(END_NS), op->end_ns, op->end_ns - op->start_ns)         \
	X(gpu_start_ns, BIT(GPU_START_NS), op->gpu_start_ns, op->gpu_start_ns)                     \
	X(gpu_end_ns, BIT(GPU_END_NS), op->gpu_end_ns, op->gpu_end_ns)                             \
	X(device, BIT(DEVICE), true, op->device)                                                   \
	X(stream, 0, true, op->stream)                                                             \
	X(result, BIT(FLAGS) | BIT(RESULT), op->flags & OP_RETURNED, op->result)                   \
	X(bytes, BIT(BYTES), true, op->bytes)                                                      \
	X(address, BIT(ADDRESS), true, op->address)                                                \
	X(source, BIT(SOURCE), true, op->source)                                                   \
	X(handle, BIT(HANDLE), true, op->handle)                                                   \
	X(stack, BIT(STACK_ID), true, op->stack_id)                                                \
	X(live_bytes, BIT(LIVE_BYTES), true, op->live_bytes)                                       \
	X(correlation, BIT(CORRELATION), true, op->correlation)                                    \
	X(grid_x, BIT(GRID_X), true, op->grid[0])                                                  \
	X(grid_y, BIT(GRID_Y), true, op->grid[1])                                                  \
	X(grid_z, BIT(GRID_Z), true, op->grid[2])                                                  \
	X(block_x, BIT(BLOCK_X), true, op->block[0])                                               \
	X(block_y, BIT(BLOCK_Y), true, op->block[1])                                               \
	X(block_z, BIT(BLOCK_Z), true, op->block[2])                                               \
	X(shared_bytes, BIT(SHARED_BYTES), true, op->shared_bytes)                                 \
	X(flags, BIT(FLAGS), true, op->flags)                                                      \
	X(bounds, BIT(FLAGS), true, !!(op->flags & OP_BOUNDS))                                     \
	X(exact, BIT(FLAGS), true, !!(op->flags & OP_EXACT))                                       \
	X(captured, BIT(FLAGS), true, !!(op->flags & OP_CAPTURED))                                 \
	X(seen_ns, BIT(SEEN_NS), op->seen_ns, op->seen_ns)                                         \
	X(node, BIT(NODE), true, op->node)                                                         \
	X(graph, BIT(GRAPH), true, op->graph)                                                      \
	X(static_bytes, BIT(STATIC_BYTES), true, op->static_bytes)                                 \
	X(local_bytes, BIT(LOCAL_BYTES), true, op->local_bytes)                                    \
	X(registers, BIT(REGISTERS), true, op->registers)                                          \
	X(no_call, BIT(FLAGS), true, !!(op->flags & OP_NO_CALL))                                   \
	X(untimed, BIT(FLAGS), true, !!(op->flags & OP_UNTIMED))                                   \
	X(boot, 0, true, cursor->boot)

#define TEXTS(X)                                                                                   \
	X(kind, 0, NAMES_KIND, op->kind)                                                           \
	X(fn, BIT(FN), NAMES_FUNCTION, op->fn)                                                     \
	X(detail, BIT(DETAIL), NAMES_DETAIL, names_detail(op->kind, op->detail))

#define X(name, columns, condition, value)                                                         \
	static void get_##name(sqlite3_context *context, const struct cursor *cursor,              \
			       const struct op *op)                                                \
	{                                                                                          \
		if (condition)                                                                     \
			sqlite3_result_int64(context, (int64_t)(value));                           \
	}
INTEGERS(X)
#undef X

#define X(name, columns, list, value)                                                              \
	static void get_##name(sqlite3_context *context, const struct cursor *cursor,              \
			       const struct op *op)                                                \
	{                                                                                          \
		const struct op_table *table = (const struct op_table *)cursor->base.pVtab;        \
		const struct name_text *text = names_get(table->names, list, value);               \
                                                                                                   \
		if (text)                                                                          \
			sqlite3_result_text(context, text->text, text->size, SQLITE_STATIC);       \
	}
TEXTS(X)
#undef X

static void get_name(sqlite3_context *context, const struct cursor *cursor, const struct op *op)
{
	const struct op_table *table = (const struct op_table *)cursor->base.pVtab;
	int size;
	const char *text = name_cache_get(table->name_cache, op->name, &size);

	if (text)
		sqlite3_result_text(context, text, size, SQLITE_TRANSIENT);
}

static void get_chunk(sqlite3_context *context, const struct cursor *cursor, const struct op *op)
{
	sqlite3_result_int64(context, cursor->chunk);
}

enum {
	COLUMN_chunk,
#define X(name, ...) COLUMN_##name,
	INTEGERS(X) TEXTS(X)
#undef X
		COLUMN_name,
	COLUMN_COUNT
};
_Static_assert(COLUMN_COUNT <= 63, "SQLite says for each of 63 columns whether it is used");

static const struct {
	void (*get)(sqlite3_context *context, const struct cursor *cursor, const struct op *op);
	uint32_t columns;
} columns[] = {
	{ get_chunk, 0 },
#define X(name, needs, ...) { get_##name, needs },
	INTEGERS(X) TEXTS(X)
#undef X
		{ get_name, BIT(NAME) },
};

static const char declaration[] = "CREATE TABLE op(chunk INTEGER HIDDEN"
#define X(name, ...) ", " #name " INTEGER"
	INTEGERS(X)
#undef X
#define X(name, ...) ", " #name " TEXT"
		TEXTS(X)
#undef X
			", name TEXT)";

/* Which constraints exclude chunks, and how: %d is the number of the parameter. `exact`: the rest
 * needs no second check. `part`: roughly one chunk in how many stays. */
static const struct pushdown {
	int column;
	unsigned char operator;
	bool exact;
	double part;
	const char *condition;
} pushdowns[] = {
	{ COLUMN_process, SQLITE_INDEX_CONSTRAINT_EQ, true, 100, " AND c.process=?%d" },
	{ COLUMN_stream, SQLITE_INDEX_CONSTRAINT_EQ, true, 1000, " AND c.stream=?%d" },
	{ COLUMN_kind, SQLITE_INDEX_CONSTRAINT_EQ, true, 5,
	  " AND c.kind=(SELECT id FROM kind WHERE name=?%d)" },
	{ COLUMN_pid, SQLITE_INDEX_CONSTRAINT_EQ, true, 100,
	  " AND c.process IN (SELECT id FROM process WHERE pid=?%d)" },
	{ COLUMN_boot, SQLITE_INDEX_CONSTRAINT_EQ, true, 2, " AND c.boot=?%d" },
#define TIMES(column)                                                                              \
	{ column, SQLITE_INDEX_CONSTRAINT_GT, false, 10, " AND c.last_ns>?%d" },                   \
		{ column, SQLITE_INDEX_CONSTRAINT_GE, false, 10, " AND c.last_ns>=?%d" },          \
		{ column, SQLITE_INDEX_CONSTRAINT_LT, false, 10, " AND c.first_ns<?%d" },          \
		{ column, SQLITE_INDEX_CONSTRAINT_LE, false, 10, " AND c.first_ns<=?%d" },         \
	{                                                                                          \
		column, SQLITE_INDEX_CONSTRAINT_EQ, false, 1000,                                   \
			" AND ?%d BETWEEN c.first_ns AND c.last_ns"                                \
	}
	TIMES(COLUMN_start_ns),
	TIMES(COLUMN_end_ns),
#undef TIMES
/* A chunk ends with its last time of any kind, but starts with its first call. */
#define ENDS(column)                                                                               \
	{ column, SQLITE_INDEX_CONSTRAINT_GT, false, 10, " AND c.last_ns>?%d" },                   \
	{                                                                                          \
		column, SQLITE_INDEX_CONSTRAINT_GE, false, 10, " AND c.last_ns>=?%d"               \
	}
	ENDS(COLUMN_gpu_start_ns),
	ENDS(COLUMN_gpu_end_ns),
#undef ENDS
};

static int op_connect(sqlite3 *db, void *data, int count, const char *const *argument,
		      sqlite3_vtab **ret, char **ret_error)
{
	struct op_table *table;
	int r = sqlite3_declare_vtab(db, declaration);

	if (r != SQLITE_OK)
		return r;
	sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
	table = calloc(1, sizeof(*table));
	if (!table)
		return SQLITE_NOMEM;
	table->db = db;
	r = sbt_codec_new(&table->codec);
	if (r == 0)
		r = names_load(db, &table->names);
	if (r == 0)
		r = name_cache_new(db, &table->name_cache);
	if (r < 0) {
		names_free(table->names);
		sbt_codec_free(table->codec);
		free(table);
		*ret_error = r == -ENOMEM ? NULL : sqlite3_mprintf("no ops here: %s", strerror(-r));
		return r == -ENOMEM ? SQLITE_NOMEM : SQLITE_ERROR;
	}
	*ret = &table->base;
	return SQLITE_OK;
}

static int op_disconnect(sqlite3_vtab *base)
{
	struct op_table *table = (struct op_table *)base;

	name_cache_free(table->name_cache);
	names_free(table->names);
	sbt_codec_free(table->codec);
	free(table);
	return SQLITE_OK;
}

static const struct pushdown *find_pushdown(sqlite3_index_info *info, int number)
{
	for (size_t i = 0; i < ARRAY_SIZE(pushdowns); i++) {
		const struct pushdown *p = &pushdowns[i];

		if (info->aConstraint[number].usable &&
		    p->column == info->aConstraint[number].iColumn &&
		    p->operator== info->aConstraint[number].op && !sqlite3_stricmp(
			    sqlite3_vtab_collation(info, number), "BINARY"))
			return p;
	}
	return NULL;
}

static uint32_t columns_used(uint64_t used)
{
	uint32_t all = 0;

	for (int i = 0; i < COLUMN_COUNT; i++)
		if (used >> i & 1)
			all |= columns[i].columns;
	return all;
}

static int op_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
	sqlite3_str *sql = sqlite3_str_new(((struct op_table *)base)->db);
	uint32_t needs = columns_used(info->colUsed);
	double cost = 1e9;
	int arguments = 0;

	sqlite3_str_appendf(sql,
			    "SELECT c.id, c.ops, c.boot, c.process, c.stream, c.kind, %s, %s"
			    " FROM chunk c WHERE 1",
			    needs ? CHUNK_DATA("c.id") : "NULL",
			    info->colUsed >> COLUMN_pid & 1
				    ? "(SELECT pid FROM process WHERE id=c.process)"
				    : "NULL");
	for (int i = 0; i < info->nConstraint; i++) {
		const struct pushdown *p = find_pushdown(info, i);

		if (!p)
			continue;
		sqlite3_str_appendf(sql, p->condition, ++arguments);
		info->aConstraintUsage[i].argvIndex = arguments;
		info->aConstraintUsage[i].omit = p->exact;
		cost /= p->part;
	}
	info->estimatedCost = cost;
	info->estimatedRows = (sqlite3_int64)cost;
	info->idxNum = (int)needs;
	info->idxStr = sqlite3_str_finish(sql);
	info->needToFreeIdxStr = 1;
	return info->idxStr ? SQLITE_OK : SQLITE_NOMEM;
}

static int op_open(sqlite3_vtab *base, sqlite3_vtab_cursor **ret)
{
	struct cursor *cursor = malloc(sizeof(*cursor));

	if (!cursor)
		return SQLITE_NOMEM;
	/* The ops are left as they are until a chunk is read. */
	memset(cursor, 0, offsetof(struct cursor, op));
	*ret = &cursor->base;
	return SQLITE_OK;
}

static int op_close(sqlite3_vtab_cursor *base)
{
	struct cursor *cursor = (struct cursor *)base;

	sqlite3_finalize(cursor->chunks);
	free(cursor->sql);
	free(cursor);
	return SQLITE_OK;
}

static int damaged(struct op_table *table, const struct cursor *cursor)
{
	sqlite3_free(table->base.zErrMsg);
	table->base.zErrMsg = sqlite3_mprintf("chunk %lld is damaged", (long long)cursor->chunk);
	return SQLITE_CORRUPT_VTAB;
}

/* SQLite would forget its error message about the chunks. */
static int failed(struct cursor *cursor, int code)
{
	struct op_table *table = (struct op_table *)cursor->base.pVtab;

	sqlite3_free(table->base.zErrMsg);
	table->base.zErrMsg = sqlite3_mprintf("%s", sqlite3_errmsg(table->db));
	return code;
}

static int decode(struct cursor *cursor, sqlite3_stmt *row)
{
	struct op_table *table = (struct op_table *)cursor->base.pVtab;
	const void *data = sqlite3_column_blob(row, 6);
	struct sbt_info info;
	int r;

	if (!data) {
		cursor->count = 0; /* damaged, and counted */
		return SQLITE_OK;
	}
	r = sbt_decode(table->codec, data, (size_t)sqlite3_column_bytes(row, 6), cursor->columns,
		       cursor->op, &info);
	if (r == -ENOMEM)
		return SQLITE_NOMEM;
	return r < 0 || info.count != cursor->count ? damaged(table, cursor) : SQLITE_OK;
}

/* Without columns of its own a chunk's ops are all alike. */
static int fill(struct cursor *cursor, sqlite3_stmt *row)
{
	struct op op = {
		.process = (uint32_t)sqlite3_column_int64(row, 3),
		.stream = (uint32_t)sqlite3_column_int64(row, 4),
		.kind = (uint8_t)sqlite3_column_int(row, 5),
	};

	if (cursor->count > SBT_OPS_MAX)
		return damaged((struct op_table *)cursor->base.pVtab, cursor);
	for (uint32_t i = 0; i < cursor->count; i++)
		cursor->op[i] = op;
	return SQLITE_OK;
}

static int read_chunk(struct cursor *cursor)
{
	sqlite3_stmt *row = cursor->chunks;
	int code = sqlite3_step(row);

	cursor->at = 0;
	if (code == SQLITE_DONE) {
		cursor->end = true;
		return SQLITE_OK;
	}
	if (code != SQLITE_ROW)
		return failed(cursor, code);
	cursor->chunk = sqlite3_column_int64(row, 0);
	cursor->count = (uint32_t)sqlite3_column_int64(row, 1);
	cursor->boot = sqlite3_column_int64(row, 2);
	cursor->pid = sqlite3_column_int64(row, 7);
	return cursor->columns ? decode(cursor, row) : fill(cursor, row);
}

static int next_chunk(struct cursor *cursor)
{
	int code;

	do
		code = read_chunk(cursor);
	while (code == SQLITE_OK && !cursor->end && cursor->count == 0);
	return code;
}

static int prepare(struct cursor *cursor, const char *sql)
{
	struct op_table *table = (struct op_table *)cursor->base.pVtab;

	if (cursor->sql && !strcmp(cursor->sql, sql))
		return sqlite3_reset(cursor->chunks);
	sqlite3_finalize(TAKE(cursor->chunks));
	free(cursor->sql);
	cursor->sql = strdup(sql);
	if (!cursor->sql)
		return SQLITE_NOMEM;
	return sqlite3_prepare_v2(table->db, sql, -1, &cursor->chunks, NULL);
}

static int op_filter(sqlite3_vtab_cursor *base, int needs, const char *sql, int count,
		     sqlite3_value **value)
{
	struct cursor *cursor = (struct cursor *)base;
	int r = prepare(cursor, sql);

	if (r != SQLITE_OK)
		return r;
	for (int i = 0; r == SQLITE_OK && i < count; i++)
		r = sqlite3_bind_value(cursor->chunks, i + 1, value[i]);
	if (r != SQLITE_OK)
		return r;
	cursor->columns = (uint32_t)needs;
	cursor->end = false;
	return next_chunk(cursor);
}

static int op_next(sqlite3_vtab_cursor *base)
{
	struct cursor *cursor = (struct cursor *)base;

	if (++cursor->at < cursor->count)
		return SQLITE_OK;
	return next_chunk(cursor);
}

static int op_eof(sqlite3_vtab_cursor *base)
{
	return ((struct cursor *)base)->end;
}

static int op_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int number)
{
	struct cursor *cursor = (struct cursor *)base;

	columns[number].get(context, cursor, &cursor->op[cursor->at]);
	return SQLITE_OK;
}

static int op_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret)
{
	struct cursor *cursor = (struct cursor *)base;

	*ret = cursor->chunk * SBT_OPS_MAX + cursor->at;
	return SQLITE_OK;
}

/* Without xCreate the table exists in every connection, and needs no CREATE. */
static const sqlite3_module module = {
	.xConnect = op_connect,
	.xDisconnect = op_disconnect,
	.xBestIndex = op_best_index,
	.xOpen = op_open,
	.xClose = op_close,
	.xFilter = op_filter,
	.xNext = op_next,
	.xEof = op_eof,
	.xColumn = op_column,
	.xRowid = op_rowid,
};

int op_table_register(sqlite3 *db)
{
	return sqlite3_create_module(db, "op", &module, NULL) == SQLITE_OK ? 0 : sql_error(db);
}
