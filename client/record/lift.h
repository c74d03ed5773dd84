/* lift.h: while processes are recorded, no budget of the probes keeps their calls from being seen.
 */
#ifndef TS_CLIENT_RECORD_LIFT_H
#define TS_CLIENT_RECORD_LIFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/link/link.h"

struct record_lift {
	uint32_t budget_ppm; /* instead; 0: none */
	bool told;	     /* that it is not allowed */
};

/* Repeat this every second or so: it holds for a few seconds, so nothing is left when we are
 * killed. What is not allowed is said once; a process that has ended is ignored. A negative errno:
 * the connection is lost, and it was printed. */
int record_lift(struct record_lift *lift, struct link *link, const uint32_t *pid, size_t count);

#endif
