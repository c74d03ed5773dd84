/* File_chunk: the table `file_block` has a row for each chunk. Its indices are those of the store's
 * table `chunk`, which the view stands for: SQLite looks through a view, so that what finds chunks
 * there by an index does so here. The data is copied, never mapped: who cuts a file off while it is
 * read gets an error. */
#include "client/file_chunk.h"

#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/store/sql.h"

#define SQL_BYTES 512

/* The store's own table makes room. */
static const char tables[] =
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
	" last_ns, ops, file_data(offset, size) AS data, 0 AS batch, 0 AS first_batch"             \
	" FROM file_block"

struct file_chunks {
	sqlite3 *db;
	sqlite3_stmt *insert;
};

static void damaged(sqlite3_context *context, int64_t offset)
{
	char text[96];

	snprintf(text, sizeof(text), "the recording is damaged at byte %" PRId64, offset);
	sqlite3_result_error(context, text, -1);
	sqlite3_result_error_code(context, SQLITE_CORRUPT);
}

/* file_data(offset, size): the chunk that is there. */
static void file_data(sqlite3_context *context, int count, sqlite3_value **value)
{
	struct sbt_reader *reader = sqlite3_user_data(context);
	struct sbt_block block = {
		.type = SBT_BLOCK_OPS,
		.offset = (uint64_t)sqlite3_value_int64(value[0]),
		.size = (uint32_t)sqlite3_value_int64(value[1]),
	};
	const void *data;
	int r = sbt_reader_get(reader, &block, &data);

	if (r == -ENOMEM)
		sqlite3_result_error_nomem(context);
	else if (r < 0)
		damaged(context, (int64_t)block.offset);
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
	if (sqlite3_create_function(db, "file_data", 2, SQLITE_UTF8 | SQLITE_INNOCUOUS, reader,
				    file_data, NULL, NULL) != SQLITE_OK)
		return sql_error(db);
	r = sql_exec(db, tables);
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
	if (chunks)
		sqlite3_finalize(chunks->insert);
	free(chunks);
	return NULL;
}

int file_chunks_add(struct file_chunks *chunks, const struct sbt_block *block)
{
	const struct sbt_info *info = &block->info;

	sql_bind(chunks->insert, info->process, info->stream, info->kind, (int64_t)info->first_ns,
		 (int64_t)info->last_ns, info->count, (int64_t)block->offset, block->size);
	return sql_run(chunks->insert);
}

int file_chunks_end(struct file_chunks *chunks, int64_t boot)
{
	char sql[SQL_BYTES];
	int r = sql_exec(chunks->db, indices);

	snprintf(sql, sizeof(sql), VIEW, boot);
	return r < 0 ? r : sql_exec(chunks->db, sql);
}
