/* Page_sum: a VFS around the system's that sums a page when it is written to the database file and
 * compares when it is read from there.
 *
 * In SQLite's cache and in the log the sum's bytes are 0: the log has checksums of its own, and a
 * program without this VFS that moves pages from our log to the file leaves 0 there, which means
 * "not summed". A page that such a program has changed itself looks damaged. */
#include "core/store/page_sum.h"

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <xxhash.h>

#include "core/store/sql.h"

#define PAGE_BYTES 4096 /* SQLite's default; files with others are not summed */
#define SUMMED	   (PAGE_BYTES - PAGE_SUM_BYTES)

/* In the first page: see "The Database Header" of SQLite's file format. */
#define PAGE_SIZE_AT 16
#define RESERVED_AT  20

struct belief {
	bool on;
	uint64_t count; /* of pages, before */
};

struct file {
	sqlite3_file base;
	bool summed, believes;
	uint64_t believed;
	sqlite3_file real[];
};

static sqlite3_file *real_of(sqlite3_file *base)
{
	return ((struct file *)base)->real;
}

static bool has_room(const uint8_t *first_page)
{
	return first_page[PAGE_SIZE_AT] == PAGE_BYTES >> 8 && first_page[PAGE_SIZE_AT + 1] == 0 &&
	       first_page[RESERVED_AT] == PAGE_SUM_BYTES;
}

/* Never 0, nor one flipped bit away from it. */
static uint64_t sum_of(const uint8_t *page, sqlite3_int64 offset)
{
	uint64_t sum = XXH3_64bits_withSeed(page, SUMMED, (uint64_t)offset);

	return sum & (sum - 1) ? sum : UINT64_MAX;
}

static uint64_t sum_in(const uint8_t *page)
{
	uint64_t sum;

	memcpy(&sum, page + SUMMED, sizeof(sum));
	return le64toh(sum);
}

/* A first page whose sum is right but for its word on where sums are. */
static bool hides_sums(uint8_t *page)
{
	uint8_t reserved = page[RESERVED_AT];
	bool right;

	page[RESERVED_AT] = PAGE_SUM_BYTES;
	right = has_room(page) && sum_in(page) == sum_of(page, 0);
	page[RESERVED_AT] = reserved;
	return right;
}

static int check(struct file *file, uint8_t *page, sqlite3_int64 offset)
{
	if (offset == 0)
		file->summed = has_room(page) || hides_sums(page);
	if (!file->summed)
		return SQLITE_OK;
	if (sum_in(page) && sum_in(page) != sum_of(page, offset)) {
		if (!file->believes)
			return SQLITE_IOERR_DATA;
		file->believed++;
	}
	memset(page + SUMMED, 0, PAGE_SUM_BYTES);
	return SQLITE_OK;
}

/* SQLite reads the header before any page, and then perhaps the first page from the log. */
static void look(struct file *file)
{
	uint8_t page[PAGE_BYTES];

	if (file->real->pMethods->xRead(file->real, page, sizeof(page), 0) == SQLITE_OK)
		file->summed = has_room(page) || hides_sums(page);
}

static int on_read(sqlite3_file *base, void *to, int size, sqlite3_int64 offset)
{
	struct file *file = (struct file *)base;
	int code = file->real->pMethods->xRead(file->real, to, size, offset);

	if (code != SQLITE_OK)
		return code;
	if (size == PAGE_BYTES && offset % PAGE_BYTES == 0)
		return check(file, to, offset);
	if (offset == 0)
		look(file);
	return SQLITE_OK;
}

static int on_write(sqlite3_file *base, const void *from, int size, sqlite3_int64 offset)
{
	struct file *file = (struct file *)base;
	uint8_t page[PAGE_BYTES];
	uint64_t sum;

	if (size != PAGE_BYTES || offset % PAGE_BYTES)
		return file->real->pMethods->xWrite(file->real, from, size, offset);
	if (offset == 0)
		file->summed = has_room(from);
	if (!file->summed)
		return file->real->pMethods->xWrite(file->real, from, size, offset);
	memcpy(page, from, SUMMED);
	sum = htole64(sum_of(page, offset));
	memcpy(page + SUMMED, &sum, sizeof(sum));
	return file->real->pMethods->xWrite(file->real, page, size, offset);
}

/* The rest is the system's. No xFetch: mapped pages would not pass here. */
#define BELIEVE			0x54534442 /* a file control of ours: struct belief */
#define REAL(base, method, ...) real_of(base)->pMethods->method(real_of(base), ##__VA_ARGS__)

static int on_close(sqlite3_file *base)
{
	return REAL(base, xClose);
}

static int on_truncate(sqlite3_file *base, sqlite3_int64 size)
{
	return REAL(base, xTruncate, size);
}

