/* File: opens a recording: its bytes, the database, the rows that fill it, and its own
 * description. */
#include "client/file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "client/base/complain.h"
#include "client/file/chunk.h"
#include "client/file/rows.h"
#include "client/file/sums.h"
#include "client/trace/plan_load.h"
#include "core/model/core.h"
#include "core/sbt/file.h"
#include "core/store/reader.h"
#include "core/store/schema.h"
#include "core/store/sql.h"

/* A database without a name is in memory, and beyond the cache in a private file. A small file
 * cannot claim more than 4 GiB. */
#define PREPARE                                                                                    \
	"PRAGMA page_size = 4096; PRAGMA max_page_count = 1048576; PRAGMA cache_size = -32768;"    \
	"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF"
#define RECORDING_TABLE "CREATE TABLE recording(key TEXT PRIMARY KEY, value) WITHOUT ROWID"
#define TIME_MAX	(INT64_MAX / 4) /* so that a few times can be added */

struct file {
	char *path;
	int fd;
	struct sbt_reader *reader;
	struct file_chunks *chunks;
	uint64_t size, used;
	sqlite3 *db;
	int64_t boot;
	struct file_facts facts;
	bool counted; /* its sums were, with this result */
	int count_error;
};

struct file *file_free(struct file *file)
{
	if (!file)
		return NULL;
	file_chunks_free(file->chunks);
	sqlite3_close(file->db);
	sbt_reader_free(file->reader);
	closep(&file->fd);
	free(file->path);
	free(file);
	return NULL;
}

const struct file_facts *file_facts(const struct file *file)
{
	return &file->facts;
}

sqlite3 *file_reader(const struct file *file)
{
	return file->db;
}

static int read_at(void *data, uint64_t offset, void *bytes, size_t size)
{
	struct file *file = data;
	ssize_t n;

	for (size_t done = 0; done < size; done += (size_t)n) {
		n = pread(file->fd, (char *)bytes + done, size - done, (off_t)(offset + done));
		if (n < 0 && errno == EINTR)
			n = 0;
		else if (n <= 0)
			return n < 0 ? -errno : -EIO; /* it was longer just now */
	}
	return 0;
}

static int open_bytes(struct file *file)
{
	struct stat stat;

	/* Opening a pipe would wait for its other end. */
	file->fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (file->fd < 0 || fstat(file->fd, &stat) < 0) {
		int r = -errno;

		complain("Cannot open '%s': %s", file->path, strerror(-r));
		return r;
	}
	if (!S_ISREG(stat.st_mode)) {
		complain("'%s' is not a recording: it is %s", file->path,
			 S_ISDIR(stat.st_mode) ? "a directory" : "not a regular file");
		return -EINVAL;
	}
	file->size = (uint64_t)stat.st_size;
	return 0;
}

static int open_reader(struct file *file)
{
	struct sbt_source source = { .read = read_at, .data = file, .size = file->size };
	int r = sbt_reader_new(&source, &file->reader);

	if (r == -EBADMSG)
		complain("'%s' is not an .sbt file", file->path);
	else if (r == -ENODATA)
		complain("'%s' is truncated within its first bytes: nothing can be read from it",
			 file->path);
	else if (r == -EPROTO)
		complain("'%s' has a newer format version: update tsctl", file->path);
	else if (r < 0)
		complain("Cannot read '%s': %s", file->path, strerror(-r));
	return r;
}

static int explain_database(const struct file *file, int error)
{
	if (error == -ENOSPC)
		complain("'%s' holds too much data, or TMPDIR is full", file->path);
	else
		complain("Cannot load '%s' into a database: %s", file->path, strerror(-error));
	return error;
}

static int make_tables(struct file *file)
{
	const struct function_table no_functions = { 0 };
	int r;

	if (sqlite3_open_v2("", &file->db,
			    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
			    NULL) != SQLITE_OK)
		return file->db ? sql_error(file->db) : -ENOMEM;
	if ((r = sql_exec(file->db, PREPARE)) < 0 || (r = schema_make(file->db)) < 0 ||
	    (r = schema_write_names(file->db, &no_functions)) < 0)
		return r;
	return sql_exec(file->db, RECORDING_TABLE);
}

static int add_rows(struct file *file, struct file_rows *rows, const struct sbt_block *block)
{
	const void *data;
	int r = sbt_reader_get(file->reader, block, &data);

	if (r == 0)
		r = file_rows_add(rows, data, block->size);
	if (r == -EBADMSG)
		complain("'%s' is damaged at byte %" PRIu64 "%s%s", file->path, block->offset,
			 *file_rows_nonsense(rows) ? ": " : "", file_rows_nonsense(rows));
	else if (r < 0)
		explain_database(file, r);
	return r;
}

