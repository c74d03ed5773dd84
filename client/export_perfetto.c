/* Perfetto export: a process has a track; below it are one for each thread, with the calls that it
 * made, one for the memory of each device, and one for each device with its streams below, which
 * show in what state they were. Losses have tracks of their own.
 * A track, a name and a stack are written right before the first event that needs them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/export.h"
#include "client/perfetto.h"

/* What a track, or a thing that is sent once, is. */
enum what {
	WHAT_PROCESS,
	WHAT_THREAD,
	WHAT_MEMORY,
	WHAT_DEVICE,
	WHAT_STREAM,
	WHAT_LOSS,
	WHAT_LOSSES,
	WHAT_SYMBOL,
	WHAT_FILE,
	WHAT_FRAME,
	WHAT_STACK,
};

/* A track's uuid is its process, then a thread, device, stream or reason, then `what`. Thread ids
 * have up to 22 bits; streams have a number of their own and need no process. */
#define UUID_WHAT_BITS 3
#define UUID_SUB_BITS  26

#define STATE_NAMES    0x10000 /* event names: the states come behind the functions */
#define CATEGORY_LOSS  (OP_KIND_MAX + 1)

struct exporter {
	const struct export_meta *meta;
	struct out *out;
	struct map seen; /* what was written, and its uuid or number */
	uint64_t thread; /* track of the last call; the next one is mostly of the same */
};

static uint64_t track_uuid(enum what what, uint32_t process, uint32_t sub)
{
	return (uint64_t)process << UUID_SUB_BITS | (uint64_t)sub << UUID_WHAT_BITS | what;
}

static int process_track(struct exporter *x, uint32_t id, const struct export_process **ret)
{
	const struct export_process *process = export_meta_process(x->meta, id);
	struct perfetto_track track = { .uuid = track_uuid(WHAT_PROCESS, id, 0) };
	int r;

	if (!process)
		return -ENOENT;
	*ret = process;
	r = export_first(&x->seen, WHAT_PROCESS, id);
	if (r <= 0)
		return r;
	track.pid = process->pid;
	track.process_name = process->name->text;
	track.command = process->command->text;
	return perfetto_track(x->out, &track);
}

static int thread_track(struct exporter *x, const struct op *op, uint64_t *ret)
{
	uint64_t uuid = track_uuid(WHAT_THREAD, op->process, op->tid);
	const struct export_process *process;
	char name[EXPORT_NAME_BYTES];
	struct perfetto_track track = { .uuid = uuid, .tid = op->tid, .name = name };
	int r;

	*ret = uuid;
	if (uuid == x->thread)
		return 0;
	x->thread = uuid;
	r = export_first(&x->seen, WHAT_THREAD, uuid);
	if (r <= 0)
		return r;
	r = process_track(x, op->process, &process);
	if (r < 0)
		return r;
	export_thread_name(name, process, op->tid);
	track.pid = process->pid;
	return perfetto_track(x->out, &track);
}

/* A track directly below its process: of a device, or of memory. */
static int child_track(struct exporter *x, const struct op *op, enum what what, uint32_t sub,
		       uint64_t *ret)
{
	char name[EXPORT_NAME_BYTES];
	struct perfetto_track track = {
		.uuid = track_uuid(what, op->process, sub),
		.parent = track_uuid(WHAT_PROCESS, op->process, 0),
		.name = name,
		.bytes = what == WHAT_MEMORY,
	};
	const struct export_process *process;
	int r = export_first(&x->seen, what, track.uuid);

	*ret = track.uuid;
	if (r <= 0)
		return r;
	if (what == WHAT_MEMORY)
		export_memory_name(name, op);
	else
		export_device_name(name, op->device, " (bounds)");
	r = process_track(x, op->process, &process);
	return r < 0 ? r : perfetto_track(x->out, &track);
}

/* The state of a device is on the track above those of its streams. */
static int state_track(struct exporter *x, const struct op *op, uint64_t *ret)
{
	char name[EXPORT_NAME_BYTES];
	struct perfetto_track track = { .name = name };
	int r = child_track(x, op, WHAT_DEVICE, (uint16_t)op->device, ret);

	if (r < 0 || op->stream == 0)
		return r;
	track.uuid = track_uuid(WHAT_STREAM, 0, op->stream);
	track.parent = *ret;
	*ret = track.uuid;
	r = export_first(&x->seen, WHAT_STREAM, op->stream);
	if (r <= 0)
		return r;
	export_stream_name(name, export_meta_stream(x->meta, op->stream), op->stream);
	return perfetto_track(x->out, &track);
}

static int write_text(struct exporter *x, enum what what, enum perfetto_table table,
		      const struct export_text *text)
{
	int r = export_first(&x->seen, what, text->number);

	return r <= 0 ? r : perfetto_name(x->out, table, text->number, text->text);
}

static int write_file(struct exporter *x, const struct export_text *file)
{
	int r = export_first(&x->seen, WHAT_FILE, file->number);

	if (r <= 0)
		return r;
	r = perfetto_name(x->out, PERFETTO_PATH, file->number, file->text);
	return r < 0 ? r : perfetto_mapping(x->out, file->number);
}

static int write_frame(struct exporter *x, const struct export_frame *frame)
{
	int r = export_first(&x->seen, WHAT_FRAME, frame->number);

	if (r <= 0)
		return r;
	if ((r = write_text(x, WHAT_SYMBOL, PERFETTO_FUNCTION, frame->symbol)) < 0 ||
	    (r = write_file(x, frame->file)) < 0)
		return r;
	return perfetto_frame(x->out, frame);
}

