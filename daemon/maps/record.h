/* record.h: one thing that happened to a process, according to the kernel: from a perf ring, or a
 * line of /proc/PID/maps.
 */
#ifndef TS_MAPS_RECORD_H
#define TS_MAPS_RECORD_H

#include <stdint.h>
#include <sys/types.h>

enum maps_record_kind {
	MAPS_RECORD_MMAP,
	MAPS_RECORD_EXEC,
	MAPS_RECORD_FORK, /* of a process, not a thread */
	MAPS_RECORD_EXIT, /* of any thread */
	MAPS_RECORD_LOST,
	MAPS_RECORD_KIND_COUNT,
};

struct maps_record {
	uint32_t kind; /* enum maps_record_kind */
	uint32_t pid;
	uint32_t ppid; /* FORK, EXIT */
	uint64_t time_ns;
	uint64_t lost;		     /* LOST: records */
	uint64_t start, end, offset; /* MMAP: executable */
	dev_t device;		     /* MMAP: as the kernel prints it, see file.h */
	uint64_t inode;		     /* MMAP: 0 without a file */
	const char *path;	     /* MMAP: as the process sees it; valid during the call */
};

#endif
