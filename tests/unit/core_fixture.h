/* core_fixture.h: a model with a small function table, whose sink writes down what it gets. */
#ifndef TS_CORE_FIXTURE_H
#define TS_CORE_FIXTURE_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/model/core.h"

enum fn {
	FN_NONE,
	FN_LAUNCH,
	FN_COPY,      /* asynchronous */
	FN_COPY_WAIT, /* synchronous */
	FN_SET,	      /* of 4-byte elements */
	FN_ALLOC,
	FN_ALLOC_MANAGED,
	FN_ALLOC_HOST,
	FN_MEM_CREATE,
	FN_MEM_RESERVE,
	FN_FREE,
	FN_FREE_HOST,
	FN_MEM_RELEASE,
	FN_STREAM_SYNC,
	FN_CTX_SYNC,
	FN_EVENT_SYNC,
	FN_EVENT_RECORD,
	FN_EVENT_DESTROY,
	FN_STREAM_WAIT,
	FN_STREAM_CREATE,
	FN_STREAM_DESTROY,
	FN_CAPTURE_BEGIN,
	FN_CAPTURE_END,
	FN_CTX_CREATE,
	FN_RETAIN,
	FN_CTX_SET,
	FN_CTX_PUSH,
	FN_CTX_POP,
	FN_CTX_DESTROY,
	FN_RESET,
	FN_INIT,
	FN_LAUNCH_EX,
	FN_GRAPH,
	FN_PREFETCH,
	FN_RELEASE,
	FN_ALLOC_POOL,
	FN_POOL_KNOWN,
	FN_POOL_DESTROY,
	FN_MAP,
	FN_UNMAP,
	FN_HANDLE_RETAIN,
	FN_IMPORT,
	FN_IMPORT_HANDLE,
	FN_IMPORT_CLOSE,
	FN_EVENT_CREATE,
	FN_CTX_KNOWN,
	FN_RANGE_BEGIN,
	FN_RANGE_END,
	FN_RANGE_CUT,
	FN_TENSOR,
	FN_OOM,
	FN_ROOM,
	FN_DEVICE_SIZE,
	FN_REQUESTED,
	FN_COMM_INIT,
	FN_COMM_SPLIT,
	FN_COMM_END,
	FN_COMM_SIZE,
	FN_COMM_RANK,
	FN_GROUP_START,
	FN_GROUP_END,
	FN_ALL_REDUCE,
	FN_ALL_GATHER,
	FN_SEND,
	FN_RECV,
	FN_COUNT,
};

/* CUPTI's number of a function here: the same for both of its forms. */
#define ACTIVITY(number) .activity = { number, 100 + (number) }

