/* reader.h: what was learned of a process and holds for its next request: its interpreter and code
 * objects, its files and their names. A few are kept, for as long as somebody watches.
 */
#ifndef TS_STACK_READER_H
#define TS_STACK_READER_H

#include <stdint.h>

#include "core/base/cleanup.h"
#include "daemon/limits.h"
#include "daemon/native/native.h"
#include "daemon/proc/procfs.h"
#include "daemon/python/python.h"

struct reader {
	uint32_t pid;
	struct procfs_program program;
	struct python *python; /* NULL: look for it */
	struct native *native; /* NULL: not asked for yet */
	uint64_t used_ns;
};

struct readers {
	struct reader *kept[LIMIT_STACK_KEPT];
};

/* For a process, which is then the caller's alone: the one that is kept, or a new one. NULL: no
 * memory. */
struct reader *readers_take(struct readers *readers, uint32_t pid);
/* Forgets what it knows unless the process still runs the program that it was read from. Reads
 * /proc. -ESRCH: there is no such process. */
int reader_check(struct reader *reader);
/* Keeps it, in the place of the oldest if need be. */
void readers_put(struct readers *readers, struct reader *reader, uint64_t now_ns);
/* Drops those that nobody has taken for LIMIT_STACK_KEEP_NS. */
void readers_tick(struct readers *readers, uint64_t now_ns);
struct reader *reader_free(struct reader *reader);

CLEANUP_DEFINE(struct reader, reader_free)

#endif
