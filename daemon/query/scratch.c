/* Scratch: a VFS of SQLite's that differs from the system's in its temporary files. Each of these
 * is a list of blocks of the one scratch file; a block is in at most one of them. It is for one
 * thread. */
#include "daemon/query/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"

#define BLOCK_BYTES (256 << 10)
#define NAME	    "/query.XXXXXX"
#define IS_SCRATCH                                                                                 \
	(SQLITE_OPEN_TEMP_DB | SQLITE_OPEN_TRANSIENT_DB | SQLITE_OPEN_TEMP_JOURNAL |               \
	 SQLITE_OPEN_SUBJOURNAL)

static struct {
	int fd;
	uint32_t used, bound; /* blocks of the file: ever taken, and allowed */
	uint32_t *spare;      /* given back; room for all */
	uint32_t spare_count;
	sqlite3_vfs *system;
} scratch = { .fd = -1 };

struct scratch_file {
	sqlite3_file base;
	sqlite3_int64 size;
	uint32_t *block;
	uint32_t count, room;
};

static struct scratch_file *file_of(sqlite3_file *base)
{
	return (struct scratch_file *)base;
}

static int take_block(uint32_t *ret)
{
	if (scratch.spare_count)
		*ret = scratch.spare[--scratch.spare_count];
	else if (scratch.used < scratch.bound)
		*ret = scratch.used++;
	else
		return SQLITE_FULL;
	return SQLITE_OK;
}

static int grow(struct scratch_file *file, uint32_t count)
{
	uint32_t room = file->room ? file->room : 8, *block;
	int r = SQLITE_OK;

	while (room < count)
		room *= 2;
	if (room > file->room) {
		block = realloc(file->block, room * sizeof(*block));
		if (!block)
			return SQLITE_NOMEM;
		file->block = block;
		file->room = room;
	}
	while (r == SQLITE_OK && file->count < count) {
		r = take_block(&file->block[file->count]);
		file->count += r == SQLITE_OK;
	}
	return r;
}

static void shrink(struct scratch_file *file, uint32_t count)
{
	while (file->count > count)
		scratch.spare[scratch.spare_count++] = file->block[--file->count];
}

/* The part of a block that a piece of a file at `at` has. */
static size_t part(sqlite3_int64 at, size_t size)
{
	size_t room = BLOCK_BYTES - (size_t)(at % BLOCK_BYTES);

	return size < room ? size : room;
}

static off_t place(const struct scratch_file *file, sqlite3_int64 at)
{
	return (off_t)file->block[at / BLOCK_BYTES] * BLOCK_BYTES + at % BLOCK_BYTES;
}

static int read_part(const struct scratch_file *file, void *data, size_t size, sqlite3_int64 at)
{
	ssize_t r = pread(scratch.fd, data, size, place(file, at));

	if (r < 0)
		return SQLITE_IOERR_READ;
	memset((char *)data + r, 0, size - (size_t)r); /* never written */
	return SQLITE_OK;
}

static int scratch_read(sqlite3_file *base, void *data, int wanted, sqlite3_int64 at)
{
	const struct scratch_file *file = file_of(base);
	sqlite3_int64 end = at + wanted < file->size ? at + wanted : file->size;
	size_t size = end > at ? (size_t)(end - at) : 0;
	int r = SQLITE_OK;

	memset((char *)data + size, 0, (size_t)wanted - size);
	for (size_t done = 0, n; r == SQLITE_OK && done < size; done += n) {
		n = part(at + (sqlite3_int64)done, size - done);
		r = read_part(file, (char *)data + done, n, at + (sqlite3_int64)done);
	}
	return r == SQLITE_OK && size < (size_t)wanted ? SQLITE_IOERR_SHORT_READ : r;
}

static int write_part(const struct scratch_file *file, const char *data, size_t size,
		      sqlite3_int64 at)
{
	ssize_t r;

	for (size_t done = 0; done < size; done += (size_t)r) {
		r = pwrite(scratch.fd, data + done, size - done,
			   place(file, at + (sqlite3_int64)done));
		if (r <= 0)
			return r == 0 || errno == ENOSPC || errno == EFBIG || errno == EDQUOT
				       ? SQLITE_FULL
				       : SQLITE_IOERR_WRITE;
	}
	return SQLITE_OK;
}

