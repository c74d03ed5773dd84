/* link.h: puts the programs on functions of files. A link ends with its last descriptor.
 */
#ifndef TS_BROKER_LINK_H
#define TS_BROKER_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct link_places {
	int program; /* descriptor */
	int file;
	bool leave; /* when the functions return */
	uint32_t pid;
	uint32_t count;
	const uint64_t *offset, *cookie;
	const uint64_t *semaphore; /* in the file, 0: none; NULL: none of them has one */
};

/* One uprobe_multi link to all of them. Its descriptor, or a negative errno. */
int link_multi(const struct link_places *places);
/* A perf event for the first place, and its link. The same. */
int link_perf(const struct link_places *places);

/* Whether the kernel has uprobe_multi links and lets us use them. */
bool link_multi_works(int program);
/* Whether a link to a process is to that, and not to one of its threads. */
bool link_single_works(int program);

#endif
