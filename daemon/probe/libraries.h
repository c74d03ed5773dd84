/* libraries.h: the copies of the driver library that have probes.
 *
 * A copy is a file (device and inode). It gets its probes when a process maps it and loses them
 * when none does any more, except standing copies: those are known by path and keep their probes,
 * so that not even the first call of a new process is missed.
 */
#ifndef TS_LIBRARIES_H
#define TS_LIBRARIES_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/probe/probe.h"

struct libraries;

struct library_copy {
	uint64_t device, inode;
	char *path;
	int fd;
	bool standing;
	bool mapped;
	uint64_t attached_ns;
	struct probe_library *probes; /* NULL: attaching failed */
	int error;		      /* why, negative errno */
};

int libraries_new(struct probe *probe, struct libraries **ret);
struct libraries *libraries_free(struct libraries *libraries);

/* Attaches to the files that the patterns (separated by spaces) match now. */
void libraries_add_standing(struct libraries *libraries, const char *patterns);
/* A process maps the file behind `fd` (borrowed). 1: its probes are new, 0: it had them. */
int libraries_mapped(struct libraries *libraries, int fd, const char *path);
/* No process maps it any more. */
void libraries_unmapped(struct libraries *libraries, uint64_t device, uint64_t inode);

/* The n-th, NULL after the last. */
const struct library_copy *libraries_get(const struct libraries *libraries, uint32_t n);

#endif