/* The number of the op's stack, 0 where it has none that is known. */
static int write_stack(struct exporter *x, const struct op *op, uint32_t *ret_number)
{
	const struct export_stack *stack;
	int r;

	*ret_number = 0;
	stack = op->stack_id ? export_meta_stack(x->meta, op->stack_id) : NULL;
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
		.op = op,
	};
	int r;

	if (!export_meta_function(x->meta, op->fn))
		event.text = "unknown function";
	if ((r = thread_track(x, op, &event.track)) < 0 ||
	    (r = write_stack(x, op, &event.stack)) < 0)
		return r;
	return perfetto_event(x->out, &event);
}

static int write_memory(struct exporter *x, const struct op *op)
{
	uint32_t sub = (uint32_t)export_is_host(op) << 16 | (uint16_t)op->device;
	uint64_t uuid;
	int r = child_track(x, op, WHAT_MEMORY, sub, &uuid);

	return r < 0 ? r : perfetto_counter(x->out, uuid, export_end_ns(op), op->live_bytes);
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
	r = state_track(x, op, &event.track);
	return r < 0 ? r : perfetto_event(x->out, &event);
}

static int write_op(struct exporter *x, const struct op *op)
{
	int r;

	if (op->kind == OP_STATE)
		return write_state(x, op);
	r = write_call(x, op);
	return r == 0 && export_has_memory(op) ? write_memory(x, op) : r;
}

static int perfetto_ops(struct exporter *x, const struct op *op, size_t count)
{
	int r = 0;

	for (size_t i = 0; i < count && r == 0; i++)
		r = write_op(x, &op[i]);
	return r;
}

/* Losses of one process and reason follow each other on one track. */
static int loss_track(struct exporter *x, const struct export_loss *loss, uint64_t *ret)
{
	const struct export_process *process;
	struct perfetto_track track = { .name = loss->name->text };
	int r;

	track.uuid = track_uuid(WHAT_LOSS, loss->process, loss->reason);
	track.parent = track_uuid(WHAT_LOSSES, loss->process, 0);
	*ret = track.uuid;
	r = export_first(&x->seen, WHAT_LOSSES, loss->process);
	if (r > 0) {
		struct perfetto_track group = { .uuid = track.parent, .name = "TraceSmith loss" };

		if (export_meta_process(x->meta, loss->process)) {
			group.parent = track_uuid(WHAT_PROCESS, loss->process, 0);
			r = process_track(x, loss->process, &process);
		}
		if (r >= 0)
			r = perfetto_track(x->out, &group);
	}
	if (r >= 0)
		r = export_first(&x->seen, WHAT_LOSS, track.uuid);
	return r <= 0 ? r : perfetto_track(x->out, &track);
}

static int write_loss(struct exporter *x, const struct export_loss *loss)
{
	struct perfetto_event event = {
		.start_ns = loss->start_ns,
		.end_ns = loss->end_ns,
		.category = CATEGORY_LOSS,
		.text = loss->name->text,
		.count = loss->count,
	};
	int r = loss_track(x, loss, &event.track);

	return r < 0 ? r : perfetto_event(x->out, &event);
}

static int perfetto_end(struct exporter *x)
{
	for (const struct export_loss *loss = x->meta->loss; loss; loss = loss->next) {
		int r = write_loss(x, loss);

		if (r < 0)
			return r;
	}
	return out_flush(x->out);
}

static int write_names(struct exporter *x)
{
	int r = perfetto_head(x->out, x->meta->wall_offset_ns);

	for (int kind = 1; kind <= OP_KIND_MAX && r == 0; kind++)
		r = perfetto_name(x->out, PERFETTO_CATEGORY, kind, export_kind_name(kind));
	if (r == 0)
		r = perfetto_name(x->out, PERFETTO_CATEGORY, CATEGORY_LOSS, "loss");
	for (int state = 1; state <= OP_STATE_WAITING && r == 0; state++)
		r = perfetto_name(x->out, PERFETTO_EVENT, STATE_NAMES + state,
				  export_state_name(state));
	for (uint32_t fn = 0; fn < x->meta->function_count && r == 0; fn++)
		if (x->meta->function[fn])
			r = perfetto_name(x->out, PERFETTO_EVENT, fn + 1,
					  x->meta->function[fn]->text);
	return r;
}

static void perfetto_free(struct exporter *x)
{
	if (!x)
		return;
	map_clear(&x->seen);
	out_free(x->out);
	free(x);
}

static void perfetto_freep(struct exporter **x)
{
	perfetto_free(*x);
}

static int perfetto_begin(const struct export_meta *meta, const struct out_sink *sink,
			  struct exporter **ret)
{
	_cleanup_(perfetto_freep) struct exporter *x = calloc(1, sizeof(*x));
	int r;

	if (!x)
		return -ENOMEM;
	x->meta = meta;
	if ((r = out_new(sink, &x->out)) < 0 || (r = write_names(x)) < 0)
		return r;
	*ret = TAKE(x);
	return 0;
}

const struct export_format export_perfetto = {
	.begin = perfetto_begin,
	.ops = perfetto_ops,
	.end = perfetto_end,
	.free = perfetto_free,
};
