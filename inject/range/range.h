/* tracesmith/range.h: marks spans of a program, which TraceSmith shows on its timeline, in exports
 * and in `tsctl query ranges`, as it shows ranges of NVTX.
 *
 *	uint64_t step = tracesmith_range_begin("step");
 *	...
 *	tracesmith_range_end(step);
 *
 * Link with -ltracesmith-range (pkg-config tracesmith-range). Nothing is set up, and without
 * a daemon a call costs some nanoseconds. Any thread may call, spans may nest or overlap, and a
 * thread may end what another one started. What a thread has not ended when it ends itself is cut
 * there. In the child of a fork the parent's spans do not exist.
 */
#ifndef TRACESMITH_RANGE_H
#define TRACESMITH_RANGE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Begins a span of the calling thread. The name is UTF-8, read before the call returns, and cut
 * after 72 bytes; NULL: it has none. Returns its number, which is never 0. */
uint64_t tracesmith_range_begin(const char *name);

/* Ends the span with this number. Without effect for 0. */
void tracesmith_range_end(uint64_t number);

#ifdef __cplusplus
}
#endif

#endif
