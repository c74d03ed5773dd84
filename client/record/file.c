/* File: each added block goes to the file at once. Only if a file of this name exists, the blocks
 * before the first operation are held back, so that an empty recording does not replace it. */
#include "client/record/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/base/complain.h"
#include "client/output/target.h"
#include "core/base/array.h"
#include "core/base/time.h"
#include "core/base/vector.h"
#include "core/model/core.h"
#include "core/sbt/rows.h"

#define MODE	 0600	   /* command lines, stacks and names of others are in it */
#define HELD_MAX (1 << 20) /* bytes: a day without operations */

struct record_file {
	const char *path; /* as given */
	char *target;	  /* NULL: standard output */
	int fd, error;
	bool regular, made; /* made: the file did not exist before */
	bool filled;	    /* with operations */
	uint64_t size;
	uint8_t *held;
	size_t held_size, held_room;
	struct sbt_writer *writer; /* from the first block on */
	struct sbt_rows *rows;
};

static int fail(struct record_file *file, int error)
{
	if (file->error == 0) {
		file->error = error;
		complain("Cannot write '%s': %s", file->path, strerror(-error));
	}
	return error;
}

static int hold(struct record_file *file, const void *bytes, size_t size)
{
	if (VECTOR_ROOM(file->held, file->held_room, file->held_size + size) < 0)
		return fail(file, -ENOMEM);
	memcpy(file->held + file->held_size, bytes, size);
	file->held_size += size;
	return 0;
}

static int write_through(struct record_file *file, const void *bytes, size_t size)
{
	ssize_t n;

	/* Removes the old contents. */
	if (file->regular && file->size == 0 && ftruncate(file->fd, 0) < 0)
		return fail(file, -errno);
	for (size_t done = 0; done < size; done += n) {
		n = write(file->fd, (const char *)bytes + done, size - done);
		if (n < 0 && errno == EINTR)
			n = 0;
		if (n < 0)
			return fail(file, -errno);
	}
	file->size += size;
	return 0;
}

static int write_held(struct record_file *file)
{
	size_t size = file->held_size;

	file->held_size = 0;
	return size > 0 ? write_through(file, file->held, size) : 0;
}

static int write_bytes(void *data, const void *bytes, size_t size)
{
	struct record_file *file = data;
	int r;

	if (file->regular && !file->made && file->size == 0 && !file->filled &&
	    file->held_size + size <= HELD_MAX)
		return hold(file, bytes, size);
	r = write_held(file);
	return r < 0 ? r : write_through(file, bytes, size);
}

static int open_path(struct record_file *file)
{
	struct stat stat;

	if (!file->target) {
		file->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	} else {
		file->fd = open(file->target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, MODE);
		file->made = file->fd >= 0;
		if (file->fd < 0 && errno == EEXIST)
			file->fd = open(file->target, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	}
	if (file->fd < 0 || fstat(file->fd, &stat) < 0)
		return fail(file, -errno);
	file->regular = S_ISREG(stat.st_mode);
	if (!isatty(file->fd))
		return 0;
	complain("A recording is binary: give -o FILE, or redirect it to a file or a pipe");
	return -EINVAL;
}

int record_file_open(const char *path, struct record_file **ret)
{
	_cleanup_(record_file_freep) struct record_file *file = calloc(1, sizeof(*file));
	struct stat there;
	int r;

	if (!file)
		return complain_memory(), -ENOMEM;
	file->path = path;
	file->fd = -1;
	r = strcmp(path, "-") == 0 ? 0 : target_find(path, &file->target, &there);
	if (r == 0)
		r = open_path(file);
	if (r < 0)
		return r;
	r = sbt_rows_new(&file->rows);
	if (r < 0)
		return fail(file, r);
	*ret = TAKE(file);
	return 0;
}

struct record_file *record_file_free(struct record_file *file)
{
	if (!file)
		return NULL;
	if (file->made && (!file->filled || file->size == 0))
		unlink(file->target);
	free(file->held);
	free(file->target);
	sbt_writer_free(file->writer);
	sbt_rows_free(file->rows);
	closep(&file->fd);
	free(file);
	return NULL;
}

int record_file_add(struct record_file *file, enum sbt_block_type type, const void *data,
		    size_t size)
{
	int r = file->writer ? 0 : sbt_writer_new(write_bytes, file, &file->writer);

	file->filled |= type == SBT_BLOCK_OPS;
	if (r == 0)
		r = sbt_writer_add(file->writer, type, data, size);
	if (r == -EBADMSG && file->error == 0) {
		complain("The daemon's answer is damaged: it is not part of a recording");
		file->error = r;
	}
	return r < 0 ? fail(file, r) : 0;
}

static int end_rows(struct record_file *file)
{
	const void *data;
	size_t size;
	int r = sbt_rows_end(file->rows, &data, &size);

	return r < 0 ? fail(file, r) : record_file_add(file, SBT_BLOCK_ROWS, data, size);
}

int record_file_facts(struct record_file *file, const struct record_fact *fact, size_t count)
{
	static const char *const columns[] = { "key", "value" };
	int r = sbt_rows_begin(file->rows, "recording", columns, 2);

	for (size_t i = 0; r == 0 && i < count; i++) {
		struct sbt_value value[2] = {
			{ .type = SBT_TEXT, .text = fact[i].key, .size = strlen(fact[i].key) },
			{ .type = SBT_INTEGER, .integer = fact[i].number },
		};

		if (fact[i].text)
			value[1] = (struct sbt_value){ .type = SBT_TEXT,
						       .text = fact[i].text,
						       .size = strlen(fact[i].text) };
		r = sbt_rows_add(file->rows, value);
	}
	return r < 0 ? fail(file, r) : end_rows(file);
}

int record_file_loss(struct record_file *file, int64_t boot, const struct core_loss *loss)
{
	static const char *const columns[] = { "boot",	   "second", "process", "reason",
					       "start_ns", "end_ns", "count" };
	const int64_t number[] = { boot,
				   (int64_t)(loss->start_ns / NS_PER_S),
				   0,
				   loss->reason,
				   (int64_t)loss->start_ns,
				   (int64_t)loss->end_ns,
				   (int64_t)loss->count };
	struct sbt_value value[ARRAY_SIZE(number)];
	int r = sbt_rows_begin(file->rows, "loss", columns, ARRAY_SIZE(columns));

	for (size_t i = 0; i < ARRAY_SIZE(number); i++)
		value[i] = (struct sbt_value){ .type = SBT_INTEGER, .integer = number[i] };
	if (r == 0)
		r = sbt_rows_add(file->rows, value);
	return r < 0 ? fail(file, r) : end_rows(file);
}

int record_file_end(struct record_file *file)
{
	int r = sbt_writer_end(file->writer);

	if (r == 0 && file->regular && fsync(file->fd) < 0)
		r = -errno;
	/* Some file systems report only now that there is no space. */
	if (r == 0 && close(TAKE_FD(file->fd)) < 0 && errno != EINTR)
		r = -errno;
	return r < 0 ? fail(file, r) : 0;
}

uint64_t record_file_size(const struct record_file *file)
{
	return file->size + file->held_size;
}

int record_file_error(const struct record_file *file)
{
	return file->error;
}
