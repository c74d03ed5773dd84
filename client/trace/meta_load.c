/* Metadata load: each kind of metadata is one SQL statement and a function for its rows. Stacks
 * arrive frame by frame and in pages, since an answer has a row limit; a stack may start in one
 * page and end in the next. */
#include "client/trace/meta_load.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/link/rows.h"

#define SQL_BYTES   1024
#define WHERE_BYTES 128
#define PAGE_ROWS   200000

struct load {
	struct link *link;
	struct meta *meta;
	uint32_t pid;
	uint64_t since_ns, until_ns;
	const struct statement *statement; /* the last one */
	uint64_t rows;			   /* of it */
	int64_t name;			   /* the last one */
	bool exact;			   /* the daemon has the exact tier's tables */
	int64_t stack, depth;		   /* of the last frame */
	uint32_t frame_count;
	const struct meta_frame *frame[TS_STACK_FRAMES_MAX];
};

/* Without a number it is unknown when its ops arrive. */
static int take_process(struct load *load, Tracesmith__V1__Value *const *value)
{
	if ((uint32_t)rows_integer(value[1]) == 0)
		return 0;
	return meta_add_process(load->meta, (uint32_t)rows_integer(value[0]),
				(uint32_t)rows_integer(value[1]), rows_text(value[2]),
				rows_text(value[3]));
}

static int take_stream(struct load *load, Tracesmith__V1__Value *const *value)
{
	struct meta_stream stream = {
		.id = (uint32_t)rows_integer(value[0]),
		.process = (uint32_t)rows_integer(value[1]),
		.handle = rows_integer(value[2]),
		.tid = (uint32_t)rows_integer(value[3]),
		.device = (int16_t)rows_integer(value[4]),
		.context = rows_integer(value[5]),
	};

	return meta_add_stream(load->meta, &stream);
}

static int take_device(struct load *load, Tracesmith__V1__Value *const *value)
{
	return meta_add_device(load->meta, (uint32_t)rows_integer(value[0]),
			       (int16_t)rows_integer(value[1]), rows_text(value[2]));
}

static int take_name(struct load *load, Tracesmith__V1__Value *const *value)
{
	const char *name = rows_text(value[1]);

	load->name = rows_integer(value[0]);
	return meta_add_name(load->meta, load->name, name ? name : "");
}

static int take_exact(struct load *load, Tracesmith__V1__Value *const *value)
{
	load->exact = rows_integer(value[0]) > 0;
	return 0;
}

static int take_function(struct load *load, Tracesmith__V1__Value *const *value)
{
	const char *name = rows_text(value[1]);

	return name ? meta_add_function(load->meta, (uint16_t)rows_integer(value[0]), name)
		    : -EPROTO;
}

static int take_loss(struct load *load, Tracesmith__V1__Value *const *value)
{
	struct meta_loss loss = {
		.start_ns = rows_integer(value[0]),
		.end_ns = rows_integer(value[1]),
		.process = (uint32_t)rows_integer(value[2]),
		.reason = (uint32_t)rows_integer(value[3]),
		.count = rows_integer(value[5]),
	};
	const char *name = rows_text(value[4]);

	return meta_add_loss(load->meta, &loss, name ? name : "unknown");
}

static int end_stack(struct load *load)
{
	int r = load->frame_count == 0
			? 0
			: meta_add_stack(load->meta, load->stack, load->frame, load->frame_count);

	load->frame_count = 0;
	return r;
}

static int take_frame(struct load *load, Tracesmith__V1__Value *const *value)
{
	struct meta_frame_source source = {
		.symbol = rows_text(value[2]),
		.file = rows_text(value[3]),
		.offset = rows_integer(value[4]),
		.address = rows_integer(value[5]),
	};
	int64_t stack = rows_integer(value[0]);
	int r = stack == load->stack ? 0 : end_stack(load);

	if (r < 0)
		return r;
	load->stack = stack;
	load->depth = rows_integer(value[1]);
	if (load->frame_count == TS_STACK_FRAMES_MAX)
		return 0;
	load->frame[load->frame_count] = meta_frame(load->meta, &source);
	return load->frame[load->frame_count++] ? 0 : -ENOMEM;
}

struct statement {
	uint32_t columns;
	int (*take)(struct load *load, Tracesmith__V1__Value *const *value);
};

static int take_row(void *data, const Tracesmith__V1__Row *row)
{
	struct load *load = data;
	int r = -EPROTO;

	if (row->n_value == load->statement->columns)
		r = load->statement->take(load, row->value);
	if (r < 0)
		complain("Cannot interpret the daemon's answer: %s", strerror(-r));
	load->rows++;
	return r;
}

/* As many rows as the daemon sends. */
static int run(struct load *load, const struct statement *statement, const char *sql)
{
	int r;

	load->statement = statement;
	load->rows = 0;
	r = rows_ask(load->link, sql, UINT64_MAX, take_row, load);
	if (r > 0)
		complain("Too many names for one answer: some are missing");
	return r < 0 ? r : 0;
}