static const struct function fixture_functions[FN_COUNT] = {
	[FN_TENSOR] = { .name = "tensor",
			.kind = OP_ALLOC,
			.effect = EFFECT_TENSOR,
			.detail = MEMORY_TENSOR },
	[FN_OOM] = { .name = "oom", .kind = OP_MEMORY, .effect = EFFECT_OOM, .detail = 1 },
	[FN_ROOM] = { .name = "room", .kind = OP_MEMORY, .effect = EFFECT_ROOM },
	[FN_DEVICE_SIZE] = { .name = "size", .kind = OP_MEMORY, .effect = EFFECT_DEVICE_SIZE },
	[FN_REQUESTED] = { .name = "requested", .kind = OP_MEMORY, .effect = EFFECT_REQUESTED },
	[FN_COMM_INIT] = { .name = "comm_init", .effect = EFFECT_COMM_INIT },
	[FN_COMM_SPLIT] = { .name = "comm_split", .effect = EFFECT_COMM_SPLIT },
	[FN_COMM_END] = { .name = "comm_end", .effect = EFFECT_COMM_END },
	[FN_COMM_SIZE] = { .name = "comm_size", .effect = EFFECT_COMM_SIZE },
	[FN_COMM_RANK] = { .name = "comm_rank", .effect = EFFECT_COMM_RANK },
	[FN_GROUP_START] = { .name = "group_start", .effect = EFFECT_GROUP_START },
	[FN_GROUP_END] = { .name = "group_end", .effect = EFFECT_GROUP_END },
	[FN_ALL_REDUCE] = { .name = "all_reduce",
			    .effect = EFFECT_COLLECTIVE,
			    .detail = COLLECTIVE_ALL_REDUCE },
	[FN_ALL_GATHER] = { .name = "all_gather",
			    .effect = EFFECT_COLLECTIVE,
			    .detail = COLLECTIVE_ALL_GATHER },
	[FN_SEND] = { .name = "send", .effect = EFFECT_COLLECTIVE, .detail = COLLECTIVE_SEND },
	[FN_RECV] = { .name = "recv", .effect = EFFECT_COLLECTIVE, .detail = COLLECTIVE_RECV },
	[FN_RANGE_BEGIN] = { .name = "range_begin", .kind = OP_RANGE, .detail = TS_RANGE_BEGIN },
	[FN_RANGE_END] = { .name = "range_end", .kind = OP_RANGE, .detail = TS_RANGE_END },
	[FN_RANGE_CUT] = { .name = "range_cut", .kind = OP_RANGE, .detail = TS_RANGE_CUT },
	[FN_LAUNCH] = { .name = "launch",
			.kind = OP_LAUNCH,
			.effect = EFFECT_SUBMIT,
			.hot = true,
			ACTIVITY(1) },
	[FN_LAUNCH_EX] = { .name = "launch_ex",
			   .kind = OP_LAUNCH,
			   .effect = EFFECT_SUBMIT,
			   ACTIVITY(2) },
	[FN_GRAPH] = { .name = "graph_launch",
		       .kind = OP_LAUNCH,
		       .effect = EFFECT_SUBMIT,
		       ACTIVITY(3),
		       .graph = true },
	[FN_PREFETCH] = { .name = "prefetch",
			  .kind = OP_MEMORY,
			  .effect = EFFECT_SUBMIT,
			  ACTIVITY(4) },
	[FN_COPY] = { .name = "copy",
		      .kind = OP_COPY,
		      .sizes = 1,
		      .effect = EFFECT_SUBMIT,
		      .detail = COPY_HTOD,
		      ACTIVITY(5) },
	[FN_COPY_WAIT] = { .name = "copy_wait",
			   .kind = OP_COPY,
			   .sizes = 1,
			   .effect = EFFECT_SUBMIT_WAIT,
			   .detail = COPY_HTOD,
			   ACTIVITY(6) },
	[FN_SET] = { .name = "set",
		     .kind = OP_SET,
		     .sizes = 1,
		     .effect = EFFECT_SUBMIT,
		     .detail = 4,
		     ACTIVITY(7) },
	[FN_ALLOC] = { .name = "alloc",
		       .kind = OP_ALLOC,
		       .effect = EFFECT_ALLOC,
		       .detail = MEMORY_DEVICE },
	[FN_ALLOC_MANAGED] = { .name = "alloc_managed",
			       .kind = OP_ALLOC,
			       .effect = EFFECT_ALLOC,
			       .detail = MEMORY_MANAGED },
	[FN_ALLOC_HOST] = { .name = "alloc_host",
			    .kind = OP_ALLOC,
			    .effect = EFFECT_ALLOC,
			    .detail = MEMORY_HOST },
	[FN_MEM_CREATE] = { .name = "mem_create",
			    .kind = OP_ALLOC,
			    .effect = EFFECT_ALLOC_ON,
			    .detail = MEMORY_PHYSICAL },
	[FN_MEM_RESERVE] = { .name = "mem_reserve",
			     .kind = OP_ALLOC,
			     .effect = EFFECT_ALLOC,
			     .detail = MEMORY_RESERVED },
	[FN_FREE] = { .name = "free",
		      .kind = OP_FREE,
		      .effect = EFFECT_FREE,
		      .detail = MEMORY_DEVICE },
	[FN_FREE_HOST] = { .name = "free_host",
			   .kind = OP_FREE,
			   .effect = EFFECT_FREE,
			   .detail = MEMORY_HOST },
	[FN_MEM_RELEASE] = { .name = "mem_release",
			     .kind = OP_FREE,
			     .effect = EFFECT_FREE,
			     .detail = MEMORY_PHYSICAL },
	[FN_STREAM_SYNC] = { .name = "stream_sync", .kind = OP_SYNC, .effect = EFFECT_SYNC_STREAM },
	[FN_CTX_SYNC] = { .name = "ctx_sync", .kind = OP_SYNC, .effect = EFFECT_SYNC_CONTEXT },
	[FN_EVENT_SYNC] = { .name = "event_sync", .kind = OP_SYNC, .effect = EFFECT_SYNC_EVENT },
	[FN_EVENT_RECORD] = { .name = "event_record",
			      .kind = OP_EVENT,
			      .effect = EFFECT_EVENT_RECORD },
	[FN_EVENT_DESTROY] = { .name = "event_destroy",
			       .kind = OP_EVENT,
			       .effect = EFFECT_EVENT_DESTROY },
	[FN_STREAM_WAIT] = { .name = "stream_wait",
			     .kind = OP_STREAM,
			     .effect = EFFECT_STREAM_WAIT },
	[FN_STREAM_CREATE] = { .name = "stream_create",
			       .kind = OP_STREAM,
			       .effect = EFFECT_STREAM_CREATE },
	[FN_STREAM_DESTROY] = { .name = "stream_destroy",
				.kind = OP_STREAM,
				.effect = EFFECT_STREAM_DESTROY },
	[FN_CAPTURE_BEGIN] = { .name = "capture_begin",
			       .kind = OP_GRAPH,
			       .effect = EFFECT_CAPTURE_BEGIN },
	[FN_CAPTURE_END] = { .name = "capture_end",
			     .kind = OP_GRAPH,
			     .effect = EFFECT_CAPTURE_END },
	[FN_CTX_CREATE] = { .name = "ctx_create",
			    .kind = OP_CONTEXT,
			    .effect = EFFECT_CONTEXT_CREATE },
	[FN_RETAIN] = { .name = "retain", .kind = OP_CONTEXT, .effect = EFFECT_CONTEXT_RETAIN },
	[FN_CTX_SET] = { .name = "ctx_set", .kind = OP_CONTEXT, .effect = EFFECT_CONTEXT_SET },
	[FN_CTX_PUSH] = { .name = "ctx_push", .kind = OP_CONTEXT, .effect = EFFECT_CONTEXT_PUSH },
	[FN_CTX_POP] = { .name = "ctx_pop", .kind = OP_CONTEXT, .effect = EFFECT_CONTEXT_POP },
	[FN_CTX_DESTROY] = { .name = "ctx_destroy",
			     .kind = OP_CONTEXT,
			     .effect = EFFECT_CONTEXT_DESTROY },
	[FN_RESET] = { .name = "reset", .kind = OP_CONTEXT, .effect = EFFECT_PRIMARY_RESET },
	[FN_INIT] = { .name = "init", .kind = OP_INIT, .effect = EFFECT_INIT },
	[FN_RELEASE] = { .name = "release", .kind = OP_CONTEXT, .effect = EFFECT_PRIMARY_RELEASE },
	[FN_ALLOC_POOL] = { .name = "alloc_pool",
			    .kind = OP_ALLOC,
			    .effect = EFFECT_ALLOC,
			    .detail = MEMORY_POOL },
	[FN_POOL_KNOWN] = { .name = "pool_known", .kind = OP_MEMORY, .effect = EFFECT_POOL_KNOWN },
	[FN_POOL_DESTROY] = { .name = "pool_destroy",
			      .kind = OP_MEMORY,
			      .effect = EFFECT_POOL_DESTROY },
	[FN_MAP] = { .name = "map", .kind = OP_MEMORY, .effect = EFFECT_MAP },
	[FN_UNMAP] = { .name = "unmap", .kind = OP_MEMORY, .effect = EFFECT_UNMAP },
	[FN_HANDLE_RETAIN] = { .name = "handle_retain",
			       .kind = OP_MEMORY,
			       .effect = EFFECT_HANDLE_RETAIN },
	[FN_IMPORT] = { .name = "import",
			.kind = OP_ALLOC,
			.effect = EFFECT_IMPORT,
			.detail = MEMORY_IMPORTED },
	[FN_IMPORT_HANDLE] = { .name = "import_handle",
			       .kind = OP_ALLOC,
			       .effect = EFFECT_IMPORT,
			       .detail = MEMORY_IMPORTED_PHYSICAL },
	[FN_IMPORT_CLOSE] = { .name = "import_close",
			      .kind = OP_FREE,
			      .effect = EFFECT_FREE,
			      .detail = MEMORY_IMPORTED },
	[FN_EVENT_CREATE] = { .name = "event_create",
			      .kind = OP_EVENT,
			      .effect = EFFECT_EVENT_CREATE },
	[FN_CTX_KNOWN] = { .name = "ctx_known",
			   .kind = OP_CONTEXT,
			   .effect = EFFECT_CONTEXT_KNOWN },
};

