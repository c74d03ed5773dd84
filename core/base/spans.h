/* spans.h: the time covered by at least one of many spans, piece by piece. */
#ifndef TS_CLIENT_SPANS_H
#define TS_CLIENT_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct span {
	uint64_t start_ns, end_ns;
};

/* All zero is empty. */
struct spans {
	struct span *span; /* a heap, by start */
	size_t count, room;
	uint64_t until_ns; /* everything before has been returned */
};

int spans_put(struct spans *spans, uint64_t start_ns, uint64_t end_ns);
/* The next piece, not overlapping any other, of the spans that start before that time; spans put
 * later must not start earlier. */
bool spans_take(struct spans *spans, uint64_t before_ns, struct span *ret);
void spans_clear(struct spans *spans);

#endif
