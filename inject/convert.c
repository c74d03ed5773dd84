/* Convert: one function per kind of record.
 *
 * Only fields of the oldest form of each record are read; later forms are longer. The minimum
 * length of a record is checked against the start of the next one. Records are aligned to 8
 * bytes.
 */
#include "inject/convert.h"

#include "core/base/array.h"
#include "core/base/clock.h"
#include "inject/call_record.h"
#include "inject/cupti_abi.h"
#include "inject/launcher.h"
#include "inject/name.h"

/* An impossible time becomes none. */
static void set_times(struct ts_event *event, uint64_t start_ns, uint64_t end_ns)
{
	if (!start_ns || end_ns < start_ns)
		return;
	event->start_ns = start_ns;
	event->end_ns = end_ns;
}

static void set_thread(struct ts_event *event, uint32_t object, const struct cupti_object *of)
{
	if (object == CUPTI_OBJECT_THREAD)
		event->tid = event->ns_tid = of->thread;
}

static enum convert_result convert_kernel(const void *record, struct ts_event *ret)
{
	const struct cupti_kernel *kernel = record;
	struct ts_work *work = &ret->work;

	ret->kind = TS_EVENT_KERNEL;
	set_times(ret, kernel->start, kernel->end);
	work->correlation = kernel->correlation;
	work->device = kernel->device;
	work->context = kernel->context;
	work->stream = kernel->stream;
	work->node = kernel->node;
	work->graph = kernel->graph;
	work->name = name_number(kernel->name, NAME_KERNEL);
	for (unsigned i = 0; i < 3; i++) {
		work->grid[i] = kernel->grid[i];
		work->block[i] = kernel->block[i];
	}
	work->static_bytes = kernel->static_bytes;
	work->dynamic_bytes = kernel->dynamic_bytes;
	work->local_bytes = kernel->local_bytes;
	work->registers = kernel->registers;
	return CONVERT_DONE;
}

static enum convert_result convert_copy(const void *record, struct ts_event *ret)
{
	const struct cupti_copy *copy = record;

	ret->kind = TS_EVENT_COPY;
	set_times(ret, copy->start, copy->end);
	ret->work.correlation = copy->correlation;
	ret->work.device = copy->device;
	ret->work.context = copy->context;
	ret->work.stream = copy->stream;
	ret->work.node = copy->node;
	ret->work.graph = copy->graph;
	ret->work.bytes = copy->bytes;
	ret->work.copy_kind = copy->copy_kind;
	ret->work.from = copy->from;
	ret->work.to = copy->to;
	ret->work.peer = copy->device;
	return CONVERT_DONE;
}

static enum convert_result convert_peer_copy(const void *record, struct ts_event *ret)
{
	const struct cupti_peer_copy *copy = record;

	ret->kind = TS_EVENT_COPY;
	set_times(ret, copy->start, copy->end);
	ret->work.correlation = copy->correlation;
	ret->work.device = copy->device;
	ret->work.context = copy->context;
	ret->work.stream = copy->stream;
	ret->work.node = copy->node;
	ret->work.graph = copy->graph;
	ret->work.bytes = copy->bytes;
	ret->work.copy_kind = CUPTI_COPY_KIND_PEER;
	ret->work.from = copy->from;
	ret->work.to = copy->to;
	ret->work.peer = copy->from_device;
	return CONVERT_DONE;
}

static enum convert_result convert_set(const void *record, struct ts_event *ret)
{
	const struct cupti_set *set = record;

	ret->kind = TS_EVENT_SET;
	set_times(ret, set->start, set->end);
	ret->work.correlation = set->correlation;
	ret->work.device = set->device;
	ret->work.context = set->context;
	ret->work.stream = set->stream;
	ret->work.node = set->node;
	ret->work.graph = set->graph;
	ret->work.bytes = set->bytes;
	ret->work.to = set->memory_kind;
	ret->work.value = set->value;
	return CONVERT_DONE;
}

static enum convert_result convert_graph(const void *record, struct ts_event *ret)
{
	const struct cupti_graph *graph = record;

