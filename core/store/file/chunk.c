/* Chunk: the table `file_block` has a row for each chunk. It has the indices of the store's table
 * `chunk`, which the view replaces: SQLite looks through views, so statements that use an index on
 * the store's table use one here. The data is copied, never mapped: a file truncated while it is
 * read causes an error. A damaged chunk is NULL in the answer that finds it, and a loss from then
 * on. */
#include "core/store/file/chunk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/core.h"
#include "core/store/sql.h"
#include "core/store/tables.h"

/* The view replaces the store's own table. */
static const char table[] =
	"DROP TABLE chunk;"
	"CREATE TABLE file_block(id INTEGER PRIMARY KEY, process INTEGER, stream INTEGER,"
	" kind INTEGER, first_ns INTEGER, last_ns INTEGER, ops INTEGER, offset INTEGER,"
	" size INTEGER)";

static const char indices[] =
	"CREATE INDEX file_block_time ON file_block(first_ns, last_ns);"
	"CREATE INDEX file_block_process ON file_block(process, kind, first_ns, last_ns);"
	"CREATE INDEX file_block_stream ON file_block(stream, kind, first_ns, last_ns)";

/* %: id of the boot. The columns are those of the store's table, in its order. */
#define VIEW                                                                                       \
	"CREATE VIEW chunk AS SELECT id, %" PRId64 " AS boot, process, stream, kind, first_ns,"    \
	" last_ns, ops, file_data(id, offset, size) AS data, 0 AS batch, 0 AS first_batch"         \
	" FROM file_block"

#define REMOVE                                                                                     \
	"DELETE FROM file_block WHERE id = ?"                                                      \
	" RETURNING process, first_ns, last_ns, ops, offset"

struct file_chunks {
	sqlite3 *db;
	struct sbt_reader *reader;
	sqlite3_stmt *insert;
	size_t count, damaged_count;
	bool *damaged; /* by id: damaged, found since the last call of file_chunks_lose() */
};

static void fail(sqlite3_context *context, int64_t offset, int error)
{
	char text[96];

	snprintf(text, sizeof(text), "%s at byte %" PRId64, strerror(-error), offset);
	sqlite3_result_error(context, text, -1);
	sqlite3_result_error_code(context, SQLITE_IOERR);
}

static void note_damage(struct file_chunks *chunks, int64_t id)
{
	if (id <= 0 || (uint64_t)id > chunks->count || chunks->damaged[id])
		return;
	chunks->damaged[id] = true;
	chunks->damaged_count++;
}

/* file_data(id, offset, size): the chunk at this place; NULL if it is damaged. */
static void file_data(sqlite3_context *context, int count, sqlite3_value **value)
{
	struct file_chunks *chunks = sqlite3_user_data(context);
	struct sbt_block block = {
		.type = SBT_BLOCK_OPS,
		.offset = (uint64_t)sqlite3_value_int64(value[1]),
		.size = (uint32_t)sqlite3_value_int64(value[2]),
	};
	const void *data;
	int r = sbt_reader_get(chunks->reader, &block, &data);

	if (r == -ENOMEM)
		sqlite3_result_error_nomem(context);
	else if (r == -EBADMSG)
		note_damage(chunks, sqlite3_value_int64(value[0]));
	else if (r < 0)
		fail(context, (int64_t)block.offset, r);
	else
		sqlite3_result_blob(context, data, (int)block.size, SQLITE_TRANSIENT);
}

int file_chunks_new(sqlite3 *db, struct sbt_reader *reader, struct file_chunks **ret)
{
	_cleanup_(file_chunks_freep) struct file_chunks *chunks = calloc(1, sizeof(*chunks));
	int r;

	if (!chunks)
		return -ENOMEM;
	chunks->db = db;
	chunks->reader = reader;
	if (sqlite3_create_function(db, "file_data", 3, SQLITE_UTF8 | SQLITE_INNOCUOUS, chunks,
				    file_data, NULL, NULL) != SQLITE_OK)
		return sql_error(db);
	r = sql_exec(db, table);
	if (r == 0)
		r = sql_prepare(db,
				"INSERT INTO file_block(process, stream, kind, first_ns, last_ns,"
				" ops, offset, size) VALUES(?,?,?,?,?,?,?,?)",
				&chunks->insert);
	if (r < 0)
		return r;
	*ret = TAKE(chunks);
	return 0;
}

struct file_chunks *file_chunks_free(struct file_chunks *chunks)
{
	if (chunks) {
		sqlite3_finalize(chunks->insert);
		free(chunks->damaged);
	}
	free(chunks);
	return NULL;
}

int file_chunks_add(struct file_chunks *chunks, const struct sbt_block *block)
{
	const struct sbt_info *info = &block->info;

	sql_bind(chunks->insert, info->process, info->stream, info->kind, (int64_t)info->first_ns,
		 (int64_t)info->last_ns, info->count, (int64_t)block->offset, block->size);
	chunks->count++;
	return sql_run(chunks->insert);
}

int file_chunks_end(struct file_chunks *chunks, int64_t boot)
{
	int r = sql_exec(chunks->db, indices);

	chunks->damaged = calloc(chunks->count + 1, sizeof(*chunks->damaged));
	if (!chunks->damaged)
		return -ENOMEM;
	return r < 0 ? r : sql_exec_made(chunks->db, sqlite3_mprintf(VIEW, boot));
}

static int lose(struct tables *tables, sqlite3_stmt *remove, int64_t id, struct file_damage *damage)
{
	struct core_loss loss = { .reason = LOSS_DAMAGED };

	sql_bind(remove, id);
	if (sqlite3_step(remove) != SQLITE_ROW)
		return sql_error(sqlite3_db_handle(remove));
	loss.process = (uint32_t)sqlite3_column_int64(remove, 0);
	loss.start_ns = (uint64_t)sqlite3_column_int64(remove, 1);
	loss.end_ns = (uint64_t)sqlite3_column_int64(remove, 2);
	loss.count = (uint64_t)sqlite3_column_int64(remove, 3);
	if (damage->chunks++ == 0)
		damage->offset = (uint64_t)sqlite3_column_int64(remove, 4);
	damage->ops += loss.count;
	sqlite3_reset(remove);
	return tables_write(tables, CORE_ROW_LOSS, &loss);
}

int file_chunks_lose(struct file_chunks *chunks, int64_t boot, struct file_damage *ret)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *remove = NULL;
	_cleanup_(tables_freep) struct tables *tables = NULL;
	int r = sql_prepare(chunks->db, REMOVE, &remove);

	if (r == 0)
		r = tables_new(chunks->db, boot, &tables);
	*ret = (struct file_damage){ 0 };
	for (size_t id = 1; r == 0 && id <= chunks->count && chunks->damaged_count > 0; id++) {
		if (!chunks->damaged[id])
			continue;
		r = lose(tables, remove, (int64_t)id, ret);
		chunks->damaged_count -= r == 0;
		chunks->damaged[id] = r < 0;
	}
	return r;
}

bool file_chunks_damaged(const struct file_chunks *chunks)
{
	return chunks->damaged_count > 0;
}
