/* Chrome export: the trace event format, as JSON, for chrome://tracing and what else reads it.
 * https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
 *
 * It knows processes and threads only, so streams, devices and losses are threads with ids above
 * those that a kernel gives out. Times are microseconds with three decimals, so nothing is lost.
 * Stacks are written at the end, those that were used. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/export.h"
#include "client/export_json.h"
#include "client/export_lane.h"

#define FIRST_ID_DEVICE (1u << 23) /* the kernel's are below 1 << 22 */
#define FIRST_ID_STREAM (1u << 25)
#define FIRST_ID_LANE	(1u << 26)
#define EXACT		(1u << 30) /* added to a device or stream whose states are exact */
#define PID_LOSS	(1u << 24) /* of losses that are no process's */

enum what {
	WHAT_PROCESS,
	WHAT_THREAD,
	WHAT_STACK,
	/* Rows of lanes: */
	WHAT_KERNELS,
	WHAT_COPIES,
	WHAT_RANGES,
	WHAT_OVERHEAD,
	WHAT_LOSS,
};

struct used_stack {
	const struct export_stack *stack;
	struct used_stack *next;
};

struct exporter {
	const struct export_meta *meta;
	struct out *out;
	struct map seen;
	struct rows rows;
	struct export_order order;
	struct used_stack *used;
	uint32_t lane_count;
	uint64_t thread; /* of the last call, as a key of `seen` */
	bool comma;	 /* something stands before */
};

/* Begins an event, up to its thread: the caller goes on with ",". */
static int event_open(struct exporter *x, const char *phase, uint32_t pid, uint32_t tid)
{
	int r = out_room(x->out);

	if (r < 0)
		return r;
	json_text(x->out, x->comma ? ",\n{\"ph\":\"" : "\n{\"ph\":\"");
	x->comma = true;
	json_text(x->out, phase);
	json_member(x->out, "\",\"pid\":", pid);
	json_member(x->out, ",\"tid\":", tid);
	return 0;
}

/* `what`: process_name, process_labels, thread_name. */
static int write_label(struct exporter *x, uint32_t pid, uint32_t tid, const char *what,
		       const char *member, const char *value)
{
	int r = event_open(x, "M", pid, tid);

	if (r < 0)
		return r;
	json_text(x->out, ",\"name\":\"");
	json_text(x->out, what);
	json_text(x->out, "\",\"args\":{\"");
	json_text(x->out, member);
	json_text(x->out, "\":");
	json_quoted(x->out, value);
	json_text(x->out, "}}");
	return 0;
}

static int name_process(struct exporter *x, uint32_t id, uint32_t *ret_pid)
{
	const struct export_process *process = export_meta_process(x->meta, id);
	int r;

	if (!process)
		return -ENOENT;
	*ret_pid = process->pid;
	r = export_first(&x->seen, WHAT_PROCESS, id);
	if (r <= 0)
		return r;
	r = write_label(x, process->pid, process->pid, "process_name", "name", process->name->text);
	if (r < 0)
		return r;
	return write_label(x, process->pid, process->pid, "process_labels", "labels",
			   process->command->text);
}

static int name_thread(struct exporter *x, uint32_t process, uint32_t pid, uint32_t tid,
		       const char *name)
{
	uint64_t key = (uint64_t)process << 32 | tid;
	int r = export_first(&x->seen, WHAT_THREAD, key);

	return r <= 0 ? r : write_label(x, pid, tid, "thread_name", "name", name);
}

static void write_value(struct out *out, uint8_t how, uint64_t value)
{
	if (how == EXPORT_ADDRESS)
		json_address(out, value);
	else if (how == EXPORT_SIGNED)
		json_signed(out, (int64_t)value);
	else
		json_number(out, value);
}

static void write_field(struct out *out, const struct export_field *field, const void *from)
{
	if (field->count > 1)
		*out->at++ = '[';
	for (uint32_t i = 0; i < field->count; i++) {
		if (i > 0)
			*out->at++ = ',';
		write_value(out, field->how, export_field_value(field, from, i));
	}
	if (field->count > 1)
		*out->at++ = ']';
}

