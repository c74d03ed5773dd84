/* Diff ask: each section is one query. All rows have the same columns: name, count, total, minimum,
 * maximum and bytes of a group of operations. Rows of one name follow each other, in order of
 * duration; those of blocks, which have neither minimum nor maximum, in order of time. */
#include "client/diff/ask.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/link/link.h"
#include "client/link/rows.h"
#include "core/base/array.h"
#include "core/base/vector.h"

#define ROWS_MAX      1000000 /* the query engine's limit */
#define COLUMNS	      6
#define NAME_BYTES    4096
#define BLOCK_COLUMNS 4

/* The queries of each section. */
static const struct {
	enum diff_section section;
	const char *query;
} sections[] = {
	{ DIFF_WALL, "diff-wall" },   { DIFF_KERNELS, "diff-kernels" },
	{ DIFF_TRANSFERS, "diff-transfers" }, { DIFF_RANGES, "diff-ranges" },
	{ DIFF_MEMORY, "diff-memory" }, { DIFF_IDLE, "diff-idle" },
	{ DIFF_APIS, "diff-apis" }, { DIFF_LAUNCHES, "diff-launches" },
	{ DIFF_LOST, "diff-lost" },
}, blocks[] = {
	{ DIFF_KERNELS, "diff-kernel-blocks" },
	{ DIFF_TRANSFERS, "diff-transfer-blocks" },
};

struct asker {
	struct diff *diff;
	int side;
	uint32_t run;
	enum diff_section section;
	char name[NAME_BYTES]; /* of the thing in the buckets */
	uint64_t bytes;
	struct diff_bucket *bucket;
	size_t count, room;
};

/* For values that are never negative. */
static uint64_t integer(const Tracesmith__V1__Value *value)
{
	int64_t number = rows_integer(value);

	return number > 0 ? (uint64_t)number : 0;
}

/* All rows of one name have arrived. */
static int finish(struct asker *asker)
{
	struct diff_side sum = diff_sum(asker->bucket, asker->count);

	if (asker->count == 0)
		return 0;
	sum.bytes = asker->bytes;
	asker->bytes = 0;
	asker->count = 0;
	return diff_add(asker->diff, asker->side, asker->run, asker->section, asker->name, &sum);
}

static int take_row(void *data, const Tracesmith__V1__Row *row)
{
	struct asker *asker = data;
	const char *name;
	int r = 0;

	if (row->n_value != COLUMNS)
		return -EPROTO;
	name = rows_text(row->value[0]);
	if (!name)
		name = "unknown";
	if (strncmp(name, asker->name, NAME_BYTES - 1) != 0)
		r = finish(asker);
	if (r == 0)
		r = VECTOR_ROOM(asker->bucket, asker->room, asker->count + 1);
	if (r < 0)
		return r;
	if (asker->count == 0)
		snprintf(asker->name, NAME_BYTES, "%s", name);
	asker->bucket[asker->count] = (struct diff_bucket){
		.count = integer(row->value[1]),
		.total = integer(row->value[2]),
		.min = integer(row->value[3]),
		.max = integer(row->value[4]),
	};
	asker->bytes += integer(row->value[5]);
	asker->count += asker->bucket[asker->count].count > 0;
	return 0;
}

static int ask(struct link *link, struct asker *asker, const char *query)
{
	int r = rows_query(link, query, ROWS_MAX, take_row, asker);

	if (r == 1)
		complain("More than %d %s: the others are left out", ROWS_MAX,
			 diff_section_name(asker->section));
	if (r >= 0)
		r = finish(asker);
	if (r == -EPROTO || r == -ENOMEM)
		complain("Cannot interpret the answer about %s: %s",
			 diff_section_name(asker->section), strerror(-r));
	return r;
}

static int take_block(void *data, const Tracesmith__V1__Row *row)
{
	struct asker *asker = data;
	struct diff_block block;
	const char *name;

	if (row->n_value != BLOCK_COLUMNS)
		return -EPROTO;
	name = rows_text(row->value[0]);
	block = (struct diff_block){
		.count = integer(row->value[1]),
		.total = integer(row->value[2]),
		.bytes = integer(row->value[3]),
	};
	return name ? diff_add_block(asker->diff, asker->side, asker->run, asker->section, name,
				     &block)
		    : 0;
}

/* Without the blocks there is no interval; so too if dividing the recording would take too long. */
static int ask_blocks(struct link *link, struct asker *asker)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(blocks); i++) {
		asker->section = blocks[i].section;
		r = rows_query(link, blocks[i].query, ROWS_MAX, take_block, asker);
	}
	if (r == -ENOMEM)
		complain_memory();
	return r < 0 && r != -E2BIG ? r : 0;
}

int diff_ask(const struct options *options, struct diff *diff, int side, uint32_t run, bool inside)
{
	_cleanup_(link_freep) struct link *link = NULL;
	struct asker asker = { .diff = diff, .side = side, .run = run };
	int r = link_open(options, &link);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(sections); i++) {
		asker.section = sections[i].section;
		r = ask(link, &asker, sections[i].query);
	}
	if (r == 0 && inside)
		r = ask_blocks(link, &asker);
	free(asker.bucket);
	return r;
}
