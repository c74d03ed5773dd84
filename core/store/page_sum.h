/* page_sum.h: a checksum in each page of the database file.
 *
 * A page that has changed on its own, on the disk or on the way from it, is SQLITE_CORRUPT to
 * whoever reads it. It loses only itself to who does so again after page_sum_skip(). The last
 * PAGE_SUM_BYTES of a page are reserved for its checksum, which a file is asked for before its
 * first table. Pages that others wrote have none, and are taken as they are.
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
 * checksum right. Returns how many it took since the last call that it had not met before.
 */
uint64_t page_sum_believe(sqlite3 *db, bool believe);

/* What a connection reads from now on leaves out the damaged pages that it has met: the pages above
 * do not have them any more. Nothing may be reading, or be cached (sqlite3_db_release_memory()).
 * Returns how many more these are than at the last call; 0: it would meet the same ones again. */
uint32_t page_sum_skip(sqlite3 *db);
/* Whether a page of the file is damaged, 0 or 1, whatever the log has of it. -EIO: it cannot be
 * read now, which says nothing. */
int page_sum_look(sqlite3 *db, uint32_t number);

#endif
