/* Export: what all formats say about an op, and how they call things. */
#include "client/export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
#define FIELD_OF(type, name, count, how, work) \
	{ #name, offsetof(struct type, name), sizeof(((struct type *)0)->name) / (count), count, \
	  how, work }
#define FIELD(name, how)      FIELD_OF(op, name, 1, how, false)
#define TRIPLE(name)	      FIELD_OF(op, name, 3, EXPORT_NUMBER, false)
#define WORK(name, how)	      FIELD_OF(op, name, 1, how, true)
#define DERIVED(name, how)    FIELD_OF(export_work, name, 1, how, true)
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
	WORK(static_bytes, EXPORT_NUMBER),
	WORK(local_bytes, EXPORT_NUMBER),
	WORK(registers, EXPORT_NUMBER),
	FIELD(correlation, EXPORT_NUMBER),
	WORK(graph, EXPORT_NUMBER),
	WORK(node, EXPORT_NUMBER),
	FIELD(result, EXPORT_SIGNED),
};
const size_t export_field_count = sizeof(export_fields) / sizeof(export_fields[0]);

const struct export_field export_work_fields[] = {
	DERIVED(context, EXPORT_ADDRESS),
	DERIVED(launch_delay_ns, EXPORT_NUMBER),
	DERIVED(seen_after_ns, EXPORT_NUMBER),
	DERIVED(bytes_per_second, EXPORT_NUMBER),
};
const size_t export_work_field_count = sizeof(export_work_fields) / sizeof(export_work_fields[0]);

const struct export_mark export_marks[] = {
	{ "bounds", OP_BOUNDS, true },		{ "exact", OP_EXACT, true },
	{ "captured", OP_CAPTURED, false },	{ "unread", OP_UNREAD, false },
	{ "stack_lost", OP_STACK_LOST, false }, { "unknown_address", OP_UNKNOWN, false },
	{ "no_call", OP_NO_CALL, true },	{ "untimed", OP_UNTIMED, false },
};
const size_t export_mark_count = sizeof(export_marks) / sizeof(export_marks[0]);

uint64_t export_field_value(const struct export_field *field, const void *from, uint32_t index)
{
	const char *at = (const char *)from + field->offset + index * field->width;
	uint64_t value;
	uint32_t half;

	if (field->width == sizeof(value)) {
		memcpy(&value, at, sizeof(value));
		return value;
	}
	memcpy(&half, at, sizeof(half));
	return field->how == EXPORT_SIGNED ? (uint64_t)(int64_t)(int32_t)half : half;
}

bool export_field_shown(const struct export_field *field, const void *from)
{
	for (uint32_t i = 0; i < field->count; i++)
		if (export_field_value(field, from, i) != 0)
			return true;
	return false;
}

void export_work_get(const struct export_meta *meta, const struct op *op, struct export_work *ret)
{
	const struct export_stream *stream = export_meta_stream(meta, op->stream);
	uint64_t ns = op->gpu_end_ns - op->gpu_start_ns;

	*ret = (struct export_work){ .context = stream ? stream->context : 0 };
	if (!(op->flags & OP_NO_CALL) && op->gpu_start_ns > op->start_ns)
		ret->launch_delay_ns = op->gpu_start_ns - op->start_ns;
	if (op->seen_ns > op->gpu_end_ns)
		ret->seen_after_ns = op->seen_ns - op->gpu_end_ns;
	if (ns > 0 && (op->kind == OP_COPY || op->kind == OP_SET))
		ret->bytes_per_second = (uint64_t)((double)op->bytes * 1e9 / (double)ns);
}

/* Times of a call are always exact: marked is the work that it submits. */
bool export_marked(const struct export_mark *mark, const struct op *op, bool work)
{
	return op->flags & mark->flag && (work || !mark->work);
}

bool export_has_call(const struct op *op)
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

uint64_t export_device_key(const struct op *op)
{
	return (uint64_t)op->process << 32 | (uint16_t)op->device;
}