static int read_blocks(struct file *file, struct file_rows *rows)
{
	struct sbt_block block;
	int r;

	while ((r = sbt_reader_next(file->reader, &block)) == 0) {
		if (block.type == SBT_BLOCK_ROWS)
			r = add_rows(file, rows, &block);
		else
			r = file_chunks_add(file->chunks, &block);
		if (r < 0)
			return block.type == SBT_BLOCK_ROWS ? r : explain_database(file, r);
	}
	file->used = sbt_reader_position(file->reader);
	if (r < 0)
		complain("Cannot read '%s': %s", file->path, strerror(-r));
	return r < 0 ? r : 0;
}

/* A number from the table `recording`, or `otherwise` if it has no valid one. */
static int64_t get_number(struct file *file, const char *key, int64_t otherwise)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	int64_t value;

	if (sql_prepare(file->db,
			"SELECT value FROM recording WHERE key = ? AND typeof(value) = 'integer'",
			&stmt) < 0)
		return otherwise;
	sql_bind_text(stmt, 1, key);
	if (sqlite3_step(stmt) != SQLITE_ROW)
		return otherwise;
	value = sqlite3_column_int64(stmt, 0);
	return value > -TIME_MAX && value < TIME_MAX ? value : otherwise;
}

static int64_t ask(struct file *file, const char *sql)
{
	int64_t value = 0;

	sql_query_integer(file->db, sql, &value);
	return value > 0 && value < TIME_MAX ? value : 0;
}

/* The recorded boot; if its row is missing, an unknown one. */
static int find_boot(struct file *file)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	int r = sql_exec(file->db, "INSERT INTO boot(boot_id, wall_offset_ns)"
				   " SELECT 'unknown', 0 WHERE NOT EXISTS (SELECT * FROM boot)");

	if (r == 0)
		r = sql_prepare(
			file->db,
			"SELECT id, boot_id FROM boot ORDER BY boot_id ="
			" (SELECT value FROM recording WHERE key = 'boot_id') DESC, id DESC",
			&stmt);
	if (r < 0)
		return r;
	if (sqlite3_step(stmt) != SQLITE_ROW)
		return sql_error(file->db);
	file->boot = sqlite3_column_int64(stmt, 0);
	snprintf(file->facts.boot_id, sizeof(file->facts.boot_id), "%s",
		 (const char *)sqlite3_column_text(stmt, 1));
	return 0;
}

static void find_times(struct file *file)
{
	struct file_facts *facts = &file->facts;
	int64_t last = ask(file, "SELECT max(last_ns) FROM file_block");
	int64_t until = get_number(file, "until_ns", last);

	/* A recording without its end may announce an end before the data reached it. */
	if (sbt_reader_state(file->reader) != SBT_WHOLE && last > until)
		until = last;
	facts->now_ns = until > 0 ? (uint64_t)until : 1;
	facts->told_ns = (uint64_t)get_number(file, "told_ns", (int64_t)facts->now_ns);
	facts->wall_offset_ns = get_number(file, "wall_offset_ns",
					   ask(file, "SELECT max(wall_offset_ns) FROM boot"));
}

static void say_state(const struct file *file)
{
	uint64_t left = file->size - file->used;

	switch (sbt_reader_state(file->reader)) {
	case SBT_WHOLE:
		break;
	case SBT_CUT:
		if (left > 0)
			complain("'%s' is truncated: using the data up to byte %" PRIu64
				 ", not the last %" PRIu64 " bytes",
				 file->path, file->used, left);
		else
			complain("'%s' has no end: its writer was stopped, or is still writing",
				 file->path);
		break;
	case SBT_DAMAGED:
		complain("'%s' is damaged at byte %" PRIu64
			 ": using the data before it, not the last %" PRIu64 " bytes",
			 file->path, file->used, left);
		break;
	}
}

/* The file's state as SQL shows it; missing data counts as a loss in every answer. */
static int write_state(struct file *file)
{
	static const char *const names[] = {
		[SBT_WHOLE] = "whole", [SBT_CUT] = "cut off", [SBT_DAMAGED] = "damaged"
	};
	enum sbt_state state = sbt_reader_state(file->reader);
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL, *loss = NULL;
	int r = sql_prepare(file->db,
			    "INSERT OR REPLACE INTO recording VALUES"
			    " ('file_bytes', ?1), ('file_used_bytes', ?2), ('file_state', ?3)",
			    &stmt);

	if (r < 0)
		return r;
	sql_bind(stmt, (int64_t)file->size, (int64_t)file->used);
	sql_bind_text(stmt, 3, names[state]);
	r = sql_run(stmt);
	if (r < 0 || state == SBT_WHOLE)
		return r;
	r = sql_prepare(file->db,
			"INSERT OR REPLACE INTO loss(boot, second, process, reason, start_ns,"
			" end_ns, count) VALUES(?1, ?2 / 1000000000, 0, ?4, ?2, ?3, 1)",
			&loss);
	if (r < 0)
		return r;
	sql_bind(loss, file->boot, get_number(file, "since_ns", 0), (int64_t)file->facts.now_ns,
		 LOSS_CUT_OFF);
	return sql_run(loss);
}

