/* Recount: a model without events: ops are passed to its sums and to the sweeps of its processes,
 * which run as far as no further op can start. */
#include "core/model/recount.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/arena.h"
#include "core/model/call.h"
#include "core/model/model.h"

#define SWEEP_SETTLE_NS 2000000000ull /* as in sweep.c: the sweep lags this far behind */
#define ROLLUPS_MAX	(1u << 20)
#define EDGES_MAX	65536
#define MANY		(1u << 30)
/* More than there are at one time, a few hundred MB in all. */
#define PROCESSES_MAX	65536
#define STREAMS_MAX	(1u << 18)
#define EVENTS_MAX	(1u << 20)
#define SWEPT_MAX	(1u << 23)
#define ALLOCATIONS_MAX (1u << 20)

/* A record of an event. */
struct mark_of_event {
	uint32_t stream;
	uint64_t number; /* of the latest work on it */
};

struct recount {
	struct recount_sink sink;
	struct core *core;
	struct op graph;  /* of the current parts: kind 0 is none */
	struct map event; /* its latest record, by process and handle */
	struct arena arena;
	struct map last; /* of each process: when its last op ended */
};

static void take_op(void *data, const struct op *op)
{
	struct recount *recount = data;

	if (op->kind == OP_STATE)
		recount->sink.state(recount->sink.data, op);
}

/* Nobody needs the others. */
static void take_row(void *data, enum core_row type, const void *row)
{
	struct recount *recount = data;

	if (type == CORE_ROW_ROLLUP || type == CORE_ROW_WORK || type == CORE_ROW_BUSY ||
	    type == CORE_ROW_ALLOCATION || type == CORE_ROW_MEMORY)
		recount->sink.row(recount->sink.data, type, row);
}

int recount_new(const struct recount_sink *sink, struct recount **ret)
{
	_cleanup_(recount_freep) struct recount *recount = calloc(1, sizeof(*recount));
	struct core_config config = {
		.sink = { take_op, take_row },
		.data = recount,
		/* One user has half of these. */
		.max_processes = 2 * PROCESSES_MAX,
		.max_threads = 2 * MANY,
		.max_streams = 2 * STREAMS_MAX,
		.max_events = 2 * MANY,
		.max_pending = MANY,
		.max_rollups = 2 * ROLLUPS_MAX,
		.max_waiting = MANY,
		.max_names = MANY,
		.max_edges = SWEPT_MAX,
		.max_allocations = 2 * ALLOCATIONS_MAX,
	};
	int r;

	if (!recount)
		return -ENOMEM;
	recount->sink = *sink;
	r = core_new(&config, &recount->core);
	if (r < 0)
		return r;
	*ret = TAKE(recount);
	return 0;
}

struct recount *recount_free(struct recount *recount)
{
	if (!recount)
		return NULL;
	core_free(recount->core);
	map_clear(&recount->event);
	map_clear(&recount->last);
	arena_clear(&recount->arena);
	free(recount);
	return NULL;
}

static int add_process(struct recount *recount, uint32_t id)
{
	struct core_process row = { .id = id, .pid = id };
	uint64_t *last_ns;
	int r;

	if (core_process_by_id(recount->core, id))
		return 0;
	last_ns = arena_get(&recount->arena, sizeof(*last_ns));
	if (!last_ns)
		return -ENOMEM;
	*last_ns = 0;
	r = map_put(&recount->last, (struct map_key){ id, 0 }, last_ns);
	return r < 0 ? r : core_restore_process(recount->core, &row);
}

int recount_stream(struct recount *recount, uint32_t process, uint32_t stream, int16_t device)
{
	/* Any handle will do. */
	struct core_stream row = {
		.id = stream, .process = process, .handle = 16ull + stream, .device = device
	};
	int r = add_process(recount, process);

	if (r < 0 || stream_by_id(recount->core, stream))
		return r;
	return core_restore_stream(recount->core, &row);
}

/* All parts of a graph's launch have come: it lasted from the first to the last. */
static void end_graph(struct recount *recount)
{
	if (recount->graph.kind)
		rollup_add_work(recount->core, &recount->graph);
	recount->graph.kind = 0;
}

static void add_part(struct recount *recount, const struct op *op)
{
	struct op *graph = &recount->graph;

	if (graph->kind && (graph->start_ns != op->start_ns || graph->process != op->process ||
			    graph->tid != op->tid || graph->graph != op->graph))
		end_graph(recount);
	if (!graph->kind)
		*graph = (struct op){
			.start_ns = op->start_ns,
			.gpu_start_ns = op->gpu_start_ns,
			.process = op->process,
			.stream = op->stream,
			.tid = op->tid,
			.kind = OP_GRAPH,
			.detail = WORK_GRAPH_PARTS,
			.device = op->device,
			.stack_id = op->stack_id,
			.graph = op->graph,
		};
	if (op->gpu_start_ns < graph->gpu_start_ns)
		graph->gpu_start_ns = op->gpu_start_ns;
	if (op->gpu_end_ns > graph->gpu_end_ns)
		graph->gpu_end_ns = op->gpu_end_ns;
}

/* States are exact from the first submission on. */
static struct exact *sweep_of(struct recount *recount, struct process *process)
{
	struct exact *exact = exact_get(recount->core, process);

	if (exact && !exact->sweep.on)
		sweep_begin(recount->core, exact, recount->core->now_ns);
	return exact;
}

