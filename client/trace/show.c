/* Show: what all formats and views show of an op, and the names they give. */
#include "client/trace/show.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"

/* clang-format off */
#define FIELD_OF(type, name, count, how, work) \
	{ #name, offsetof(struct type, name), sizeof(((struct type *)0)->name) / (count), count, \
	  how, work }
#define FIELD(name, how)      FIELD_OF(op, name, 1, how, false)
#define TRIPLE(name)	      FIELD_OF(op, name, 3, SHOW_NUMBER, false)
#define WORK(name, how)	      FIELD_OF(op, name, 1, how, true)
#define DERIVED(name, how)    FIELD_OF(show_work, name, 1, how, true)
/* clang-format on */

const struct show_field show_fields[] = {
	FIELD(stream, SHOW_NUMBER),
	FIELD(bytes, SHOW_NUMBER),
	FIELD(address, SHOW_ADDRESS),
	FIELD(source, SHOW_ADDRESS),
	FIELD(handle, SHOW_ADDRESS),
	TRIPLE(grid),
	TRIPLE(block),
	FIELD(shared_bytes, SHOW_NUMBER),
	WORK(static_bytes, SHOW_NUMBER),
	WORK(local_bytes, SHOW_NUMBER),
	WORK(registers, SHOW_NUMBER),
	FIELD(correlation, SHOW_NUMBER),
	WORK(graph, SHOW_NUMBER),
	WORK(node, SHOW_NUMBER),
	FIELD(result, SHOW_SIGNED),
};
const size_t show_field_count = ARRAY_SIZE(show_fields);

const struct show_field show_work_fields[] = {
	DERIVED(context, SHOW_ADDRESS),
	DERIVED(launch_delay_ns, SHOW_NUMBER),
	DERIVED(seen_after_ns, SHOW_NUMBER),
	DERIVED(bytes_per_second, SHOW_NUMBER),
};
const size_t show_work_field_count = ARRAY_SIZE(show_work_fields);

const struct show_mark show_marks[] = {
	{ "bounds", OP_BOUNDS, true },		{ "exact", OP_EXACT, true },
	{ "captured", OP_CAPTURED, false },	{ "unread", OP_UNREAD, false },
	{ "stack_lost", OP_STACK_LOST, false }, { "unknown_address", OP_UNKNOWN, false },
	{ "no_call", OP_NO_CALL, true },	{ "untimed", OP_UNTIMED, false },
	{ "pageable", OP_PAGEABLE, true },
};
const size_t show_mark_count = ARRAY_SIZE(show_marks);

uint64_t show_field_value(const struct show_field *field, const void *from, uint32_t index)
{
	const char *at = (const char *)from + field->offset + index * field->width;
	uint64_t value;
	uint32_t half;

	if (field->width == sizeof(value)) {
		memcpy(&value, at, sizeof(value));
		return value;
	}
	memcpy(&half, at, sizeof(half));
	return field->how == SHOW_SIGNED ? (uint64_t)(int64_t)(int32_t)half : half;
}

bool show_field_shown(const struct show_field *field, const void *from)
{
	for (uint32_t i = 0; i < field->count; i++)
		if (show_field_value(field, from, i) != 0)
			return true;
	return false;
}

void show_work_get(const struct meta *meta, const struct op *op, struct show_work *ret)
{
	const struct meta_stream *stream = meta_stream(meta, op->stream);
	uint64_t ns = op->gpu_end_ns - op->gpu_start_ns;

	*ret = (struct show_work){ .context = stream ? stream->context : 0 };
	if (!(op->flags & OP_NO_CALL) && op->gpu_start_ns > op->start_ns)
		ret->launch_delay_ns = op->gpu_start_ns - op->start_ns;
	if (op->seen_ns > op->gpu_end_ns)
		ret->seen_after_ns = op->seen_ns - op->gpu_end_ns;
	if (ns > 0 && (op->kind == OP_COPY || op->kind == OP_SET))
		ret->bytes_per_second = (uint64_t)((double)op->bytes * 1e9 / (double)ns);
}

