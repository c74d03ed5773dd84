/* Block: a row is the host, the boot and the wall time, then what the daemon said. */
#include "client/ship/block.h"

#include <errno.h>
#include <string.h>
#include <zstd.h>

#include "client/export/gzip.h"
#include "client/ship/identity.h"
#include "client/ship/parcel_format.h"
#include "core/base/array.h"
#include "core/base/time.h"

#define IDENTITY_COLUMNS 8
#define ZSTD_LEVEL	 3

void maker_begin(struct maker *maker, const struct table *table)
{
	maker->table = table;
	maker->number = 0;
	maker->unknown = false;
	maker->process = 0;
	while (maker->process < tables_columns(table) &&
	       strcmp(table->column[maker->process].name, "process") != 0)
		maker->process++;
}

void maker_done(struct maker *maker)
{
	rowbinary_done(&maker->open);
	rowbinary_done(&maker->packed);
	jobs_done(&maker->jobs);
}

static int put_common(struct maker *maker)
{
	const struct parcel_plan *plan = maker->plan;
	int r = rowbinary_text(&maker->open, plan->settings->host);

	if (r == 0)
		r = rowbinary_text(&maker->open, plan->boot_id);
	return r < 0 ? r : rowbinary_integer(&maker->open, ROWBINARY_U64, (int64_t)plan->told_ns);
}

static int put_time(struct maker *maker, int64_t ns)
{
	return rowbinary_integer(&maker->open, ROWBINARY_TIME,
				 (ns + maker->plan->wall_offset_ns) / (int64_t)NS_PER_S);
}

static int put_value(struct maker *maker, enum rowbinary_type type,
		     const Tracesmith__V1__Value *value)
{
	switch (type) {
	case ROWBINARY_TEXT:
		return rowbinary_text(&maker->open, source_text(value));
	case ROWBINARY_LINES:
		return rowbinary_lines(&maker->open, source_text(value));
	case ROWBINARY_TIME:
		return put_time(maker, source_integer(value));
	default:
		return rowbinary_integer(&maker->open, type, source_integer(value));
	}
}

static int put_identity(struct maker *maker, const char *cgroup, const char *environment)
{
	struct identity found;
	const char *const texts[] = { found.pod, found.name_space, found.slurm_job,
				      found.slurm_step, found.job };
	int r = 0;

	identity_find(cgroup, environment, &found);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(texts); i++)
		r = rowbinary_text(&maker->open, texts[i]);
	if (r == 0)
		r = rowbinary_integer(&maker->open, ROWBINARY_I32, found.rank);
	if (r == 0)
		r = rowbinary_integer(&maker->open, ROWBINARY_I32, found.local_rank);
	return r < 0 ? r : rowbinary_integer(&maker->open, ROWBINARY_I32, found.world_size);
}

static int write_sink(void *data, const void *bytes, size_t size)
{
	return rowbinary_bytes(data, bytes, size);
}

static int pack_gzip(struct maker *maker)
{
	const struct out_sink sink = { write_sink, &maker->packed };
	_cleanup_(gzip_freep) struct gzip *gzip = NULL;
	struct out_sink into;
	int r = gzip_new(&sink, &gzip);

	if (r < 0)
		return r;
	into = gzip_sink(gzip);
	r = into.write(into.data, maker->open.data, maker->open.size);
	return r < 0 ? r : gzip_end(gzip);
}

static int pack_zstd(struct maker *maker)
{
	size_t bound = ZSTD_compressBound(maker->open.size), size;
	int r = rowbinary_room(&maker->packed, bound);

	if (r < 0)
		return r;
	size = ZSTD_compress(maker->packed.data, bound, maker->open.data, maker->open.size,
			     ZSTD_LEVEL);
	if (ZSTD_isError(size))
		return -EIO;
	maker->packed.size = size;
	return 0;
}

static int pack(struct maker *maker)
{
	maker->packed.size = 0;
	switch (maker->plan->settings->compression) {
	case COMPRESSION_GZIP:
		return pack_gzip(maker);
	case COMPRESSION_ZSTD:
		return pack_zstd(maker);
	case COMPRESSION_NONE:
		break;
	}
	return rowbinary_bytes(&maker->packed, maker->open.data, maker->open.size);
}

static int write_block(struct maker *maker)
{
	struct parcel_block_head head = { .bytes = maker->packed.size,
					  .number = maker->number,
					  .rows = maker->open_rows };
	char columns[PARCEL_COLUMNS_BYTES] = TABLES_COMMON;
	size_t size = strlen(columns);

	for (size_t i = 0; i < tables_columns(maker->table); i++)
		size += (size_t)snprintf(columns + size, sizeof(columns) - size, ", %s",
					 maker->table->column[i].name);
	head.columns_size = (uint32_t)size;
	memcpy(head.table, maker->table->name, strlen(maker->table->name));
	if (fwrite(&head, sizeof(head), 1, maker->out) != 1 ||
	    fwrite(columns, size, 1, maker->out) != 1 ||
	    fwrite(maker->packed.data, maker->packed.size, 1, maker->out) != 1)
		return errno ? -errno : -EIO;
	return 0;
}

