/* Feeds records of any content to the model, and lets time pass between them. The first byte of
 * each step says what happens; limits are small so that they are reached. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/model/core.h"

/* CUPTI's number of a row is its effect: those that submit have the kinds that records answer. */
#define ROW(does)                                                                                  \
	{                                                                                          \
		.name = "f", .kind = 1 + (does) % OP_INIT, .effect = (does), .detail = 1,          \
		.activity = {                                                                      \
			(does)                                                                     \
		}                                                                                  \
	}
#define SUBMITS(number, what, is_graph)                                                            \
	{                                                                                          \
		.name = "f", .kind = OP_##what, .effect = EFFECT_SUBMIT, .graph = (is_graph),      \
		.activity = {                                                                      \
			number                                                                     \
		}                                                                                  \
	}

/* One function for each effect, so that fn chooses it, and those that records answer. */
static const struct function functions[] = {
	ROW(EFFECT_NONE),
	ROW(EFFECT_SUBMIT),
	ROW(EFFECT_SUBMIT_WAIT),
	ROW(EFFECT_ALLOC),
	ROW(EFFECT_FREE),
	ROW(EFFECT_SYNC_STREAM),
	ROW(EFFECT_SYNC_CONTEXT),
	ROW(EFFECT_SYNC_EVENT),
	ROW(EFFECT_EVENT_RECORD),
	ROW(EFFECT_EVENT_DESTROY),
	ROW(EFFECT_STREAM_WAIT),
	ROW(EFFECT_STREAM_CREATE),
	ROW(EFFECT_STREAM_DESTROY),
	ROW(EFFECT_CAPTURE_BEGIN),
	ROW(EFFECT_CAPTURE_END),
	ROW(EFFECT_CONTEXT_CREATE),
	ROW(EFFECT_CONTEXT_RETAIN),
	ROW(EFFECT_CONTEXT_SET),
	ROW(EFFECT_CONTEXT_PUSH),
	ROW(EFFECT_CONTEXT_POP),
	ROW(EFFECT_CONTEXT_DESTROY),
	ROW(EFFECT_PRIMARY_RESET),
	SUBMITS(1, LAUNCH, false),
	SUBMITS(2, LAUNCH, true),
	SUBMITS(3, COPY, false),
	{ .name = "create", .kind = OP_ALLOC, .effect = EFFECT_ALLOC, .detail = MEMORY_PHYSICAL },
	{ .name = "release", .kind = OP_FREE, .effect = EFFECT_FREE, .detail = MEMORY_PHYSICAL },
	ROW(EFFECT_INIT),
	ROW(EFFECT_EVENT_CREATE),
	ROW(EFFECT_COMM_INIT),
	ROW(EFFECT_COMM_SPLIT),
	ROW(EFFECT_COMM_END),
	ROW(EFFECT_COMM_SIZE),
	ROW(EFFECT_COMM_RANK),
	ROW(EFFECT_GROUP_START),
	ROW(EFFECT_GROUP_END),
	ROW(EFFECT_COLLECTIVE),
};

#define FUNCTION_COUNT ARRAY_SIZE(functions)

static void check_op(void *data, const struct op *op)
{
	if (op->kind == OP_STATE ? op->end_ns <= op->start_ns
				 : op->end_ns && op->end_ns < op->start_ns)
		abort();
	if (op->gpu_end_ns && op->gpu_end_ns < op->gpu_start_ns)
		abort();
}

static void check_process(const struct core_process *process)
{
	if (!process->id || memchr(process->comm, 0, sizeof(process->comm)) == NULL)
		abort();
}

static void check_memory(const struct core_memory *memory)
{
	if (memory->peak_bytes < memory->live_bytes || (!memory->live_count && memory->live_bytes))
		abort();
}

static void check_name(const struct core_name *name)
{
	if (!name->id || !name->length || name->length > TS_NAME_MAX)
		abort();
}

static void check_work(const struct core_work *work)
{
	if (!work->count || work->min_ns > work->max_ns || work->max_ns > work->total_ns)
		abort();
}

static void check_busy(const struct core_busy *busy)
{
	if (!busy->ns || busy->ns > 1000000000 || !busy->state)
		abort();
}

static void check_collect(const struct core_collect *collect)
{
	if (!collect->process || collect->state > TS_COLLECT_CLOSED)
		abort();
}

static void check_pool(const struct core_pool *pool)
{
	if (!pool->address || pool->peak_bytes < pool->bytes ||
	    pool->peak_used_bytes < pool->used_bytes || pool->peak_bytes > INT64_MAX)
		abort();
}

static void check_communicator(const struct core_communicator *communicator)
{
	if (!communicator->process || !communicator->number || !communicator->handle ||
	    communicator->rank < -1)
		abort();
}

static void check_collective(const struct core_collective *collective)
{
	if (!collective->runs || collective->calls < collective->runs ||
	    collective->timed > collective->runs || collective->shared > collective->runs ||
	    collective->bytes > INT64_MAX || collective->min_ns > collective->max_ns)
		abort();
}

