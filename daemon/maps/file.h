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
#include "daemon/maps/maps.h"
#include "daemon/maps/record.h"

#define MAPS_FILE_BUCKETS 1024

struct maps_files {
	struct list bucket[MAPS_FILE_BUCKETS];
	struct list open; /* most recently used last */
	uint32_t open_count, open_max;
	uint64_t limited; /* files that stayed closed */
};

struct maps_files *maps_files_new(uint32_t open_max);
/* Files that others still refer to outlive the table. */
struct maps_files *maps_files_free(struct maps_files *files);

/* The file of a MMAP record, with a reference for the mapping. It is looked for in the process,
 * then, if the process is gone, in its parent `ppid` (0: unknown), and in our own root. */
int maps_files_open(struct maps_files *files, const struct maps_record *record, uint32_t ppid,
		    struct maps_file **ret);
/* The file of a MMAP record for reading, outside of any table: a descriptor of the caller's. On any
 * thread. */
int maps_record_open(const struct maps_record *record);
/* Another mapping of a file, and the end of one. */
struct maps_file *maps_files_share(struct maps_file *file);
struct maps_file *maps_files_put(struct maps_file *file);
/* The file is used: reopens it if necessary and possible. */
void maps_files_use(struct maps_files *files, struct maps_file *file,
		    const struct maps_record *record);

#endif
