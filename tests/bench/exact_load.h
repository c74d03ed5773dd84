/* exact_load.h: what a process of the exact tier hands in: for a launch the probe's event, CUPTI's
 * record of the call and that of the kernel. As in a real process the records come in bursts, some
 * hundred milliseconds after the events. */
#ifndef TS_BENCH_EXACT_LOAD_H
#define TS_BENCH_EXACT_LOAD_H

#include "core/model/core.h"
#include "daemon/limits.h"
#include "tests/bench/load.h"

#define BURST 20000

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

#define EXACT_LIMITS                                                                               \
	.functions = { functions, FN_COUNT }, .bounds_wait_ns = 2000000000,                        \
	.max_processes = LIMIT_PROCESSES, .max_threads = LIMIT_THREADS,                            \
	.max_streams = LIMIT_STREAMS, .max_events = LIMIT_EVENTS, .max_pending = LIMIT_PENDING,    \
	.max_rollups = LIMIT_ROLLUPS, .max_allocations = LIMIT_ALLOCATIONS,                        \
	.max_waiting = LIMIT_WAITING, .max_names = LIMIT_NAMES, .max_edges = LIMIT_EDGES

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
	bool uneven; /* kernels have gaps between them and last differently long */
	uint64_t random;
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
	if (b->uneven) {
		b->random = b->random * 6364136223846793005 + 1442695040888963407;
		b->work[i].start_ns += b->random >> 32 & 511;
		b->work[i].end_ns =
			b->work[i].start_ns + 1200 + number * 7 % 64 * 40 + (b->random >> 48 & 255);
	}
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

static inline uint64_t burst_end_ns(const struct burst *b)
{
	return 2000000000 + b->number * 5000 + 100000000;
}

static inline void burst_make_all(struct burst *b)
{
	for (int i = 0; i < BURST; i++, b->number++)
		burst_make(b, i);
}

static inline void burst_give(struct burst *b)
{
	double start = now_ns();

	for (int i = 0; i < BURST; i++)
		if (burst_has_call(b, i) && ++b->records)
			core_ingest(b->core, &bpf, &b->probe[i], sizeof(b->probe[i]));
	core_tick(b->core, burst_end_ns(b));
	for (int i = 0; i < BURST; i++) {
		if (b->probe[i].fn == SYNC)
			continue;
		if (burst_has_call(b, i) && ++b->records)
			core_ingest(b->core, &library, &b->call[i], sizeof(b->call[i]));
		b->records++;
		core_ingest(b->core, &library, &b->work[i], sizeof(b->work[i]));
	}
	core_tick(b->core, burst_end_ns(b));
	core_checkpoint(b->core, burst_end_ns(b));
	b->spent += now_ns() - start;
}

static inline void begin(struct core *core)
{
	struct ts_event event = event_of(TS_EVENT_PROCESS, 1, 0);
	_Alignas(struct ts_name) char record[sizeof(struct ts_name) + 8] = { 0 };
	struct ts_name *name = (struct ts_name *)record;

	core_ingest(core, &bpf, &event, sizeof(event));
	core_tick(core, 1000000000);
	event = event_of(TS_EVENT_COLLECT, 1000000000, 0);
	event.collect.state = TS_COLLECT_STARTED;
	event.collect.records = TS_RECORDS_DEFAULT;
	core_ingest(core, &library, &event, sizeof(event));
	for (uint32_t i = 1; i <= 64; i++) {
		*name = (struct ts_name){
			.kind = TS_EVENT_NAME, .length = 8, .id = i, .tgid = 1000
		};
		memcpy(record + sizeof(*name), "kernel", 6);
		memcpy(record + sizeof(*name) + 6, &i, 2);
		core_ingest(core, &library, record, sizeof(record));
	}
}

#endif
