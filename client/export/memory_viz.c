/* Memory viz export: what torch.cuda.memory._snapshot() would say of a process: the segments of
 * PyTorch's caching allocator with their blocks, and what was given out and taken back before. For
 * https://docs.pytorch.org/memory_viz and torch/cuda/_memory_viz.py.
 *
 * The viewer goes back in time from the segments, event by event, and fails where one does not
 * fit. What PyTorch knows and we do not: streams (all are 0), and unless its probes say it the size
 * that was asked for (that which was given out). */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "client/export/blocks.h"
#include "client/export/export.h"
#include "client/export/pickle.h"
#include "core/base/units.h"

#define SMALL_SEGMENT (2u << 20) /* of blocks up to 1 MiB */
#define DEVICES_MAX   256

enum { FRAMES_OF_STACK = 1, FRAME };

struct exporter {
	struct blocks blocks;
	struct pickle pickle;
	struct out *out;
	uint32_t process;
	int error; /* why there is nothing */
	uint64_t unknown_bytes;
};

static int put_word(struct exporter *x, const char *key)
{
	return pickle_word(&x->pickle, key);
}

static int put_number(struct exporter *x, const char *key, uint64_t value)
{
	int r = put_word(x, key);

	if (r == 0)
		pickle_number(&x->pickle, value);
	return r;
}

static int put_flag(struct exporter *x, const char *key, bool value)
{
	int r = put_word(x, key);

	if (r == 0)
		pickle_bool(&x->pickle, value);
	return r;
}

static int put_name(struct exporter *x, const char *key, const char *value)
{
	int r = put_word(x, key);

	return r < 0 ? r : put_word(x, value);
}

static int write_frame(struct exporter *x, const struct meta_frame *frame)
{
	const struct meta_text *file = frame->file ? frame->file : frame->module;
	struct map_key what = { frame->number, FRAME };
	int r = out_room(x->out);

	if (r < 0 || pickle_again(&x->pickle, what))
		return r;
	pickle_dict(&x->pickle);
	r = put_name(x, "filename", file->text);
	if (r == 0)
		r = put_number(x, "line", frame->line);
	if (r == 0)
		r = put_name(x, "name", frame->function->text);
	if (r < 0)
		return r;
	pickle_dict_close(&x->pickle);
	return pickle_keep(&x->pickle, what);
}

static int put_frames(struct exporter *x, uint64_t stack_id)
{
	const struct meta_stack *stack = meta_stack(x->blocks.meta, stack_id);
	struct map_key what = { stack_id, FRAMES_OF_STACK };
	struct pickle_list list;
	int r = put_word(x, "frames");

	if (r < 0 || pickle_again(&x->pickle, what))
		return r;
	list = pickle_list(&x->pickle);
	for (uint32_t i = 0; stack && i < stack->count && r == 0; i++) {
		pickle_item(&list);
		r = write_frame(x, stack->frame[i]);
	}
	if (r < 0)
		return r;
	pickle_list_close(&list);
	return pickle_keep(&x->pickle, what);
}

static uint64_t requested_bytes(const struct block *block)
{
	return block->requested_bytes ? block->requested_bytes : block->bytes;
}

/* A block, or with a NULL the free space up to `end`. */
static int write_block(struct exporter *x, struct pickle_list *list, const struct block *block,
		       uint64_t address, uint64_t end)
{
	int r = out_room(x->out);

	if (r < 0)
		return r;
	pickle_item(list);
	pickle_dict(&x->pickle);
	r = put_number(x, "address", address);
	if (r == 0)
		r = put_number(x, "size", end - address);
	if (r == 0)
		r = put_number(x, "requested_size", block ? requested_bytes(block) : 0);
	if (r == 0)
		r = put_name(x, "state", block ? "active_allocated" : "inactive");
	if (r == 0)
		r = put_frames(x, block ? block->stack_id : 0);
	pickle_dict_close(&x->pickle);
	return r;
}

/* They fill it, with what is free between them. */
static int write_blocks(struct exporter *x, const struct blocks_segment *segment,
			const struct block *block, size_t count)
{
	uint64_t at = segment->address, end = at + segment->bytes;
	struct pickle_list list;
	int r = put_word(x, "blocks");

	list = pickle_list(&x->pickle);
	for (size_t i = 0; i < count && r == 0; i++) {
		if (block[i].address > at)
			r = write_block(x, &list, NULL, at, block[i].address);
		at = block[i].address + block[i].bytes;
		if (r == 0)
			r = write_block(x, &list, &block[i], block[i].address, at);
	}
	if (r == 0 && at < end)
		r = write_block(x, &list, NULL, at, end);
	pickle_list_close(&list);
	return r;
}

