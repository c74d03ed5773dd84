/* remover.h: takes probes off in threads of its own. The kernel waits for every CPU: some
 * milliseconds, on a busy host many seconds.
 */
#ifndef TS_REMOVER_H
#define TS_REMOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/list.h"

struct remover;

/* Part of what is to be taken off, so that asking for it needs no memory. */
struct removal {
	struct list link;
	bool (*take_off)(struct removal *removal);
};

int remover_new(struct remover **ret);
/* Calls `take_off` in a thread, first come, first served; it may free the removal. False: not now;
 * it is called again when the others had their turn. Any thread may ask. */
void remover_add(struct remover *remover, struct removal *removal,
		 bool (*take_off)(struct removal *removal));
/* How many are not off yet. */
uint32_t remover_waiting(struct remover *remover);
/* Waits for the threads. -ETIMEDOUT: they go on, and keep what they need; the kernel takes the rest
 * off when the process ends. Takes NULL, too. */
int remover_free(struct remover *remover, uint64_t wait_ns);

#endif
