/* Chrome export: the trace event format, as JSON, for chrome://tracing and other readers.
 * https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
 *
 * It has only processes and threads, so streams, devices and losses are threads with ids above
 * those of the kernel. Times are microseconds with three decimals, so no precision is lost. The
 * stacks in use are written at the end. */
#include <errno.h>
#include <stdlib.h>

#include "client/export/chrome.h"
#include "client/output/json.h"

/* A stack to be written at the end. */
struct used_stack {
	const struct meta_stack *stack;
	struct used_stack *next;
};

static void write_value(struct out *out, uint8_t how, uint64_t value)
{
	if (how == SHOW_ADDRESS)
		json_address(out, value);
	else if (how == SHOW_SIGNED)
		out_signed(out, (int64_t)value);
	else
		out_number(out, value);
}

static void write_field(struct out *out, const struct show_field *field, const void *from)
{
	if (field->count > 1)
		*out->at++ = '[';
	for (uint32_t i = 0; i < field->count; i++) {
		if (i > 0)
			*out->at++ = ',';
		write_value(out, field->how, show_field_value(field, from, i));
	}
	if (field->count > 1)
		*out->at++ = ']';
}

static void write_argument(struct out *out, const char *name, bool *comma)
{
	out_text(out, *comma ? ",\"" : "\"");
	out_text(out, name);
	out_text(out, "\":");
	*comma = true;
}

/* `work`: NULL if the op is not work. */
static void write_arguments(struct out *out, const struct op *op, const struct show_work *work)
{
	bool comma = false;

	out_text(out, ",\"args\":{");
	for (size_t i = 0; i < show_field_count; i++) {
		const struct show_field *field = &show_fields[i];

		if ((field->work && !work) || !show_field_shown(field, op))
			continue;
		write_argument(out, field->name, &comma);
		write_field(out, field, op);
	}
	for (size_t i = 0; work && i < show_work_field_count; i++) {
		if (!show_field_shown(&show_work_fields[i], work))
			continue;
		write_argument(out, show_work_fields[i].name, &comma);
		write_field(out, &show_work_fields[i], work);
	}
	for (size_t i = 0; i < show_mark_count; i++) {
		if (!show_marked(&show_marks[i], op, work || op->kind == OP_STATE))
			continue;
		write_argument(out, show_marks[i].name, &comma);
		out_text(out, "true");
	}
	*out->at++ = '}';
}

/* Starts a slice, or an instant if it has no length. */
static int slice_open(struct exporter *x, uint32_t pid, uint32_t tid, uint64_t start_ns,
		      uint64_t end_ns)
{
	bool instant = end_ns <= start_ns;
	int r = chrome_event_open(x, instant ? "i" : "X", pid, tid);

	if (r < 0)
		return r;
	out_text(x->out, ",\"ts\":");
	json_microseconds(x->out, start_ns);
	if (instant) {
		out_text(x->out, ",\"s\":\"t\"");
	} else {
		out_text(x->out, ",\"dur\":");
		json_microseconds(x->out, end_ns - start_ns);
	}
	return 0;
}

static void write_name(struct out *out, const char *category, const char *name)
{
	out_text(out, ",\"cat\":\"");
	out_text(out, category);
	out_text(out, "\",\"name\":");
	json_quoted(out, name);
}

/* The number of the stack, for `sf`; the stack is written at the end. */
static int use_stack(struct exporter *x, uint64_t id, uint32_t *ret_number)
{
	const struct meta_stack *stack = id ? meta_stack(x->meta, id) : NULL;
	struct used_stack *used;
	int r;

	*ret_number = stack && stack->count > 0 ? stack->number : 0;
	if (*ret_number == 0)
		return 0;
	r = export_first(&x->seen, WHAT_STACK, stack->number);
	if (r <= 0)
		return r;
	used = malloc(sizeof(*used));
	if (!used)
		return -ENOMEM;
	*used = (struct used_stack){ stack, x->used };
	x->used = used;
	return 0;
}

