/* freed.h: counts the code objects that Pythons free, so that the BPF programs need not read those
 * of a stack again each time (bpf/freed.bpf.h): with a probe in each process, as long as it does
 * not free too many.
 */
#ifndef TS_FREED_H
#define TS_FREED_H

#include <stdint.h>

#include "daemon/probe/linker.h"
#include "daemon/probe/probe.h"
#include "daemon/probe/remover.h"

struct freed;

/* How many it has freed since the last time; each was a trap. */
typedef void freed_counted(void *data, uint32_t pid, uint32_t objects);

int freed_new(struct probe *probe, struct linker *linker, struct remover *remover,
	      freed_counted *counted, void *data, struct freed **ret);
/* Takes the probes off, and makes no more. */
void freed_close(struct freed *freed);
/* When the linker has nothing to do any more. Takes NULL, too. */
struct freed *freed_free(struct freed *freed);

/* A process frees code objects at `offset` in a file, whose descriptor it takes over. What goes to
 * struct ts_python; 0: it is not counted, as the kernel has no links to one process, or its user
 * has too many that are. */
uint16_t freed_add(struct freed *freed, uint32_t pid, uint32_t user, int file, uint64_t offset);
/* It has ended, or runs another program. Takes NULL, too. */
void freed_forget(struct freed *freed, uint32_t pid);
/* Now and then. */
void freed_tick(struct freed *freed, uint64_t now_ns);

struct freed_stats {
	uint32_t counted; /* processes */
	uint64_t paused;  /* how often one freed too many */
};
void freed_stats(const struct freed *freed, struct freed_stats *ret);

#endif
