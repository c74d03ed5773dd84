/* File: opens a recording: its bytes, the database, and the rows that fill it. */
#include "core/store/file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/sbt/file.h"
#include "core/store/file/chunk.h"
#include "core/store/file/rows.h"
#include "core/store/file/sums.h"
#include "core/store/reader.h"
#include "core/store/schema.h"
#include "core/store/sql.h"

/* A database without a name is in memory, and beyond the cache in a private file. A small file
 * cannot claim more than 4 GiB. */
#define PREPARE                                                                                    \
	"PRAGMA page_size = 4096; PRAGMA max_page_count = 1048576; PRAGMA cache_size = -16384;"    \
	"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF"

struct file {
	struct file_config config;
	int fd;
	struct sbt_reader *reader;
	struct file_chunks *chunks;
	struct file_extent extent;
	sqlite3 *db;
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

static void remark(const struct file *file, const struct file_remark *remark)
{
	file->config.remark(file->config.data, remark);
}

/* Remarks an error, and passes it on. */
static int refuse(const struct file *file, enum file_reason reason, int error)
{
	remark(file, &(struct file_remark){ .reason = reason, .error = error });
	return error;
}

static int refuse_database(const struct file *file, int error)
{
	return refuse(file, error == -ENOSPC ? FILE_TOO_LARGE : FILE_UNLOADABLE, error);
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

static int open_bytes(struct file *file, const char *path)
{
	struct stat stat;

	/* Opening a pipe would wait for its other end. */
	file->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (file->fd < 0 || fstat(file->fd, &stat) < 0)
		return refuse(file, FILE_UNOPENED, -errno);
	if (!S_ISREG(stat.st_mode))
		return refuse(file, S_ISDIR(stat.st_mode) ? FILE_DIRECTORY : FILE_SPECIAL, -EINVAL);
	file->extent.size = (uint64_t)stat.st_size;
	return 0;
}

static int open_reader(struct file *file)
{
	struct sbt_source source = { .read = read_at, .data = file, .size = file->extent.size };
	int r = sbt_reader_new(&source, &file->reader);

	switch (r) {
	case -EBADMSG:
		return refuse(file, FILE_FOREIGN, r);
	case -ENODATA:
		return refuse(file, FILE_HEADLESS, r);
	case -EPROTO:
		return refuse(file, FILE_NEWER, r);
	default:
		return r < 0 ? refuse(file, FILE_UNREADABLE, r) : 0;
	}
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
	return file_facts_make(file->db);
}

static int add_rows(struct file *file, struct file_rows *rows, const struct sbt_block *block)
{
	struct file_remark fault = { .reason = FILE_BAD_BLOCK };
	const void *data;
	int r = sbt_reader_get(file->reader, block, &data);

	if (r == 0) {
		r = file_rows_add(rows, data, block->size);
		if (r == -EBADMSG)
			fault = file_rows_fault(rows);
	}
	if (r != -EBADMSG)
		return r < 0 ? refuse_database(file, r) : 0;
	fault.error = r;
	fault.byte = block->offset;
	remark(file, &fault);
	return r;
}

static int add_chunk(struct file *file, const struct sbt_block *block)
{
	int r = file_chunks_add(file->chunks, block);

	return r < 0 ? refuse_database(file, r) : 0;
}

static int read_blocks(struct file *file, struct file_rows *rows)
{
	struct sbt_block block;
	int r;

	while ((r = sbt_reader_next(file->reader, &block)) == 0) {
		r = block.type == SBT_BLOCK_ROWS ? add_rows(file, rows, &block)
						 : add_chunk(file, &block);
		if (r < 0)
			return r;
	}
	file->extent.used = sbt_reader_position(file->reader);
	file->extent.state = sbt_reader_state(file->reader);
	return r < 0 ? refuse(file, FILE_UNREADABLE, r) : 0;
}

/* Derives the rest once the tables are filled. */
static int finish(struct file *file)
{
	int r = file_facts_read(file->db, file->extent.state, &file->facts);

	if (r == 0)
		r = file_chunks_end(file->chunks, file->facts.boot);
	if (r == 0)
		r = file_facts_add_extent(file->db, &file->facts, &file->extent);
	if (r == 0)
		r = sql_exec(file->db, "COMMIT");
	return r < 0 ? r : reader_make(file->db, file->facts.now_ns, file->config.plan_ops);
}

static void remark_extent(const struct file *file)
{
	const struct file_extent *extent = &file->extent;
	uint64_t left = extent->size - extent->used;
	enum file_reason reason = FILE_DAMAGED;

	if (extent->state == SBT_WHOLE)
		return;
	if (extent->state == SBT_CUT)
		reason = left > 0 ? FILE_CUT_OFF : FILE_NO_END;
	remark(file, &(struct file_remark){
			     .reason = reason,
			     .byte = extent->used,
			     .count = left,
		     });
}

static int fill(struct file *file)
{
	_cleanup_(file_rows_freep) struct file_rows *rows = NULL;
	struct file_remark unknown;
	int r;

	if ((r = make_tables(file)) < 0 || (r = file_rows_new(file->db, &rows)) < 0 ||
	    (r = sql_exec(file->db, "BEGIN")) < 0 ||
	    (r = file_chunks_new(file->db, file->reader, &file->chunks)) < 0)
		return refuse_database(file, r);
	r = read_blocks(file, rows);
	if (r < 0)
		return r;
	r = finish(file);
	if (r < 0)
		return refuse_database(file, r);
	if (file_rows_unknown(rows, &unknown))
		remark(file, &unknown);
	remark_extent(file);
	return 0;
}

int file_open(const char *path, const struct file_config *config, struct file **ret)
{
	_cleanup_(file_freep) struct file *file = calloc(1, sizeof(*file));
	int r;

	if (!file) {
		config->remark(config->data, &(struct file_remark){ .reason = FILE_NO_MEMORY });
		return -ENOMEM;
	}
	file->config = *config;
	file->fd = -1;
	if ((r = open_bytes(file, path)) < 0 || (r = open_reader(file)) < 0 || (r = fill(file)) < 0)
		return r;
	*ret = TAKE(file);
	return 0;
}

/* A database that fits in the cache has no file yet, and might not get one: there need be no place
 * for it. */
void file_rest(struct file *file)
{
	int spilled = 0, most;

	sqlite3_db_status(file->db, SQLITE_DBSTATUS_CACHE_SPILL, &spilled, &most, 0);
	if (spilled && sqlite3_db_cacheflush(file->db) == SQLITE_OK)
		sqlite3_db_release_memory(file->db);
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
		.boot = file->facts.boot,
		.told_ns = file->facts.told_ns,
		.now_ns = file->facts.now_ns,
		.cancelled = cancelled,
		.data = data,
	};
	int r, end;

	if (file->extent.state == SBT_WHOLE || !file_sums_named(sql))
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

static void remark_damage(const struct file *file, const struct file_damage *damage)
{
	remark(file, &(struct file_remark){
			     .reason = FILE_LOST_OPS,
			     .byte = damage->offset,
			     .others = damage->chunks - 1,
			     .count = damage->ops,
		     });
}

int file_note_losses(struct file *file)
{
	struct file_damage damage;
	int r, end;

	if (!file_chunks_damaged(file->chunks))
		return 0;
	r = let_write(file, true);
	if (r == 0)
		r = file_chunks_lose(file->chunks, file->facts.boot, &damage);
	if (r == 0)
		r = file_facts_add_damage(file->db, damage.offset);
	end = let_write(file, false);
	if (r == 0)
		remark_damage(file, &damage);
	return r < 0 ? r : end;
}
