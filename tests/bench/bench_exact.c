/* Bench_exact: what the model pays for a launch of the exact tier: the probe's event, CUPTI's
 * record of the call and that of the kernel. As in a real process the records come in bursts, some
 * hundred milliseconds after the events. The sink does nothing. Prints a table; best of several
 * rounds. */
#include <stdio.h>

#include "core/core.h"
#include "daemon/limits.h"
#include "tests/bench/load.h"

#define ROUNDS	  7
#define PER_ROUND 400000
#define BURST	  20000

enum { LAUNCH, SYNC, GRAPH, FN_COUNT };

static const struct function functions[FN_COUNT] = {
	[LAUNCH] = { .name = "launch",
		     .kind = OP_LAUNCH,
		     .effect = EFFECT_SUBMIT,
		     .activity = { 307 } },
	[SYNC] = { .name = "sync", .kind = OP_SYNC, .effect = EFFECT_SYNC_CONTEXT },
	[GRAPH] = { .name = "graph",
		    .kind = OP_LAUNCH,
		    .effect = EFFECT_SUBMIT,
		    .graph = true,
		    .activity = { 514 } },
};

static uint64_t told;

static void tell_op(void *data, const struct op *op)
{
	told += op->start_ns;
}

static void tell_process(void *data, const struct core_process *process)
{
	told++;
}

static void tell_stream(void *data, const struct core_stream *stream)
{
	told++;
}

static void tell_stack(void *data, const struct core_process *process, const struct ts_stack *stack)
{
	told++;
}

static void tell_allocation(void *data, const struct core_allocation *allocation, bool live)
{
	told++;
}

static void tell_memory(void *data, const struct core_memory *memory)
{
	told++;
}

static void tell_rollup(void *data, const struct core_rollup *rollup)
{
	told++;
}

static void tell_loss(void *data, const struct core_loss *loss)
{
	told++;
}

static void tell_name(void *data, uint64_t id, const char *text, size_t length)
{
	told++;
}

static void tell_work(void *data, const struct core_work *work)
{
	told++;
}

static void tell_busy(void *data, const struct core_busy *busy)
{
	told++;
}

static void tell_device(void *data, const struct core_device *device)
{
	told++;
}

static void tell_collect(void *data, const struct core_collect *collect)
{
	told++;
}

static void tell_pool(void *data, const struct core_pool *pool, bool live)
{
	told++;
}

static const struct core_config config = {
	.functions = { functions, FN_COUNT },
	.sink = { tell_op, tell_process, tell_stream, tell_stack, tell_allocation, tell_memory,
		  tell_rollup, tell_loss, tell_name, tell_work, tell_busy, tell_device,
		  tell_collect, tell_pool },
	.bounds_wait_ns = 2000000000,
	.max_processes = LIMIT_PROCESSES,
	.max_threads = LIMIT_THREADS,
	.max_streams = LIMIT_STREAMS,
	.max_events = LIMIT_EVENTS,
	.max_pending = LIMIT_PENDING,
	.max_rollups = LIMIT_ROLLUPS,
	.max_allocations = LIMIT_ALLOCATIONS,
	.max_waiting = LIMIT_WAITING,
	.max_names = LIMIT_NAMES,
	.max_edges = LIMIT_EDGES,
};

static const struct core_origin bpf = { 0 }, library = { .pid = 1000 };

static struct ts_event event_of(uint16_t kind, uint64_t start_ns, uint64_t end_ns)
{
	return (struct ts_event){
		.kind = kind,
		.tgid = 1000,
		.tid = 1000,
		.ns_tid = 1000,
		.start_ns = start_ns,
		.end_ns = end_ns,
		.flags = kind == TS_EVENT_CALL ? TS_EVENT_RETURNED : 0,
	};
}

/* How a load differs from one launch after the other, 5 us apart, on one stream. */
static const struct exact_load {
	const char *name;
	uint32_t streams;
	uint32_t sync_every; /* 0: never */
	uint32_t nodes;	     /* of a graph launch */
} exact_loads[] = {
	{ "launches, a sync every 100", 1, 100, 0 },
	{ "launches, never synchronized", 1, 0, 0 },
	{ "launches on 8 streams", 8, 1000, 0 },
	{ "graphs of 20 kernels", 1, 100, 20 },
};

struct burst {
	const struct exact_load *load;
	struct core *core;
	uint64_t number, records;
	double spent;
	struct ts_event probe[BURST], call[BURST], work[BURST];
};

