/* Page_sum: a VFS around the system's that sums a page when it is written to the database file and
 * compares when it is read from there.
 *
 * In SQLite's cache and in the log the sum's bytes are 0: the log has checksums of its own, and a
 * program without this VFS that moves pages from our log to the file leaves 0 there, which means
 * "not summed". A page that such a program has changed itself looks damaged, and so does one that
 * is all 0, as a disk that has lost it gives it.
 *
 * A damaged page is left out where the page above it is read, be it from the file or from the log:
 * there is no other way to have SQLite pass by it. Its error is not one of reading, which would end
 * the transaction. */
#include "core/store/page_sum.h"

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <xxhash.h>

#include "core/store/page_tree.h"
#include "core/store/sql.h"

/* PAGE_BYTES is SQLite's default; files with others are not summed. */
#define SUMMED (PAGE_BYTES - PAGE_SUM_BYTES)

/* In the first page: see "The Database Header" of SQLite's file format. */
#define PAGE_SIZE_AT 16
#define RESERVED_AT  20

/* One page in this many, from the second on, says where the others belong: see "Pointer Map". */
#define MAP_EVERY (SUMMED / 5 + 1)

/* The log: a head, and frames of a head and a page. */
#define LOG_HEAD   32
#define FRAME_HEAD 24

#define LOST_MAX   256 /* damaged pages that one connection passes by */

struct belief {
	bool on;
	uint64_t count; /* of pages, before */
};

struct looked {
	uint32_t number;
	bool damaged;
};