static int on_sync(sqlite3_file *base, int flags)
{
	return REAL(base, xSync, flags);
}

static int on_size(sqlite3_file *base, sqlite3_int64 *ret)
{
	return REAL(base, xFileSize, ret);
}

static int on_lock(sqlite3_file *base, int level)
{
	return REAL(base, xLock, level);
}

static int on_unlock(sqlite3_file *base, int level)
{
	return REAL(base, xUnlock, level);
}

static int on_is_locked(sqlite3_file *base, int *ret)
{
	return REAL(base, xCheckReservedLock, ret);
}

static int on_control(sqlite3_file *base, int what, void *argument)
{
	struct file *file = (struct file *)base;
	struct belief *belief = argument;

	if (what != BELIEVE)
		return REAL(base, xFileControl, what, argument);
	belief->count = file->believed;
	file->believed = 0;
	file->believes = belief->on;
	return SQLITE_OK;
}

static int on_sector(sqlite3_file *base)
{
	return REAL(base, xSectorSize);
}

static int on_device(sqlite3_file *base)
{
	return REAL(base, xDeviceCharacteristics);
}

static int on_map(sqlite3_file *base, int region, int size, int extend, void volatile **ret)
{
	return REAL(base, xShmMap, region, size, extend, ret);
}

static int on_map_lock(sqlite3_file *base, int first, int count, int flags)
{
	return REAL(base, xShmLock, first, count, flags);
}

static void on_map_barrier(sqlite3_file *base)
{
	REAL(base, xShmBarrier);
}

static int on_unmap(sqlite3_file *base, int remove)
{
	return REAL(base, xShmUnmap, remove);
}

static const sqlite3_io_methods methods = {
	.iVersion = 2,
	.xClose = on_close,
	.xRead = on_read,
	.xWrite = on_write,
	.xTruncate = on_truncate,
	.xSync = on_sync,
	.xFileSize = on_size,
	.xLock = on_lock,
	.xUnlock = on_unlock,
	.xCheckReservedLock = on_is_locked,
	.xFileControl = on_control,
	.xSectorSize = on_sector,
	.xDeviceCharacteristics = on_device,
	.xShmMap = on_map,
	.xShmLock = on_map_lock,
	.xShmBarrier = on_map_barrier,
	.xShmUnmap = on_unmap,
};

static sqlite3_vfs vfs;
static size_t real_size;
static int registered;

/* Logs, journals and temporary files are the system's own. */
static int on_open(sqlite3_vfs *self, const char *name, sqlite3_file *base, int flags,
		   int *ret_flags)
{
	struct file *file = (struct file *)base;
	sqlite3_vfs *real = sqlite3_vfs_find(NULL); /* tests have their own */
	int code;

	if (!real || (size_t)real->szOsFile > real_size)
		return SQLITE_CANTOPEN;
	if (!(flags & SQLITE_OPEN_MAIN_DB))
		return real->xOpen(real, name, base, flags, ret_flags);
	file->base.pMethods = NULL;
	file->summed = file->believes = false;
	file->believed = 0;
	code = real->xOpen(real, name, file->real, flags, ret_flags);
	if (code == SQLITE_OK)
		file->base.pMethods = &methods;
	return code;
}

static void make(void)
{
	const sqlite3_vfs *real = sqlite3_vfs_find(NULL);

	if (!real)
		return;
	vfs = *real;
	real_size = (size_t)real->szOsFile;
	vfs.zName = "tracesmith";
	vfs.szOsFile += (int)sizeof(struct file);
	vfs.xOpen = on_open;
	registered = sqlite3_vfs_register(&vfs, 0) == SQLITE_OK;
}

const char *page_sum_vfs(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make);
	return registered ? vfs.zName : NULL;
}

static int reserve(sqlite3 *db, int *bytes)
{
	return sqlite3_file_control(db, "main", SQLITE_FCNTL_RESERVE_BYTES, bytes) == SQLITE_OK
		       ? 0
		       : sql_error(db);
}

int page_sum_reserve(sqlite3 *db)
{
	int bytes = PAGE_SUM_BYTES;

	return reserve(db, &bytes);
}

void page_sum_unreserve(sqlite3 *db)
{
	int bytes = 0;

	reserve(db, &bytes);
}

int page_sum_is_reserved(sqlite3 *db)
{
	int bytes = -1, r = reserve(db, &bytes);

	return r < 0 ? r : bytes == PAGE_SUM_BYTES;
}

uint64_t page_sum_believe(sqlite3 *db, bool believe)
{
	struct belief belief = { .on = believe };

	sqlite3_file_control(db, "main", BELIEVE, &belief);
	return belief.count;
}
