/* Call: makes an op of each call of a driver function, and applies its effect to the model. A row
 * of the library table says what a function does; a row here says what an effect means. */
#include "core/model/call.h"

#include <string.h>

#include "core/base/array.h"
#include "core/base/bytes.h"
#include "core/model/collective.h"
#include "core/model/correlate.h"
#include "core/model/device.h"
#include "core/model/mapping.h"
#include "core/model/mempool.h"
#include "core/model/range.h"

/* Kinds of place that a call can name: 0 is none, beyond this number they are the host's. */
#define PLACE_DEVICE 1

/* CUresult: a capture ended in failure. */
#define ERROR_CAPTURE_UNSUPPORTED 900
#define ERROR_CAPTURE_ISOLATION	  905

struct effect_row {
	void (*apply)(struct call *call);
	bool on_stream; /* stream 0 means a default stream here, not none */
	bool makes_stream;
	bool names_device;
	bool names_place; /* needs the device, or that there is none */
	bool in_pool;	  /* `handle` is a memory pool, which belongs to a device */
	bool even_failed;
	bool in_graph;	/* in a captured stream it waits for the launch of the graph */
	bool waits;	/* the thread waits for the device */
	bool at_return; /* only then it is known what the call has made, or that it has waited */
};

void call_shows_size(struct call *call, uint64_t bytes)
{
	struct process *process = call->process;
	const struct core_device row = {
		.process = process->row.id,
		.ordinal = call->op->device,
		.memory_bytes = bytes_bounded(bytes),
	};
	int r;

	if (row.ordinal == DEVICE_UNKNOWN || !bytes ||
	    (process->exact && exact_knows_device(process->exact, row.ordinal)))
		return;
	r = device_size_add(&process->sizes, row.ordinal, row.memory_bytes);
	if (r < 0)
		loss_count(call->core, process, LOSS_LIMIT);
	else if (r > 0)
		core_tell(call->core, &row);
}

static void call_device_size(struct call *call)
{
	if (!(call->op->flags & OP_UNREAD))
		call_shows_size(call, call->op->address);
}

static const struct effect_row effect_table[] = {
	[EFFECT_NONE] = { .apply = NULL },
	[EFFECT_SUBMIT] = { .apply = timeline_submit, .on_stream = true },
	[EFFECT_SUBMIT_WAIT] = { .apply = timeline_submit_wait, .on_stream = true, .waits = true },
	[EFFECT_ALLOC] = { .apply = memory_alloc,
			   .in_pool = true,
			   .in_graph = true,
			   .at_return = true },
	[EFFECT_FREE] = { .apply = memory_free, .in_graph = true },
	[EFFECT_SYNC_STREAM] = { .apply = timeline_sync_stream,
				 .on_stream = true,
				 .waits = true,
				 .at_return = true },
	[EFFECT_SYNC_CONTEXT] = { .apply = timeline_sync_context,
				  .waits = true,
				  .at_return = true },
	[EFFECT_SYNC_EVENT] = { .apply = timeline_sync_event, .waits = true, .at_return = true },
	[EFFECT_EVENT_RECORD] = { .apply = gpu_event_record, .on_stream = true },
	[EFFECT_EVENT_DESTROY] = { .apply = gpu_event_destroy },
	[EFFECT_STREAM_WAIT] = { .apply = timeline_stream_wait, .on_stream = true },
	[EFFECT_STREAM_CREATE] = { .apply = stream_create,
				   .makes_stream = true,
				   .at_return = true },
	[EFFECT_STREAM_DESTROY] = { .apply = stream_destroy, .on_stream = true },
	[EFFECT_CAPTURE_BEGIN] = { .apply = stream_capture_begin, .on_stream = true },
	[EFFECT_CAPTURE_END] = { .apply = stream_capture_end,
				 .on_stream = true,
				 .even_failed = true },
	[EFFECT_CONTEXT_CREATE] = { .apply = context_create,
				    .names_device = true,
				    .at_return = true },
	[EFFECT_CONTEXT_RETAIN] = { .apply = context_retain,
				    .names_device = true,
				    .at_return = true },
	[EFFECT_CONTEXT_SET] = { .apply = context_set },
	[EFFECT_CONTEXT_PUSH] = { .apply = context_push },
	[EFFECT_CONTEXT_POP] = { .apply = context_pop },
	[EFFECT_CONTEXT_DESTROY] = { .apply = context_destroy },
	[EFFECT_PRIMARY_RESET] = { .apply = context_reset_primary, .names_device = true },
	[EFFECT_INIT] = { .apply = process_initialized, .at_return = true },
	[EFFECT_PRIMARY_RELEASE] = { .apply = context_release, .names_device = true },
	[EFFECT_CONTEXT_KNOWN] = { .apply = context_known, .at_return = true },
	[EFFECT_ALLOC_ON] = { .apply = memory_alloc, .names_place = true, .at_return = true },
	[EFFECT_IMPORT] = { .apply = memory_import, .in_pool = true, .at_return = true },
	[EFFECT_MAP] = { .apply = mapping_map },
	[EFFECT_UNMAP] = { .apply = mapping_unmap },
	[EFFECT_HANDLE_RETAIN] = { .apply = mapping_retain, .at_return = true },
	[EFFECT_POOL_KNOWN] = { .apply = mempool_known, .names_place = true, .at_return = true },
	[EFFECT_POOL_DESTROY] = { .apply = mempool_destroy },
	[EFFECT_EVENT_CREATE] = { .apply = gpu_event_create, .at_return = true },
	[EFFECT_TENSOR] = { .apply = mempool_tensor },
	[EFFECT_OOM] = { .apply = oom_reported },
	[EFFECT_ROOM] = { .apply = oom_room, .at_return = true },
	[EFFECT_DEVICE_SIZE] = { .apply = call_device_size,
				 .names_device = true,
				 .at_return = true },
	[EFFECT_REQUESTED] = { .apply = NULL },
	[EFFECT_COLLECTIVE] = { .apply = NULL }, /* and those of NCCL before it */
};

