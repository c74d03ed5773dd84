/* Export: the order of slices, and the things already named. */
#include "client/export/export.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/vector.h"

static uint64_t begin_of(const struct op *op)
{
	return show_has_work(op) ? op->gpu_start_ns : op->start_ns;
}

static uint64_t end_of(const struct op *op)
{
	return show_has_work(op) ? op->gpu_end_ns : op->end_ns;
}

static int compare(const void *a, const void *b)
{
	const struct op *x = *(const struct op *const *)a, *y = *(const struct op *const *)b;

	if (begin_of(x) != begin_of(y))
		return begin_of(x) < begin_of(y) ? -1 : 1;
	if (end_of(x) != end_of(y))
		return end_of(x) > end_of(y) ? -1 : 1;
	return x < y ? -1 : x > y;
}

const struct op **export_sort(struct export_order *order, const struct op *op, size_t count)
{
	bool sorted = true;

	if (VECTOR_ROOM(order->op, order->room, count) < 0)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		order->op[i] = &op[i];
		if (i > 0 && sorted)
			sorted = compare(&order->op[i - 1], &order->op[i]) < 0;
	}
	if (!sorted)
		qsort(order->op, count, sizeof(*order->op), compare);
	return order->op;
}

void export_order_clear(struct export_order *order)
{
	free(order->op);
	*order = (struct export_order){ 0 };
}

int export_first(struct map *seen, uint64_t what, uint64_t id)
{
	static char mark;
	struct map_key key = { what, id };

	if (map_get(seen, key))
		return 0;
	return map_put(seen, key, &mark) < 0 ? -ENOMEM : 1;
}
