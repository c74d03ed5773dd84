/* ship.h: the shipper: makes parcels of what the daemon knows, and sends them. */
#ifndef TS_CLIENT_SHIP_H
#define TS_CLIENT_SHIP_H

#include <stdbool.h>

#include "client/ship/settings.h"
#include "core/base/cleanup.h"

struct ship;

/* The strings must stay. What fails is logged. -EBUSY: another one uses the state folder. */
int ship_new(const struct settings *settings, const char *state, const char *status,
	     struct ship **ret);
struct ship *ship_free(struct ship *ship);
/* Asks daemon and server whether all is well, without sending anything. */
int ship_check(struct ship *ship);
/* Ships; returns only when `once`: when all is shipped, also of the minute that is not over, or the
 * first time something fails. */
int ship_run(struct ship *ship, bool once);

CLEANUP_DEFINE(struct ship, ship_free)

#endif