#define EFFECT_COUNT ARRAY_SIZE(effect_table)

static const struct function *call_function(const struct core *core, uint16_t fn)
{
	const struct function *function;

	if (fn >= core->config.functions.count)
		return NULL;
	function = &core->config.functions.row[fn];
	return function->name ? function : NULL;
}

/* Bytes of up to three dimensions, for a set computed from its elements; an absurd product is
 * capped at what the store can hold. */
static uint64_t call_bytes(const struct ts_api *api, const struct function *function)
{
	uint64_t bytes = api->bytes;
	uint8_t kind = function->kind;

	if (kind == OP_SET && __builtin_mul_overflow(bytes, function->detail, &bytes))
		return INT64_MAX;
	if (kind == OP_COPY || kind == OP_SET || kind == OP_ALLOC) {
		if ((api->height || function->sizes > 1) &&
		    __builtin_mul_overflow(bytes, api->height, &bytes))
			return INT64_MAX;
		if ((api->depth || function->sizes > 2) &&
		    __builtin_mul_overflow(bytes, api->depth, &bytes))
			return INT64_MAX;
	}
	return bytes_bounded(bytes);
}

static uint16_t call_flags(const struct ts_event *event)
{
	return (event->flags & TS_EVENT_RETURNED ? OP_RETURNED : 0) |
	       (event->flags & TS_EVENT_PER_THREAD ? OP_PER_THREAD : 0) |
	       (event->flags & TS_EVENT_UNREAD ? OP_UNREAD : 0) |
	       (event->flags & TS_EVENT_STACK_LOST ? OP_STACK_LOST : 0);
}

static void call_fill(struct op *op, const struct ts_event *event, const struct function *function)
{
	const struct ts_api *api = &event->api;

	op->start_ns = event->start_ns;
	op->tid = event->tid;
	op->fn = event->fn;
	op->flags = call_flags(event);
	op->kind = function->kind;
	op->detail = function->detail;
	op->address = api->address;
	op->source = api->source;
	op->bytes = call_bytes(api, function);
	op->handle = api->handle;
	op->stack_id = event->stack_id;
	if (event->flags & TS_EVENT_RETURNED) {
		op->end_ns = event->end_ns;
		op->result = event->result;
	}
	if (function->kind == OP_LAUNCH) {
		memcpy(op->grid, api->grid, sizeof(op->grid));
		memcpy(op->block, api->block, sizeof(op->block));
		op->shared_bytes = api->shared_bytes;
	}
}

static bool call_is_memory(const struct op *op)
{
	return (op->kind == OP_ALLOC || op->kind == OP_FREE) && op->detail <= MEMORY_KIND_MAX;
}

/* Kinds whose stacks are sampled; other kinds always or never have one. */
static bool call_is_sampled(const struct op *op)
{
	return op->kind == OP_LAUNCH || op->kind == OP_COPY || op->kind == OP_SET ||
	       op->kind == OP_SYNC;
}

/* The per-thread-default-stream forms of memory functions are those with a stream. */
static bool call_is_on_stream(const struct call *call, const struct effect_row *effect)
{
	const struct ts_event *event = call->event;

	return effect->on_stream || event->api.stream ||
	       (call_is_memory(call->op) && event->flags & TS_EVENT_PER_THREAD);
}

/* Which stream and device the call is on. A failed call does not make a stream known. */
static void call_place(struct call *call, const struct effect_row *effect)
{
	const struct ts_api *api = &call->event->api;
	struct op *op = call->op;

	call->context = context_of_call(call->core, call->process, api->context, op->tid);
	if (!effect->makes_stream && call_is_on_stream(call, effect))
		call->stream = op->result ? stream_find(call) : stream_get(call);
	op->device = call->context->device;
	if (call->stream) {
		op->stream = call->stream->row.id;
		op->device = call->stream->row.device;
	}
	if (effect->names_device)
		op->device = context_device(api->device);
	if (effect->names_place)
		op->device =
			api->value > PLACE_DEVICE ? DEVICE_UNKNOWN : context_device(api->device);
	if (effect->in_pool && op->handle)
		op->device = mempool_device(call->process, op->handle);
	if (call_is_memory(op))
		op->device = account_device(op->detail, op->device);
}

