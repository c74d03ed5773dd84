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

#define FIRST_ID_DEVICE (1u << 23) /* the kernel's are below 1 << 22 */
#define FIRST_ID_LOSS	(1u << 24)
#define FIRST_ID_STREAM (1u << 25)
#define PID_LOSS	FIRST_ID_LOSS /* of losses that are no process's */

enum what { WHAT_PROCESS, WHAT_THREAD, WHAT_STACK };

struct used_stack {
	const struct export_stack *stack;
	struct used_stack *next;
};

struct exporter {
	const struct export_meta *meta;
	struct out *out;
	struct map seen;
	struct used_stack *used;
	uint64_t thread; /* of the last call, as a key of `seen` */
	bool comma;	 /* something stands before */
};

static void text(struct out *out, const char *plain)
{
	out_bytes(out, plain, strlen(plain));
}

static void number(struct out *out, uint64_t value)
{
	char digits[20], *at = digits + sizeof(digits);

	do
		*--at = (char)('0' + value % 10);
	while (value /= 10);
	out_bytes(out, at, digits + sizeof(digits) - at);
}

static void signed_number(struct out *out, int64_t value)
{
	if (value < 0)
		*out->at++ = '-';
	number(out, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

/* As text: a double, which readers make of a JSON number, holds 53 bits. */
static void address(struct out *out, uint64_t value)
{
	char hex[16], *at = hex + sizeof(hex);

	do
		*--at = "0123456789abcdef"[value & 15];
	while (value >>= 4);
	text(out, "\"0x");
	out_bytes(out, at, hex + sizeof(hex) - at);
	*out->at++ = '"';
}

static void microseconds(struct out *out, uint64_t ns)
{
	uint32_t rest = ns % 1000;
	char fraction[4] = { '.', (char)('0' + rest / 100), (char)('0' + rest / 10 % 10),
			     (char)('0' + rest % 10) };

	number(out, ns / 1000);
	out_bytes(out, fraction, sizeof(fraction));
}

static void string(struct out *out, const char *value)
{
	*out->at++ = '"';
	for (; *value; value++) {
		unsigned char c = *value;

		if (c < 0x20) {
			char escape[6] = { '\\', 'u',	       '0',
					   '0',	 "01"[c >> 4], "0123456789abcdef"[c & 15] };

			out_bytes(out, escape, sizeof(escape));
			continue;
		}
		if (c == '"' || c == '\\')
			*out->at++ = '\\';
		*out->at++ = c;
	}
	*out->at++ = '"';
}

static void member_number(struct out *out, const char *name, uint64_t value)
{
	text(out, name);
	number(out, value);
}

/* Begins an event, up to its thread: the caller goes on with ",". */
static int event_open(struct exporter *x, const char *phase, uint32_t pid, uint32_t tid)
{
	int r = out_room(x->out);

	if (r < 0)
		return r;
	text(x->out, x->comma ? ",\n{\"ph\":\"" : "\n{\"ph\":\"");
	x->comma = true;
	text(x->out, phase);
	member_number(x->out, "\",\"pid\":", pid);
	member_number(x->out, ",\"tid\":", tid);
	return 0;
}

/* `what`: process_name, process_labels, thread_name. */
static int write_label(struct exporter *x, uint32_t pid, uint32_t tid, const char *what,
		       const char *member, const char *value)
{
	int r = event_open(x, "M", pid, tid);

	if (r < 0)
		return r;
	text(x->out, ",\"name\":\"");
	text(x->out, what);
	text(x->out, "\",\"args\":{\"");
	text(x->out, member);
	text(x->out, "\":");
	string(x->out, value);
	text(x->out, "}}");
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
		address(out, value);
	else if (how == EXPORT_SIGNED)
		signed_number(out, (int64_t)value);
	else
		number(out, value);
}

static void write_field(struct out *out, const struct export_field *field, const struct op *op)
{
	if (field->count > 1)
		*out->at++ = '[';
	for (uint32_t i = 0; i < field->count; i++) {
		if (i > 0)
			*out->at++ = ',';
		write_value(out, field->how, export_field_value(field, op, i));
	}
	if (field->count > 1)
		*out->at++ = ']';
}

static void write_arguments(struct out *out, const struct op *op)
{
	bool comma = false;

	text(out, ",\"args\":{");
	for (size_t i = 0; i < export_field_count; i++) {
		if (!export_field_shown(&export_fields[i], op))
			continue;
		text(out, comma ? ",\"" : "\"");
		text(out, export_fields[i].name);
		text(out, "\":");
		write_field(out, &export_fields[i], op);
		comma = true;
	}
	for (size_t i = 0; i < export_mark_count; i++) {
		if (!export_marked(&export_marks[i], op))
			continue;
		text(out, comma ? ",\"" : "\"");
		text(out, export_marks[i].name);
		text(out, "\":true");
		comma = true;
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
	text(x->out, ",\"ts\":");
	microseconds(x->out, start_ns);
	if (instant) {
		text(x->out, ",\"s\":\"t\"");
	} else {
		text(x->out, ",\"dur\":");
		microseconds(x->out, end_ns - start_ns);
	}
	return 0;
}

static void write_name(struct out *out, const char *category, const char *name)
{
	text(out, ",\"cat\":\"");
	text(out, category);
	text(out, "\",\"name\":");
	string(out, name);
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
	member_number(out, "\"", stack);
	member_number(out, ".", frame);
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

static int write_call(struct exporter *x, const struct op *op)
{
	const struct export_text *function = export_meta_function(x->meta, op->fn);
	uint32_t pid, stack;
	int r;

	if ((r = call_thread(x, op, &pid)) < 0 || (r = use_stack(x, op->stack_id, &stack)) < 0 ||
	    (r = slice_open(x, pid, op->tid, op->start_ns, op->end_ns)) < 0)
		return r;
	write_name(x->out, export_kind_name(op->kind),
		   function ? function->text : "unknown function");
	if (stack != 0) {
		text(x->out, ",\"sf\":");
		write_frame_id(x->out, stack, 0);
	}
	write_arguments(x->out, op);
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
	text(x->out, ",\"ts\":");
	microseconds(x->out, export_end_ns(op));
	text(x->out, ",\"name\":");
	string(x->out, name);
	text(x->out, ",\"args\":{\"bytes\":");
	number(x->out, op->live_bytes);
	text(x->out, "}}");
	return 0;
}

static int state_thread(struct exporter *x, const struct op *op, uint32_t *ret_pid,
			uint32_t *ret_tid)
{
	char name[EXPORT_NAME_BYTES + 32], part[EXPORT_NAME_BYTES];
	int length, r = name_process(x, op->process, ret_pid);

	if (r < 0)
		return r;
	*ret_tid =
		op->stream ? FIRST_ID_STREAM + op->stream : FIRST_ID_DEVICE + (uint16_t)op->device;
	export_device_name(part, op->device, " (bounds)");
	length = snprintf(name, sizeof(name), "%.31s", part);
	if (op->stream) {
		export_stream_name(part, export_meta_stream(x->meta, op->stream), op->stream);
		snprintf(name + length, sizeof(name) - length, " %s", part);
	}
	return name_thread(x, op->process, *ret_pid, *ret_tid, name);
}

static int write_state(struct exporter *x, const struct op *op)
{
	uint32_t pid, tid;
	int r;

	if (op->detail == OP_STATE_IDLE)
		return 0;
	if ((r = state_thread(x, op, &pid, &tid)) < 0 ||
	    (r = slice_open(x, pid, tid, op->start_ns, op->end_ns)) < 0)
		return r;
	write_name(x->out, export_kind_name(OP_STATE), export_state_name(op->detail));
	write_arguments(x->out, op);
	*x->out->at++ = '}';
	return 0;
}

static int write_op(struct exporter *x, const struct op *op)
{
	int r;

	if (op->kind == OP_STATE)
		return write_state(x, op);
	r = write_call(x, op);
	return r == 0 && export_has_memory(op) ? write_memory(x, op) : r;
}

static int chrome_ops(struct exporter *x, const struct op *op, size_t count)
{
	int r = 0;

	for (size_t i = 0; i < count && r == 0; i++)
		r = write_op(x, &op[i]);
	return r;
}

static int write_loss(struct exporter *x, const struct export_loss *loss)
{
	uint32_t pid = PID_LOSS, tid = FIRST_ID_LOSS + loss->reason;
	char name[EXPORT_NAME_BYTES];
	int r;

	if (export_meta_process(x->meta, loss->process))
		r = name_process(x, loss->process, &pid);
	else if ((r = export_first(&x->seen, WHAT_PROCESS, 0)) > 0)
		r = write_label(x, pid, pid, "process_name", "name", "TraceSmith loss");
	if (r < 0)
		return r;
	snprintf(name, sizeof(name), "TraceSmith loss: %.40s", loss->name->text);
	if ((r = name_thread(x, loss->process, pid, tid, name)) < 0 ||
	    (r = slice_open(x, pid, tid, loss->start_ns, loss->end_ns)) < 0)
		return r;
	write_name(x->out, "loss", loss->name->text);
	member_number(x->out, ",\"args\":{\"count\":", loss->count);
	text(x->out, "}}");
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
		text(out, x->comma ? ",\n" : "\n");
		x->comma = true;
		write_frame_id(out, stack->number, i);
		text(out, ":{\"category\":");
		string(out, stack->frame[i]->file->text);
		text(out, ",\"name\":");
		string(out, stack->frame[i]->symbol->text);
		if (i + 1 < stack->count) {
			text(out, ",\"parent\":");
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
	text(x->out, "\n],\n\"stackFrames\":{");
	x->comma = false;
	for (const struct used_stack *used = x->used; used && r >= 0; used = used->next)
		r = write_stack(x, used->stack);
	if (r >= 0)
		r = out_room(x->out);
	if (r < 0)
		return r;
	text(x->out, "\n}}\n");
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
	text(x->out,
	     "{\"displayTimeUnit\":\"ns\",\n\"otherData\":{\"version\":\"TraceSmith " TS_VERSION
	     "\",\"clock\":\"CLOCK_MONOTONIC\",\"wall_offset_ns\":\"");
	signed_number(x->out, meta->wall_offset_ns);
	text(x->out, "\"},\n\"traceEvents\":[");
	*ret = TAKE(x);
	return 0;
}

const struct export_format export_chrome = {
	.begin = chrome_begin,
	.ops = chrome_ops,
	.end = chrome_end,
	.free = chrome_free,
};
