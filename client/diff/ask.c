/* Diff ask: each section is one SQL statement. All rows have the same columns: name, count, total,
 * minimum, maximum and bytes of a group of operations. Rows of one name follow each other, in order
 * of duration. */
#include "client/diff/ask.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/link/link.h"
#include "client/link/rows.h"
#include "core/base/array.h"
#include "core/base/vector.h"

#define ROWS_MAX	1000000 /* the query engine's limit */
#define COLUMNS		6
#define NAME_BYTES	4096
#define PART_COLUMNS	4

#define STRING(number)	STRING_(number)
#define STRING_(number) #number

/* SQL is laid out by hand, a clause a line. */
/* clang-format off */
#define KIND(name) "(SELECT id FROM kind WHERE name = '" name "')"

static const struct {
	enum diff_section section;
	const char *sql;
} statements[] = {
	{ DIFF_WALL,
		"SELECT 'from the first to the last operation', 1,"
		" max(last_ns) - min(first_ns), 0, 0, 0"
		" FROM chunk"
		" WHERE kind NOT IN (" KIND("state") ", " KIND("overhead") ", " KIND("range") ")"
		" HAVING count(*) > 0" },
	{ DIFF_KERNELS,
		"SELECT coalesce(n.text, printf('kernel %016x', w.name)), sum(count),"
		" sum(total_ns), min(min_ns), max(max_ns), 0"
		" FROM work w"
		" LEFT JOIN name n ON n.id = w.name"
		" WHERE w.kind = " KIND("kernel")
		" GROUP BY 1, bucket"
		" ORDER BY 1, bucket" },
	{ DIFF_TRANSFERS,
		"SELECT coalesce(d.name, k.name), sum(count), sum(total_ns), min(min_ns),"
		" max(max_ns), sum(bytes)"
		" FROM work w"
		" JOIN kind k ON k.id = w.kind"
		" LEFT JOIN detail d ON d.kind = w.kind"
		" AND d.id = iif(k.name = 'copy', w.detail, 0)"
		" WHERE k.name IN ('copy', 'set')"
		" GROUP BY 1, bucket"
		" ORDER BY 1, bucket" },
	{ DIFF_RANGES,
		"SELECT name, 1, duration_ns, duration_ns, duration_ns, 0"
		" FROM op"
		" WHERE kind = 'range' AND duration_ns > 0"
		" ORDER BY 1, 3" },
	{ DIFF_MEMORY,
		"SELECT k.name || ' ' || w.which, 1,"
		" sum(iif(w.which = 'peak', m.peak_bytes, m.live_bytes)), 0, 0, 0"
		" FROM memory m"
		" JOIN memory_kind k ON k.id = m.kind,"
		" (SELECT 'peak' AS which UNION ALL SELECT 'at the end') w"
		" GROUP BY 1"
		" ORDER BY 1" },
	{ DIFF_IDLE,
		"SELECT d.name, 1, sum(ns), 0, 0, 0"
		" FROM busy b"
		" JOIN detail d ON d.kind = " KIND("state") " AND d.id = b.state"
		" GROUP BY 1"
		" ORDER BY 1" },
	{ DIFF_APIS,
		"SELECT coalesce(f.name, 'function ' || r.fn), sum(timed), sum(total_ns), 0, 0, 0"
		" FROM rollup r"
		" LEFT JOIN function f ON f.id = r.fn"
		" WHERE freed = 0 AND timed > 0"
		" GROUP BY 1"
		" ORDER BY 1" },
	{ DIFF_LAUNCHES,
		"SELECT coalesce(f.name, 'function ' || r.fn), sum(calls - captured),"
		" sum(calls - captured), 0, 0, 0"
		" FROM rollup r"
		" LEFT JOIN function f ON f.id = r.fn"
		" WHERE freed = 0 AND r.kind = " KIND("launch")
		" GROUP BY 1"
		" ORDER BY 1" },
	{ DIFF_LOST,
		"SELECT coalesce(r.name, 'reason ' || l.reason), 1, sum(count), 0, 0, 0"
		" FROM loss l"
		" LEFT JOIN loss_reason r ON r.id = l.reason"
		" WHERE r.name IS NOT 'stack-sampled'"
		" GROUP BY 1"
		" ORDER BY 1" },
};

/* Rows of one name follow each other in the order of its blocks: count, total, bytes. */
#define BLOCKS \
	"ntile(" STRING(DIFF_BLOCKS) ") OVER (PARTITION BY name ORDER BY gpu_start_ns)"

static const struct {
	enum diff_section section;
	const char *sql;
} parts[] = {
	{ DIFF_KERNELS,
		"SELECT name, count(*), sum(ns), 0"
		" FROM (SELECT name, gpu_end_ns - gpu_start_ns AS ns, " BLOCKS " AS part"
		" FROM op"
		" WHERE exact AND kind IN ('launch', 'kernel') AND name IS NOT NULL)"
		" GROUP BY name, part"
		" ORDER BY name, part" },
	{ DIFF_TRANSFERS,
		"SELECT name, count(*), sum(ns), sum(bytes)"
		" FROM (SELECT *, " BLOCKS " AS part"
		" FROM (SELECT coalesce(detail, kind) AS name, gpu_start_ns,"
		" gpu_end_ns - gpu_start_ns AS ns, bytes"
		" FROM op"
		" WHERE exact AND kind IN ('copy', 'set')))"
		" GROUP BY name, part"
		" ORDER BY name, part" },
};
/* clang-format on */

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

static int ask(struct link *link, struct asker *asker, const char *sql)
{
	int r = rows_ask(link, sql, ROWS_MAX, take_row, asker);

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

static int take_part(void *data, const Tracesmith__V1__Row *row)
{
	struct asker *asker = data;
	struct diff_block block;
	const char *name;

	if (row->n_value != PART_COLUMNS)
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
static void ask_parts(struct link *link, struct asker *asker)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(parts); i++) {
		asker->section = parts[i].section;
		r = rows_ask(link, parts[i].sql, ROWS_MAX, take_part, asker);
	}
}

int diff_ask(const struct options *options, struct diff *diff, int side, uint32_t run, bool inside)
{
	_cleanup_(link_freep) struct link *link = NULL;
	struct asker asker = { .diff = diff, .side = side, .run = run };
	int r = link_open(options, &link);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(statements); i++) {
		asker.section = statements[i].section;
		r = ask(link, &asker, statements[i].sql);
	}
	if (r == 0 && inside)
		ask_parts(link, &asker);
	free(asker.bucket);
	return r;
}
