/* Metadata: all things and texts are allocated from an arena and found through maps, so they are
 * freed together and never singly. */
#include "client/trace/meta.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/map.h"
#include "core/base/utf8.h"
#include "core/base/vector.h"

/* Zeroed. */
static void *meta_get(struct meta *meta, size_t size)
{
	void *data = arena_get(&meta->arena, size);

	return data ? memset(data, 0, size) : NULL;
}

struct meta *meta_free(struct meta *meta)
{
	if (!meta)
		return NULL;
	arena_clear(&meta->arena);
	map_clear(&meta->process);
	map_clear(&meta->device);
	map_clear(&meta->stream);
	map_clear(&meta->stack);
	map_clear(&meta->text);
	map_clear(&meta->frame);
	map_clear(&meta->name);
	map_clear(&meta->tie);
	free(meta->function);
	free(meta->held);
	free(meta);
	return NULL;
}

static const struct meta_text *text_get(struct meta *meta, const char *source)
{
	char clean[META_TEXT_BYTES + 1];
	size_t length = strnlen(source, META_TEXT_BYTES / 3);
	struct map_key key;
	struct meta_text *text;

	length = utf8_clean(clean, source, length);
	key = map_key_of(clean, length, 0);
	text = map_get(&meta->text, key);
	if (text)
		return text;
	text = meta_get(meta, sizeof(*text) + length + 1);
	if (!text || map_put(&meta->text, key, text) < 0)
		return NULL;
	memcpy(text->text, clean, length);
	text->number = ++meta->text_count;
	return text;
}

static const struct {
	uint64_t kind;
	const char *text;
} overheads[] = {
#define X(kind, text) { kind, text },
	META_OVERHEADS(X)
#undef X
};

static int add_fixed(struct meta *meta)
{
	static const char *const fixed[] = {
#define X(name, text) [META_FIXED_##name] = text,
		META_FIXED(X)
#undef X
	};
	static const char *const copies[] = {
		[0] = "memcpy",
#define X(number, identifier, name) [number] = "memcpy " name,
		COPY_KINDS(X)
#undef X
	};

	for (size_t i = 0; i < META_FIXED_COUNT; i++)
		if (!(meta->fixed[i] = text_get(meta, fixed[i])))
			return -ENOMEM;
	for (size_t i = 0; i < META_OVERHEAD_COUNT; i++)
		if (!(meta->overhead[i] = text_get(meta, overheads[i].text)))
			return -ENOMEM;
	for (size_t i = 0; i <= COPY_KIND_MAX; i++)
		if (!(meta->copy[i] = text_get(meta, i == COPY_UNKNOWN ? copies[0] : copies[i])))
			return -ENOMEM;
	return 0;
}

int meta_new(struct meta **ret)
{
	_cleanup_(meta_freep) struct meta *meta = calloc(1, sizeof(*meta));

	if (!meta || add_fixed(meta) < 0)
		return -ENOMEM;
	*ret = TAKE(meta);
	return 0;
}

int meta_add_process(struct meta *meta, uint32_t id, uint32_t pid, const char *comm,
		     const char *command)
{
	struct meta_process *process = meta_get(meta, sizeof(*process));
	char number[32];

	if (!process)
		return -ENOMEM;
	snprintf(number, sizeof(number), "process %" PRIu32, pid);
	process->id = id;
	process->pid = pid;
	process->name = text_get(meta, comm && *comm ? comm : number);
	process->command = command && *command ? text_get(meta, command) : process->name;
	if (!process->name || !process->command)
		return -ENOMEM;
	return map_put(&meta->process, (struct map_key){ id, 0 }, process);
}

static struct map_key device_key(uint32_t process, int16_t ordinal)
{
	return (struct map_key){ process, (uint16_t)ordinal };
}

static struct meta_device *device_get(struct meta *meta, uint32_t process, int16_t ordinal)
{
	struct meta_device *device = map_get(&meta->device, device_key(process, ordinal));