static void write_argument(struct out *out, const char *name, bool *comma)
{
	json_text(out, *comma ? ",\"" : "\"");
	json_text(out, name);
	json_text(out, "\":");
	*comma = true;
}

/* `work`: NULL of what is none. */
static void write_arguments(struct out *out, const struct op *op, const struct export_work *work)
{
	bool comma = false;

	json_text(out, ",\"args\":{");
	for (size_t i = 0; i < export_field_count; i++) {
		const struct export_field *field = &export_fields[i];

		if ((field->work && !work) || !export_field_shown(field, op))
			continue;
		write_argument(out, field->name, &comma);
		write_field(out, field, op);
	}
	for (size_t i = 0; work && i < export_work_field_count; i++) {
		if (!export_field_shown(&export_work_fields[i], work))
			continue;
		write_argument(out, export_work_fields[i].name, &comma);
		write_field(out, &export_work_fields[i], work);
	}
	for (size_t i = 0; i < export_mark_count; i++) {
		if (!export_marked(&export_marks[i], op, work || op->kind == OP_STATE))
			continue;
		write_argument(out, export_marks[i].name, &comma);
		json_text(out, "true");
	}
	*out->at++ = '}';
}

/* Begins a slice, or an instant where it has no length. */
static int slice_open(struct exporter *x, uint32_t pid, uint32_t tid, uint64_t start_ns,
		      uint64_t end_ns)
{
	bool instant = end_ns <= start_ns;
	int r = event_open(x, instant ? "i" : "X", pid, tid);

	if (r < 0)
		return r;
	json_text(x->out, ",\"ts\":");
	json_microseconds(x->out, start_ns);
	if (instant) {
		json_text(x->out, ",\"s\":\"t\"");
	} else {
		json_text(x->out, ",\"dur\":");
		json_microseconds(x->out, end_ns - start_ns);
	}
	return 0;
}

static void write_name(struct out *out, const char *category, const char *name)
{
	json_text(out, ",\"cat\":\"");
	json_text(out, category);
	json_text(out, "\",\"name\":");
	json_quoted(out, name);
}