static void write_frame_id(struct out *out, uint32_t stack, uint32_t frame)
{
	json_member(out, "\"", stack);
	json_member(out, ".", frame);
	*out->at++ = '"';
}

/* Links the slice that starts at this time with the others of the flow. An instant cannot be
 * linked. */
static int write_flow(struct exporter *x, const char *phase, uint32_t pid, uint32_t tid,
		      const struct op *op, uint64_t start_ns, uint64_t end_ns)
{
	uint64_t flow = show_flow(op);
	int r;

	if (flow == 0 || end_ns <= start_ns)
		return 0;
	r = chrome_event_open(x, phase, pid, tid);
	if (r < 0)
		return r;
	out_text(x->out, ",\"ts\":");
	json_microseconds(x->out, start_ns);
	write_name(x->out, "flow", "submission");
	out_text(x->out, ",\"bp\":\"e\",\"id\":");
	json_address(x->out, flow);
	*x->out->at++ = '}';
	return 0;
}

static void write_stack_id(struct out *out, uint32_t stack)
{
	if (stack == 0)
		return;
	out_text(out, ",\"sf\":");
	write_frame_id(out, stack, 0);
}

static int write_call(struct exporter *x, const struct op *op)
{
	uint32_t pid, stack;
	int r;

	if ((r = chrome_call_thread(x, op, &pid)) < 0 ||
	    (r = use_stack(x, op->stack_id, &stack)) < 0 ||
	    (r = slice_open(x, pid, op->tid, op->start_ns, op->end_ns)) < 0)
		return r;
	write_name(x->out, show_kind_name(op->kind), show_call_name(x->meta, op)->text);
	write_stack_id(x->out, stack);
	write_arguments(x->out, op, NULL);
	*x->out->at++ = '}';
	return write_flow(x, "s", pid, op->tid, op, op->start_ns, op->end_ns);
}

static int write_work(struct exporter *x, const struct op *op)
{
	uint32_t pid, tid = 0, stack;
	struct show_work work;
	int r;

	if ((r = chrome_work_thread(x, op, &pid, &tid)) < 0 ||
	    (r = use_stack(x, op->stack_id, &stack)) < 0 ||
	    (r = slice_open(x, pid, tid, op->gpu_start_ns, op->gpu_end_ns)) < 0)
		return r;
	show_work_get(x->meta, op, &work);
	write_name(x->out, show_kind_name(op->kind == OP_LAUNCH ? OP_KERNEL : op->kind),
		   show_work_name(x->meta, op)->text);
	write_stack_id(x->out, stack);
	write_arguments(x->out, op, &work);
	*x->out->at++ = '}';
	return write_flow(x, op->flags & OP_NODE ? "t" : "f", pid, tid, op, op->gpu_start_ns,
			  op->gpu_end_ns);
}

/* An NVTX range, or CUPTI overhead. */
static int write_range(struct exporter *x, const struct op *op)
{
	const struct meta_text *domain = show_domain(x->meta, op);
	uint32_t pid, tid = 0;
	int r;

	if ((r = chrome_range_thread(x, op, &pid, &tid)) < 0 ||
	    (r = slice_open(x, pid, tid, op->start_ns, op->end_ns)) < 0)
		return r;
	write_name(x->out, show_kind_name(op->kind), show_work_name(x->meta, op)->text);
	if (domain) {
		out_text(x->out, ",\"args\":{\"domain\":");
		json_quoted(x->out, domain->text);
		*x->out->at++ = '}';
	}
	*x->out->at++ = '}';
	return 0;
}

static int write_memory(struct exporter *x, const struct op *op)
{
	const struct meta_process *process = meta_process(x->meta, op->process);
	char name[SHOW_NAME_BYTES];
	int r = chrome_event_open(x, "C", process->pid, process->pid);

	if (r < 0)
		return r;
	show_memory_name(name, op);
	out_text(x->out, ",\"ts\":");
	json_microseconds(x->out, show_end_ns(op));
	out_text(x->out, ",\"name\":");
	json_quoted(x->out, name);
	out_text(x->out, ",\"args\":{\"bytes\":");
	out_number(x->out, op->live_bytes);
	out_text(x->out, "}}");
	return 0;
}

