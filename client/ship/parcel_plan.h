/* parcel_plan.h: what a parcel is made of, and how large it may be. */
#ifndef TS_CLIENT_SHIP_PARCEL_PLAN_H
#define TS_CLIENT_SHIP_PARCEL_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "client/ship/cursor.h"
#include "client/ship/offset.h"
#include "client/ship/settings.h"
#include "client/ship/source.h"

/* Below what a server splits (max_insert_block_size, min_insert_block_size_bytes), so that a block
 * is one there, too. */
#define PARCEL_BLOCK_ROWS    100000
#define PARCEL_BLOCK_BYTES   (8u << 20)

#define PARCEL_SECONDS	     60
#define PARCEL_TABLE_BYTES   16
#define PARCEL_COLUMNS_BYTES 1024 /* their names */

#define PARCEL_MINUTES_MAX   61

struct parcel_plan {
	const struct settings *settings;
	struct source_about about; /* its minute, and after which commit */
	uint64_t now_ns;	   /* of the boot, or its end */
	bool open;		   /* which is not over: it is to be shipped again */
	/* Others of the same boot whose sums have changed since they were sent. */
	uint32_t again[PARCEL_MINUTES_MAX];
	uint32_t again_count;
	char boot_id[CURSOR_BOOT_BYTES];
	int64_t wall_offset_ns; /* as it was first in that boot */
	uint64_t told_ns;	/* grows from parcel to parcel of a boot */
	/* Seconds that retention took before they were shipped; if their boot is
	 * gone, from == to. */
	uint64_t lost_from, lost_to, lost_s;
	uint64_t lag_s;
	const char *version, *machine, *kernel, *driver; /* version: of the daemon */
	int64_t cpus, gpus;
	bool current; /* the boot is */
	bool clock_known;
	struct offset_estimate clock; /* of this boot */
	const char *clock_server;
	int64_t clock_wall_offset_ns; /* as it was then */
	/* Of single operations; 0: none, and all else. */
	uint64_t since_ns, until_ns;
	bool host_known; /* there, which then is not told again with them */
};

#endif
