/* Order: a heap of runs by their next op. A run is what is left of a chunk: some ops are at hand,
 * the rest is encoded, and decoded again part by part. */
#include "core/sbt/order.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/heap.h"
#include "core/base/vector.h"
#include "core/sbt/sbt.h"

#define HELD_MAX 131072 /* ops at hand in total; beyond this a run gets only a slice */
#define SLICE	 256

struct run {
	uint64_t number;
	struct op *op; /* at hand: those from `at` on */
	size_t at, count;
	void *rest; /* the whole run, encoded; NULL: all at hand */
	size_t rest_size, rest_at, rest_count;
};

struct sbt_order {
	struct sbt_codec *codec;
	struct op *scratch;  /* SBT_OPS_MAX */
	struct run **run;    /* the heap */
	size_t count, room;  /* of it */
	size_t held;	     /* ops at hand */
	uint64_t run_number; /* of the last one */
	bool given;	     /* the first op of the heap was given out and must go */
};

static struct run *run_free(struct run *run)
{
	if (!run)
		return NULL;
	free(run->op);
	free(run->rest);
	free(run);
	return NULL;
}
CLEANUP_DEFINE(struct run, run_free)

int sbt_order_new(struct sbt_order **ret)
{
	_cleanup_(sbt_order_freep) struct sbt_order *order = calloc(1, sizeof(*order));

	if (!order || sbt_codec_new(&order->codec) < 0)
		return -ENOMEM;
	order->scratch = calloc(SBT_OPS_MAX, sizeof(*order->scratch));
	if (!order->scratch)
		return -ENOMEM;
	*ret = TAKE(order);
	return 0;
}

struct sbt_order *sbt_order_free(struct sbt_order *order)
{
	if (!order)
		return NULL;
	for (size_t i = 0; i < order->count; i++)
		run_free(order->run[i]);
	free(order->run);
	free(order->scratch);
	sbt_codec_free(order->codec);
	free(order);
	return NULL;
}

#define COMPARE(x, y, field)                                                                       \
	if ((x)->field != (y)->field)                                                              \
		return (x)->field < (y)->field ? -1 : 1;

/* The ops of one launch have one start: the device decides their order. */
static int compare_ops(const void *a, const void *b)
{
	const struct op *x = a, *y = b;

	COMPARE(x, y, start_ns)
	COMPARE(x, y, gpu_start_ns)
	COMPARE(x, y, process)
	COMPARE(x, y, stream)
	COMPARE(x, y, kind)
	COMPARE(x, y, tid)
	COMPARE(x, y, correlation)
	COMPARE(x, y, gpu_end_ns)
	return 0;
}

static bool before(struct run *const *a, struct run *const *b)
{
	const struct run *x = *a, *y = *b;
	int order = compare_ops(&x->op[x->at], &y->op[y->at]);

	return order < 0 || (order == 0 && x->number < y->number);
}

HEAP_DEFINE(heap, struct run *, before);

/* How many of `count` ops to keep at hand. */
static size_t share(const struct sbt_order *order, size_t count)
{
	return order->held + count <= HELD_MAX || count < SLICE ? count : SLICE;
}

static int hold(struct sbt_order *order, struct run *run, const struct op *op, size_t count)
{
	free(run->op);
	run->op = malloc(count * sizeof(*op));
	if (!run->op)
		return -ENOMEM;
	memcpy(run->op, op, count * sizeof(*op));
	run->at = 0;
	run->count = count;
	order->held += count;
	return 0;
}

static int encode(struct sbt_order *order, struct run *run, size_t count)
{
	const void *data;
	int r = sbt_encode(order->codec, order->scratch, count, &data, &run->rest_size);

	if (r < 0)
		return r;
	run->rest = malloc(run->rest_size);
	if (!run->rest)
		return -ENOMEM;
	memcpy(run->rest, data, run->rest_size);
	run->rest_at = run->count;
	run->rest_count = count;
	return 0;
}

static int refill(struct sbt_order *order, struct run *run)
{
	struct sbt_info info;
	size_t count = share(order, run->rest_count - run->rest_at);
	int r = sbt_decode(order->codec, run->rest, run->rest_size, SBT_ALL_COLUMNS, order->scratch,
			   &info);

	if (r == 0)
		r = hold(order, run, order->scratch + run->rest_at, count);
	run->rest_at += count;
	return r;
}

/* Removes the op that was given out. */
static int drop_first(struct sbt_order *order)
{
	struct run *run = order->run[0];
	int r = 0;

	order->given = false;
	order->held--;
	run->at++;
	if (run->at == run->count && run->rest_at < run->rest_count)
		r = refill(order, run);
	if (r < 0 || run->at == run->count) {
		run_free(run);
		order->run[0] = order->run[--order->count];
	}
	if (order->count > 0)
		heap_sink(order->run, order->count);
	return r;
}

int sbt_order_add(struct sbt_order *order, const struct op *op, size_t count)
{
	_cleanup_(run_freep) struct run *run = calloc(1, sizeof(*run));
	int r = order->given ? drop_first(order) : 0;
	bool sorted = true;

	if (!run)
		return -ENOMEM;
	if (r < 0 || count == 0)
		return r;
	if (count > SBT_OPS_MAX)
		return -EINVAL;
	memcpy(order->scratch, op, count * sizeof(*op));
	for (size_t i = 1; i < count && sorted; i++)
		sorted = compare_ops(&op[i - 1], &op[i]) <= 0;
	if (!sorted)
		qsort(order->scratch, count, sizeof(*op), compare_ops);
	run->number = ++order->run_number;
	r = hold(order, run, order->scratch, share(order, count));
	if (r == 0 && run->count < count)
		r = encode(order, run, count);
	if (r == 0)
		r = VECTOR_ROOM(order->run, order->room, order->count + 1);
	if (r < 0)
		return r;
	heap_put(order->run, order->count++, TAKE(run));
	return 0;
}

int sbt_order_next(struct sbt_order *order, uint64_t before_ns, const struct op **ret)
{
	int r = order->given ? drop_first(order) : 0;
	const struct run *run = order->count > 0 ? order->run[0] : NULL;

	if (r < 0 || !run || run->op[run->at].start_ns >= before_ns)
		return r;
	*ret = &run->op[run->at];
	order->given = true;
	return 1;
}

size_t sbt_order_count(const struct sbt_order *order)
{
	return order->count;
}