	if (device)
		return device;
	device = meta_get(meta, sizeof(*device));
	if (!device || map_put(&meta->device, device_key(process, ordinal), device) < 0)
		return NULL;
	return device;
}

int meta_add_device(struct meta *meta, uint32_t process, int16_t ordinal, const char *name)
{
	struct meta_device *device = device_get(meta, process, ordinal);

	if (!device)
		return -ENOMEM;
	device->name = name && *name ? text_get(meta, name) : NULL;
	return name && *name && !device->name ? -ENOMEM : 0;
}

int meta_add_stream(struct meta *meta, const struct meta_stream *stream)
{
	struct meta_device *device = device_get(meta, stream->process, stream->device);
	struct meta_stream *copy = meta_get(meta, sizeof(*copy));

	if (!copy || !device)
		return -ENOMEM;
	*copy = *stream;
	if (device->context == 0)
		device->context = stream->context;
	else if (stream->context != 0 && stream->context != device->context)
		device->contexts = true;
	return map_put(&meta->stream, (struct map_key){ stream->id, 0 }, copy);
}

static struct map_key tie_key(uint32_t process, uint32_t stream, uint64_t start_ns)
{
	return (struct map_key){ (uint64_t)process << 32 | stream, start_ns };
}

int meta_add_tie(struct meta *meta, uint32_t process, uint32_t stream, uint64_t start_ns,
		 uint64_t number)
{
	return map_put(&meta->tie, tie_key(process, stream, start_ns), (void *)(uintptr_t)number);
}

uint64_t meta_tie(const struct meta *meta, uint32_t process, uint32_t stream, uint64_t start_ns)
{
	if (meta->tie.count == 0)
		return 0;
	return (uintptr_t)map_get(&meta->tie, tie_key(process, stream, start_ns));
}

int meta_add_name(struct meta *meta, uint64_t id, const char *text)
{
	const struct meta_text *copy = text_get(meta, text);

	return copy ? map_put(&meta->name, (struct map_key){ id, 0 }, (void *)copy) : -ENOMEM;
}

int meta_add_function(struct meta *meta, uint16_t fn, const char *name)
{
	if (fn >= meta->function_count) {
		const struct meta_text **more =
			reallocarray(meta->function, fn + 1u, sizeof(*more));

		if (!more)
			return -ENOMEM;
		memset(more + meta->function_count, 0,
		       (fn + 1u - meta->function_count) * sizeof(*more));
		meta->function = more;
		meta->function_count = fn + 1u;
	}
	meta->function[fn] = text_get(meta, name);
	return meta->function[fn] ? 0 : -ENOMEM;
}