	ret->kind = TS_EVENT_GRAPH;
	set_times(ret, graph->start, graph->end);
	ret->work.correlation = graph->correlation;
	ret->work.device = graph->device;
	ret->work.context = graph->context;
	ret->work.stream = graph->stream;
	ret->work.graph = graph->graph;
	return CONVERT_DONE;
}

static enum convert_result convert_sync(const void *record, struct ts_event *ret)
{
	const struct cupti_sync *sync = record;

	ret->kind = TS_EVENT_SYNC;
	set_times(ret, sync->start, sync->end);
	ret->sync.correlation = sync->correlation;
	ret->sync.type = sync->type;
	ret->sync.context = sync->context;
	ret->sync.stream = sync->stream;
	ret->sync.event = sync->event;
	return CONVERT_DONE;
}

static enum convert_result convert_memory(const void *record, struct ts_event *ret)
{
	const struct cupti_memory *memory = record;

	ret->kind = TS_EVENT_MEMORY;
	ret->start_ns = ret->end_ns = memory->timestamp;
	ret->memory.address = memory->address;
	ret->memory.bytes = memory->bytes;
	ret->memory.correlation = memory->correlation;
	ret->memory.device = memory->device;
	ret->memory.context = memory->context;
	ret->memory.stream = memory->stream;
	ret->memory.operation = memory->operation;
	ret->memory.memory_kind = memory->memory_kind;
	ret->memory.pool_kind = memory->pool_type;
	if (!memory->pool_type)
		return CONVERT_DONE;
	ret->memory.pool = memory->pool_address;
	ret->memory.pool_used_bytes = memory->pool_used;
	ret->memory.pool_threshold_bytes = memory->pool_threshold;
	if (memory->pool_type == 1)
		ret->memory.pool_bytes = memory->pool_size;
	return CONVERT_DONE;
}

/* 3 to 5: a pool was created, destroyed or trimmed. */
#define POOL_OPERATION_FIRST 2

static enum convert_result convert_pool(const void *record, struct ts_event *ret)
{
	const struct cupti_pool *pool = record;

	ret->kind = TS_EVENT_MEMORY;
	ret->start_ns = ret->end_ns = pool->timestamp;
	ret->memory.correlation = pool->correlation;
	ret->memory.device = pool->device;
	ret->memory.operation = pool->operation + POOL_OPERATION_FIRST;
	ret->memory.pool_kind = pool->pool_type;
	ret->memory.pool = pool->address;
	ret->memory.pool_bytes = pool->size;
	ret->memory.pool_used_bytes = pool->used;
	ret->memory.pool_threshold_bytes = pool->threshold;
	return CONVERT_DONE;
}

static enum convert_result convert_context(const void *record, struct ts_event *ret)
{
	const struct cupti_context *context = record;

	ret->kind = TS_EVENT_CONTEXT;
	ret->start_ns = clock_ns(CLOCK_MONOTONIC); /* the record has none */
	ret->context.context = context->context;
	ret->context.device = context->device;
	ret->context.null_stream = context->null_stream;
	return CONVERT_DONE;
}

static enum convert_result convert_marker(const void *record, struct ts_event *ret)
{
	const struct cupti_marker *marker = record;

	if (marker->flags & CUPTI_MARKER_START)
		ret->range.part = TS_RANGE_BEGIN;
	else if (marker->flags & CUPTI_MARKER_END)
		ret->range.part = TS_RANGE_END;
	else if (marker->flags & CUPTI_MARKER_INSTANT)
		ret->range.part = TS_RANGE_MARK;
	else
		return CONVERT_SKIP;
	ret->kind = TS_EVENT_RANGE;
	ret->start_ns = ret->end_ns = marker->timestamp;
	set_thread(ret, marker->object, &marker->of);
	ret->range.number = marker->id;
	if (ret->range.part == TS_RANGE_END)
		return CONVERT_DONE;
	ret->range.name = name_number(marker->name, NAME_TEXT);
	ret->range.domain = name_number(marker->domain, NAME_TEXT);
	return CONVERT_DONE;
}

