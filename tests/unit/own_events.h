/* own_events.h: the kernel's events of this test and of what it starts, as maps reads those of the
 * whole host. Among those others', who start programs at the same time, may push out what is to be
 * found: what is kept of processes that nobody follows is little. */
#ifndef TS_OWN_EVENTS_H
#define TS_OWN_EVENTS_H

#include "daemon/broker/event.h"

static inline int own_events_open(void *data, int cpu)
{
	return event_mapped(0, (uint32_t)cpu);
}

#endif
