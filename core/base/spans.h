/* spans.h: the time that at least one of many spans covers, piece by piece. */
#ifndef TS_CLIENT_SPANS_H
#define TS_CLIENT_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct span {
	uint64_t start_ns, end_ns;
};

/* Zeroed is empty. */
struct spans {
	struct span *span; /* a heap, by start */
	size_t count, room;
	uint64_t until_ns; /* what was before is given out */
};

int spans_put(struct spans *spans, uint64_t start_ns, uint64_t end_ns);
/* A piece that no other one covers, of the spans that start before that time; what is put
 * afterwards has to start no earlier. */
bool spans_take(struct spans *spans, uint64_t before_ns, struct span *ret);
void spans_clear(struct spans *spans);

#endif