bool export_is_submission(const struct op *op)
{
	return op->kind == OP_LAUNCH || op->kind == OP_COPY || op->kind == OP_SET ||
	       op->kind == OP_KERNEL || (op->kind == OP_GRAPH && op->flags & OP_EXACT);
}

bool export_has_work(const struct op *op)
{
	return op->flags & OP_EXACT && export_is_submission(op) &&
	       op->gpu_end_ns >= op->gpu_start_ns && op->gpu_start_ns != 0;
}

/* A thread begins one call at a time. What a graph launch submits is known by the same three. */
uint64_t export_flow(const struct op *op)
{
	uint64_t flow = op->start_ns;

	if (op->flags & OP_NO_CALL || op->correlation == 0 || !export_is_submission(op))
		return 0;
	flow ^= ((uint64_t)op->process << 32 | op->tid) * 0x9e3779b97f4a7c15;
	return flow ? flow : 1;
}

const struct export_text *export_domain(const struct export_meta *meta, const struct op *op)
{
	return op->kind == OP_RANGE && op->handle ? export_meta_name(meta, op->handle) : NULL;
}

const struct export_text *export_call_name(const struct export_meta *meta, const struct op *op)
{
	const struct export_text *name = export_meta_function(meta, op->fn);

	return name ? name : meta->fixed[EXPORT_FIXED_FUNCTION];
}

const struct export_text *export_work_name(const struct export_meta *meta, const struct op *op)
{
	const struct export_text *name = op->name ? export_meta_name(meta, op->name) : NULL;

	if (name)
		return name;
	switch (op->kind) {
	case OP_COPY:
		return meta->copy[op->detail <= COPY_KIND_MAX ? op->detail : 0];
	case OP_SET:
		return meta->fixed[EXPORT_FIXED_SET];
	case OP_RANGE:
		return meta->fixed[EXPORT_FIXED_RANGE];
	case OP_OVERHEAD:
		return export_meta_overhead(meta, op->handle);
	case OP_GRAPH:
		return meta->fixed[EXPORT_FIXED_GRAPH];
	default:
		/* The launch of a graph that was recorded as a whole. */
		return op->name == 0 && op->graph != 0 && !(op->flags & OP_NODE)
			       ? meta->fixed[EXPORT_FIXED_GRAPH]
			       : meta->fixed[EXPORT_FIXED_KERNEL];
	}
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
		[OP_STATE_IDLE] = "idle",	[OP_STATE_PENDING] = "pending",
		[OP_STATE_RUNNING] = "running", [OP_STATE_WAITING] = "waiting",
		[OP_STATE_COPYING] = "copying", [OP_STATE_SYNCING] = "host waits",
	};

	return state > 0 && state <= EXPORT_STATE_MAX ? names[state] : "other";
}

const char *export_detail_name(uint8_t kind, uint8_t detail)
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
	static const char *const states[] = {
		[OP_STATE_IDLE] = "idle",	[OP_STATE_PENDING] = "pending",
		[OP_STATE_RUNNING] = "running", [OP_STATE_WAITING] = "waiting",
		[OP_STATE_COPYING] = "copying", [OP_STATE_SYNCING] = "syncing",
	};

	if (kind == OP_ALLOC || kind == OP_FREE)
		return detail <= MEMORY_KIND_MAX ? memory[detail] : NULL;
	if (kind == OP_COPY)
		return detail <= COPY_KIND_MAX ? copies[detail] : NULL;
	return kind == OP_STATE && detail <= EXPORT_STATE_MAX ? states[detail] : NULL;
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

size_t export_keep_window(struct op *op, size_t count, uint64_t since_ns, uint64_t until_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t end_ns = export_end_ns(&op[i]);

		if (export_has_work(&op[i]) && op[i].gpu_end_ns > end_ns)
			end_ns = op[i].gpu_end_ns;
		if (op[i].start_ns >= until_ns || end_ns < since_ns)
			continue;
		if (kept != i)
			op[kept] = op[i];
		kept++;
	}
	return kept;
}

