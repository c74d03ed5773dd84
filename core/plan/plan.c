/* Plan: collects the ops of a recording, sorts them by time and has them built into calls and
 * works. A file may contain anything: impossible times are cleared. */
#include "core/plan/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/huge.h"
#include "core/plan/build.h"

/* Indexes have 32 bits, and a graph has three works where there is one op. */
#define PLAN_OPS_MAX (UINT32_MAX / 8)
/* No clock shows more than a century. */
#define PLAN_TIME_MAX_NS (1ull << 62)
#define PLAN_ROOM_MIN	 64

struct plan_builder *plan_builder_free(struct plan_builder *builder)
{
	if (!builder)
		return NULL;
	free(builder->op);
	free(builder->row);
	free(builder->device);
	plan_free(builder->plan);
	free(builder->stream);
	free(builder->thread);
	free(builder->context);
	free(builder->process);
	free(builder->event);
	map_clear(&builder->row_by_stream);
	map_clear(&builder->thread_by_tid);
	map_clear(&builder->stream_by_id);
	map_clear(&builder->device_by_ordinal);
	map_clear(&builder->context_by_handle);
	map_clear(&builder->process_by_id);
	map_clear(&builder->event_by_handle);
	free(builder->key);
	free(builder->spare_key);
	free(builder);
	return NULL;
}

int plan_builder_new(const uint8_t *effect, uint32_t effect_count, size_t max,
		     struct plan_builder **ret)
{
	struct plan_builder *builder = calloc(1, sizeof(*builder));

	if (!builder)
		return -ENOMEM;
	builder->effect = effect;
	builder->effect_count = effect_count;
	builder->max = max < PLAN_OPS_MAX ? max : PLAN_OPS_MAX;
	*ret = builder;
	return 0;
}

struct plan *plan_free(struct plan *plan)
{
	if (!plan)
		return NULL;
	free(plan->op);
	free(plan->call);
	free(plan->work);
	free(plan->edge);
	free(plan->thread);
	free(plan->stream);
	free(plan->device);
	free(plan);
	return NULL;
}

bool build_room(struct plan_builder *builder, void *array, uint32_t count, uint32_t *room,
		size_t size)
{
	void **items = array, *more;
	uint32_t wanted;

	if (count < *room)
		return true;
	wanted = count < PLAN_ROOM_MIN ? PLAN_ROOM_MIN : count + count / 2;
	more = wanted > count ? huge_realloc(*items, wanted, size) : NULL;
	if (!more) {
		builder->error = -ENOMEM;
		return false;
	}
	*items = more;
	*room = wanted;
	return true;
}

int plan_builder_stream(struct plan_builder *builder, const struct plan_stream_row *row)
{
	struct map_key key = { row->stream, row->process };

	if (!build_room(builder, &builder->row, builder->row_count, &builder->row_room,
			sizeof(*builder->row)))
		return -ENOMEM;
	builder->row[builder->row_count++] = *row;
	return map_put(&builder->row_by_stream, key, (void *)(uintptr_t)builder->row_count);
}

/* No thread or stream waited for states and ranges; and CUPTI repeats syncs that we have. */
static bool plan_takes(const struct op *op)
{
	if (!op->start_ns || op->start_ns >= PLAN_TIME_MAX_NS || op->kind == OP_STATE ||
	    op->kind == OP_RANGE || op->kind == OP_OVERHEAD)
		return false;
	return op->kind != OP_SYNC || !(op->flags & OP_EXACT);
}

static bool plan_reserve(struct plan_builder *builder, size_t count)
{
	size_t room = builder->op_count + count;
	struct op *op;

	if (room <= builder->op_room)
		return true;
	room += room / 2;
	op = huge_realloc(builder->op, room, sizeof(*op));
	if (!op)
		return false;
	builder->op = op;
	builder->op_room = room;
	return true;
}

/* A file may contain anything. */
static void plan_check_times(struct op *op)
{
	if (op->end_ns < op->start_ns || op->end_ns >= PLAN_TIME_MAX_NS)
		op->end_ns = 0;
	if (!op->gpu_start_ns || op->gpu_end_ns < op->gpu_start_ns ||
	    op->gpu_end_ns >= PLAN_TIME_MAX_NS)
		op->flags &= (uint16_t)~OP_EXACT;
}

int plan_builder_add(struct plan_builder *builder, const struct op *op, size_t count)
{
	if (!plan_reserve(builder, count))
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		struct op *to = &builder->op[builder->op_count];

		if (!plan_takes(&op[i]))
			continue;
		if (builder->op_count == builder->max)
			return -E2BIG;
		*to = op[i];
		plan_check_times(to);
		if (to->start_ns <= builder->latest_ns)
			builder->disorder = true;
		builder->latest_ns = to->start_ns;
		builder->op_count++;
	}
	return 0;
}

#define COMPARE(a, b)                                                                              \
	if ((a) != (b))                                                                            \
	return (a) < (b) ? -1 : 1