static uint64_t device_of(int16_t device)
{
	return device >= 0 && device < DEVICES_MAX ? (uint64_t)device : 0;
}

static int write_segment(struct exporter *x, const struct blocks_segment *segment,
			 const struct block *block, size_t count)
{
	uint64_t used = 0, requested = 0;
	int r;

	for (size_t i = 0; i < count; i++) {
		used += block[i].bytes;
		requested += requested_bytes(&block[i]);
	}
	pickle_dict(&x->pickle);
	r = put_number(x, "device", device_of(segment->device));
	if (r == 0)
		r = put_number(x, "address", segment->address);
	if (r == 0)
		r = put_number(x, "total_size", segment->bytes);
	if (r == 0)
		r = put_number(x, "allocated_size", used);
	if (r == 0)
		r = put_number(x, "active_size", used);
	if (r == 0)
		r = put_number(x, "requested_size", requested);
	if (r == 0)
		r = put_number(x, "stream", 0);
	if (r == 0)
		r = put_name(x, "segment_type",
			     segment->bytes == SMALL_SEGMENT ? "small" : "large");
	if (r == 0)
		r = put_flag(x, "is_expandable", segment->mapped);
	if (r == 0)
		r = put_flag(x, "made_up", segment->made_up);
	if (r == 0)
		r = put_frames(x, segment->stack_id);
	if (r == 0)
		r = write_blocks(x, segment, block, count);
	pickle_dict_close(&x->pickle);
	return r;
}

static int write_segments(struct exporter *x)
{
	const struct blocks *blocks = &x->blocks;
	struct pickle_list list;
	size_t at = 0;
	int r = put_word(x, "segments");

	list = pickle_list(&x->pickle);
	for (size_t i = 0; i < blocks->segment_count && r == 0; i++) {
		const struct blocks_segment *segment = &blocks->segment[i];
		const struct block *first = &blocks->held[at];

		while (at < blocks->held_count &&
		       blocks->held[at].address < segment->address + segment->bytes)
			at++;
		r = out_room(x->out);
		if (r < 0)
			break;
		pickle_item(&list);
		r = write_segment(x, segment, first, (size_t)(&blocks->held[at] - first));
	}
	pickle_list_close(&list);
	return r;
}

static int write_action(struct exporter *x, struct pickle_list *list, const struct block *event,
			const char *action)
{
	uint64_t at_ns = event->at_ns + (uint64_t)x->blocks.meta->wall_offset_ns;
	int r = out_room(x->out);

	if (r < 0)
		return r;
	pickle_item(list);
	pickle_dict(&x->pickle);
	r = put_name(x, "action", action);
	if (r == 0)
		r = put_number(x, "addr", event->address);
	if (r == 0)
		r = put_number(x, "size", event->bytes);
	if (r == 0)
		r = put_number(x, "stream", 0);
	if (r == 0)
		r = put_number(x, "time_us", at_ns / 1000);
	if (r == 0)
		r = put_frames(x, event->stack_id);
	pickle_dict_close(&x->pickle);
	return r;
}

static int write_event(struct exporter *x, struct pickle_list *list, const struct block *event)
{
	int r;

	if (event->kind != MEMORY_TENSOR)
		return write_action(x, list, event,
				    event->freed ? "segment_free" : "segment_alloc");
	if (!event->freed)
		return write_action(x, list, event, "alloc");
	r = write_action(x, list, event, "free_requested");
	return r < 0 ? r : write_action(x, list, event, "free_completed");
}

static int write_trace(struct exporter *x, uint64_t device)
{
	const struct blocks *blocks = &x->blocks;
	struct pickle_list list = pickle_list(&x->pickle);
	int r = 0;

	for (size_t i = 0; i < blocks->event_count && r == 0; i++)
		if (blocks->event[i].kept && device_of(blocks->event[i].device) == device)
			r = write_event(x, &list, &blocks->event[i]);
	pickle_list_close(&list);
	return r;
}

static uint64_t device_count(const struct exporter *x)
{
	uint64_t last = 0;

	for (size_t i = 0; i < x->blocks.segment_count; i++)
		if (device_of(x->blocks.segment[i].device) > last)
			last = device_of(x->blocks.segment[i].device);
	for (size_t i = 0; i < x->blocks.event_count; i++)
		if (device_of(x->blocks.event[i].device) > last)
			last = device_of(x->blocks.event[i].device);
	return last + 1;
}

