/* View lanes: sums the time of each kind in each cell of each lane. */
#include "client/view/lanes.h"

#include <errno.h>
#include <stdlib.h>

#include "client/output/table.h"

static bool is_device(const struct view_lane *lane)
{
	return lane->place != LANE_HOST && lane->id == 0;
}

static int lane_new(struct view_lanes *lanes, const struct view_lane *like, struct view_lane **ret)
{
	size_t kinds = is_device(like) ? 1 : LANE_KIND_COUNT;
	struct map_key key = { (uint64_t)like->process << 32 | like->place, like->id };
	struct view_lane *lane;

	*ret = NULL;
	if (lanes->count == VIEW_LANES_MAX)
		return map_put(&lanes->refused, key, lanes);
	lane = calloc(1, sizeof(*lane));
	if (!lane)
		return -ENOMEM;
	*lane = *like;
	lane->pid = meta_process(lanes->view->trace.meta, like->process)->pid;
	lane->ns = calloc(lanes->cells * kinds, sizeof(*lane->ns));
	if (!lane->ns || map_put(&lanes->map, key, lane) < 0) {
		free(lane->ns);
		free(lane);
		return -ENOMEM;
	}
	lanes->lane[lanes->count++] = lane;
	*ret = lane;
	return 0;
}

/* NULL: no room for another lane. */
static int lane_get(struct view_lanes *lanes, const struct view_lane *like, struct view_lane **ret)
{
	struct map_key key = { (uint64_t)like->process << 32 | like->place, like->id };

	*ret = map_get(&lanes->map, key);
	return *ret ? 0 : lane_new(lanes, like, ret);
}

/* Spreads a time over the cells; `every` is the distance between the sums of two cells. */
static void add_time(const struct view_lanes *lanes, uint64_t *ns, size_t every, uint64_t start_ns,
		     uint64_t end_ns)
{
	uint64_t all_ns = lanes->step_ns * lanes->cells;

	end_ns = end_ns > start_ns ? end_ns : start_ns + 1; /* an instant is visible, too */
	if (end_ns <= lanes->begin_ns)
		return;
	start_ns = start_ns > lanes->begin_ns ? start_ns - lanes->begin_ns : 0;
	end_ns -= lanes->begin_ns;
	if (end_ns > all_ns)
		end_ns = all_ns;
	while (start_ns < end_ns) {
		uint64_t cell = start_ns / lanes->step_ns, next = (cell + 1) * lanes->step_ns;
		uint64_t stop = next < end_ns ? next : end_ns;

		ns[cell * every] += stop - start_ns;
		start_ns = stop;
	}
}

static void take_busy(const struct view_lanes *lanes, struct view_lane *lane, uint64_t before_ns)
{
	struct span span;

	while (spans_take(&lane->spans, before_ns, &span))
		add_time(lanes, lane->ns, 1, span.start_ns, span.end_ns);
}

static enum lane_kind kind_of_work(const struct view_lanes *lanes, const struct op *op)
{
	const struct meta *meta = lanes->view->trace.meta;

	if (!show_has_work(op))
		return LANE_BOUNDS;
	if (op->kind == OP_SET)
		return LANE_SET;
	if (op->kind == OP_COPY)
		return op->detail == COPY_HTOD	 ? LANE_HTOD
		       : op->detail == COPY_DTOH ? LANE_DTOH
						 : LANE_COPY;
	return show_work_name(meta, op) == meta->fixed[META_FIXED_GRAPH] ? LANE_GRAPH : LANE_KERNEL;
}

static enum lane_kind kind_of_call(const struct op *op)
{
	if (op->flags & OP_CAPTURED)
		return LANE_CAPTURED;
	switch (op->kind) {
	case OP_LAUNCH:
		return LANE_LAUNCH;
	case OP_COPY:
		return LANE_COPY;
	case OP_SET:
		return LANE_SET;
	case OP_SYNC:
		return LANE_SYNC;
	case OP_ALLOC:
	case OP_FREE:
	case OP_MEMORY:
		return LANE_MEMORY;
	default:
		return LANE_OTHER;
	}
}