int maker_end(struct maker *maker)
{
	int r;

	if (!maker->open_rows)
		return 0;
	r = pack(maker);
	if (r == 0)
		r = write_block(maker);
	if (r < 0)
		return r;
	maker->number++;
	maker->blocks++;
	maker->rows += maker->open_rows;
	maker->bytes += maker->packed.size;
	maker->open_rows = 0;
	maker->open.size = 0;
	return 0;
}

/* A row is complete. */
static int end_row(struct maker *maker)
{
	maker->open_rows++;
	if (maker->open_rows == PARCEL_BLOCK_ROWS || maker->open.size >= PARCEL_BLOCK_BYTES)
		return maker_end(maker);
	return 0;
}

/* How many values the query gives; the last ones do not become columns. */
static size_t values_of(const struct table *table, size_t *ret_columns)
{
	*ret_columns = tables_columns(table);
	if (table->flags & TABLE_IDENTITY)
		*ret_columns -= IDENTITY_COLUMNS;
	return *ret_columns + (table->flags & TABLE_IDENTITY ? 2 : 0) +
	       (table->flags & TABLE_ONCE ? 1 : 0);
}

/* What is of a process that is not known yet is asked for again, with all that came after it. */
static void move_newest(struct maker *maker, int64_t commit, bool unknown)
{
	if (unknown && !maker->unknown && maker->newest >= commit)
		maker->newest = commit - 1;
	maker->unknown |= unknown;
	if (!maker->unknown && maker->newest < commit)
		maker->newest = commit;
}

int maker_row(void *data, const Tracesmith__V1__Row *row)
{
	struct maker *maker = data;
	const struct table *table = maker->table;
	size_t columns, values = values_of(table, &columns);
	enum jobs_result found;
	int r;

	if (row->n_value != values)
		return -EPROTO;
	found = jobs_find(&maker->jobs, source_integer(row->value[maker->process]));
	if (table->flags & TABLE_ONCE)
		move_newest(maker, source_integer(row->value[columns]), found == JOBS_UNKNOWN);
	if (found != JOBS_SENT)
		return 0;
	r = put_common(maker);
	for (size_t i = 0; r == 0 && i < columns; i++)
		r = put_value(maker, table->column[i].type, row->value[i]);
	if (r == 0 && table->flags & TABLE_IDENTITY)
		r = put_identity(maker, source_text(row->value[columns]),
				 source_text(row->value[columns + 1]));
	return r < 0 ? r : end_row(maker);
}

/* A row of the shipper's own: texts as they are, numbers of what they point to. */
static int put_own(struct maker *maker, const char *const *text, const int64_t *number)
{
	const struct table_column *column = maker->table->column;
	int r = put_common(maker);

	for (; r == 0 && column->name; column++) {
		if (column->type == ROWBINARY_TEXT)
			r = rowbinary_text(&maker->open, *text++);
		else if (column->type == ROWBINARY_TIME)
			r = put_time(maker, *number++);
		else
			r = rowbinary_integer(&maker->open, column->type, *number++);
	}
	return r < 0 ? r : end_row(maker);
}

int maker_lost(struct maker *maker)
{
	const struct parcel_plan *plan = maker->plan;
	uint64_t minute_s = PARCEL_SECONDS * (uint64_t)plan->about.minute;
	const struct {
		const char *reason;
		uint64_t from, to, count; /* seconds */
	} losses[] = {
		{ "retention", plan->lost_from, plan->lost_to, plan->lost_s },
		{ "too-many-rows", minute_s, minute_s + PARCEL_SECONDS, maker->cut },
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(losses); i++) {
		int64_t from = (int64_t)losses[i].from, to = (int64_t)losses[i].to;
		const int64_t numbers[] = { 0,
					    from * NS_PER_S,
					    from,
					    (int64_t)losses[i].count,
					    from * NS_PER_S,
					    to * NS_PER_S };

		if (losses[i].count)
			r = put_own(maker, &losses[i].reason, numbers);
	}
	return r;
}

int maker_host(struct maker *maker)
{
	const struct parcel_plan *plan = maker->plan;
	const char *const texts[] = { plan->machine, plan->version, plan->kernel, plan->driver };
	const int64_t numbers[] = {
		0,	    (int64_t)plan->now_ns, (int64_t)plan->lag_s, plan->cpus,
		plan->gpus, plan->wall_offset_ns
	};

	return put_own(maker, texts, numbers);
}

int maker_clock(struct maker *maker)
{
	const struct parcel_plan *plan = maker->plan;
	const struct offset_estimate *clock = &plan->clock;
	const int64_t numbers[] = { clock->at_ns,	  clock->at_ns,
				    clock->offset_ns,	  clock->drift_ppb,
				    clock->bound_ns,	  clock->drift_bound_ppb,
				    clock->round_trip_ns, plan->clock_wall_offset_ns };

	return plan->clock_known ? put_own(maker, &plan->clock_server, numbers) : 0;
}