/* Threads waiting for a device are a reason for it to be idle. */
static void call_tell_exact(struct call *call, const struct effect_row *effect)
{
	const struct op *op = call->op;

	correlate_called(call);
	if (effect->waits && op->end_ns && !op->result)
		sweep_sync(call->core, call->process->exact, op->device, op->start_ns, op->end_ns);
}

/* A call of the injected library is not the program's. It shows which context is a device's primary
 * one, if that was unknown. */
static void call_learn(struct call *call, const struct function *function)
{
	const struct ts_event *event = call->event;

	if (function->effect == EFFECT_CONTEXT_RETAIN && !event->result && event->api.context)
		context_learn_primary(call->core, call->process, event->api.context,
				      context_device(event->api.device));
}

/* Streams and contexts that are not known may be valid from now on. */
static void call_without_return(struct call *call, const struct effect_row *effect)
{
	bool unknown = effect->at_return && !effect->waits;

	loss_count(call->core, call->process, unknown ? LOSS_NO_EFFECT : LOSS_NO_RETURN);
	call->process->unreturned |= unknown;
}

/* A thread that ended inside a call does not show what the call did. */
static bool call_has_effect(const struct call *call, const struct effect_row *effect)
{
	const struct ts_event *event = call->event;

	return effect->apply && !(event->flags & TS_EVENT_UNFINISHED) &&
	       (!effect->at_return || event->flags & TS_EVENT_RETURNED) &&
	       (!call->op->result || effect->even_failed);
}

static bool call_breaks_capture(const struct call *call)
{
	return call->stream && call->op->result >= ERROR_CAPTURE_UNSUPPORTED &&
	       call->op->result <= ERROR_CAPTURE_ISOLATION;
}

int call_ingest(struct core *core, struct process *process, const struct ts_event *event)
{
	const struct function *function = call_function(core, event->fn);
	struct op op = { .process = process->row.id };
	struct call call = { .core = core, .process = process, .event = event, .op = &op };
	const struct effect_row *effect;

	if (!function) {
		loss_count(core, process, LOSS_BAD_EVENT);
		return INGEST_BAD;
	}
	if (event->flags & TS_EVENT_OWN) {
		call_learn(&call, function);
		return INGEST_OK;
	}
	if (function->kind == OP_RANGE)
		return range_called(core, process, event, function->detail);
	if (function->effect == EFFECT_REQUESTED)
		return mempool_requested(core, process, event);
	if (function->effect >= EFFECT_COMM_INIT)
		return collective_ingest(core, process, event, function);
	process->growing.calls++;
	effect = &effect_table[function->effect];
	call_fill(&op, event, function);
	call_place(&call, effect);
	if (!op.result)
		process_used(process, op.start_ns);
	if (call_breaks_capture(&call))
		stream_break_capture(call.stream);
	if (effect->in_graph && !op.result && call.stream && call.stream->capture)
		op.flags |= OP_CAPTURED;
	else if (call_has_effect(&call, effect))
		effect->apply(&call);
	if (call_is_at_entry(event, function))
		call_without_return(&call, effect);
	oom_look(&call);
	if (call_is_memory(&op))
		op.live_bytes = account_live_bytes(&process->accounts, op.device, op.detail);
	if (call_is_sampled(&op) && !op.stack_id && !(op.flags & OP_STACK_LOST))
		loss_count(core, process, LOSS_STACK_SAMPLED);
	if (exact_is_swept(process))
		call_tell_exact(&call, effect);
	if (!call.noted)
		rollup_add_call(core, &op);
	if (!call.held)
		core_emit(core, &op);
	if (!call.bad)
		return INGEST_OK;
	loss_count(core, process, LOSS_BAD_EVENT);
	return INGEST_BAD;
}

static bool effect_is_memory(uint8_t effect)
{
	return effect == EFFECT_ALLOC || effect == EFFECT_ALLOC_ON || effect == EFFECT_IMPORT ||
	       effect == EFFECT_FREE || effect == EFFECT_TENSOR;
}

bool call_does_nothing(const struct op *op, const struct function *function)
{
	return (op->kind == OP_COPY || op->kind == OP_SET) && function->sizes && !op->bytes &&
	       !(op->flags & OP_UNREAD);
}

bool call_table_ok(const struct function_table *table)
{
	for (uint32_t i = 0; i < table->count; i++) {
		const struct function *function = &table->row[i];
		bool memory = effect_is_memory(function->effect);

		if (!function->name)
			continue;
		if (function->effect >= EFFECT_COUNT)
			return false;
		if (memory && (!function->detail || function->detail > MEMORY_KIND_MAX))
			return false;
	}
	return true;
}
