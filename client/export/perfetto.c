/* Perfetto export: ops become slices. A call is a slice on its thread, the work it submitted one on
 * its stream, and a flow links the two; all work of a graph launch is on one flow. A name or stack
 * is written right before the first event that needs it. */

#include "client/export/perfetto.h"
#include "client/export/packet.h"

/* Numbers of event names: functions from 1, then these. */
#define STATE_NAMES   0x10000
#define TEXT_NAMES    0x20000
#define CATEGORY_LOSS (OP_KIND_MAX + 1)

static int write_text(struct exporter *x, enum what what, enum perfetto_table table,
		      const struct meta_text *text)
{
	int r = export_first(&x->seen, what, text->number);

	return r <= 0 ? r : perfetto_name(x->out, table, text->number, text->text);
}

/* Returns the number of a text as an event name. */
static int write_event_name(struct exporter *x, const struct meta_text *text, uint32_t *ret)
{
	int r = export_first(&x->seen, WHAT_NAME, text->number);

	*ret = TEXT_NAMES + text->number;
	return r <= 0 ? r : perfetto_name(x->out, PERFETTO_EVENT, *ret, text->text);
}

static int write_file(struct exporter *x, const struct meta_text *file)
{
	int r = export_first(&x->seen, WHAT_FILE, file->number);

	if (r <= 0)
		return r;
	r = perfetto_name(x->out, PERFETTO_PATH, file->number, file->text);
	return r < 0 ? r : perfetto_mapping(x->out, file->number);
}

static int write_frame(struct exporter *x, const struct meta_frame *frame)
{
	int r = export_first(&x->seen, WHAT_FRAME, frame->number);

	if (r <= 0)
		return r;
	if ((r = write_text(x, WHAT_SYMBOL, PERFETTO_FUNCTION, frame->label)) < 0 ||
	    (r = write_file(x, frame->module)) < 0)
		return r;
	if (frame->file && (r = write_text(x, WHAT_SOURCE, PERFETTO_SOURCE, frame->file)) < 0)
		return r;
	return perfetto_frame(x->out, frame);
}

/* The number of the op's stack, 0 if it has none or an unknown one. */
static int write_stack(struct exporter *x, const struct op *op, uint32_t *ret_number)
{
	const struct meta_stack *stack;
	int r;

	*ret_number = 0;
	stack = op->stack_id ? meta_stack(x->meta, op->stack_id) : NULL;
	if (!stack || stack->count == 0)
		return 0;
	*ret_number = stack->number;
	r = export_first(&x->seen, WHAT_STACK, stack->number);
	if (r <= 0)
		return r;
	for (uint32_t i = 0; i < stack->count; i++) {
		r = write_frame(x, stack->frame[i]);
		if (r < 0)
			return r;
	}
	return perfetto_stack(x->out, stack);
}

static int write_call(struct exporter *x, const struct op *op)
{
	struct perfetto_event event = {
		.start_ns = op->start_ns,
		.end_ns = op->end_ns,
		.category = op->kind,
		.name = op->fn + 1u,
		.flow = show_flow(op),
		.op = op,
	};
	int r = 0;

	if (!meta_function(x->meta, op->fn))
		r = write_event_name(x, x->meta->fixed[META_FIXED_FUNCTION], &event.name);
	if (r < 0 || (r = perfetto_thread_track(x, op, &event.track)) < 0 ||
	    (r = write_stack(x, op, &event.stack)) < 0)
		return r;
	return perfetto_event(x->out, &event);
}

static int write_work(struct exporter *x, const struct op *op)
{
	struct show_work work;
	struct perfetto_event event = {
		.start_ns = op->gpu_start_ns,
		.end_ns = op->gpu_end_ns,
		.category = op->kind == OP_LAUNCH ? OP_KERNEL : op->kind,
		.flow = show_flow(op),
		.flow_ends = !(op->flags & OP_NODE),
		.tie = meta_tie(x->meta, op->process, op->stream, op->gpu_start_ns),
		.op = op,
		.work = &work,
	};
	struct gpu *gpu;
	int r;

	show_work_get(x->meta, op, &work);
	if ((r = write_event_name(x, show_work_name(x->meta, op), &event.name)) < 0 ||
	    (r = perfetto_lane_track(x, op, event.start_ns, event.end_ns, &event.track)) < 0 ||
	    (r = write_stack(x, op, &event.stack)) < 0)
		return r;
	if (op->kind == OP_COPY || op->kind == OP_SET) {
		r = perfetto_gpu(x, op, &gpu);
		if (r < 0)
			return r;
		bins_add(&gpu->copied, event.start_ns, event.end_ns, (double)op->bytes);
	}
	return perfetto_event(x->out, &event);
}

