/* parcel.h: the rows of one minute of a boot, as blocks that are each inserted at once, in a file
 * of the state folder.
 *
 * What the daemon would say about a minute changes: seconds become minutes, processes end. A parcel
 * does not: it is written before anything of it is sent, and goes when all of it has arrived. So a
 * block that is sent again is the same to the byte, by which servers tell that they have it. */
#ifndef TS_CLIENT_SHIP_PARCEL_H
#define TS_CLIENT_SHIP_PARCEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/ship/parcel_plan.h"
#include "core/base/cleanup.h"

struct parcel {
	int fd;
	char boot_id[CURSOR_BOOT_BYTES];
	int64_t wall_offset_ns;
	uint64_t minute, next, newest, told_ns, lost_s, rows, bytes;
	uint32_t blocks;
	enum compression compression;
	/* The next block: */
	uint32_t number;
	uint64_t at;
};

struct parcel_block {
	char table[PARCEL_TABLE_BYTES];
	char columns[PARCEL_COLUMNS_BYTES]; /* their names, with commas between */
	uint32_t number, rows;
	uint64_t offset, bytes; /* in the file */
};

/* 1: there is none. -EBADMSG: it is damaged. */
int parcel_open(int folder, struct parcel **ret);
struct parcel *parcel_free(struct parcel *parcel);
/* Writes the file. What fails says why in source->why; a full disk is -ENOSPC. */
int parcel_make(int folder, struct source *source, const struct parcel_plan *plan);
/* The same without a name, in the folder or, with -1, where temporary files are: it is gone when it
 * is closed. */
int parcel_make_unnamed(int folder, struct source *source, const struct parcel_plan *plan,
			struct parcel **ret);
/* From the first block again. */
void parcel_rewind(struct parcel *parcel);
/* 1: a block; 0: the end; -EBADMSG. */
int parcel_next(struct parcel *parcel, struct parcel_block *ret);
/* It has arrived: the next one starts from there. */
void parcel_move(const struct parcel *parcel, struct cursor *cursor);
void parcel_remove(int folder);

CLEANUP_DEFINE(struct parcel, parcel_free)

#endif