static int add_work(struct view_lanes *lanes, const struct op *op)
{
	struct view_lane like = { .process = op->process,
				  .place = (uint16_t)(op->device + 1),
				  .id = 1 + op->stream,
				  .device = op->device };
	struct view_lane *lane;
	int r;

	if (op->gpu_start_ns == 0 || op->gpu_end_ns < op->gpu_start_ns || op->flags & OP_CAPTURED)
		return 0;
	r = lane_get(lanes, &like, &lane);
	if (lane)
		add_time(lanes, lane->ns + kind_of_work(lanes, op), LANE_KIND_COUNT,
			 op->gpu_start_ns, op->gpu_end_ns);
	if (r < 0 || !show_has_work(op))
		return r;
	like.id = 0;
	r = lane_get(lanes, &like, &lane);
	if (!lane)
		return r;
	take_busy(lanes, lane, op->start_ns);
	return spans_put(&lane->spans, op->gpu_start_ns, op->gpu_end_ns);
}

static int add_call(struct view_lanes *lanes, const struct op *op)
{
	struct view_lane like = {
		.process = op->process, .place = LANE_HOST, .id = op->tid, .device = DEVICE_UNKNOWN
	};
	struct view_lane *lane;
	int r = lane_get(lanes, &like, &lane);

	if (lane)
		add_time(lanes, lane->ns + kind_of_call(op), LANE_KIND_COUNT, op->start_ns,
			 show_end_ns(op));
	return r;
}

static int add_op(void *data, const struct op *op)
{
	struct view_lanes *lanes = data;
	int r = 0;

	if (op->kind == OP_RANGE || op->kind == OP_OVERHEAD)
		return 0;
	if (show_is_submission(op))
		r = add_work(lanes, op);
	return r == 0 && show_has_call(op) ? add_call(lanes, op) : r;
}

#define COMPARE(x, y, field)                                                                       \
	if ((x)->field != (y)->field)                                                              \
		return (x)->field < (y)->field ? -1 : 1;

static int compare(const void *a, const void *b)
{
	const struct view_lane *x = *(struct view_lane *const *)a;
	const struct view_lane *y = *(struct view_lane *const *)b;

	COMPARE(x, y, pid)
	COMPARE(x, y, process)
	COMPARE(x, y, place)
	COMPARE(x, y, id)
	return 0;
}

static void clear(struct view_lanes *lanes)
{
	for (size_t i = 0; i < lanes->count; i++) {
		spans_clear(&lanes->lane[i]->spans);
		free(lanes->lane[i]->ns);
		free(lanes->lane[i]);
	}
	map_clear(&lanes->map);
	map_clear(&lanes->refused);
}

int view_lanes(struct view *view)
{
	_cleanup_(reply_freep) Tracesmith__V1__Reply *end = NULL;
	const struct trace *trace = &view->trace;
	struct view_lanes lanes = {
		.view = view,
		.begin_ns = trace->since_ns > trace->begin_ns ? trace->since_ns : trace->begin_ns,
		.label = view->width < VIEW_LANES_WIDE ? VIEW_LANES_NARROW : VIEW_LANES_LABEL,
		.cells = 1,
	};
	uint64_t ns = trace->end_ns > lanes.begin_ns ? trace->end_ns - lanes.begin_ns : 1;
	int r;

	if (view->width > lanes.label)
		lanes.cells = view->width - lanes.label;
	lanes.step_ns = ns / lanes.cells + (ns % lanes.cells != 0);
	r = view_read(view, add_op, &lanes, &end);
	if (r == 0) {
		for (size_t i = 0; i < lanes.count; i++)
			take_busy(&lanes, lanes.lane[i], UINT64_MAX);
		qsort(lanes.lane, lanes.count, sizeof(lanes.lane[0]), compare);
		view_lanes_draw(&lanes);
		table_losses(view->out, end->done);
	}
	clear(&lanes);
	return r;
}
