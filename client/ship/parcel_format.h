/* parcel_format.h: the heads in a parcel's file. It is read by the host that wrote it, so integers
 * are as they are in memory. A later version must read what a former one left behind. */
#ifndef TS_CLIENT_PARCEL_FORMAT_H
#define TS_CLIENT_PARCEL_FORMAT_H

#include <stdint.h>

#define PARCEL_MAGIC "TSPARCL1"

struct parcel_head {
	char magic[8];
	char boot_id[40];
	int64_t wall_offset_ns;
	uint64_t minute, next, newest, told_ns, lost_s, rows, bytes;
	uint32_t blocks, compression;
};
_Static_assert(sizeof(struct parcel_head) == 120, "the head has no holes");

struct parcel_block_head {
	char table[16];
	uint64_t bytes;
	uint32_t number, rows, columns_size, zero;
};
_Static_assert(sizeof(struct parcel_block_head) == 40, "the head has no holes");

#endif
