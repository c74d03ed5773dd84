/* halt.h: whether a process that is seen not to run is stopped, by a signal or a debugger, or only
 * in a tracer's hands for a moment, as while the library is put in. Pure.
 */
#ifndef TS_PRICE_HALT_H
#define TS_PRICE_HALT_H

#include <stdbool.h>
#include <stdint.h>

struct halt {
	uint64_t since_ns;  /* traced at each look since then; 0: not at the last one */
	uint64_t looked_ns; /* the last one */
};

/* A look, one of several a second. `state`: as in /proc/PID/stat. */
bool halt_look(struct halt *halt, char state, uint64_t now_ns);

#endif
