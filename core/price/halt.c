/* Halt: looks at the state of a process, one after the other. */
#include "core/price/halt.h"

#include "core/base/time.h"

#define LONG_NS	 (400 * NS_PER_MS) /* no tracer who does his work and goes needs it */
#define APART_NS (2 * NS_PER_S)	   /* looks with more in between say nothing together */

bool halt_look(struct halt *halt, char state, uint64_t now_ns)
{
	bool apart = now_ns - halt->looked_ns > (uint64_t)APART_NS;

	halt->looked_ns = now_ns;
	if (state != 't')
		halt->since_ns = 0;
	else if (!halt->since_ns || apart)
		halt->since_ns = now_ns;
	return state == 'T' || (halt->since_ns && now_ns - halt->since_ns >= (uint64_t)LONG_NS);
}