/* The number of the stack, for `sf`; it is written at the end. */
static int use_stack(struct exporter *x, uint64_t id, uint32_t *ret_number)
{
	const struct export_stack *stack = id ? export_meta_stack(x->meta, id) : NULL;
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

static int call_thread(struct exporter *x, const struct op *op, uint32_t *ret_pid)
{
	const struct export_process *process = export_meta_process(x->meta, op->process);
	char name[EXPORT_NAME_BYTES];
	uint64_t key = (uint64_t)op->process << 32 | op->tid;
	int r = 0;

	if (!process)
		return -ENOENT;
	*ret_pid = process->pid;
	if (key == x->thread)
		return 0;
	x->thread = key;
	r = name_process(x, op->process, ret_pid);
	if (r < 0)
		return r;
	export_thread_name(name, process, op->tid);
	return name_thread(x, op->process, *ret_pid, op->tid, name);
}

/* Joins the slice that begins at this time with the others of the flow. An instant cannot be. */
static int write_flow(struct exporter *x, const char *phase, uint32_t pid, uint32_t tid,
		      const struct op *op, uint64_t start_ns, uint64_t end_ns)
{
	uint64_t flow = export_flow(op);
	int r;

	if (flow == 0 || end_ns <= start_ns)
		return 0;
	r = event_open(x, phase, pid, tid);
	if (r < 0)
		return r;
	json_text(x->out, ",\"ts\":");
	json_microseconds(x->out, start_ns);
	write_name(x->out, "flow", "submission");
	json_text(x->out, ",\"bp\":\"e\",\"id\":");
	json_address(x->out, flow);
	*x->out->at++ = '}';
	return 0;
}

static void write_stack_id(struct out *out, uint32_t stack)
{
	if (stack == 0)
		return;
	json_text(out, ",\"sf\":");
	write_frame_id(out, stack, 0);
}

static int write_call(struct exporter *x, const struct op *op)
{
	uint32_t pid, stack;
	int r;

	if ((r = call_thread(x, op, &pid)) < 0 || (r = use_stack(x, op->stack_id, &stack)) < 0 ||
	    (r = slice_open(x, pid, op->tid, op->start_ns, op->end_ns)) < 0)
		return r;
	write_name(x->out, export_kind_name(op->kind), export_call_name(x->meta, op)->text);
	write_stack_id(x->out, stack);
	write_arguments(x->out, op, NULL);
	*x->out->at++ = '}';
	return write_flow(x, "s", pid, op->tid, op, op->start_ns, op->end_ns);
}

/* A lane is a thread. 1: it is new and needs a name. */
static int take_lane(struct exporter *x, struct lanes *lanes, uint64_t start_ns, uint64_t end_ns,
		     bool nest, uint32_t *ret_tid)
{
	struct lane *lane = lanes ? lanes_take(lanes, start_ns, end_ns, nest) : NULL;
	bool new;

	if (!lane)
		return -ENOMEM;
	new = lane->track == 0;
	if (new)
		lane->track = FIRST_ID_LANE + ++x->lane_count;
	*ret_tid = (uint32_t)lane->track;
	return new;
}

/* The second and later ones of a row have their number in their name. */
static int name_lane(struct exporter *x, const struct lanes *lanes, uint32_t process, uint32_t pid,
		     uint32_t tid, const char *name)
{
	char numbered[3 * EXPORT_NAME_BYTES];

	snprintf(numbered, sizeof(numbered), lanes->count > 1 ? "%s (%u)" : "%s", name,
		 lanes->count);
	return name_thread(x, process, pid, tid, numbered);
}

static int work_thread(struct exporter *x, const struct op *op, uint32_t *ret_pid,
		       uint32_t *ret_tid)
{
	bool copies = op->kind == OP_COPY || op->kind == OP_SET;
	uint64_t id = op->stream ? op->stream : export_device_key(op);
	struct lanes *lanes = rows_get(&x->rows, copies ? WHAT_COPIES : WHAT_KERNELS, id);
	char name[2 * EXPORT_NAME_BYTES + 16], part[EXPORT_NAME_BYTES] = "unknown stream";
	int r = name_process(x, op->process, ret_pid);

	if (r == 0)
		r = take_lane(x, lanes, op->gpu_start_ns, op->gpu_end_ns, false, ret_tid);
	if (r <= 0)
		return r;
	export_gpu_name(name, x->meta, op);
	if (op->stream)
		export_stream_name(part, x->meta, op->stream);
	strcat(strcat(name, " "), part);
	return name_lane(x, lanes, op->process, *ret_pid, *ret_tid,
			 copies ? strcat(name, " copies") : name);
}

static int write_work(struct exporter *x, const struct op *op)
{
	uint32_t pid, tid = 0, stack;
	struct export_work work;
	int r;

	if ((r = work_thread(x, op, &pid, &tid)) < 0 ||
	    (r = use_stack(x, op->stack_id, &stack)) < 0 ||
	    (r = slice_open(x, pid, tid, op->gpu_start_ns, op->gpu_end_ns)) < 0)
		return r;
	export_work_get(x->meta, op, &work);
	write_name(x->out, export_kind_name(op->kind == OP_LAUNCH ? OP_KERNEL : op->kind),
		   export_work_name(x->meta, op)->text);
	write_stack_id(x->out, stack);
	write_arguments(x->out, op, &work);
	*x->out->at++ = '}';
	return write_flow(x, op->flags & OP_NODE ? "t" : "f", pid, tid, op, op->gpu_start_ns,
			  op->gpu_end_ns);
}

static int range_thread(struct exporter *x, const struct op *op, uint32_t *ret_pid,
			uint32_t *ret_tid)
{
	bool overhead = op->kind == OP_OVERHEAD;
	struct lanes *lanes = rows_get(&x->rows, overhead ? WHAT_OVERHEAD : WHAT_RANGES,
				       (uint64_t)op->process << 32 | op->tid);
	char name[EXPORT_NAME_BYTES + 16];
	int r = name_process(x, op->process, ret_pid);

	if (r == 0)
		r = take_lane(x, lanes, op->start_ns, export_end_ns(op), true, ret_tid);
	if (r <= 0)
		return r;
	export_thread_name(name, export_meta_process(x->meta, op->process), op->tid);
	strcat(name, overhead ? " CUPTI overhead" : " NVTX");
	return name_lane(x, lanes, op->process, *ret_pid, *ret_tid, name);
}

/* A range of a program, or overhead of CUPTI. */
static int write_range(struct exporter *x, const struct op *op)
{
	uint32_t pid, tid = 0;
	int r;

	if ((r = range_thread(x, op, &pid, &tid)) < 0 ||
	    (r = slice_open(x, pid, tid, op->start_ns, op->end_ns)) < 0)
		return r;
	write_name(x->out, export_kind_name(op->kind), export_work_name(x->meta, op)->text);
	write_arguments(x->out, op, NULL);
	*x->out->at++ = '}';
	return 0;
}

static int write_memory(struct exporter *x, const struct op *op)
{
	const struct export_process *process = export_meta_process(x->meta, op->process);
	char name[EXPORT_NAME_BYTES];
	int r = event_open(x, "C", process->pid, process->pid);

	if (r < 0)
		return r;
	export_memory_name(name, op);
	json_text(x->out, ",\"ts\":");
	json_microseconds(x->out, export_end_ns(op));
	json_text(x->out, ",\"name\":");
	json_quoted(x->out, name);
	json_text(x->out, ",\"args\":{\"bytes\":");
	json_number(x->out, op->live_bytes);
	json_text(x->out, "}}");
	return 0;
}

static int state_thread(struct exporter *x, const struct op *op, uint32_t *ret_pid,
			uint32_t *ret_tid)
{
	char name[EXPORT_NAME_BYTES + 32], part[EXPORT_NAME_BYTES];
	bool exact = op->flags & OP_EXACT;
	int length, r = name_process(x, op->process, ret_pid);

	if (r < 0)
		return r;
	*ret_tid =
		op->stream ? FIRST_ID_STREAM + op->stream : FIRST_ID_DEVICE + (uint16_t)op->device;
	if (exact)
		*ret_tid += EXACT;
	export_device_name(part, op->device, exact ? " state" : " (bounds)");
	length = snprintf(name, sizeof(name), "%.31s", part);
	if (op->stream) {
		export_stream_name(part, x->meta, op->stream);
		snprintf(name + length, sizeof(name) - length, " %s", part);
	}
	return name_thread(x, op->process, *ret_pid, *ret_tid, name);
}

static int write_state(struct exporter *x, const struct op *op)
{
	uint32_t pid, tid = 0;
	int r;

	if (op->detail == OP_STATE_IDLE)
		return 0;
	if ((r = state_thread(x, op, &pid, &tid)) < 0 ||
	    (r = slice_open(x, pid, tid, op->start_ns, op->end_ns)) < 0)
		return r;
	write_name(x->out, export_kind_name(OP_STATE), export_state_name(op->detail));
	write_arguments(x->out, op, NULL);
	*x->out->at++ = '}';
	return 0;
}

static int write_op(struct exporter *x, const struct op *op)
{
	int r = 0;

	if (op->kind == OP_STATE)
		return write_state(x, op);
	if (op->kind == OP_RANGE || op->kind == OP_OVERHEAD)
		return write_range(x, op);
	if (export_has_call(op))
		r = write_call(x, op);
	if (r == 0 && export_has_work(op))
		r = write_work(x, op);
	return r == 0 && export_has_memory(op) ? write_memory(x, op) : r;
}

static int chrome_ops(struct exporter *x, const struct op *op, size_t count)
{
	const struct op **sorted = export_sort(&x->order, op, count);
	int r = sorted || count == 0 ? 0 : -ENOMEM;

	for (size_t i = 0; i < count && r == 0; i++)
		r = write_op(x, sorted[i]);
	return r;
}

static int write_loss(struct exporter *x, const struct export_loss *loss)
{
	struct lanes *lanes =
		rows_get(&x->rows, WHAT_LOSS, (uint64_t)loss->process << 32 | loss->reason);
	uint32_t pid = PID_LOSS, tid = 0;
	char name[EXPORT_NAME_BYTES];
	int r;

	if (export_meta_process(x->meta, loss->process))
		r = name_process(x, loss->process, &pid);
	else if ((r = export_first(&x->seen, WHAT_PROCESS, 0)) > 0)
		r = write_label(x, pid, pid, "process_name", "name", "TraceSmith loss");
	if (r >= 0)
		r = take_lane(x, lanes, loss->start_ns, loss->end_ns, false, &tid);
	snprintf(name, sizeof(name), "TraceSmith loss: %.40s", loss->name->text);
	if (r > 0)
		r = name_lane(x, lanes, loss->process, pid, tid, name);
	if (r < 0 || (r = slice_open(x, pid, tid, loss->start_ns, loss->end_ns)) < 0)
		return r;
	write_name(x->out, "loss", loss->name->text);
	json_member(x->out, ",\"args\":{\"count\":", loss->count);
	json_text(x->out, "}}");
	return 0;
}

/* Frames point from the inner to the outer one. */
static int write_stack(struct exporter *x, const struct export_stack *stack)
{
	struct out *out = x->out;

	for (uint32_t i = 0; i < stack->count; i++) {
		int r = out_room(out);

		if (r < 0)
			return r;
		json_text(out, x->comma ? ",\n" : "\n");
		x->comma = true;
		write_frame_id(out, stack->number, i);
		json_text(out, ":{\"category\":");
		json_quoted(out, stack->frame[i]->file->text);
		json_text(out, ",\"name\":");
		json_quoted(out, stack->frame[i]->symbol->text);
		if (i + 1 < stack->count) {
			json_text(out, ",\"parent\":");
			write_frame_id(out, stack->number, i + 1);
		}
		*out->at++ = '}';
	}
	return 0;
}

static int chrome_end(struct exporter *x)
{
	int r = 0;

	for (const struct export_loss *loss = x->meta->loss; loss && r >= 0; loss = loss->next)
		r = write_loss(x, loss);
	if (r >= 0)
		r = out_room(x->out);
	if (r < 0)
		return r;
	json_text(x->out, "\n],\n\"stackFrames\":{");
	x->comma = false;
	for (const struct used_stack *used = x->used; used && r >= 0; used = used->next)
		r = write_stack(x, used->stack);
	if (r >= 0)
		r = out_room(x->out);
	if (r < 0)
		return r;
	json_text(x->out, "\n}}\n");
	return out_flush(x->out);
}

static void chrome_free(struct exporter *x)
{
	if (!x)
		return;
	for (struct used_stack *used = x->used; used;) {
		struct used_stack *next = used->next;

		free(used);
		used = next;
	}
	rows_clear(&x->rows);
	export_order_clear(&x->order);
	map_clear(&x->seen);
	out_free(x->out);
	free(x);
}

static void chrome_freep(struct exporter **x)
{
	chrome_free(*x);
}

static int chrome_begin(const struct export_meta *meta, const struct out_sink *sink,
			struct exporter **ret)
{
	_cleanup_(chrome_freep) struct exporter *x = calloc(1, sizeof(*x));
	int r;

	if (!x)
		return -ENOMEM;
	x->meta = meta;
	r = out_new(sink, &x->out);
	if (r < 0)
		return r;
	json_text(
		x->out,
		"{\"displayTimeUnit\":\"ns\",\n\"otherData\":{\"version\":\"TraceSmith " TS_VERSION
		"\",\"clock\":\"CLOCK_MONOTONIC\",\"wall_offset_ns\":\"");
	json_signed(x->out, meta->wall_offset_ns);
	json_text(x->out, "\"},\n\"traceEvents\":[");
	*ret = TAKE(x);
	return 0;
}

const struct export_format export_chrome = {
	.begin = chrome_begin,
	.ops = chrome_ops,
	.end = chrome_end,
	.free = chrome_free,
};