/* The selected processes of this boot. */
static const char *processes(const struct load *load, char where[WHERE_BYTES])
{
	int length = snprintf(where, WHERE_BYTES,
			      "(SELECT id FROM process WHERE boot = (SELECT max(id) FROM boot)");

	if (load->pid != 0)
		length += snprintf(where + length, WHERE_BYTES - length, " AND pid = %" PRIu32,
				   load->pid);
	snprintf(where + length, WHERE_BYTES - length, ")");
	return where;
}

static int load_names(struct load *load)
{
	static const struct statement process = { 4, take_process }, stream = { 6, take_stream },
				      function = { 2, take_function };
	char sql[SQL_BYTES], where[WHERE_BYTES];
	int r;

	snprintf(sql, sizeof(sql), "SELECT id, pid, comm, command FROM process WHERE id IN %s",
		 processes(load, where));
	r = run(load, &process, sql);
	if (r < 0)
		return r;
	snprintf(sql, sizeof(sql),
		 "SELECT id, process, handle, tid, device, context FROM stream WHERE process IN %s",
		 processes(load, where));
	r = run(load, &stream, sql);
	return r < 0 ? r : run(load, &function, "SELECT id, name FROM function");
}

/* Names of all processes, since any may have them. */
static int load_exact(struct load *load)
{
	static const struct statement exact = { 1, take_exact }, device = { 3, take_device },
				      name = { 2, take_name };
	char sql[SQL_BYTES], where[WHERE_BYTES];
	int r = run(load, &exact,
		    "SELECT count(*) = 2 FROM sqlite_schema WHERE name IN ('name', 'device')");

	if (r < 0 || !load->exact)
		return r;
	snprintf(sql, sizeof(sql),
		 "SELECT d.process, d.ordinal, n.text FROM device d LEFT JOIN name n ON n.id = "
		 "d.name"
		 " WHERE d.process IN %s",
		 processes(load, where));
	r = run(load, &device, sql);
	load->name = INT64_MIN;
	while (r == 0) {
		snprintf(sql, sizeof(sql),
			 "SELECT id, text FROM name WHERE id > %" PRId64 " ORDER BY id LIMIT %d",
			 load->name + (load->name == INT64_MIN), PAGE_ROWS);
		r = run(load, &name, sql);
		if (load->rows < PAGE_ROWS)
			break;
	}
	return r;
}

static int load_stacks(struct load *load)
{
	static const struct statement frame = { 6, take_frame };
	char sql[SQL_BYTES], where[WHERE_BYTES];
	int r;

	load->stack = INT64_MIN;
	load->depth = -1;
	do {
		snprintf(sql, sizeof(sql),
			 "SELECT stack, depth, symbol, file, offset, address FROM frame"
			 " WHERE (stack, depth) > (%" PRId64 ", %" PRId64 ")"
			 " AND stack IN (SELECT id FROM stack WHERE process IN %s)"
			 " ORDER BY stack, depth LIMIT %d",
			 load->stack + (load->stack == INT64_MIN), load->depth,
			 processes(load, where), PAGE_ROWS);
		r = run(load, &frame, sql);
		if (r < 0)
			return r;
	} while (load->rows == PAGE_ROWS);
	return end_stack(load);
}

static int load_losses(struct load *load)
{
	static const struct statement loss = { 6, take_loss };
	char sql[SQL_BYTES], where[WHERE_BYTES];

	snprintf(sql, sizeof(sql),
		 "SELECT l.start_ns, l.end_ns, l.process, l.reason, r.name, l.count FROM loss l"
		 " LEFT JOIN loss_reason r ON r.id = l.reason"
		 " WHERE l.boot = (SELECT max(id) FROM boot) AND l.end_ns >= %" PRIu64
		 " AND l.start_ns < %" PRIu64 " AND (l.process = 0 OR l.process IN %s)"
		 " ORDER BY l.start_ns",
		 load->since_ns, load->until_ns, processes(load, where));
	return run(load, &loss, sql);
}

int meta_load(struct link *link, uint32_t pid, uint64_t since_ns, uint64_t until_ns,
	      struct meta **ret)
{
	_cleanup_(meta_freep) struct meta *meta = NULL;
	struct load load = { .link = link, .pid = pid, .since_ns = since_ns, .until_ns = until_ns };
	int r;

	r = meta_new(&meta);
	if (r < 0)
		return complain("Not enough memory"), r;
	load.meta = meta;
	meta->wall_offset_ns = link_hello(link)->wall_offset_ns;
	if ((r = load_names(&load)) < 0 || (r = load_exact(&load)) < 0 ||
	    (r = load_stacks(&load)) < 0 || (r = load_losses(&load)) < 0)
		return r;
	*ret = TAKE(meta);
	return 0;
}
