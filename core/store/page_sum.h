/* page_sum.h: a checksum in each page of the database file.
 *
 * A page that has changed on its own, on the disk or on the way from it, is SQLITE_IOERR_DATA to
 * whoever reads it. The last PAGE_SUM_BYTES of a page are reserved for its checksum, which a file
 * is asked for before its first table. Pages that others wrote have none, and are taken as they
 * are.
 */
#ifndef TS_PAGE_SUM_H
#define TS_PAGE_SUM_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#define PAGE_SUM_BYTES 8

/* The name of the VFS to open a database with; NULL: no memory. On any thread. */
const char *page_sum_vfs(void);
/* Reserves the room in a file without tables, or in one that a VACUUM follows. */
int page_sum_reserve(sqlite3 *db);
/* It was not followed by one. */
void page_sum_unreserve(sqlite3 *db);
/* 1: each page has room for its checksum. */
int page_sum_is_reserved(sqlite3 *db);
/* Whether this connection takes damaged pages as they are; a change of such a page makes its
 * checksum right. Returns how many it took since the last call. */
uint64_t page_sum_believe(sqlite3 *db, bool believe);

#endif