/* An NVTX range, or CUPTI overhead. */
static int write_range(struct exporter *x, const struct op *op)
{
	const struct meta_text *domain = show_domain(x->meta, op);
	struct perfetto_event event = {
		.start_ns = op->start_ns,
		.end_ns = op->end_ns,
		.category = op->kind,
		.domain = domain ? domain->text : NULL,
	};
	int r;

	if ((r = write_event_name(x, show_work_name(x->meta, op), &event.name)) < 0 ||
	    (r = perfetto_lane_track(x, op, op->start_ns, show_end_ns(op), &event.track)) < 0)
		return r;
	return perfetto_event(x->out, &event);
}

static int write_memory(struct exporter *x, const struct op *op)
{
	uint64_t uuid;
	int r = perfetto_memory_track(x, op, &uuid);

	return r < 0 ? r : perfetto_counter(x->out, uuid, show_end_ns(op), op->live_bytes);
}

static int count_busy(struct exporter *x, const struct op *op)
{
	struct gpu *gpu;
	int r;

	if (op->stream != 0 || !(op->flags & OP_EXACT) ||
	    (op->detail != OP_STATE_RUNNING && op->detail != OP_STATE_COPYING))
		return 0;
	r = perfetto_gpu(x, op, &gpu);
	if (r == 0 && op->end_ns > op->start_ns)
		bins_add(&gpu->busy, op->start_ns, op->end_ns, (double)(op->end_ns - op->start_ns));
	return r;
}

static int write_state(struct exporter *x, const struct op *op)
{
	struct perfetto_event event = {
		.start_ns = op->start_ns,
		.end_ns = op->end_ns,
		.category = OP_STATE,
		.name = STATE_NAMES + op->detail,
		.op = op,
	};
	int r;

	if (op->detail == OP_STATE_IDLE)
		return 0;
	if ((r = count_busy(x, op)) < 0 || (r = perfetto_state_track(x, op, &event.track)) < 0)
		return r;
	return perfetto_event(x->out, &event);
}

static int perfetto_op(struct exporter *x, const struct op *op)
{
	static const struct export_slices slices = {
		write_call, write_work, write_memory, write_range, write_state,
	};

	return export_slices(&slices, x, op);
}

static int write_loss(struct exporter *x, const struct meta_loss *loss)
{
	struct perfetto_event event = {
		.start_ns = loss->start_ns,
		.end_ns = loss->end_ns,
		.category = CATEGORY_LOSS,
		.count = loss->count,
	};
	int r;

	if ((r = write_event_name(x, loss->name, &event.name)) < 0 ||
	    (r = perfetto_loss_track(x, loss, &event.track)) < 0)
		return r;
	return perfetto_event(x->out, &event);
}

static int write_names(struct exporter *x)
{
	int r = perfetto_head(x->out, x->meta->wall_offset_ns);

	for (uint8_t kind = 1; kind <= OP_KIND_MAX && r == 0; kind++)
		r = perfetto_name(x->out, PERFETTO_CATEGORY, kind, show_kind_name(kind));
	if (r == 0)
		r = perfetto_name(x->out, PERFETTO_CATEGORY, CATEGORY_LOSS, "loss");
	for (uint8_t state = 1; state <= OP_STATE_MAX && r == 0; state++)
		r = perfetto_name(x->out, PERFETTO_EVENT, STATE_NAMES + state,
				  show_state_name(state));
	for (uint32_t fn = 0; fn < x->meta->function_count && r == 0; fn++)
		if (x->meta->function[fn])
			r = perfetto_name(x->out, PERFETTO_EVENT, fn + 1,
					  x->meta->function[fn]->text);
	return r;
}

static void perfetto_clear(struct exporter *x)
{
	perfetto_tracks_clear(x);
	map_clear(&x->seen);
}

static int perfetto_begin(struct exporter *x, const struct meta *meta, struct out *out)
{
	x->meta = meta;
	x->out = out;
	return write_names(x);
}

const struct export_format export_perfetto = {
	.exporter_bytes = sizeof(struct exporter),
	.begin = perfetto_begin,
	.op = perfetto_op,
	.loss = write_loss,
	.end = perfetto_gpu_counters,
	.clear = perfetto_clear,
	.sorted = true,
};