#define SEEN_MAX 4096

/* What the sink got, in order. */
static struct seen {
	struct op op[SEEN_MAX], state[SEEN_MAX];
	struct core_process process[SEEN_MAX];
	struct core_stream stream[SEEN_MAX];
	struct core_allocation allocation[SEEN_MAX];
	struct core_memory memory[SEEN_MAX];
	struct core_rollup rollup[SEEN_MAX];
	struct core_loss loss[SEEN_MAX];
	struct core_work work[SEEN_MAX];
	struct core_busy busy[SEEN_MAX];
	struct core_device device[SEEN_MAX];
	struct core_collect collect[SEEN_MAX];
	size_t ops, states, processes, streams, allocations, memories, rollups, losses, stacks,
		backwards;
	struct core_pool pool[SEEN_MAX];
	size_t works, busies, devices, collects, names, pools, growths, ooms, oom_memories,
		oom_stacks;
	struct core_oom oom[SEEN_MAX];
	struct core_oom_memory oom_memory[SEEN_MAX];
	struct core_oom_stack oom_stack[SEEN_MAX];
	struct core_growth growth[SEEN_MAX];
	struct core_communicator communicator[2 * SEEN_MAX];
	struct core_collective collective[SEEN_MAX];
	size_t communicators, collectives;
	struct core_name name; /* the last one; its text is gone */
} seen;

