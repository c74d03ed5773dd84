/* owned.h: a link to probes, and the memory to take it off with. It is taken off by the remover,
 * and whoever waits for that holds it, too.
 */
#ifndef TS_OWNED_H
#define TS_OWNED_H

#include <stdatomic.h>
#include <stdbool.h>

#include "daemon/probe/probe.h"
#include "daemon/probe/remover.h"

struct owned_link {
	struct removal removal;
	atomic_int holders;
	atomic_bool closed;
	struct probe_link *link;
};

/* NULL: no memory. */
struct owned_link *owned_new(void);
/* NULL */
struct owned_link *owned_unref(struct owned_link *owned);

/* Has it taken off; returns it to whoever waits until it is off. */
struct owned_link *owned_close(struct remover *remover, struct owned_link *owned);
/* The same, and nobody waits. Takes NULL, too. */
void owned_drop(struct remover *remover, struct owned_link *owned);
/* NULL is not. */
bool owned_is_closing(const struct owned_link *owned);

#endif