int meta_add_loss(struct meta *meta, const struct meta_loss *loss, const char *name)
{
	struct meta_loss *copy = meta_get(meta, sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	*copy = *loss;
	copy->next = NULL;
	copy->name = text_get(meta, name);
	if (!copy->name)
		return -ENOMEM;
	if (meta->loss_last)
		meta->loss_last->next = copy;
	else
		meta->loss = copy;
	meta->loss_last = copy;
	return 0;
}

int meta_add_held(struct meta *meta, const struct meta_held *held)
{
	if (VECTOR_ROOM(meta->held, meta->held_room, meta->held_count + 1) < 0)
		return -ENOMEM;
	meta->held[meta->held_count++] = *held;
	return 0;
}

int meta_add_allocator(struct meta *meta, const struct meta_allocator *allocator)
{
	struct meta_allocator *copy = meta_get(meta, sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	*copy = *allocator;
	copy->next = meta->allocator;
	meta->allocator = copy;
	return 0;
}

/* A frame without a function is named by its offset in the module, or by its address. */
static const struct meta_text *frame_name(struct meta *meta, const struct frame *source)
{
	char name[META_TEXT_BYTES];
	const char *base;

	if (source->function && *source->function)
		return text_get(meta, source->function);
	if (!source->module || !*source->module) {
		snprintf(name, sizeof(name), "0x%" PRIx64, source->address);
		return text_get(meta, name);
	}
	base = strrchr(source->module, '/');
	snprintf(name, sizeof(name), "%s+0x%" PRIx64, base ? base + 1 : source->module,
		 source->offset);
	return text_get(meta, name);
}

/* What people call it: a name like "forward" says little without its file. */
static const struct meta_text *frame_label(struct meta *meta, const struct meta_frame *frame)
{
	char label[META_TEXT_BYTES];
	const char *base;

	if (frame->kind != FRAME_PYTHON || !frame->file)
		return frame->function;
	base = strrchr(frame->file->text, '/');
	snprintf(label, sizeof(label), "%.*s (%.*s:%" PRIu32 ")", META_TEXT_BYTES / 8,
		 frame->function->text, META_TEXT_BYTES / 8, base ? base + 1 : frame->file->text,
		 frame->line);
	return text_get(meta, label);
}

/* Python's code is in no mapped file: its source is where it is from. */
static const char *module_of(const struct frame *source)
{
	if (source->module && *source->module)
		return source->module;
	return source->kind == FRAME_PYTHON && source->file ? source->file : "[unknown]";
}

const struct meta_frame *meta_frame(struct meta *meta, const struct frame *source)
{
	bool lined = source->file && *source->file;
	struct meta_frame made = {
		.function = frame_name(meta, source),
		.module = text_get(meta, module_of(source)),
		.file = lined ? text_get(meta, source->file) : NULL,
		.offset = source->module ? source->offset : source->address,
		.line = source->line,
		.kind = source->kind,
		.inlined = source->inlined,
	};
	struct meta_frame *frame;
	struct map_key key;
	uint64_t what[6];

	if (!made.function || !made.module || (lined && !made.file))
		return NULL;
	what[0] = made.function->number;
	what[1] = made.module->number;
	what[2] = made.file ? made.file->number : 0;
	what[3] = made.offset;
	what[4] = made.line;
	what[5] = (uint64_t)made.kind << 1 | made.inlined;
	key = map_key_of(what, sizeof(what), 0);
	frame = map_get(&meta->frame, key);
	if (frame)
		return frame;
	made.label = frame_label(meta, &made);
	frame = meta_get(meta, sizeof(*frame));
	if (!made.label || !frame || map_put(&meta->frame, key, frame) < 0)
		return NULL;
	made.number = ++meta->frame_count;
	*frame = made;
	return frame;
}

int meta_add_stack(struct meta *meta, uint64_t id, const struct meta_frame *const *frame,
		   uint32_t count)
{
	struct meta_stack *stack = meta_get(meta, sizeof(*stack) + count * sizeof(frame[0]));

	if (!stack)
		return -ENOMEM;
	stack->number = ++meta->stack_count;
	stack->count = count;
	memcpy(stack->frame, frame, count * sizeof(frame[0]));
	return map_put(&meta->stack, (struct map_key){ id, 0 }, stack);
}

const struct meta_process *meta_process(const struct meta *meta, uint32_t id)
{
	return map_get(&meta->process, (struct map_key){ id, 0 });
}

const struct meta_stream *meta_stream(const struct meta *meta, uint32_t id)
{
	return map_get(&meta->stream, (struct map_key){ id, 0 });
}

const struct meta_device *meta_device(const struct meta *meta, uint32_t process, int16_t ordinal)
{
	return map_get(&meta->device, device_key(process, ordinal));
}

const struct meta_text *meta_name(const struct meta *meta, uint64_t id)
{
	return map_get(&meta->name, (struct map_key){ id, 0 });
}

const struct meta_text *meta_overhead(const struct meta *meta, uint64_t kind)
{
	for (size_t i = 0; i < META_OVERHEAD_COUNT; i++)
		if (overheads[i].kind == kind)
			return meta->overhead[i];
	return meta->overhead[0];
}

const struct meta_stack *meta_stack(const struct meta *meta, uint64_t id)
{
	return map_get(&meta->stack, (struct map_key){ id, 0 });
}

const struct meta_text *meta_function(const struct meta *meta, uint16_t fn)
{
	return fn < meta->function_count ? meta->function[fn] : NULL;
}
