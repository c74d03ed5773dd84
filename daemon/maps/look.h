/* look.h: what a process maps, with its files, found out in a helper, as it may take as long as the
 * process likes. Request and answer are messages of bytes.
 */
#ifndef TS_MAPS_LOOK_H
#define TS_MAPS_LOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include "daemon/maps/record.h"

#define MAPS_LOOK_MESSAGE (32 << 10)
#define MAPS_LOOK_FILES	  32 /* descriptors in a message */
#define MAPS_LOOK_PATH	  4096

/* What identifies a file. On overlayfs the device is 0 and the other fields, which come from the
 * underlying file, decide. */
struct maps_identity {
	uint64_t device, inode;
	int64_t size, modified_s, modified_ns;
};

enum maps_look_kind {
	MAPS_LOOK_OPEN,	  /* opens the files of mappings */
	MAPS_LOOK_SEARCH, /* only tells, by its result, if the process maps a library */
};

/* The head of a request. The mappings of process `pid` come first, if it is not 0, and then those
 * of records, which are behind it; a file is looked for in the process of its mapping, then, if
 * that is gone, in `ppid` (0: unknown), and in our own root. */
struct maps_look {
	uint32_t kind; /* enum maps_look_kind */
	uint32_t pid;
	uint32_t ppid;
	uint32_t max;	     /* mappings of the process, beside those of libraries */
	char patterns[1024]; /* of libraries */
};

/* A mapping, in both directions; its path is behind it. */
struct maps_looked {
	uint32_t size; /* with the path and its NUL, a multiple of 8 */
	uint32_t pid;
	uint64_t start, end, offset;
	uint64_t device, inode; /* request: as the kernel prints them; answer: of the file */
	/* of an answer, from bytes that need not be 0 or 1: */
	uint8_t file;	  /* otherwise it is memory, or could not be opened */
	uint8_t deleted;  /* the file has no name any more */
	uint8_t silent;	  /* it was not opened: who serves it may not answer */
	int32_t fd;	  /* index among the message's descriptors, -1: sent before */
	uint32_t limited; /* mappings that were left out before this one */
	struct maps_identity identity;
	char path[];
};

/* Appends a record to a message of `size` bytes with room for `max`. -ENOSPC: no room. */
int maps_looked_put(char *message, size_t *size, size_t max, const struct maps_record *record);
/* The one at `*at`, which then is behind it. NULL: there is none, or it is damaged. */
struct maps_looked *maps_looked_next(char *message, size_t size, size_t *at);

/* Does it. Messages of mappings go to `say`, whose failure ends it. Returns 1 if a library was
 * found, -ESRCH if the process is gone. */
typedef int maps_look_say(void *data, char *message, size_t size, const int *fd, uint32_t fds);
int maps_look(const void *request, size_t size, maps_look_say *say, void *data);

/* Whether reading a file, and closing it, ends: for FUSE a program answers, and anybody may mount
 * that. One that root has mounted where we see it is trusted; in a user namespace everybody may
 * be root, but mounts made there are seen there only. */
bool maps_file_answers(int fd, const struct stat *st);
/* The file of a MMAP record for reading: a descriptor of the caller's. It may take long, too. */
int maps_record_open(const struct maps_record *record);

#endif
