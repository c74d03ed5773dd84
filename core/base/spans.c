/* Spans: they wait in a heap until no earlier one can come. */
#include "core/base/spans.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/heap.h"
#include "core/base/vector.h"

static bool span_before(const struct span *a, const struct span *b)
{
	return a->start_ns < b->start_ns;
}
HEAP_DEFINE(heap, struct span, span_before);

int spans_put(struct spans *spans, uint64_t start_ns, uint64_t end_ns)
{
	if (end_ns <= start_ns)
		return 0;
	if (VECTOR_ROOM(spans->span, spans->room, spans->count + 1) < 0)
		return -ENOMEM;
	heap_put(spans->span, spans->count++, (struct span){ start_ns, end_ns });
	return 0;
}

bool spans_take(struct spans *spans, uint64_t before_ns, struct span *ret)
{
	while (spans->count > 0 && spans->span[0].start_ns < before_ns) {
		struct span span = heap_take(spans->span, spans->count--);

		if (span.end_ns <= spans->until_ns)
			continue;
		if (span.start_ns < spans->until_ns)
			span.start_ns = spans->until_ns;
		spans->until_ns = span.end_ns;
		*ret = span;
		return true;
	}
	return false;
}

void spans_clear(struct spans *spans)
{
	free(spans->span);
	*spans = (struct spans){ 0 };
}