static enum convert_result convert_overhead(const void *record, struct ts_event *ret)
{
	const struct cupti_overhead *overhead = record;

	ret->kind = TS_EVENT_OVERHEAD;
	set_times(ret, overhead->start, overhead->end);
	set_thread(ret, overhead->object, &overhead->of);
	ret->overhead.kind = overhead->overhead;
	return CONVERT_DONE;
}

static enum convert_result convert_call(const void *record, struct ts_event *ret)
{
	const struct cupti_api *api = record;
	bool is_runtime = api->kind == CUPTI_KIND_RUNTIME;

	if (!call_record_is_wanted(is_runtime, api->cbid))
		return CONVERT_SKIP;
	ret->kind = TS_EVENT_CALL;
	ret->flags = TS_EVENT_RETURNED;
	set_times(ret, api->start, api->end);
	ret->tid = ret->ns_tid = api->thread;
	ret->fn = is_runtime ? 0 : (uint16_t)api->cbid;
	ret->result = (int32_t)api->result;
	ret->call.correlation = api->correlation;
	ret->call.around = is_runtime;
	return ret->start_ns ? CONVERT_DONE : CONVERT_UNKNOWN;
}

static enum convert_result convert_nothing(const void *record, struct ts_event *ret)
{
	return CONVERT_SKIP;
}

/* Bytes up to the last field that is read. */
#define UP_TO(record, field) (offsetof(struct record, field) + sizeof(((struct record *)0)->field))

static const struct kind {
	enum convert_result (*convert)(const void *record, struct ts_event *ret);
	size_t size;
} kinds[] = {
	[CUPTI_KIND_MEMCPY] = { convert_copy, UP_TO(cupti_copy, graph) },
	[CUPTI_KIND_MEMSET] = { convert_set, UP_TO(cupti_set, graph) },
	[CUPTI_KIND_KERNEL] = { convert_kernel, UP_TO(cupti_kernel, graph) },
	[CUPTI_KIND_DRIVER] = { convert_call, sizeof(struct cupti_api) },
	[CUPTI_KIND_RUNTIME] = { convert_call, sizeof(struct cupti_api) },
	[CUPTI_KIND_DEVICE] = { convert_nothing, 0 },
	[CUPTI_KIND_CONTEXT] = { convert_context, UP_TO(cupti_context, null_stream) },
	[CUPTI_KIND_CONCURRENT_KERNEL] = { convert_kernel, UP_TO(cupti_kernel, graph) },
	[CUPTI_KIND_MARKER] = { convert_marker, UP_TO(cupti_marker, domain) },
	[CUPTI_KIND_OVERHEAD] = { convert_overhead, UP_TO(cupti_overhead, end) },
	[CUPTI_KIND_MEMCPY2] = { convert_peer_copy, UP_TO(cupti_peer_copy, graph) },
	[CUPTI_KIND_STREAM] = { convert_nothing, 0 },
	[CUPTI_KIND_SYNCHRONIZATION] = { convert_sync, UP_TO(cupti_sync, event) },
	[CUPTI_KIND_MEMORY2] = { convert_memory, UP_TO(cupti_memory, pool_used) },
	[CUPTI_KIND_MEMORY_POOL] = { convert_pool, UP_TO(cupti_pool, used) },
	[CUPTI_KIND_GRAPH_TRACE] = { convert_graph, UP_TO(cupti_graph, stream) },
};

enum convert_result convert_record(const void *record, size_t size, struct ts_event *ret)
{
	const uint32_t *kind = record;

	*ret = (struct ts_event){ 0 };
	if (size < sizeof(*kind) || *kind >= ARRAY_SIZE(kinds) || !kinds[*kind].convert ||
	    size < kinds[*kind].size)
		return CONVERT_UNKNOWN;
	/* The one field that the first form, of CUDA 12.0, lacks. */
	if (*kind == CUPTI_KIND_OVERHEAD && size >= UP_TO(cupti_overhead, correlation))
		ret->overhead.correlation = ((const struct cupti_overhead *)record)->correlation;
	return kinds[*kind].convert(record, ret);
}