struct file {
	sqlite3_file base;
	struct file *database; /* of a log */
	bool summed, believes;
	uint64_t believed;
	uint32_t lost[LOST_MAX]; /* the damaged pages, the first `skipped` of which are left out */
	uint32_t lost_count, skipped;
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

static bool is_empty(const uint8_t *page)
{
	return !page[0] && !memcmp(page, page + 1, PAGE_BYTES - 1);
}

static bool is_damaged(const uint8_t *page, sqlite3_int64 offset)
{
	return sum_in(page) ? sum_in(page) != sum_of(page, offset) : is_empty(page);
}

static uint32_t find_lost(const struct file *file, uint32_t number)
{
	uint32_t i = 0;

	while (i < file->lost_count && file->lost[i] != number)
		i++;
	return i;
}

/* False: it is known. */
static bool note_lost(struct file *file, uint32_t number)
{
	if (find_lost(file, number) < file->lost_count)
		return false;
	if (file->lost_count < LOST_MAX)
		file->lost[file->lost_count++] = number;
	return true;
}

/* It is written anew. */
static void note_whole(struct file *file, uint32_t number)
{
	uint32_t at = find_lost(file, number);

	if (at == file->lost_count)
		return;
	memmove(&file->lost[at], &file->lost[at + 1],
		(file->lost_count - at - 1) * sizeof(*file->lost));
	file->lost_count--;
	file->skipped -= at < file->skipped;
}

/* What was found damaged is taken out of the page above it. */
static void leave_out(const struct file *file, uint8_t *page, uint32_t number)
{
	if (number > 1 && (number - 2) % MAP_EVERY == 0)
		return;
	for (uint32_t i = 0; i < file->skipped; i++)
		page_tree_drop(page, number == 1, file->lost[i]);
}

static int check(struct file *file, uint8_t *page, sqlite3_int64 offset)
{
	uint32_t number = (uint32_t)(offset / PAGE_BYTES) + 1;

	if (offset == 0)
		file->summed = has_room(page) || hides_sums(page);
	if (!file->summed)
		return SQLITE_OK;
	if (is_damaged(page, offset)) {
		bool found = note_lost(file, number);

		if (!file->believes)
			return SQLITE_CORRUPT;
		file->believed += found;
	}
	memset(page + SUMMED, 0, PAGE_SUM_BYTES);
	leave_out(file, page, number);
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
	note_whole(file, (uint32_t)(offset / PAGE_BYTES) + 1);
	memcpy(page, from, SUMMED);
	sum = htole64(sum_of(page, offset));
	memcpy(page + SUMMED, &sum, sizeof(sum));
	return file->real->pMethods->xWrite(file->real, page, size, offset);
}

static uint32_t load_be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The frame's head tells which page it has. */
static int on_log_read(sqlite3_file *base, void *to, int size, sqlite3_int64 offset)
{
	struct file *file = (struct file *)base;
	sqlite3_int64 frame = offset - LOG_HEAD - FRAME_HEAD;
	int code = file->real->pMethods->xRead(file->real, to, size, offset);
	uint8_t number[4];

	if (code != SQLITE_OK || !file->database->skipped || size != PAGE_BYTES || frame < 0 ||
	    frame % (FRAME_HEAD + PAGE_BYTES))
		return code;
	code = file->real->pMethods->xRead(file->real, number, sizeof(number), offset - FRAME_HEAD);
	if (code == SQLITE_OK)
		leave_out(file->database, to, load_be32(number));
	return code;
}

static int on_log_write(sqlite3_file *base, const void *from, int size, sqlite3_int64 offset)
{
	struct file *file = (struct file *)base;

	return file->real->pMethods->xWrite(file->real, from, size, offset);
}

/* The rest is the system's. No xFetch: mapped pages would not pass here. */
#define BELIEVE			0x54534442 /* file controls of ours: struct belief, */
#define SKIP			0x54534443 /* a number of pages, */
#define LOOK			0x54534444 /* and struct looked */
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

static void believe(struct file *file, struct belief *belief)
{
	belief->count = file->believed;
	file->believed = 0;
	file->believes = belief->on;
}

static void skip(struct file *file, uint32_t *ret_more)
{
	*ret_more = file->lost_count - file->skipped;
	file->skipped = file->lost_count;
}

static int look_at(struct file *file, struct looked *looked)
{
	sqlite3_int64 offset = (sqlite3_int64)(looked->number - 1) * PAGE_BYTES;
	uint8_t page[PAGE_BYTES];
	int code = file->real->pMethods->xRead(file->real, page, sizeof(page), offset);

	if (code != SQLITE_OK && code != SQLITE_IOERR_SHORT_READ)
		return code;
	looked->damaged = file->summed && (code != SQLITE_OK || is_damaged(page, offset));
	return SQLITE_OK;
}

static int on_control(sqlite3_file *base, int what, void *argument)
{
	struct file *file = (struct file *)base;

	switch (what) {
	case BELIEVE:
		believe(file, argument);
		return SQLITE_OK;
	case SKIP:
		skip(file, argument);
		return SQLITE_OK;
	case LOOK:
		return look_at(file, argument);
	default:
		return REAL(base, xFileControl, what, argument);
	}
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

#define METHODS                                                                                    \
	.iVersion = 2, .xClose = on_close, .xTruncate = on_truncate, .xSync = on_sync,             \
	.xFileSize = on_size, .xLock = on_lock, .xUnlock = on_unlock,                              \
	.xCheckReservedLock = on_is_locked, .xFileControl = on_control, .xSectorSize = on_sector,  \
	.xDeviceCharacteristics = on_device

static const sqlite3_io_methods log_methods = {
	METHODS,
	.xRead = on_log_read,
	.xWrite = on_log_write,
};

static const sqlite3_io_methods methods = {
	METHODS,
	.xRead = on_read,
	.xWrite = on_write,
	.xShmMap = on_map,
	.xShmLock = on_map_lock,
	.xShmBarrier = on_map_barrier,
	.xShmUnmap = on_unmap,
};

static sqlite3_vfs vfs;
static size_t real_size;
static int registered;

/* The file of a database and its log. Journals and temporary files are the system's own. */
static int on_open(sqlite3_vfs *self, const char *name, sqlite3_file *base, int flags,
		   int *ret_flags)
{
	struct file *file = (struct file *)base;
	sqlite3_vfs *real = sqlite3_vfs_find(NULL); /* tests have their own */
	int code;

	if (!real || (size_t)real->szOsFile > real_size)
		return SQLITE_CANTOPEN;
	if (!(flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL)))
		return real->xOpen(real, name, base, flags, ret_flags);
	memset(file, 0, sizeof(*file));
	code = real->xOpen(real, name, file->real, flags, ret_flags);
	if (code != SQLITE_OK)
		return code;
	if (flags & SQLITE_OPEN_WAL)
		file->database = (struct file *)sqlite3_database_file_object(name);
	file->base.pMethods = flags & SQLITE_OPEN_WAL ? &log_methods : &methods;
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

uint32_t page_sum_skip(sqlite3 *db)
{
	uint32_t more = 0;

	sqlite3_file_control(db, "main", SKIP, &more);
	return more;
}

int page_sum_look(sqlite3 *db, uint32_t number)
{
	struct looked looked = { .number = number };

	if (sqlite3_file_control(db, "main", LOOK, &looked) != SQLITE_OK)
		return -EIO;
	return looked.damaged;
}
