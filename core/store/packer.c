/* Packer: sorts the ops of a batch into groups, by what a chunk's ops share, and encodes each
 * group. Its memory is kept from batch to batch. */
#include "core/store/packer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/map.h"
#include "core/sbt/sbt.h"
#include "core/store/sql.h"

#define NONE UINT32_MAX

struct entry {
	const struct op *op;
	uint32_t next; /* of its group */
};

struct group {
	uint32_t first, last; /* entries */
};

struct packer {
	struct sbt_codec *codec;
	sqlite3_stmt *insert;
	struct entry *entry;
	struct group *group;
	struct map group_by_key; /* number of a group and 1 */
	const struct op **sorted;
	uint32_t capacity, entry_count, group_count;
	struct op op[SBT_OPS_MAX];
};

int packer_new(sqlite3 *db, struct sbt_codec *codec, struct packer **ret)
{
	struct packer *packer = calloc(1, sizeof(*packer));
	int r;

	if (!packer)
		return -ENOMEM;
	packer->codec = codec;
	r = sql_prepare(
		db,
		"INSERT INTO chunk(boot, process, stream, kind, first_ns, last_ns, ops, batch,"
		" first_batch, data) VALUES(?,?,?,?,?,?,?,?,?,?)",
		&packer->insert);
	if (r < 0) {
		packer_free(packer);
		return r;
	}
	*ret = packer;
	return 0;
}

static void free_work(struct packer *packer)
{
	free(packer->entry);
	free(packer->group);
	free(packer->sorted);
	packer->entry = NULL;
	packer->group = NULL;
	packer->sorted = NULL;
	packer->capacity = 0;
}

struct packer *packer_free(struct packer *packer)
{
	if (packer) {
		free_work(packer);
		map_clear(&packer->group_by_key);
		sqlite3_finalize(packer->insert);
	}
	free(packer);
	return NULL;
}

static int make_room(struct packer *packer, uint32_t count)
{
	uint32_t capacity = 1024;

	while (capacity < count)
		capacity *= 2;
	if (capacity != packer->capacity) {
		free_work(packer);
		packer->entry = malloc(capacity * sizeof(*packer->entry));
		packer->group = malloc(capacity * sizeof(*packer->group));
		packer->sorted = malloc(capacity * sizeof(*packer->sorted));
		if (!packer->entry || !packer->group || !packer->sorted)
			return -ENOMEM;
		packer->capacity = capacity;
	}
	packer->entry_count = packer->group_count = 0;
	map_empty(&packer->group_by_key);
	return 0;
}

static struct group *group_of(struct packer *packer, const struct op *op)
{
	struct map_key key = { (uint64_t)op->process << 32 | op->stream, op->kind };
	uintptr_t number = (uintptr_t)map_get(&packer->group_by_key, key);

	if (number)
		return &packer->group[number - 1];
	number = packer->group_count + 1ul;
	if (map_put(&packer->group_by_key, key, (void *)number) < 0)
		return NULL;
	packer->group[packer->group_count] = (struct group){ NONE, NONE };
	return &packer->group[packer->group_count++];
}

static bool is_of(const struct packer *packer, const struct group *group, const struct op *op)
{
	const struct op *last = packer->entry[group->last].op;

	return last->process == op->process && last->stream == op->stream && last->kind == op->kind;
}

/* `before` is the group of the op before it, which most are of too. */
static int add_entry(struct packer *packer, const struct op *op, struct group **before)
{
	uint32_t number = packer->entry_count++;
	struct group *group = *before;

	if (!group || !is_of(packer, group, op))
		*before = group = group_of(packer, op);
	if (!group)
		return -ENOMEM;
	packer->entry[number] = (struct entry){ op, NONE };
	if (group->first == NONE)
		group->first = number;
	else
		packer->entry[group->last].next = number;
	group->last = number;
	return 0;
}

static int compare_start(const void *a, const void *b)
{
	const struct op *x = *(const struct op *const *)a, *y = *(const struct op *const *)b;

	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

static uint32_t sort_group(struct packer *packer, const struct group *group)
{
	uint32_t count = 0;
	bool sorted = true;

	for (uint32_t i = group->first; i != NONE; i = packer->entry[i].next) {
		packer->sorted[count] = packer->entry[i].op;
		if (count && packer->sorted[count]->start_ns < packer->sorted[count - 1]->start_ns)
			sorted = false;
		count++;
	}
	if (!sorted)
		qsort(packer->sorted, count, sizeof(packer->sorted[0]), compare_start);
	return count;
}

static int write_chunk(struct packer *packer, const struct packer_place *place,
		       const struct op *const *op, uint32_t count, struct packer_stats *stats)
{
	struct sbt_info info;
	const void *data;
	size_t size;
	int r;

	for (uint32_t i = 0; i < count; i++)
		packer->op[i] = *op[i];
	r = sbt_encode(packer->codec, packer->op, count, &data, &size);
	if (r < 0)
		return r;
	r = sbt_peek(data, size, &info);
	if (r < 0)
		return r;
	sql_bind(packer->insert, place->boot, info.process, info.stream, info.kind,
		 (int64_t)info.first_ns, (int64_t)info.last_ns, info.count, place->batch,
		 place->first_batch);
	sqlite3_bind_blob(packer->insert, 10, data, (int)size, SQLITE_STATIC);
	r = sql_run(packer->insert);
	if (r < 0)
		return r;
	stats->ops += count;
	stats->chunks++;
	stats->bytes += size;
	return 0;
}

static int write_group(struct packer *packer, const struct packer_place *place,
		       const struct group *group, struct packer_stats *stats)
{
	uint32_t count = sort_group(packer, group), part;

	for (uint32_t i = 0; i < count; i += part) {
		int r;

		part = count - i < SBT_OPS_MAX ? count - i : SBT_OPS_MAX;
		r = write_chunk(packer, place, &packer->sorted[i], part, stats);
		if (r < 0)
			return r;
	}
	return 0;
}

int packer_write(struct packer *packer, const struct packer_place *place,
		 const struct op_block *blocks, struct packer_stats *stats)
{
	struct group *group = NULL;
	uint32_t count = 0;
	int r;

	for (const struct op_block *block = blocks; block; block = block->next)
		count += block->count;
	r = count ? make_room(packer, count) : 0;
	if (r < 0)
		return r;
	for (const struct op_block *block = blocks; block; block = block->next)
		for (uint32_t i = 0; r == 0 && i < block->count; i++)
			r = add_entry(packer, &block->op[i], &group);
	for (uint32_t i = 0; r == 0 && count && i < packer->group_count; i++)
		r = write_group(packer, place, &packer->group[i], stats);
	return r;
}