void export_device_name(char name[EXPORT_NAME_BYTES], int16_t device, const char *what)
{
	if (device == DEVICE_UNKNOWN)
		snprintf(name, EXPORT_NAME_BYTES, "unknown GPU%s", what);
	else
		snprintf(name, EXPORT_NAME_BYTES, "GPU %d%s", device, what);
}

/* As many whole characters as there is room for. */
static int whole_length(const char *text, size_t room)
{
	size_t length = strnlen(text, room + 1);

	if (length <= room)
		return (int)length;
	for (length = room; length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80;)
		length--;
	return (int)length;
}

void export_gpu_name(char name[EXPORT_NAME_BYTES], const struct export_meta *meta,
		     const struct op *op)
{
	const struct export_device *device = export_meta_device(meta, op->process, op->device);
	size_t length;

	export_device_name(name, op->device, "");
	length = strlen(name);
	if (device && device->name)
		snprintf(name + length, EXPORT_NAME_BYTES - length, " (%.*s)",
			 whole_length(device->name->text, EXPORT_NAME_BYTES - length - 4),
			 device->name->text);
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

/* A stream belongs to a context, which is told where the device has more than one. */
void export_stream_name(char name[EXPORT_NAME_BYTES], const struct export_meta *meta, uint32_t id)
{
	const struct export_stream *stream = export_meta_stream(meta, id);
	const struct export_device *device =
		stream ? export_meta_device(meta, stream->process, stream->device) : NULL;
	int length = snprintf(name, EXPORT_NAME_BYTES, "stream %" PRIu32, id);

	if (!stream)
		return;
	if (stream->tid != 0)
		length += snprintf(name + length, EXPORT_NAME_BYTES - length,
				   " (default of thread %" PRIu32 ")", stream->tid);
	else if (stream->handle == 0)
		length += snprintf(name + length, EXPORT_NAME_BYTES - length, " (default)");
	else
		length += snprintf(name + length, EXPORT_NAME_BYTES - length, " (0x%" PRIx64 ")",
				   stream->handle);
	if (device && device->contexts)
		snprintf(name + length, EXPORT_NAME_BYTES - length, " of 0x%" PRIx64,
			 stream->context);
}

static uint64_t begin_of(const struct op *op)
{
	return export_has_work(op) ? op->gpu_start_ns : op->start_ns;
}

static uint64_t end_of(const struct op *op)
{
	return export_has_work(op) ? op->gpu_end_ns : op->end_ns;
}

static int compare(const void *a, const void *b)
{
	const struct op *x = *(const struct op *const *)a, *y = *(const struct op *const *)b;

	if (begin_of(x) != begin_of(y))
		return begin_of(x) < begin_of(y) ? -1 : 1;
	if (end_of(x) != end_of(y))
		return end_of(x) > end_of(y) ? -1 : 1;
	return x < y ? -1 : x > y;
}

const struct op **export_sort(struct export_order *order, const struct op *op, size_t count)
{
	bool sorted = true;

	if (count > order->size) {
		const struct op **more = reallocarray(order->op, count, sizeof(*more));

		if (!more)
			return NULL;
		order->op = more;
		order->size = count;
	}
	for (size_t i = 0; i < count; i++) {
		order->op[i] = &op[i];
		if (i > 0 && sorted)
			sorted = compare(&order->op[i - 1], &order->op[i]) < 0;
	}
	if (!sorted)
		qsort(order->op, count, sizeof(*order->op), compare);
	return order->op;
}

void export_order_clear(struct export_order *order)
{
	free(order->op);
	*order = (struct export_order){ 0 };
}

int export_first(struct map *seen, uint64_t what, uint64_t id)
{
	static char mark;
	struct map_key key = { what, id };

	if (map_get(seen, key))
		return 0;
	return map_put(seen, key, &mark) < 0 ? -ENOMEM : 1;
}
