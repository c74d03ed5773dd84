/* file_fixture.h: recordings made by hand, or of the rows of a store, and what is said about them.
 */
#ifndef FILE_FIXTURE_H
#define FILE_FIXTURE_H

#include <fcntl.h>
#include <sys/mman.h>

#include "client/file/serve.h"
#include "client/link/link.h"
#include "core/sbt/file.h"
#include "core/sbt/rows.h"
#include "core/sbt/sbt.h"
#include "core/store/sql.h"
#include "tests/unit/query_fixture.h"

#define SAID_MAX 4096

/* A file in the making. */
struct made {
	char path[128];
	FILE *file;
	struct sbt_writer *writer;
	struct sbt_rows *rows;
};

static int made_write(void *data, const void *bytes, size_t size)
{
	struct made *made = data;

	return fwrite(bytes, 1, size, made->file) == size ? 0 : -EIO;
}

static inline void made_begin(struct made *made, const struct fixture *fixture)
{
	snprintf(made->path, sizeof(made->path), "%s/made.sbt", fixture->directory);
	made->file = fopen(made->path, "w");
	assert_non_null(made->file);
	assert_int_equal(sbt_writer_new(made_write, made, &made->writer), 0);
	assert_int_equal(sbt_rows_new(&made->rows), 0);
}

static inline void made_block(struct made *made)
{
	const void *data;
	size_t size;

	assert_int_equal(sbt_rows_end(made->rows, &data, &size), 0);
	assert_int_equal(sbt_writer_add(made->writer, SBT_BLOCK_ROWS, data, size), 0);
}

/* Without its end it is as one that was cut off between two blocks. */
static inline void made_end(struct made *made, bool whole)
{
	if (whole)
		assert_int_equal(sbt_writer_end(made->writer), 0);
	sbt_writer_free(made->writer);
	sbt_rows_free(made->rows);
	assert_int_equal(fclose(made->file), 0);
}

#define INTEGER(number)                                                                            \
	(struct sbt_value)                                                                         \
	{                                                                                          \
		.type = SBT_INTEGER, .integer = (int64_t)(number)                                  \
	}
#define TEXT(string)                                                                               \
	(struct sbt_value)                                                                         \
	{                                                                                          \
		.type = SBT_TEXT, .text = (string), .size = strlen(string)                         \
	}
#define NOTHING                                                                                    \
	(struct sbt_value)                                                                         \
	{                                                                                          \
		.type = SBT_NULL                                                                   \
	}
#define NAMES(...) ((const char *const[]){ __VA_ARGS__ })

/* A block of one row. */
#define made_row(made, table, names, ...)                                                          \
	do {                                                                                       \
		const struct sbt_value row_[] = { __VA_ARGS__ };                                   \
                                                                                                   \
		assert_int_equal(sbt_rows_begin((made)->rows, table, names, ARRAY_SIZE(row_)), 0); \
		assert_int_equal(sbt_rows_add((made)->rows, row_), 0);                             \
		made_block(made);                                                                  \
	} while (0)

static inline void made_fact(struct made *made, const char *key, struct sbt_value value)
{
	made_row(made, "recording", NAMES("key", "value"), TEXT(key), value);
}

static inline struct sbt_value value_of(sqlite3_stmt *stmt, int i)
{
	switch (sqlite3_column_type(stmt, i)) {
	case SQLITE_INTEGER:
		return INTEGER(sqlite3_column_int64(stmt, i));
	case SQLITE_TEXT:
		return TEXT((const char *)sqlite3_column_text(stmt, i));
	default:
		return NOTHING;
	}
}

/* All rows of a table, as a recording has them. */
static inline void made_table(struct made *made, sqlite3 *db, const char *table)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	const char *names[SBT_ROW_COLUMNS_MAX];
	struct sbt_value value[SBT_ROW_COLUMNS_MAX];
	char sql[128];
	int count;

	snprintf(sql, sizeof(sql), "SELECT * FROM %s", table);
	assert_int_equal(sql_prepare(db, sql, &stmt), 0);
	count = sqlite3_column_count(stmt);
	for (int i = 0; i < count; i++)
		names[i] = sqlite3_column_name(stmt, i);
	assert_int_equal(sbt_rows_begin(made->rows, table, names, (size_t)count), 0);
	while (sqlite3_step(stmt) == SQLITE_ROW) {
		for (int i = 0; i < count; i++)
			value[i] = value_of(stmt, i);
		assert_int_equal(sbt_rows_add(made->rows, value), 0);
	}
	made_block(made);
}

static inline void made_chunk(struct made *made, const struct op *op, size_t count)
{
	struct sbt_codec *codec;
	const void *data;
	size_t size;

	assert_int_equal(sbt_codec_new(&codec), 0);
	assert_int_equal(sbt_encode(codec, op, count, &data, &size), 0);
	assert_int_equal(sbt_writer_add(made->writer, SBT_BLOCK_OPS, data, size), 0);
	sbt_codec_free(codec);
}