static void burst_make(struct burst *b, int i)
{
	const struct exact_load *load = b->load;
	uint64_t number = b->number, start_ns = 2000000000 + number * 5000;
	uint32_t nodes = load->nodes ? load->nodes : 1;
	uint64_t launch_ns = 2000000000 + number / nodes * nodes * 5000;
	bool sync = load->sync_every && number / nodes % load->sync_every == 0;

	b->probe[i] = event_of(TS_EVENT_API, launch_ns, sync ? launch_ns + 4000 : 0);
	b->probe[i].fn = sync ? SYNC : load->nodes ? GRAPH : LAUNCH;
	b->probe[i].flags = sync ? TS_EVENT_RETURNED : 0;
	b->probe[i].api.stream = sync ? 0 : 0x5000 + number % load->streams * 0x100;
	b->call[i] = event_of(TS_EVENT_CALL, launch_ns + 500, launch_ns + 3500);
	b->call[i].fn = load->nodes ? 514 : 307;
	b->call[i].call.correlation = (uint32_t)(number / nodes + 1);
	b->work[i] = event_of(TS_EVENT_KERNEL, start_ns + 6000, start_ns + 10500);
	b->work[i].work.correlation = (uint32_t)(number / nodes + 1);
	b->work[i].work.context = 1;
	b->work[i].work.stream = (uint32_t)(7 + number % load->streams);
	b->work[i].work.graph = load->nodes;
	b->work[i].work.node = load->nodes ? number % nodes + 1 : 0;
	b->work[i].work.name = (uint32_t)(1 + number * 7 % 64);
	b->work[i].work.block[0] = b->work[i].work.grid[0] = 128;
}

static bool burst_has_call(const struct burst *b, int i)
{
	return !b->load->nodes || b->work[i].work.node == 1;
}

static void burst_give(struct burst *b)
{
	double start;

	for (int i = 0; i < BURST; i++, b->number++)
		burst_make(b, i);
	start = now_ns();
	for (int i = 0; i < BURST; i++)
		if (burst_has_call(b, i) && ++b->records)
			core_ingest(b->core, &bpf, &b->probe[i], sizeof(b->probe[i]));
	core_tick(b->core, 2000000000 + b->number * 5000 + 100000000);
	for (int i = 0; i < BURST; i++) {
		if (b->probe[i].fn == SYNC)
			continue;
		if (burst_has_call(b, i) && ++b->records)
			core_ingest(b->core, &library, &b->call[i], sizeof(b->call[i]));
		b->records++;
		core_ingest(b->core, &library, &b->work[i], sizeof(b->work[i]));
	}
	core_tick(b->core, 2000000000 + b->number * 5000 + 100000000);
	core_checkpoint(b->core, 2000000000 + b->number * 5000 + 100000000);
	b->spent += now_ns() - start;
}

static void begin(struct core *core)
{
	struct ts_event event = event_of(TS_EVENT_PROCESS, 1, 0);
	struct {
		struct ts_name name;
		char text[8];
	} name = { { .kind = TS_EVENT_NAME, .length = 8, .tgid = 1000 }, "kernel00" };

	core_ingest(core, &bpf, &event, sizeof(event));
	core_tick(core, 1000000000);
	event = event_of(TS_EVENT_COLLECT, 1000000000, 0);
	event.collect.state = TS_COLLECT_STARTED;
	event.collect.records = TS_RECORDS_DEFAULT;
	core_ingest(core, &library, &event, sizeof(event));
	for (uint32_t i = 1; i <= 64; i++) {
		name.name.id = i;
		memcpy(name.text + 6, &i, 2);
		core_ingest(core, &library, &name, sizeof(name));
	}
}

int main(void)
{
	static struct burst b;

	printf("%-30s %10s %12s %9s %9s\n", "load", "ns/record", "million/s", "joined", "lost");
	for (size_t i = 0; i < sizeof(exact_loads) / sizeof(exact_loads[0]); i++) {
		struct core_stats stats;
		double best = 0;

		b.load = &exact_loads[i];
		b.number = 0;
		if (core_new(&config, &b.core) < 0)
			return 1;
		begin(b.core);
		for (int r = 0; r < ROUNDS; r++) {
			b.records = 0;
			b.spent = 0;
			for (int done = 0; done < PER_ROUND; done += BURST)
				burst_give(&b);
			if (!best || b.spent / (double)b.records < best)
				best = b.spent / (double)b.records;
		}
		core_stats(b.core, &stats);
		printf("%-30s %10.1f %12.2f %8.2f%% %9llu\n", b.load->name, best, 1e3 / best,
		       100.0 * (double)stats.joined / (double)stats.exact,
		       (unsigned long long)(stats.bad + stats.stray + stats.limited));
		core_free(b.core);
	}
	return told == 0;
}
