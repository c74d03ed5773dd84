/* Export: what all formats say about an op, and how they call things. */
#include "client/export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* clang-format off */
#define FIELD(name, how) \
	{ #name, offsetof(struct op, name), sizeof(((struct op *)0)->name), 1, how }
#define TRIPLE(name) \
	{ #name, offsetof(struct op, name), sizeof(uint32_t), 3, EXPORT_NUMBER }
/* clang-format on */

const struct export_field export_fields[] = {
	FIELD(stream, EXPORT_NUMBER),
	FIELD(bytes, EXPORT_NUMBER),
	FIELD(address, EXPORT_ADDRESS),
	FIELD(source, EXPORT_ADDRESS),
	FIELD(handle, EXPORT_ADDRESS),
	TRIPLE(grid),
	TRIPLE(block),
	FIELD(shared_bytes, EXPORT_NUMBER),
	FIELD(correlation, EXPORT_NUMBER),
	FIELD(result, EXPORT_SIGNED),
};
const size_t export_field_count = sizeof(export_fields) / sizeof(export_fields[0]);

const struct export_mark export_marks[] = {
	{ "bounds", OP_BOUNDS },	 { "captured", OP_CAPTURED },	    { "unread", OP_UNREAD },
	{ "stack_lost", OP_STACK_LOST }, { "unknown_address", OP_UNKNOWN },
};
const size_t export_mark_count = sizeof(export_marks) / sizeof(export_marks[0]);

uint64_t export_field_value(const struct export_field *field, const struct op *op, uint32_t index)
{
	const char *at = (const char *)op + field->offset + index * field->width;
	uint64_t value;
	uint32_t half;

	if (field->width == sizeof(value)) {
		memcpy(&value, at, sizeof(value));
		return value;
	}
	memcpy(&half, at, sizeof(half));
	return field->how == EXPORT_SIGNED ? (uint64_t)(int64_t)(int32_t)half : half;
}

bool export_field_shown(const struct export_field *field, const struct op *op)
{
	for (uint32_t i = 0; i < field->count; i++)
		if (export_field_value(field, op, i) != 0)
			return true;
	return false;
}

bool export_marked(const struct export_mark *mark, const struct op *op)
{
	/* Of a call it is the work that it submits whose times are bounds; its own are exact. */
	if (mark->flag == OP_BOUNDS && op->kind != OP_STATE)
		return false;
	return op->flags & mark->flag;
}

const char *export_kind_name(uint8_t kind)
{
	static const char *const names[] = {
#define X(number, identifier, name) [number] = name,
		OP_KINDS(X)
#undef X
	};

	return kind > 0 && kind <= OP_KIND_MAX ? names[kind] : "other";
}

const char *export_state_name(uint8_t state)
{
	static const char *const names[] = {
		[OP_STATE_IDLE] = "idle",
		[OP_STATE_PENDING] = "pending",
		[OP_STATE_RUNNING] = "running",
		[OP_STATE_WAITING] = "waiting",
	};

	return state > 0 && state <= OP_STATE_WAITING ? names[state] : "other";
}

bool export_has_memory(const struct op *op)
{
	return (op->kind == OP_ALLOC || op->kind == OP_FREE) && op->result == 0 &&
	       !(op->flags & OP_UNKNOWN);
}

bool export_is_host(const struct op *op)
{
	return op->detail == MEMORY_HOST || op->detail == MEMORY_REGISTERED;
}

uint64_t export_end_ns(const struct op *op)
{
	return op->end_ns > op->start_ns ? op->end_ns : op->start_ns;
}

void export_device_name(char name[EXPORT_NAME_BYTES], int16_t device, const char *what)
{
	if (device == DEVICE_UNKNOWN)
		snprintf(name, EXPORT_NAME_BYTES, "unknown GPU%s", what);
	else
		snprintf(name, EXPORT_NAME_BYTES, "GPU %d%s", device, what);
}

void export_memory_name(char name[EXPORT_NAME_BYTES], const struct op *op)
{
	if (export_is_host(op))
		snprintf(name, EXPORT_NAME_BYTES, "page-locked host memory");
	else
		export_device_name(name, op->device, " memory");
}

/* No thread's name is known; the first one is called as its process. */
void export_thread_name(char name[EXPORT_NAME_BYTES], const struct export_process *process,
			uint32_t tid)
{
	if (tid == process->pid)
		snprintf(name, EXPORT_NAME_BYTES, "%s", process->name->text);
	else
		snprintf(name, EXPORT_NAME_BYTES, "thread %" PRIu32, tid);
}

void export_stream_name(char name[EXPORT_NAME_BYTES], const struct export_stream *stream,
			uint32_t id)
{
	if (!stream)
		snprintf(name, EXPORT_NAME_BYTES, "stream %" PRIu32, id);
	else if (stream->tid != 0)
		snprintf(name, EXPORT_NAME_BYTES,
			 "stream %" PRIu32 " (default of thread %" PRIu32 ")", id, stream->tid);
	else if (stream->handle == 0)
		snprintf(name, EXPORT_NAME_BYTES, "stream %" PRIu32 " (default)", id);
	else
		snprintf(name, EXPORT_NAME_BYTES, "stream %" PRIu32 " (0x%" PRIx64 ")", id,
			 stream->handle);
}

int export_first(struct map *seen, uint64_t what, uint64_t id)
{
	static char mark;
	struct map_key key = { what, id };

	if (map_get(seen, key))
		return 0;
	return map_put(seen, key, &mark) < 0 ? -ENOMEM : 1;
}
