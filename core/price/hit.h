/* hit.h: what estimates take for a call, where that is not measured on the host at start. */
#ifndef TS_PRICE_HIT_H
#define TS_PRICE_HIT_H

/* In the exact tier, with its probes and what follows from it; parts of a graph come on top. */
#define HIT_EXACT_NS 8000
/* One that our library reports; a walk of its stack there comes on top. */
#define HIT_INSIDE_NS 100
/* One while CUPTI is in the process, switched off (0.6 to 1.1 us on H200s, tests/gpu/cupti_rest.c).
 */
#define HIT_REST_NS 1000

#endif
