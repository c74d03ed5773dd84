/* Rollup: calls added up by second and by what they have in common, until the checkpoint hands
 * the rows over. At the limit calls share a row without stack and stream; where even that many
 * rows are taken (the same number again) a call is not added up. Both are counted. */
#include "core/rollup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/model.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#define NS_PER_S	1000000000ull
#define ROLLUP_ROOM_MIN 256

int rollup_init(struct core *core)
{
	struct rollups *rollups = &core->rollups;
	uint32_t buckets = ROLLUP_ROOM_MIN;

	while (buckets < core->config.max_rollups * 2ull)
		buckets *= 2;
	rollups->bucket = calloc(buckets, sizeof(*rollups->bucket));
	if (!rollups->bucket)
		return -ENOMEM;
	rollups->bucket_mask = buckets - 1;
	return 0;
}

static uint32_t *rollup_bucket(struct rollups *rollups, const struct core_rollup *key)
{
	const uint64_t words[] = {
		key->second,
		key->stack_id,
		(uint64_t)key->process << 32 | key->stream,
		(uint64_t)(uint32_t)key->result << 32 | (uint32_t)key->fn << 16 | key->kind << 8 |
			key->detail,
		(uint64_t)(uint16_t)key->device << 1 | key->freed,
	};
	/* The seed is an address, which nobody who could make keys knows. */
	uint64_t hash = XXH3_64bits_withSeed(words, sizeof(words), (uintptr_t)rollups->bucket);

	return &rollups->bucket[hash & rollups->bucket_mask];
}

static bool rollup_is(const struct core_rollup *a, const struct core_rollup *b)
{
	return a->second == b->second && a->stack_id == b->stack_id && a->process == b->process &&
	       a->stream == b->stream && a->result == b->result && a->fn == b->fn &&
	       a->kind == b->kind && a->detail == b->detail && a->device == b->device &&
	       a->freed == b->freed;
}

static int rollup_grow(struct rollups *rollups)
{
	uint32_t room = rollups->room ? rollups->room * 2 : ROLLUP_ROOM_MIN;
	struct rollup_row *row = realloc(rollups->row, room * sizeof(*row));

	if (!row)
		return -ENOMEM;
	rollups->row = row;
	rollups->room = room;
	return 0;
}

/* The row of a key, made if there are fewer than `max`. */
static struct core_rollup *rollup_get(struct rollups *rollups, const struct core_rollup *key,
				      uint64_t max)
{
	uint32_t *bucket = rollup_bucket(rollups, key);
	struct rollup_row *row;

	for (uint32_t i = *bucket; i; i = rollups->row[i - 1].next)
		if (rollup_is(&rollups->row[i - 1].sum, key))
			return &rollups->row[i - 1].sum;
	if (rollups->count >= max)
		return NULL;
	if (rollups->count == rollups->room && rollup_grow(rollups) < 0)
		return NULL;
	row = &rollups->row[rollups->count++];
	*row = (struct rollup_row){ .sum = *key, .next = *bucket };
	*bucket = rollups->count;
	return &row->sum;
}

static struct core_rollup *rollup_of(struct core *core, const struct core_rollup *key)
{
	uint64_t max = core->config.max_rollups;
	struct core_rollup *row = rollup_get(&core->rollups, key, max);
	struct core_rollup coarse = *key;

	if (row)
		return row;
	loss_count(core, process_by_id(core, key->process), LOSS_LIMIT);
	coarse.stack_id = 0;
	coarse.stream = 0;
	return rollup_get(&core->rollups, &coarse, max * 2);
}

static void rollup_time(struct core_rollup *row, uint64_t ns)
{
	if (!row->timed++ || ns < row->min_ns)
		row->min_ns = ns;
	if (ns > row->max_ns)
		row->max_ns = ns;
	row->total_ns += ns;
}

void rollup_add_call(struct core *core, const struct op *op)
{
	struct core_rollup key = {
		.second = op->start_ns / NS_PER_S,
		.stack_id = op->stack_id,
		.process = op->process,
		.stream = op->stream,
		.result = op->result,
		.fn = op->fn,
		.kind = op->kind,
		.detail = op->detail,
		.device = op->device,
	};
	struct core_rollup *row = rollup_of(core, &key);

	if (!row)
		return;
	row->calls++;
	row->bytes += op->bytes;
	if (op->end_ns)
		rollup_time(row, op->end_ns - op->start_ns);
}

void rollup_add_freed(struct core *core, const struct core_allocation *allocation, uint64_t time_ns)
{
	struct core_rollup key = {
		.second = time_ns / NS_PER_S,
		.stack_id = allocation->stack_id,
		.process = allocation->process,
		.fn = allocation->fn,
		.kind = OP_ALLOC,
		.detail = allocation->kind,
		.device = allocation->device,
		.freed = true,
	};
	struct core_rollup *row = rollup_of(core, &key);

	if (!row)
		return;
	row->calls++;
	row->bytes += allocation->bytes;
}

void rollup_checkpoint(struct core *core)
{
	struct rollups *rollups = &core->rollups;

	if (!rollups->count)
		return;
	for (uint32_t i = 0; i < rollups->count; i++)
		core->config.sink.rollup(core->config.data, &rollups->row[i].sum);
	rollups->count = 0;
	memset(rollups->bucket, 0, (rollups->bucket_mask + 1ull) * sizeof(*rollups->bucket));
}

void rollup_release(struct core *core)
{
	free(core->rollups.row);
	free(core->rollups.bucket);
}