/* The times of a call are always exact: the flag is about the work it submits. */
bool show_marked(const struct show_mark *mark, const struct op *op, bool work)
{
	return op->flags & mark->flag && (work || !mark->work);
}

bool show_has_call(const struct op *op)
{
	switch (op->kind) {
	case OP_STATE:
	case OP_KERNEL:
	case OP_RANGE:
	case OP_OVERHEAD:
		return false;
	default:
		return !(op->flags & (OP_NODE | OP_NO_CALL));
	}
}

uint64_t show_device_key(const struct op *op)
{
	return (uint64_t)op->process << 32 | (uint16_t)op->device;
}

bool show_is_submission(const struct op *op)
{
	return op->kind == OP_LAUNCH || op->kind == OP_COPY || op->kind == OP_SET ||
	       op->kind == OP_KERNEL || (op->kind == OP_GRAPH && op->flags & OP_EXACT);
}

bool show_has_work(const struct op *op)
{
	return op->flags & OP_EXACT && show_is_submission(op) &&
	       op->gpu_end_ns >= op->gpu_start_ns && op->gpu_start_ns != 0;
}

/* A thread starts one call at a time. The ops of a graph launch share the same three values. */
uint64_t show_flow(const struct op *op)
{
	uint64_t flow = op->start_ns;

	if (op->flags & OP_NO_CALL || op->correlation == 0 || !show_is_submission(op))
		return 0;
	flow ^= ((uint64_t)op->process << 32 | op->tid) * 0x9e3779b97f4a7c15;
	return flow ? flow : 1;
}

const struct meta_text *show_domain(const struct meta *meta, const struct op *op)
{
	return op->kind == OP_RANGE && op->handle ? meta_name(meta, op->handle) : NULL;
}

const struct meta_text *show_call_name(const struct meta *meta, const struct op *op)
{
	const struct meta_text *name = meta_function(meta, op->fn);

	return name ? name : meta->fixed[META_FIXED_FUNCTION];
}

const struct meta_text *show_work_name(const struct meta *meta, const struct op *op)
{
	const struct meta_text *name = op->name ? meta_name(meta, op->name) : NULL;

	if (name)
		return name;
	switch (op->kind) {
	case OP_COPY:
		return meta->copy[op->detail <= COPY_KIND_MAX ? op->detail : 0];
	case OP_SET:
		return meta->fixed[META_FIXED_SET];
	case OP_RANGE:
		return meta->fixed[META_FIXED_RANGE];
	case OP_OVERHEAD:
		return meta_overhead(meta, op->handle);
	case OP_GRAPH:
		return meta->fixed[META_FIXED_GRAPH];
	default:
		/* The launch of a graph that is recorded as a whole. */
		return op->name == 0 && op->graph != 0 && !(op->flags & OP_NODE)
			       ? meta->fixed[META_FIXED_GRAPH]
			       : meta->fixed[META_FIXED_KERNEL];
	}
}

const char *show_kind_name(uint8_t kind)
{
	static const char *const names[] = {
#define X(number, identifier, name) [number] = name,
		OP_KINDS(X)
#undef X
	};

	return kind > 0 && kind <= OP_KIND_MAX ? names[kind] : "other";
}

const char *show_state_name(uint8_t state)
{
	const char *name = state == OP_STATE_SYNCING ? "host waits" : op_state_name(state);

	return name ? name : "other";
}

const char *show_detail_name(uint8_t kind, uint8_t detail)
{
	static const char *const memory[] = {
#define X(number, identifier, name, ...) [number] = name,
		MEMORY_KINDS(X)
#undef X
	};
	static const char *const copies[] = {
#define X(number, identifier, name) [number] = name,
		COPY_KINDS(X)
#undef X
	};

	if (kind == OP_ALLOC || kind == OP_FREE)
		return detail <= MEMORY_KIND_MAX ? memory[detail] : NULL;
	if (kind == OP_COPY)
		return detail <= COPY_KIND_MAX ? copies[detail] : NULL;
	return kind == OP_STATE ? op_state_name(detail) : NULL;
}

