/* file.h: the files behind mappings, each once, with a bounded number of them open.
 *
 * The device and inode that the kernel prints for a mapping do not identify a file: on btrfs all
 * subvolumes share the device, and equal snapshots the inodes; on overlayfs the device is (since
 * Linux 6.8) that of the overlay, of which each container has one, while uprobes act on the
 * underlying file, which several may share. So the file is opened and asked itself, and the printed
 * numbers only serve to detect another file.
 */
#ifndef TS_MAPS_FILE_H
#define TS_MAPS_FILE_H

#include <stdint.h>

#include "core/base/list.h"
#include "daemon/limits.h"
#include "daemon/maps/look.h"
#include "daemon/maps/maps.h"
#include "daemon/maps/record.h"

#define MAPS_FILE_BUCKETS 1024

struct maps_files {
	struct list bucket[MAPS_FILE_BUCKETS];
	struct list open; /* most recently used last */
	uint32_t open_count, open_max;
	struct maps_file *recent[LIMIT_MAPS_RECENT]; /* NULL: none; oldest at `recent_at` */
	uint32_t recent_at;
	uint64_t limited; /* files that stayed closed */
};

struct maps_files *maps_files_new(uint32_t open_max);
/* Files that others still refer to outlive the table. */
struct maps_files *maps_files_free(struct maps_files *files);

/* The file of a mapping that was looked at, with a reference for the mapping. Takes its descriptor
 * for reading over, -1: none came. NULL: no memory. */
struct maps_file *maps_files_take(struct maps_files *files, const struct maps_looked *looked,
				  int fd);
/* Nobody maps them in turns any more. */
void maps_files_forget_recent(struct maps_files *files);
/* The same for a record, if it can be told without a look. NULL: it cannot. */
struct maps_file *maps_files_known(struct maps_files *files, const struct maps_record *record);
/* Another mapping of a file, and the end of one. */
struct maps_file *maps_files_share(struct maps_file *file);
struct maps_file *maps_files_put(struct maps_file *file);
/* The file is used. False: it is closed, and should be opened again. */
bool maps_files_use(struct maps_files *files, struct maps_file *file, uint64_t now_ns);

#endif