static int write_state(struct exporter *x, const struct op *op)
{
	uint32_t pid, tid = 0;
	int r;

	if (op->detail == OP_STATE_IDLE)
		return 0;
	if ((r = chrome_state_thread(x, op, &pid, &tid)) < 0 ||
	    (r = slice_open(x, pid, tid, op->start_ns, op->end_ns)) < 0)
		return r;
	write_name(x->out, show_kind_name(OP_STATE), show_state_name(op->detail));
	write_arguments(x->out, op, NULL);
	*x->out->at++ = '}';
	return 0;
}

static int chrome_op(struct exporter *x, const struct op *op)
{
	static const struct export_slices slices = {
		write_call, write_work, write_memory, write_range, write_state,
	};

	return export_slices(&slices, x, op);
}

static int write_loss(struct exporter *x, const struct meta_loss *loss)
{
	uint32_t pid, tid = 0;
	int r;

	if ((r = chrome_loss_thread(x, loss, &pid, &tid)) < 0 ||
	    (r = slice_open(x, pid, tid, loss->start_ns, loss->end_ns)) < 0)
		return r;
	write_name(x->out, "loss", loss->name->text);
	json_member(x->out, ",\"args\":{\"count\":", loss->count);
	out_text(x->out, "}}");
	return 0;
}

/* Frames link from the inner to the outer one. */
static int write_stack(struct exporter *x, const struct meta_stack *stack)
{
	struct out *out = x->out;

	for (uint32_t i = 0; i < stack->count; i++) {
		int r = out_room(out);

		if (r < 0)
			return r;
		out_text(out, x->comma ? ",\n" : "\n");
		x->comma = true;
		write_frame_id(out, stack->number, i);
		out_text(out, ":{\"category\":");
		json_quoted(out, stack->frame[i]->module->text);
		out_text(out, ",\"name\":");
		json_quoted(out, stack->frame[i]->label->text);
		if (i + 1 < stack->count) {
			out_text(out, ",\"parent\":");
			write_frame_id(out, stack->number, i + 1);
		}
		*out->at++ = '}';
	}
	return 0;
}

static int chrome_end(struct exporter *x)
{
	int r = out_room(x->out);

	if (r < 0)
		return r;
	out_text(x->out, "\n],\n\"stackFrames\":{");
	x->comma = false;
	for (const struct used_stack *used = x->used; used && r >= 0; used = used->next)
		r = write_stack(x, used->stack);
	if (r >= 0)
		r = out_room(x->out);
	if (r < 0)
		return r;
	out_text(x->out, "\n}}\n");
	return 0;
}

static void chrome_clear(struct exporter *x)
{
	for (struct used_stack *used = x->used; used;) {
		struct used_stack *next = used->next;

		free(used);
		used = next;
	}
	rows_clear(&x->rows);
	map_clear(&x->seen);
}

static int chrome_begin(struct exporter *x, const struct meta *meta, struct out *out)
{
	x->meta = meta;
	x->out = out;
	out_text(x->out,
		 "{\"displayTimeUnit\":\"ns\",\n\"otherData\":{\"version\":\"TraceSmith " TS_VERSION
		 "\",\"clock\":\"CLOCK_MONOTONIC\",\"wall_offset_ns\":\"");
	out_signed(x->out, meta->wall_offset_ns);
	out_text(x->out, "\"},\n\"traceEvents\":[");
	return 0;
}

const struct export_format export_chrome = {
	.exporter_bytes = sizeof(struct exporter),
	.begin = chrome_begin,
	.op = chrome_op,
	.loss = write_loss,
	.end = chrome_end,
	.clear = chrome_clear,
	.sorted = true,
};