#define SEE(array, count, value)                                                                   \
	do {                                                                                       \
		assert_true((count) < SEEN_MAX);                                                   \
		(array)[(count)++] = (value);                                                      \
	} while (0)

static void see_op(void *data, const struct op *op)
{
	if (op->kind == OP_STATE)
		SEE(seen.state, seen.states, *op);
	else
		SEE(seen.op, seen.ops, *op);
}

#define SEE_ROW(identifier, array, count, name)                                                    \
	case CORE_ROW_##identifier:                                                                \
		SEE(array, count, *(const struct core_##name *)row);                               \
		break;

static void see_row(void *data, enum core_row type, const void *row)
{
	switch (type) {
		SEE_ROW(PROCESS, seen.process, seen.processes, process)
		SEE_ROW(STREAM, seen.stream, seen.streams, stream)
		SEE_ROW(ALLOCATION, seen.allocation, seen.allocations, allocation)
		SEE_ROW(MEMORY, seen.memory, seen.memories, memory)
		SEE_ROW(ROLLUP, seen.rollup, seen.rollups, rollup)
		SEE_ROW(LOSS, seen.loss, seen.losses, loss)
		SEE_ROW(WORK, seen.work, seen.works, work)
		SEE_ROW(BUSY, seen.busy, seen.busies, busy)
		SEE_ROW(DEVICE, seen.device, seen.devices, device)
		SEE_ROW(COLLECT, seen.collect, seen.collects, collect)
		SEE_ROW(POOL, seen.pool, seen.pools, pool)
		SEE_ROW(GROWTH, seen.growth, seen.growths, growth)
		SEE_ROW(OOM, seen.oom, seen.ooms, oom)
		SEE_ROW(OOM_MEMORY, seen.oom_memory, seen.oom_memories, oom_memory)
		SEE_ROW(OOM_STACK, seen.oom_stack, seen.oom_stacks, oom_stack)
		SEE_ROW(COLLECTIVE, seen.collective, seen.collectives, collective)
	case CORE_ROW_COMMUNICATOR:
		assert_true(seen.communicators < 2 * SEEN_MAX);
		seen.communicator[seen.communicators++] = *(const struct core_communicator *)row;
		break;
	case CORE_ROW_STACK:
		seen.stacks++;
		break;
	case CORE_ROW_BACKWARD:
		seen.backwards++;
		break;
	case CORE_ROW_NAME:
		seen.names++;
		seen.name = *(const struct core_name *)row;
		break;
	/* Of the daemon, not of the model. */
	case CORE_ROW_WATCH:
	case CORE_ROW_PRICE:
	case CORE_ROW_COUNT:
		fail();
	}
}

static struct core_config fixture_config(void)
{
	return (struct core_config){
		.functions = { fixture_functions, FN_COUNT },
		.sink = { see_op, see_row },
		.bounds_wait_ns = 10000,
		.max_processes = 2 * 16,
		.max_threads = 2 * 16,
		.max_streams = 2 * 64,
		.max_events = 2 * 16,
		.max_pending = 256,
		.max_rollups = 2 * 256,
		.max_allocations = 2 * 64,
		.max_waiting = 256,
		.max_names = 64,
		.max_edges = 1024,
	};
}

static struct core *core;

static int fixture_begin_with(const struct core_config *config)
{
	memset(&seen, 0, sizeof(seen));
	return core_new(config, &core);
}

static int fixture_begin(void **state)
{
	struct core_config config = fixture_config();

	return fixture_begin_with(&config);
}

static int fixture_end(void **state)
{
	core = core_free(core);
	return 0;
}

static inline void fixture_restart(const struct core_config *config)
{
	core = core_free(core);
	assert_int_equal(fixture_begin_with(config), 0);
}

#define STORY(function) cmocka_unit_test_setup_teardown(function, fixture_begin, fixture_end)

/* Whom events are from; tests change it. */
static uint32_t pid = 100, tid = 100, fixture_uid;

static int give(const struct ts_event *event)
{
	static const struct core_origin bpf = { 0 };

	return core_ingest(core, &bpf, event, sizeof(*event));
}

static struct ts_event process_event(uint16_t kind, uint64_t time_ns, uint64_t started_ns)
{
	struct ts_event event = { .kind = kind, .tgid = pid, .tid = tid, .start_ns = time_ns };

	event.process.started_ns = started_ns;
	event.process.uid = fixture_uid;
	memcpy(event.process.comm, "program", 8);
	return event;
}

/* A process of `pid` that is there from time 1 on. */
static inline void announce(void)
{
	struct ts_event event = process_event(TS_EVENT_PROCESS, 1, 50000000);

	assert_int_equal(give(&event), INGEST_OK);
}

/* A call that returned well; tests change what they are about. */
static struct ts_event call_event(enum fn fn, uint64_t start_ns, uint64_t end_ns)
{
	return (struct ts_event){
		.kind = TS_EVENT_API,
		.fn = (uint16_t)fn,
		.flags = end_ns ? TS_EVENT_RETURNED : 0,
		.tgid = pid,
		.tid = tid,
		.start_ns = start_ns,
		.end_ns = end_ns,
	};
}

static inline int on_stream(enum fn fn, uint64_t start_ns, uint64_t end_ns, uint64_t stream)
{
	struct ts_event event = call_event(fn, start_ns, end_ns);

	event.api.stream = stream;
	event.api.bytes = fixture_functions[fn].sizes ? 64 : 0;
	return give(&event);
}

static inline int launch(uint64_t start_ns, uint64_t stream)
{
	return on_stream(FN_LAUNCH, start_ns, 0, stream);
}

static inline int on_event(enum fn fn, uint64_t start_ns, uint64_t end_ns, uint64_t handle,
			   uint64_t stream)
{
	struct ts_event event = call_event(fn, start_ns, end_ns);

	event.api.handle = handle;
	event.api.stream = stream;
	return give(&event);
}

static inline int on_context(enum fn fn, uint64_t start_ns, uint64_t context, uint32_t device)
{
	struct ts_event event = call_event(fn, start_ns, start_ns + 1);

	event.api.context = context;
	event.api.device = device;
	return give(&event);
}

static inline int on_memory(enum fn fn, uint64_t start_ns, uint64_t end_ns, uint64_t address,
			    uint64_t bytes)
{
	struct ts_event event = call_event(fn, start_ns, end_ns);

	event.api.address = address;
	event.api.bytes = bytes;
	event.stack_id = 7;
	return give(&event);
}

static inline uint64_t lost(enum loss_reason reason)
{
	uint64_t count = 0;

	for (size_t i = 0; i < seen.losses; i++)
		if (seen.loss[i].reason == reason)
			count += seen.loss[i].count;
	return count;
}

/* The last op of a function, which must be there. */
static inline const struct op *last_op(enum fn fn)
{
	for (size_t i = seen.ops; i > 0; i--)
		if (seen.op[i - 1].fn == fn)
			return &seen.op[i - 1];
	fail_msg("no op of '%s'", fixture_functions[fn].name);
	return NULL;
}

/* The op that started then, or NULL if it is still held. */
static inline const struct op *op_at(uint64_t start_ns)
{
	for (size_t i = 0; i < seen.ops; i++)
		if (seen.op[i].start_ns == start_ns)
			return &seen.op[i];
	return NULL;
}

static inline struct core_stats stats(void)
{
	struct core_stats now;

	core_stats(core, &now);
	return now;
}

#endif
