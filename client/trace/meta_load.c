/* Metadata load: each kind of metadata is a query and a function for its rows. Names and frames
 * arrive in pages, since an answer has a row limit. A stack arrives frame by frame; one that a page
 * cuts off comes again, with the next page. */
#include "client/trace/meta_load.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/link/rows.h"
#include "core/base/array.h"

#define PAGE_ROWS 200000
#define HELD_MAX  2097152 /* as many as the daemon follows */

static_assert(PAGE_ROWS > FRAMES_MAX, "a page has a whole stack");

struct load;
typedef int take_fn(struct load *load, Tracesmith__V1__Value *const *value);

struct part {
	const char *query;
	uint32_t columns;
	take_fn *take;
	bool of_process, of_window; /* it takes these */
	bool in_pages;
};

struct load {
	struct link *link;
	struct meta *meta;
	uint32_t pid;
	uint64_t since_ns, until_ns;
	const struct part *part; /* the last one */
	int64_t last;		 /* id of the last whole thing, after which the next page starts */
	int64_t stack;		 /* of the last frame */
	uint64_t left_out;	 /* allocations, as there were too many */
	uint32_t frame_count;
	const struct meta_frame *frame[FRAMES_MAX];
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

	load->last = rows_integer(value[0]);
	return meta_add_name(load->meta, load->last, name ? name : "");
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
	uint32_t count = load->frame_count;

	if (count == 0)
		return 0;
	load->last = load->stack;
	load->frame_count = 0;
	return meta_add_stack(load->meta, load->stack, load->frame, count);
}

static int take_frame(struct load *load, Tracesmith__V1__Value *const *value)
{
	struct frame source = {
		.function = rows_text(value[2]),
		.module = rows_text(value[3]),
		.offset = rows_integer(value[4]),
		.address = rows_integer(value[5]),
		.kind = (uint8_t)rows_integer(value[6]),
		.file = rows_text(value[7]),
		.line = (uint32_t)rows_integer(value[8]),
		.inlined = rows_integer(value[9]) != 0,
	};
	int64_t stack = rows_integer(value[0]);
	int r = stack == load->stack ? 0 : end_stack(load);

	if (r < 0)
		return r;
	if (stack == load->last) /* deeper than any stack: those of a file may be anything */
		return 0;
	load->stack = stack;
	load->frame[load->frame_count] = meta_frame(load->meta, &source);
	if (!load->frame[load->frame_count++])
		return -ENOMEM;
	return load->frame_count < FRAMES_MAX ? 0 : end_stack(load);
}

static int take_held(struct load *load, Tracesmith__V1__Value *const *value)
{
	const struct meta_held held = {
		.process = (uint32_t)rows_integer(value[1]),
		.device = (int16_t)rows_integer(value[2]),
		.kind = (uint8_t)rows_integer(value[3]),
		.address = rows_integer(value[4]),
		.bytes = rows_integer(value[5]),
		.at_ns = rows_integer(value[6]),
		.stack_id = rows_integer(value[7]),
		.requested_bytes = rows_integer(value[8]),
	};

	load->last = rows_integer(value[0]);
	if (load->meta->held_count < HELD_MAX)
		return meta_add_held(load->meta, &held);
	load->left_out++;
	return 0;
}

static int take_allocator(struct load *load, Tracesmith__V1__Value *const *value)
{
	const struct meta_allocator allocator = {
		.process = (uint32_t)rows_integer(value[0]),
		.device = (int16_t)rows_integer(value[1]),
		.bytes = rows_integer(value[2]),
		.used_bytes = rows_integer(value[3]),
	};

	return meta_add_allocator(load->meta, &allocator);
}

static int take_row(void *data, const Tracesmith__V1__Row *row)
{
	struct load *load = data;
	int r = -EPROTO;

	if (row->n_value == load->part->columns)
		r = load->part->take(load, row->value);
	if (r < 0)
		complain("Cannot interpret the daemon's answer: %s", strerror(-r));
	return r;
}

static void make_query(const struct load *load, const struct part *part,
		       Tracesmith__V1__QueryRequest *query)
{
	tracesmith__v1__query_request__init(query);
	query->name = (char *)part->query;
	if (part->in_pages)
		query->limit = PAGE_ROWS;
	if (part->of_process)
		query->pid = load->pid;
	if (!part->of_window)
		return;
	query->since_ns = load->since_ns;
	query->until_ns = load->until_ns;
}

static int load_part(struct load *load, const struct part *part)
{
	Tracesmith__V1__QueryRequest query;
	int more;

	make_query(load, part, &query);
	load->part = part;
	load->last = INT64_MIN;
	while ((more = rows_ask(load->link, &query, take_row, load)) > 0 && part->in_pages) {
		load->frame_count = 0;
		query.after_given_case = TRACESMITH__V1__QUERY_REQUEST__AFTER_GIVEN_AFTER;
		query.after = load->last;
	}
	if (more > 0)
		complain("Too many names for one answer: some are missing");
	return more < 0 ? more : end_stack(load);
}

static int load_all(struct load *load)
{
	static const struct part parts[] = {
		{ "trace-processes", 4, take_process, .of_process = true },
		{ "trace-streams", 6, take_stream, .of_process = true },
		{ "trace-functions", 2, take_function, .in_pages = false },
		{ "trace-devices", 3, take_device, .of_process = true },
		/* Of all processes, since any may have them. */
		{ "trace-names", 2, take_name, .in_pages = true },
		{ "trace-frames", 10, take_frame, .of_process = true, .in_pages = true },
		{ "trace-losses", 6, take_loss, .of_process = true, .of_window = true },
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(parts); i++)
		r = load_part(load, &parts[i]);
	return r;
}

int meta_load_held(struct link *link, uint32_t pid, struct meta *meta)
{
	static const struct part parts[] = {
		{ "trace-held", 9, take_held, .of_process = true, .in_pages = true },
		{ "trace-allocators", 4, take_allocator, .of_process = true },
	};
	struct load load = { .link = link, .pid = pid, .meta = meta };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(parts); i++)
		r = load_part(&load, &parts[i]);
	if (load.left_out > 0)
		complain("%" PRIu64 " allocations are left out, as there are too many",
			 load.left_out);
	return r;
}

int meta_load(struct link *link, uint32_t pid, uint64_t since_ns, uint64_t until_ns,
	      struct meta **ret)
{
	_cleanup_(meta_freep) struct meta *meta = NULL;
	struct load load = { .link = link, .pid = pid, .since_ns = since_ns, .until_ns = until_ns };
	int r;

	r = meta_new(&meta);
	if (r < 0)
		return complain_memory(), r;
	load.meta = meta;
	meta->wall_offset_ns = link_hello(link)->wall_offset_ns;
	r = load_all(&load);
	if (r < 0)
		return r;
	*ret = TAKE(meta);
	return 0;
}