static int add_work(struct recount *recount, struct process *process, const struct op *op)
{
	struct exact *exact = sweep_of(recount, process);
	struct stream *stream = stream_by_id(recount->core, op->stream);
	enum sweep_work work =
		op->kind == OP_COPY || op->kind == OP_SET ? SWEEP_COPY : SWEEP_KERNEL;
	uint64_t number;

	if (!exact)
		return -ENOMEM;
	rollup_add_work(recount->core, op);
	if (op->flags & OP_NODE && op->graph)
		add_part(recount, op);
	if (!stream)
		return 0;
	number = ++stream->submitted;
	sweep_submit(recount->core, exact, stream, number, op->start_ns);
	sweep_ran(recount->core, exact, stream->lane, work, op, number, number);
	return 0;
}

/* An event is recorded on a stream, or a stream waits for one. Other calls of these kinds name no
 * stream, or no recorded event. */
static int add_event(struct recount *recount, struct process *process, const struct op *op)
{
	struct map_key key = { op->process, op->handle };
	struct stream *stream = stream_by_id(recount->core, op->stream), *source;
	struct mark_of_event *mark = map_get(&recount->event, key);

	if (!stream || !op->handle || op->flags & OP_CAPTURED || !process->exact)
		return 0;
	if (op->kind == OP_EVENT) {
		if (!mark && recount->event.count >= EVENTS_MAX)
			return -ENOSPC;
		if (!mark)
			mark = arena_get(&recount->arena, sizeof(*mark));
		if (!mark)
			return -ENOMEM;
		*mark = (struct mark_of_event){ op->stream, stream->submitted };
		return map_put(&recount->event, key, mark);
	}
	source = mark ? stream_by_id(recount->core, mark->stream) : NULL;
	if (source && source != stream)
		sweep_wait(recount->core, process->exact, stream, source, mark->number,
			   op->start_ns);
	return 0;
}

static void follow_memory(struct recount *recount, struct process *process, const struct op *op)
{
	struct op copy = *op;
	struct call call = {
		.core = recount->core,
		.process = process,
		.context = &process->unknown,
		.op = &copy,
	};

	if (!recount->sink.with_memory || op->result || op->flags & OP_CAPTURED || !op->detail ||
	    op->detail > MEMORY_KIND_MAX)
		return;
	/* What an unmap freed is named by its handle; a free of 0 bytes has freed nothing yet. */
	if (op->kind == OP_MEMORY)
		copy.address = op->handle;
	if (op->kind == OP_ALLOC)
		memory_alloc(&call);
	else if (op->kind == OP_MEMORY || (op->kind == OP_FREE && op->bytes))
		memory_free(&call);
}

static bool is_call(const struct op *op)
{
	return op->fn && !(op->flags & (OP_NODE | OP_NO_CALL)) && op->kind != OP_STATE &&
	       op->kind != OP_RANGE && op->kind != OP_OVERHEAD;
}

/* A thread waited in it for the device. */
static bool waited(const struct op *op)
{
	return op->end_ns > op->start_ns && !op->result &&
	       (op->kind == OP_SYNC || (op->gpu_end_ns && op->end_ns >= op->gpu_end_ns));
}

static uint64_t end_of(const struct op *op)
{
	uint64_t end_ns = op->end_ns > op->start_ns ? op->end_ns : op->start_ns;

	return op->gpu_end_ns > end_ns ? op->gpu_end_ns : end_ns;
}

int recount_op(struct recount *recount, const struct op *op)
{
	struct core *core = recount->core;
	struct process *process;
	uint64_t *last_ns;
	int r = add_process(recount, op->process);

	if (r < 0)
		return r;
	process = process_by_id(core, op->process);
	last_ns = map_get(&recount->last, (struct map_key){ op->process, 0 });
	if (end_of(op) > *last_ns)
		*last_ns = end_of(op);
	core->now_ns = op->start_ns;
	if (process->exact && process->exact->sweep.edges.count > EDGES_MAX)
		sweep_run(core, process->exact, op->start_ns + SWEEP_SETTLE_NS);
	if (is_call(op)) {
		follow_memory(recount, process, op);
		rollup_add_call(core, op);
		if (waited(op) && process->exact)
			sweep_sync(core, process->exact, op->device, op->start_ns, op->end_ns);
	}
	if (op->kind == OP_EVENT || op->kind == OP_STREAM)
		return add_event(recount, process, op);
	if (op->flags & OP_EXACT && op->gpu_end_ns && op->kind != OP_SYNC)
		return add_work(recount, process, op);
	return 0;
}

void recount_tell(struct recount *recount)
{
	superseded_tick(&recount->core->superseded, recount->core->now_ns);
	rollup_checkpoint(recount->core);
}

void recount_end(struct recount *recount)
{
	struct process *process;

	end_graph(recount);
	list_for_each(process, &recount->core->processes, link) {
		const uint64_t *last_ns =
			map_get(&recount->last, (struct map_key){ process->row.id, 0 });

		recount->core->now_ns = *last_ns;
		if (process->exact)
			sweep_end(recount->core, process->exact, *last_ns, *last_ns);
	}
	rollup_checkpoint(recount->core);
	if (recount->sink.with_memory)
		memory_checkpoint(recount->core);
}

uint64_t recount_limited(const struct recount *recount)
{
	return recount->core->stats.limited;
}