/* Those that a store has. */
static inline void made_chunks(struct made *made, sqlite3 *db)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;

	assert_int_equal(sql_prepare(db, "SELECT data FROM chunk ORDER BY last_ns", &stmt), 0);
	while (sqlite3_step(stmt) == SQLITE_ROW)
		assert_int_equal(sbt_writer_add(made->writer, SBT_BLOCK_OPS,
						sqlite3_column_blob(stmt, 0),
						(size_t)sqlite3_column_bytes(stmt, 0)),
				 0);
}

static const char *const made_tables[] = {
	"boot",	      "process",       "stream",      "function",  "kind",
	"detail",     "memory_kind",   "name",	      "stack",	   "frame",
	"device",     "rollup",	       "work",	      "busy",	   "loss",
	"collect",    "pool",	       "memory",      "pool_kind", "frame_kind",
	"allocation", "collect_state", "loss_reason", "stack_end", "setting",
};

/* The whole store, told at `now_ns`. */
static inline void made_of_store(struct made *made, const struct fixture *fixture, uint64_t now_ns,
				 bool whole)
{
	_cleanup_(sqlite3_closep) sqlite3 *db = NULL;

	assert_int_equal(store_reader_open(fixture->path, 0, &db), 0);
	made_begin(made, fixture);
	made_fact(made, "boot_id", TEXT(BOOT));
	made_fact(made, "wall_offset_ns", INTEGER(fixture->config.wall_offset_ns));
	made_fact(made, "until_ns", INTEGER(now_ns));
	made_chunks(made, db);
	for (size_t i = 0; i < ARRAY_SIZE(made_tables); i++)
		made_table(made, db, made_tables[i]);
	made_end(made, whole);
}

/* What is written to stderr from here on. */
static int said_fd = -1, said_before = -1;

static inline void said_begin(void)
{
	fflush(stderr);
	said_fd = memfd_create("said", MFD_CLOEXEC);
	said_before = dup(STDERR_FILENO);
	dup2(said_fd, STDERR_FILENO);
}

static inline const char *said_end(void)
{
	static char text[SAID_MAX];
	ssize_t size;

	fflush(stderr);
	dup2(said_before, STDERR_FILENO);
	size = pread(said_fd, text, sizeof(text) - 1, 0);
	text[size > 0 ? size : 0] = '\0';
	close(said_fd);
	close(said_before);
	return text;
}

/* Opens it; what is said about it may be only this ("" for nothing). */
static inline int open_saying(const char *path, const char *said, struct link **ret)
{
	struct options options = { .file = path, .files = &file_serve };
	int r;

	said_begin();
	r = link_open(&options, ret);
	assert_string_equal(said_end(), said);
	return r;
}

/* The answer as JSON, or the error. */
static inline char *ask_link(struct link *link, const ProtobufCMessage *body, const char *name)
{
	struct options options = { .given = OPTION(JSON) };
	FILE *notes = fopen("/dev/null", "w");
	struct table table;
	size_t size;
	char *text;
	int more;

	table_init(&table, &options, name, 0);
	table.out = open_memstream(&text, &size);
	table.notes = notes;
	assert_int_equal(link_send(link, body), 0);
	do {
		_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;

		more = link_next_or_error(link, &reply);
		assert_true(more >= 0);
		if (reply->body_case == TRACESMITH__V1__REPLY__BODY_COLUMNS)
			assert_int_equal(table_columns(&table, reply->columns), 0);
		if (reply->body_case == TRACESMITH__V1__REPLY__BODY_ROWS)
			for (size_t i = 0; i < reply->rows->n_row; i++)
				assert_int_equal(table_row(&table, reply->rows->row[i]), 0);
		if (reply->body_case == TRACESMITH__V1__REPLY__BODY_DONE && table.column)
			assert_int_equal(table_end(&table, reply->done), 0);
		if (reply->body_case == TRACESMITH__V1__REPLY__BODY_ERROR)
			fputs(reply->error->message, table.out);
	} while (more);
	fclose(table.out);
	fclose(notes);
	table_done(&table);
	return text;
}

static inline char *ask_sql(struct link *link, const char *statement)
{
	Tracesmith__V1__SqlRequest sql = TRACESMITH__V1__SQL_REQUEST__INIT;

	sql.text = (char *)statement;
	return ask_link(link, &sql.base, "sql");
}

static inline char *ask_query_of(struct link *link, Tracesmith__V1__QueryRequest *query)
{
	return ask_link(link, &query->base, query->name);
}

static inline void expect_sql(struct link *link, const char *statement, const char *part)
{
	_cleanup_(freep) char *text = ask_sql(link, statement);

	if (!strstr(text, part))
		fail_msg("'%s' is not in the answer to %s: %s", part, statement, text);
}

#endif