bool show_has_memory(const struct op *op)
{
	return (op->kind == OP_ALLOC || op->kind == OP_FREE) && op->result == 0 &&
	       !(op->flags & OP_UNKNOWN);
}

bool show_is_host(const struct op *op)
{
	return op->detail == MEMORY_HOST || op->detail == MEMORY_REGISTERED;
}

uint64_t show_end_ns(const struct op *op)
{
	return op->end_ns > op->start_ns ? op->end_ns : op->start_ns;
}

size_t show_keep_window(struct op *op, size_t count, uint64_t since_ns, uint64_t until_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t end_ns = show_end_ns(&op[i]);

		if (show_has_work(&op[i]) && op[i].gpu_end_ns > end_ns)
			end_ns = op[i].gpu_end_ns;
		if (op[i].start_ns >= until_ns || end_ns < since_ns)
			continue;
		if (kept != i)
			op[kept] = op[i];
		kept++;
	}
	return kept;
}

void show_device_name(char name[SHOW_NAME_BYTES], int16_t device, const char *what)
{
	if (device == DEVICE_UNKNOWN)
		snprintf(name, SHOW_NAME_BYTES, "unknown GPU%s", what);
	else
		snprintf(name, SHOW_NAME_BYTES, "GPU %d%s", device, what);
}

/* As many whole characters as fit. */
static int whole_length(const char *text, size_t room)
{
	size_t length = strnlen(text, room + 1);

	if (length <= room)
		return (int)length;
	for (length = room; length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80;)
		length--;
	return (int)length;
}

void show_gpu_name(char name[SHOW_NAME_BYTES], const struct meta *meta, const struct op *op)
{
	const struct meta_device *device = meta_device(meta, op->process, op->device);
	size_t length;

	show_device_name(name, op->device, "");
	length = strlen(name);
	if (device && device->name)
		snprintf(name + length, SHOW_NAME_BYTES - length, " (%.*s)",
			 whole_length(device->name->text, SHOW_NAME_BYTES - length - 4),
			 device->name->text);
}

void show_memory_name(char name[SHOW_NAME_BYTES], const struct op *op)
{
	if (show_is_host(op))
		snprintf(name, SHOW_NAME_BYTES, "page-locked host memory");
	else
		show_device_name(name, op->device, " memory");
}

/* Thread names are unknown; the main thread has the name of its process. */
void show_thread_name(char name[SHOW_NAME_BYTES], const struct meta_process *process, uint32_t tid)
{
	if (tid == process->pid)
		snprintf(name, SHOW_NAME_BYTES, "%s", process->name->text);
	else
		snprintf(name, SHOW_NAME_BYTES, "thread %" PRIu32, tid);
}

/* A stream belongs to a context, which is named if the device has more than one. */
void show_stream_name(char name[SHOW_NAME_BYTES], const struct meta *meta, uint32_t id)
{
	const struct meta_stream *stream = meta_stream(meta, id);
	const struct meta_device *device =
		stream ? meta_device(meta, stream->process, stream->device) : NULL;
	int length = snprintf(name, SHOW_NAME_BYTES, "stream %" PRIu32, id);

	if (!stream)
		return;
	if (stream->tid != 0)
		length += snprintf(name + length, SHOW_NAME_BYTES - length,
				   " (default of thread %" PRIu32 ")", stream->tid);
	else if (stream->handle == 0)
		length += snprintf(name + length, SHOW_NAME_BYTES - length, " (default)");
	else
		length += snprintf(name + length, SHOW_NAME_BYTES - length, " (0x%" PRIx64 ")",
				   stream->handle);
	if (device && device->contexts)
		snprintf(name + length, SHOW_NAME_BYTES - length, " of 0x%" PRIx64,
			 stream->context);
}