/* For ops that start at the same time: the parts of what a call submits follow it, in order. */
static int plan_compare(const void *first, const void *second, void *data)
{
	const struct plan_key *one = first, *two = second;
	const struct op *op = data, *a = &op[one->number], *b = &op[two->number];

	COMPARE(a->process, b->process);
	COMPARE(a->tid, b->tid);
	COMPARE(a->flags & OP_NODE, b->flags & OP_NODE);
	COMPARE(a->gpu_start_ns, b->gpu_start_ns);
	COMPARE(a->gpu_end_ns, b->gpu_end_ns);
	COMPARE(a->stream, b->stream);
	COMPARE(a->node, b->node);
	COMPARE(a->kind, b->kind);
	COMPARE(a->correlation, b->correlation);
	return 0;
}

static void plan_sort_equals(const struct op *op, struct plan_key *key, size_t count)
{
	for (size_t i = 0, end; i < count; i = end) {
		for (end = i + 1; end < count && key[end].key == key[i].key; end++)
			;
		if (end - i > 1)
			qsort_r(key + i, end - i, sizeof(*key), plan_compare, (void *)op);
	}
}

/* An op takes four cache lines. */
static void op_prefetch(const struct op *op)
{
	const char *line = (const char *)op;

	for (size_t i = 0; i < sizeof(*op); i += 64)
		__builtin_prefetch(line + i);
}

/* Each op moves once: the permutation is applied cycle by cycle. */
static void plan_permute(struct op *op, struct plan_key *key, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct op first;
		size_t to = i;

		if (key[i].number == i)
			continue;
		first = op[i];
		while (key[to].number != i) {
			size_t from = key[to].number;

			op_prefetch(&op[key[from].number]);
			op[to] = op[from];
			key[to].number = (uint32_t)to;
			to = from;
		}
		op[to] = first;
		key[to].number = (uint32_t)to;
	}
}

static int plan_order(struct plan_builder *builder)
{
	size_t count = builder->op_count;
	uint64_t least_ns = UINT64_MAX;
	struct plan_key *sorted;

	builder->key = huge_malloc(count + 1, sizeof(*builder->key));
	builder->spare_key = huge_malloc(count + 1, sizeof(*builder->key));
	if (!builder->key || !builder->spare_key)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		if (builder->op[i].start_ns < least_ns)
			least_ns = builder->op[i].start_ns;
	for (size_t i = 0; i < count; i++)
		builder->key[i] =
			(struct plan_key){ builder->op[i].start_ns - least_ns, (uint32_t)i };
	sorted = plan_sort(builder->key, builder->spare_key, count);
	plan_sort_equals(builder->op, sorted, count);
	plan_permute(builder->op, sorted, count);
	free(TAKE(builder->key));
	free(TAKE(builder->spare_key));
	return 0;
}

int plan_builder_device(struct plan_builder *builder, uint32_t process, int16_t ordinal,
			uint32_t multiprocessors)
{
	struct build_device row = { process, ordinal, multiprocessors };

	if (!build_room(builder, &builder->device, builder->device_count,
			&builder->build_device_room, sizeof(*builder->device)))
		return -ENOMEM;
	builder->device[builder->device_count++] = row;
	return 0;
}

static void plan_take_devices(const struct plan_builder *builder)
{
	for (uint32_t i = 0; i < builder->device_count; i++) {
		const struct build_device *from = &builder->device[i];
		struct map_key key = { (uint16_t)from->ordinal, from->process };
		uint32_t device =
			(uint32_t)(uintptr_t)map_get(&builder->device_by_ordinal, key) - 1;

		if (device != PLAN_NONE)
			builder->plan->device[device].multiprocessors = from->multiprocessors;
	}
}

/* Few ops are no call, and few are more than one work. */
static bool plan_room(struct plan_builder *builder)
{
	struct plan *plan = builder->plan;

	if (plan->op_count < PLAN_ROOM_MIN)
		return true;
	builder->call_room = builder->work_room = (uint32_t)plan->op_count;
	plan->call = huge_malloc(builder->call_room, sizeof(*plan->call));
	plan->work = huge_malloc(builder->work_room, sizeof(*plan->work));
	return plan->call && plan->work;
}

int plan_builder_end(struct plan_builder *builder, struct plan **ret)
{
	int r;

	r = builder->disorder ? plan_order(builder) : 0;
	if (r < 0)
		return r;
	builder->plan = calloc(1, sizeof(*builder->plan));
	if (!builder->plan)
		return -ENOMEM;
	builder->plan->op = TAKE(builder->op);
	builder->plan->op_count = builder->op_count;
	builder->plan->start_ns = UINT64_MAX;
	builder->op_count = builder->op_room = 0;
	r = plan_room(builder) ? build_calls(builder) : -ENOMEM;
	plan_take_devices(builder);
	if (r == 0)
		r = build_order(builder);
	if (r == 0)
		r = build_times(builder);
	if (r < 0)
		return r;
	*ret = TAKE(builder->plan);
	return 0;
}