static int scratch_write(sqlite3_file *base, const void *data, int wanted, sqlite3_int64 at)
{
	struct scratch_file *file = file_of(base);
	sqlite3_int64 end = at + wanted;
	int r;

	if (end > (sqlite3_int64)scratch.bound * BLOCK_BYTES)
		return SQLITE_FULL;
	r = grow(file, (uint32_t)((end + BLOCK_BYTES - 1) / BLOCK_BYTES));
	for (size_t done = 0, n; r == SQLITE_OK && done < (size_t)wanted; done += n) {
		n = part(at + (sqlite3_int64)done, (size_t)wanted - done);
		r = write_part(file, (const char *)data + done, n, at + (sqlite3_int64)done);
	}
	if (r == SQLITE_OK && end > file->size)
		file->size = end;
	return r;
}

static int scratch_truncate(sqlite3_file *base, sqlite3_int64 size)
{
	struct scratch_file *file = file_of(base);

	if (size < file->size)
		file->size = size;
	shrink(file, (uint32_t)((file->size + BLOCK_BYTES - 1) / BLOCK_BYTES));
	return SQLITE_OK;
}

static int scratch_close(sqlite3_file *base)
{
	struct scratch_file *file = file_of(base);

	shrink(file, 0);
	free(file->block);
	return SQLITE_OK;
}

static int scratch_size(sqlite3_file *base, sqlite3_int64 *ret)
{
	*ret = file_of(base)->size;
	return SQLITE_OK;
}

/* What ends with the process is neither synchronized nor locked. */
static int scratch_sync(sqlite3_file *base, int flags)
{
	return SQLITE_OK;
}

static int scratch_lock(sqlite3_file *base, int lock)
{
	return SQLITE_OK;
}

static int scratch_is_reserved(sqlite3_file *base, int *ret)
{
	*ret = 0;
	return SQLITE_OK;
}

static int scratch_control(sqlite3_file *base, int operation, void *argument)
{
	return SQLITE_NOTFOUND;
}

static int scratch_sector(sqlite3_file *base)
{
	return 0;
}

static const sqlite3_io_methods methods = {
	.iVersion = 1,
	.xClose = scratch_close,
	.xRead = scratch_read,
	.xWrite = scratch_write,
	.xTruncate = scratch_truncate,
	.xSync = scratch_sync,
	.xFileSize = scratch_size,
	.xLock = scratch_lock,
	.xUnlock = scratch_lock,
	.xCheckReservedLock = scratch_is_reserved,
	.xFileControl = scratch_control,
	.xSectorSize = scratch_sector,
	.xDeviceCharacteristics = scratch_sector,
};

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *base, int flags,
		    int *ret_flags)
{
	if (name || !(flags & IS_SCRATCH))
		return scratch.system->xOpen(scratch.system, name, base, flags, ret_flags);
	*file_of(base) = (struct scratch_file){ .base.pMethods = &methods };
	if (ret_flags)
		*ret_flags = flags;
	return SQLITE_OK;
}

static int open_nameless(const char *directory)
{
	_cleanup_(freep) char *path = NULL;
	int fd = open(directory, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);

	if (fd >= 0)
		return fd;
	/* Overlays and some network file systems have no such files. */
	path = malloc(strlen(directory) + sizeof(NAME));
	if (!path)
		return -ENOMEM;
	strcpy(stpcpy(path, directory), NAME);
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	unlink(path);
	return fd;
}

/* What needs nothing put aside is answered all the same. */
static bool is_full(int error)
{
	return error == -ENOSPC || error == -EDQUOT || error == -EROFS;
}

int scratch_open(const char *directory, uint64_t bytes)
{
	static sqlite3_vfs vfs;

	scratch.fd = open_nameless(directory);
	if (scratch.fd < 0 && !is_full(scratch.fd))
		return scratch.fd;
	scratch.bound = scratch.fd < 0 ? 0 : (uint32_t)(bytes / BLOCK_BYTES);
	free(scratch.spare); /* a test opens another one */
	scratch.spare = calloc(scratch.bound + 1, sizeof(*scratch.spare));
	scratch.system = sqlite3_vfs_find(NULL);
	if (!scratch.spare || !scratch.system)
		return -ENOMEM;
	vfs = *scratch.system;
	vfs.zName = "tracesmith-scratch";
	vfs.xOpen = vfs_open;
	if (vfs.szOsFile < (int)sizeof(struct scratch_file))
		vfs.szOsFile = sizeof(struct scratch_file);
	return sqlite3_vfs_register(&vfs, 1) == SQLITE_OK ? 0 : -ENOMEM;
}
