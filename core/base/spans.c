/* Spans: they wait in a heap until no earlier one can come. */
#include "core/base/spans.h"

#include <errno.h>
#include <stdlib.h>

int spans_put(struct spans *spans, uint64_t start_ns, uint64_t end_ns)
{
	size_t i = spans->count;

	if (end_ns <= start_ns)
		return 0;
	if (spans->count == spans->room) {
		size_t room = spans->room ? 2 * spans->room : 16;
		struct span *more = reallocarray(spans->span, room, sizeof(*more));

		if (!more)
			return -ENOMEM;
		spans->span = more;
		spans->room = room;
	}
	spans->count++;
	for (; i > 0 && start_ns < spans->span[(i - 1) / 2].start_ns; i = (i - 1) / 2)
		spans->span[i] = spans->span[(i - 1) / 2];
	spans->span[i] = (struct span){ start_ns, end_ns };
	return 0;
}

static struct span pop(struct spans *spans)
{
	struct span first = spans->span[0], last = spans->span[--spans->count];
	size_t i = 0, child;

	for (; (child = 2 * i + 1) < spans->count; i = child) {
		if (child + 1 < spans->count &&
		    spans->span[child + 1].start_ns < spans->span[child].start_ns)
			child++;
		if (last.start_ns <= spans->span[child].start_ns)
			break;
		spans->span[i] = spans->span[child];
	}
	spans->span[i] = last;
	return first;
}

bool spans_take(struct spans *spans, uint64_t before_ns, struct span *ret)
{
	while (spans->count > 0 && spans->span[0].start_ns < before_ns) {
		struct span span = pop(spans);

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
