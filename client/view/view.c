/* View: selects the ops to show, in order of time, and names them. */
#include "client/view/view.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "client/base/complain.h"
#include "core/base/units.h"
#include "core/sbt/order.h"

#define NO_MATCH 1 /* in the map, which cannot hold 0 */
#define MATCH	 2

const struct meta_text *view_name(const struct meta *meta, const struct op *op)
{
	if (op->kind == OP_RANGE || op->kind == OP_OVERHEAD || op->kind == OP_KERNEL ||
	    op->name != 0 || show_has_work(op))
		return show_work_name(meta, op);
	return show_call_name(meta, op);
}

void view_size(const struct op *op, char text[VIEW_SIZE_BYTES])
{
	char bytes[UNITS_TEXT_SIZE];

	text[0] = '\0';
	if (op->grid[0] != 0)
		snprintf(text, VIEW_SIZE_BYTES,
			 "%" PRIu32 "x%" PRIu32 "x%" PRIu32 " of %" PRIu32 "x%" PRIu32 "x%" PRIu32,
			 op->grid[0], op->grid[1], op->grid[2], op->block[0], op->block[1],
			 op->block[2]);
	else if (op->bytes != 0)
		snprintf(text, VIEW_SIZE_BYTES, "%s", units_bytes(bytes, (int64_t)op->bytes));
}

void view_marks(const struct op *op, char text[VIEW_MARKS_BYTES])
{
	size_t at = 0;

	text[0] = '\0';
	for (size_t i = 0; i < show_mark_count; i++)
		if (show_marks[i].flag != OP_EXACT && op->flags & show_marks[i].flag)
			at += snprintf(text + at, VIEW_MARKS_BYTES - at, "%s%s", at ? "," : "",
				       show_marks[i].name);
	if (op->flags & OP_RETURNED && op->result != 0)
		snprintf(text + at, VIEW_MARKS_BYTES - at, "%serror %" PRId32, at ? "," : "",
			 op->result);
}

void view_time(const struct view *view, uint64_t time_ns, char text[VIEW_TIME_BYTES])
{
	int64_t us = (int64_t)(time_ns - view->trace.begin_ns) / 1000;

	snprintf(text, VIEW_TIME_BYTES, "%s%" PRId64 ".%06" PRId64, us < 0 ? "-" : "",
		 us < 0 ? -us / 1000000 : us / 1000000, (us < 0 ? -us : us) % 1000000);
}

void view_field(FILE *out, int width, const char *text)
{
	int columns = 0;

	for (const char *c = text; *c; c++)
		columns += (*c & 0xc0) != 0x80;
	fprintf(out, "%*s%s%*s", width > columns ? width - columns : 0, "", text,
		-width > columns ? -width - columns : 0, "");
}

void view_begin(const struct view *view)
{
	char text[UNITS_TEXT_SIZE];

	fprintf(view->out, "0 is %s\n",
		units_time(text, (int64_t)view->trace.begin_ns + view->trace.meta->wall_offset_ns));
}

uint64_t view_limit(const struct view *view)
{
	bool limited = view->options->given & OPTION(LIMIT) && view->options->limit > 0;

	return limited ? view->options->limit : UINT64_MAX;
}

static bool in_part(const struct view_part *part, uint32_t process, uint32_t stream)
{
	return !part || (part->process == process && part->stream == stream);
}

/* States follow from the ops that are shown. */
static bool want_chunk(const void *data, const struct sbt_info *info)
{
	const struct view *view = data;
	const struct options *options = view->options;

	if (info->kind == OP_STATE || !in_part(view->part, info->process, info->stream))
		return false;
	return !(options->given & OPTION(STREAM)) || info->stream == options->stream;
}

/* Each text is matched only once. */
static int name_matches(struct view *view, const struct meta_text *name)
{
	struct map_key key = { name->number, 0 };
	uintptr_t match = (uintptr_t)map_get(&view->matches, key);

	if (match == 0) {
		match = regexec(&view->name, name->text, 0, NULL, 0) == 0 ? MATCH : NO_MATCH;
		if (map_put(&view->matches, key, (void *)match) < 0)
			return -ENOMEM;
	}
	return match == MATCH;
}

static int want_op(struct view *view, const struct op *op)
{
	if (view->options->given & OPTION(DEVICE) && op->device != (int16_t)view->options->device)
		return 0;
	if (view->part && view->part->stream == 0 && op->tid != view->part->tid)
		return 0;
	return view->by_name ? name_matches(view, view_name(view->trace.meta, op)) : 1;
}

struct reading {
	struct view *view;
	struct sbt_order *order;
	view_fn *call;
	void *data;
};

static int give(struct reading *reading, uint64_t before_ns)
{
	const struct op *op;
	int r;

	while ((r = sbt_order_next(reading->order, before_ns, &op)) > 0) {
		r = reading->call(reading->data, op);
		if (r < 0)
			return r;
	}
	return r;
}

static int take_ops(void *data, struct op *op, size_t count, uint64_t done_ns)
{
	struct reading *reading = data;
	size_t kept = 0;
	int r = 0;

	for (size_t i = 0; i < count; i++) {
		r = want_op(reading->view, &op[i]);
		if (r < 0)
			break;
		if (r > 0 && kept++ != i)
			op[kept - 1] = op[i];
	}
	if (r >= 0)
		r = give(reading, done_ns);
	return r == 0 ? sbt_order_add(reading->order, op, kept) : r;
}

int view_read(struct view *view, view_fn *call, void *data, Tracesmith__V1__Reply **ret_end)
{
	_cleanup_(sbt_order_freep) struct sbt_order *order = NULL;
	struct reading reading = { .view = view, .call = call, .data = data };
	int r = sbt_order_new(&order);

	if (r < 0) {
		complain_memory();
		return r;
	}
	reading.order = order;
	view->trace.want = want_chunk;
	view->trace.want_data = view;
	r = trace_read(&view->trace, take_ops, &reading, ret_end);
	if (r == 0)
		r = give(&reading, UINT64_MAX);
	if (r == -ENOMEM)
		complain_memory();
	return r;
}