static void check_row(void *data, enum core_row type, const void *row)
{
	switch (type) {
	case CORE_ROW_PROCESS:
		return check_process(row);
	case CORE_ROW_MEMORY:
		return check_memory(row);
	case CORE_ROW_NAME:
		return check_name(row);
	case CORE_ROW_WORK:
		return check_work(row);
	case CORE_ROW_BUSY:
		return check_busy(row);
	case CORE_ROW_COLLECT:
		return check_collect(row);
	case CORE_ROW_POOL:
		return check_pool(row);
	case CORE_ROW_COMMUNICATOR:
		return check_communicator(row);
	case CORE_ROW_COLLECTIVE:
		return check_collective(row);
	default:
		return;
	}
}

static const struct core_config config = {
	.functions = { functions, FUNCTION_COUNT },
	.sink = { check_op, check_row },
	.bounds_wait_ns = 1000,
	/* One user has half of these. */
	.max_processes = 6,
	.max_threads = 6,
	.max_streams = 12,
	.max_events = 8,
	.max_pending = 12,
	.max_rollups = 32,
	.max_allocations = 12,
	.max_waiting = 12,
	.max_names = 4,
	.max_edges = 24,
};

struct input {
	const uint8_t *data;
	size_t size;
};

static uint8_t take(struct input *input)
{
	if (!input->size)
		return 0;
	input->size--;
	return *input->data++;
}

/* A record that is likely to be accepted: small numbers meet each other again. */
static void step_likely(struct core *core, struct input *input, uint64_t *now_ns)
{
	static const struct core_origin bpf = { 0 };
	struct ts_event event = { .kind = 1 + take(input) % 4 };

	*now_ns += take(input);
	event.fn = take(input) % (FUNCTION_COUNT + 1);
	event.flags = take(input) & 7;
	event.tgid = 1 + take(input) % 4;
	event.tid = take(input) % 5;
	event.start_ns = *now_ns - take(input) % 64;
	event.end_ns = *now_ns;
	event.stack_id = take(input) % 4;
	event.result = take(input) > 240;
	if (event.kind == TS_EVENT_API) {
		event.api.context = take(input) % 4;
		event.api.stream = take(input) % 8;
		event.api.handle = take(input) % 6;
		event.api.address = take(input) % 8;
		event.api.bytes = take(input);
		event.api.device = take(input) % 3;
	} else {
		event.kind = event.stack_id ? TS_EVENT_PROCESS : event.kind;
		event.process.started_ns = take(input) % 2 * 10000000;
	}
	(void)core_ingest(core, &bpf, &event, sizeof(event));
}

/* What a library says: few ids and threads, so that halves meet. */
static void step_library(struct core *core, struct input *input, uint64_t now_ns)
{
	struct ts_event event = { .kind = TS_EVENT_KERNEL + take(input) % 14 };
	struct core_origin origin = { .calls = take(input) % 2 };

	if (origin.calls) {
		event.kind = take(input) % 2 ? TS_EVENT_API : TS_EVENT_BACKWARD;
		event.flags = take(input) % 16;
		event.stack_id = take(input) % 4;
	}
	event.tgid = origin.pid = 1 + take(input) % 4;
	event.tid = event.ns_tid = take(input) % 5;
	event.fn = take(input) % 4;
	event.start_ns = now_ns - take(input) % 64;
	event.end_ns = event.start_ns + take(input) % 64;
	for (size_t i = 0; i < sizeof(event.payload) / (sizeof(uint32_t)); i++)
		((uint32_t *)event.payload)[i] = take(input) % 4;
	if (event.kind == TS_EVENT_COLLECT && take(input) % 2)
		event.collect.records = TS_RECORDS_DEFAULT;
	if (take(input) % 16 == 0)
		event.end_ns = 0;
	(void)core_ingest(core, &origin, &event, sizeof(event));
}

static void step_name(struct core *core, struct input *input)
{
	_Alignas(struct ts_name) char record[sizeof(struct ts_name) + 8] = { 0 };
	struct ts_name *name = (struct ts_name *)record;
	struct core_origin origin = { .pid = 1 + take(input) % 4 };

	name->kind = TS_EVENT_NAME;
	name->length = take(input) % 10;
	name->id = take(input) % 8;
	name->tgid = origin.pid;
	name->text[0] = (char)take(input);
	(void)core_ingest(core, &origin, record, sizeof(record));
}

static void step_raw(struct core *core, struct input *input)
{
	struct core_origin origin = { .pid = take(input) % 2 };
	size_t size = take(input);
	void *record;

	if (size > input->size)
		size = input->size;
	record = malloc(size); /* of that size exactly, so that reading beyond shows */
	if (!record)
		return;
	memcpy(record, input->data, size);
	input->data += size;
	input->size -= size;
	(void)core_ingest(core, &origin, record, size);
	free(record);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = { data, size };
	uint64_t now_ns = 1000;
	struct core *core;

	if (core_new(&config, &core) < 0)
		abort();
	while (input.size) {
		uint8_t what = take(&input);

		if (what < 100)
			step_likely(core, &input, &now_ns);
		else if (what < 200)
			step_library(core, &input, now_ns);
		else if (what < 205)
			step_name(core, &input);
		else if (what < 208)
			core_collect_gone(core, 1 + take(&input) % 4, now_ns);
		else if (what < 230)
			step_raw(core, &input);
		else if (what < 245)
			core_tick(core, now_ns += (uint64_t)what << (what % 32));
		else
			core_checkpoint(core, now_ns);
	}
	if (size % 2)
		core_flush(core, now_ns);
	core_free(core);
	return 0;
}
