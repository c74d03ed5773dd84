/* Plan load: asks for what a plan needs besides the ops (what functions do, which streams wait for
 * the default stream, how large devices are), then reads the ops into it. */
#include "client/trace/plan_load.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/link/rows.h"

/* Function numbers have 16 bits. */
#define PLAN_FUNCTIONS 65536
#define COLUMNS_MAX    5

struct plan_load {
	struct trace *trace;
	struct plan_builder *builder;
	uint8_t effect[PLAN_FUNCTIONS];
};

/* The integers of a row; 0 for other values. */
typedef int take_fn(struct plan_load *load, const int64_t *value);

static int take_effect(struct plan_load *load, const int64_t *value)
{
	if (value[0] >= 0 && value[0] < PLAN_FUNCTIONS)
		load->effect[value[0]] = (uint8_t)value[1];
	return 0;
}

static int take_stream(struct plan_load *load, const int64_t *value)
{
	struct plan_stream_row row = {
		.stream = (uint32_t)value[0],
		.process = (uint32_t)value[1],
		.handle = (uint64_t)value[2],
		.context = (uint64_t)value[3],
		.non_blocking = value[4] != 0,
	};

	return plan_builder_stream(load->builder, &row);
}

static int take_device(struct plan_load *load, const int64_t *value)
{
	return plan_builder_device(load->builder, (uint32_t)value[0], (int16_t)value[1],
				   (uint32_t)value[2]);
}

struct statement {
	struct plan_load *load;
	take_fn *take;
};

static int take_row(void *data, const Tracesmith__V1__Row *row)
{
	const struct statement *statement = data;
	int64_t value[COLUMNS_MAX] = { 0 };
	int r;

	for (size_t i = 0; i < row->n_value && i < COLUMNS_MAX; i++)
		value[i] = rows_integer(row->value[i]);
	r = statement->take(statement->load, value);
	if (r < 0)
		complain_memory();
	return r;
}

/* As many rows as the daemon sends. */
static int plan_load_ask(struct plan_load *load, const char *query, take_fn *take)
{
	struct statement statement = { load, take };
	int r = rows_query(load->trace->link, query, UINT64_MAX, take_row, &statement);

	return r < 0 ? r : 0;
}

static int plan_load_rows(struct plan_load *load)
{
	int r = plan_load_ask(load, "function-effects", take_effect);

	if (r == 0)
		r = plan_load_ask(load, "plan-streams", take_stream);
	if (r == 0)
		r = plan_load_ask(load, "plan-devices", take_device);
	return r;
}

static int take_ops(void *data, struct op *op, size_t count, uint64_t done_ns)
{
	struct plan_load *load = data;
	int r = plan_builder_add(load->builder, op, count);

	if (r == -E2BIG)
		complain("More than %d operations: narrow the window with --from and --to, --since "
			 "and --until, or --pid",
			 PLAN_LOAD_OPS_MAX);
	else if (r < 0)
		complain_memory();
	return r;
}

static int plan_load_new(struct trace *trace, struct plan_load **ret)
{
	struct plan_load *load = calloc(1, sizeof(*load));

	if (!load ||
	    plan_builder_new(load->effect, PLAN_FUNCTIONS, PLAN_LOAD_OPS_MAX, &load->builder) < 0) {
		free(load);
		complain_memory();
		return -ENOMEM;
	}
	load->trace = trace;
	*ret = load;
	return 0;
}

static void plan_load_freep(struct plan_load **load)
{
	if (*load)
		plan_builder_free((*load)->builder);
	free(*load);
}

static int plan_load_end(struct plan_load *load, struct plan **ret)
{
	int r = plan_builder_end(load->builder, ret);

	if (r < 0)
		complain_memory();
	return r;
}

int plan_load(const struct options *options, struct trace *ret_trace, struct plan **ret)
{
	return plan_load_on(NULL, options, ret_trace, ret);
}

int plan_load_on(struct link *link, const struct options *options, struct trace *ret_trace,
		 struct plan **ret)
{
	_cleanup_(plan_load_freep) struct plan_load *load = NULL;
	int r = trace_open_on(link, options, ret_trace);

	if (r == 0)
		r = plan_load_new(ret_trace, &load);
	if (r == 0)
		r = plan_load_rows(load);
	if (r == 0)
		r = trace_read(ret_trace, take_ops, load, NULL);
	return r < 0 ? r : plan_load_end(load, ret);
}

int plan_load_ops(struct trace *trace, struct op *op, size_t count, struct plan **ret)
{
	_cleanup_(plan_load_freep) struct plan_load *load = NULL;
	int r = plan_load_new(trace, &load);

	if (r == 0)
		r = plan_load_rows(load);
	if (r == 0)
		r = take_ops(load, op, count, 0);
	return r < 0 ? r : plan_load_end(load, ret);
}