/* Derives the rest once the tables are filled. */
static int finish(struct file *file)
{
	int r = find_boot(file);

	if (r == 0)
		r = file_chunks_end(file->chunks, file->boot);
	if (r < 0)
		return r;
	find_times(file);
	r = write_state(file);
	if (r == 0)
		r = sql_exec(file->db, "COMMIT");
	return r < 0 ? r : reader_make(file->db, file->facts.now_ns, PLAN_LOAD_OPS_MAX);
}

static int fill(struct file *file)
{
	_cleanup_(file_rows_freep) struct file_rows *rows = NULL;
	int r;

	if ((r = make_tables(file)) < 0 || (r = file_rows_new(file->db, file->path, &rows)) < 0 ||
	    (r = sql_exec(file->db, "BEGIN")) < 0 ||
	    (r = file_chunks_new(file->db, file->reader, &file->chunks)) < 0)
		return explain_database(file, r);
	r = read_blocks(file, rows);
	if (r < 0)
		return r;
	r = finish(file);
	if (r < 0)
		return explain_database(file, r);
	file_rows_say_unknown(rows);
	say_state(file);
	return 0;
}

int file_open(const char *path, struct file **ret)
{
	_cleanup_(file_freep) struct file *file = calloc(1, sizeof(*file));
	int r;

	if (file) {
		file->fd = -1;
		file->path = strdup(path);
	}
	if (!file || !file->path) {
		complain("Not enough memory");
		return -ENOMEM;
	}
	if ((r = open_bytes(file)) < 0 || (r = open_reader(file)) < 0 || (r = fill(file)) < 0)
		return r;
	*ret = TAKE(file);
	return 0;
}

/* A reader has no write access, and a statement may have restricted it further. */
static int let_write(struct file *file, bool on)
{
	sqlite3_set_authorizer(file->db, NULL, NULL);
	return sql_exec(file->db, on ? "PRAGMA query_only = 0" : "PRAGMA query_only = 1");
}

int file_count(struct file *file, const char *sql, bool (*cancelled)(void *data), void *data)
{
	struct file_sums_job job = {
		.db = file->db,
		.boot = file->boot,
		.told_ns = file->facts.told_ns,
		.now_ns = file->facts.now_ns,
		.cancelled = cancelled,
		.data = data,
	};
	int r, end;

	if (sbt_reader_state(file->reader) == SBT_WHOLE || !file_sums_named(sql))
		return 0;
	if (file->counted)
		return file->count_error;
	file->counted = true;
	r = let_write(file, true);
	if (r == 0)
		r = file_sums_add(&job);
	end = let_write(file, false);
	file->count_error = r < 0 ? r : end;
	return file->count_error;
}

static void say_damage(const struct file *file, const struct file_damage *damage)
{
	char more[48] = "";

	if (damage->chunks > 1)
		snprintf(more, sizeof(more), " and in %" PRIu64 " more places", damage->chunks - 1);
	complain("'%s' is damaged at byte %" PRIu64 "%s: %" PRIu64 " operations are missing there",
		 file->path, damage->offset, more, damage->ops);
}

int file_note_losses(struct file *file)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	struct file_damage damage = { 0 };
	int r, end;

	if (!file_chunks_damaged(file->chunks))
		return 0;
	r = let_write(file, true);
	if (r == 0)
		r = file_chunks_lose(file->chunks, file->boot, &damage);
	if (r == 0)
		r = sql_prepare(file->db,
				"INSERT OR REPLACE INTO recording SELECT 'file_state', 'damaged'"
				" UNION ALL SELECT 'file_damaged_byte', min(?1, coalesce((SELECT"
				" value FROM recording WHERE key = 'file_damaged_byte'), ?1))",
				&stmt);
	if (r == 0) {
		sql_bind(stmt, (int64_t)damage.offset);
		r = sql_run(stmt);
	}
	end = let_write(file, false);
	if (r == 0)
		say_damage(file, &damage);
	return r < 0 ? r : end;
}

int file_spare(const char *path, const char *output)
{
	struct stat from, to;

	if (!path || !output || stat(path, &from) < 0 || stat(output, &to) < 0 ||
	    from.st_dev != to.st_dev || from.st_ino != to.st_ino)
		return 0;
	complain("'%s' is the recording itself: give --output another file", output);
	return -EINVAL;
}