static int write_traces(struct exporter *x)
{
	struct pickle_list list;
	int r = put_word(x, "device_traces");

	list = pickle_list(&x->pickle);
	for (uint64_t i = 0, count = device_count(x); i < count && r == 0; i++) {
		r = out_room(x->out);
		if (r < 0)
			break;
		pickle_item(&list);
		r = write_trace(x, i);
	}
	pickle_list_close(&list);
	return r;
}

/* What no viewer asks for. */
static int write_about(struct exporter *x)
{
	const struct meta_process *process = meta_process(x->blocks.meta, x->process);
	int r = put_word(x, "tracesmith");

	if (r == 0)
		r = out_room(x->out);
	if (r < 0)
		return r;
	pickle_dict(&x->pickle);
	r = put_name(x, "version", TS_VERSION);
	if (r == 0 && process)
		r = put_name(x, "process", process->name->text);
	if (r == 0 && process)
		r = put_number(x, "pid", process->pid);
	if (r == 0)
		r = put_number(x, "unknown_bytes", x->unknown_bytes);
	if (r == 0)
		r = put_number(x, "left_out", x->blocks.earlier + x->blocks.unfit);
	pickle_dict_close(&x->pickle);
	return r;
}

/* Of what the allocators say, that which is in no block that is known. */
static uint64_t unknown_of(const struct exporter *x)
{
	const struct meta_allocator *told = x->blocks.meta->allocator;
	uint64_t used = 0, known = 0;

	for (; told; told = told->next)
		if (told->process == x->process)
			used += told->used_bytes;
	for (size_t i = 0; i < x->blocks.held_count; i++)
		known += x->blocks.held[i].bytes;
	return used > known ? used - known : 0;
}

static int memory_viz_end(struct exporter *x)
{
	int r = blocks_process(&x->blocks, &x->process);

	if (r == 0 && x->process == 0)
		r = -ENODATA;
	if (r < 0)
		return x->error = r;
	r = blocks_finish(&x->blocks, x->process);
	if (r == 0)
		r = out_room(x->out);
	if (r < 0)
		return r;
	x->unknown_bytes = unknown_of(x);
	pickle_begin(&x->pickle, x->out);
	pickle_dict(&x->pickle);
	r = write_segments(x);
	if (r == 0)
		r = write_traces(x);
	if (r == 0)
		r = write_about(x);
	pickle_dict_close(&x->pickle);
	pickle_end(&x->pickle);
	return r;
}

static void memory_viz_note(const struct exporter *x, char note[EXPORT_NOTE_BYTES])
{
	uint64_t left_out = x->blocks.earlier + x->blocks.unfit;
	char size[UNITS_TEXT_SIZE];

	if (x->error == -ENODATA)
		snprintf(note, EXPORT_NOTE_BYTES,
			 "No tensors in this window: use --since for more, or 'tensors = yes' in "
			 "[probe] if following them is not within the budget");
	else if (x->error == -E2BIG)
		snprintf(note, EXPORT_NOTE_BYTES,
			 "Several processes have tensors: choose one with --pid");
	else if (left_out > 0 || x->unknown_bytes > 0)
		snprintf(note, EXPORT_NOTE_BYTES,
			 "%" PRIu64 " events are left out, and tensors of %s in unknown blocks",
			 left_out, units_bytes(size, (int64_t)x->unknown_bytes));
}

static int memory_viz_op(struct exporter *x, const struct op *op)
{
	return blocks_add(&x->blocks, op);
}

static int memory_viz_begin(struct exporter *x, const struct meta *meta, struct out *out)
{
	int r = 0;

	x->blocks.meta = meta;
	x->out = out;
	for (size_t i = 0; i < meta->held_count && r == 0; i++)
		r = blocks_hold(&x->blocks, &meta->held[i]);
	return r;
}

static void memory_viz_clear(struct exporter *x)
{
	blocks_clear(&x->blocks);
	pickle_clear(&x->pickle);
}

const struct export_format export_memory_viz = {
	.exporter_bytes = sizeof(struct exporter),
	.begin = memory_viz_begin,
	.op = memory_viz_op,
	.end = memory_viz_end,
	.note = memory_viz_note,
	.clear = memory_viz_clear,
	.allocations = true,
};
