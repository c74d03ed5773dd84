/* Bench_ingest: what one event costs the model, for the loads that matter. The sink does nothing,
 * so this is the model alone. Prints a table; each figure is the median of several rounds. */
#include <stdio.h>

#include "core/base/array.h"
#include "core/model/core.h"
#include "daemon/limits.h"
#include "tests/bench/counting_sink.h"
#include "tests/bench/load.h"

#define ROUNDS	  9
#define PER_ROUND 1000000

enum { LAUNCH, COPY_WAIT, ALLOC, FREE, SYNC, RECORD, WAIT, CREATE, FN_COUNT };

static const struct function functions[FN_COUNT] = {
	[LAUNCH] = { .name = "launch", .kind = OP_LAUNCH, .effect = EFFECT_SUBMIT, .detail = 0 },
	[COPY_WAIT] = { .name = "copy",
			.kind = OP_COPY,
			.effect = EFFECT_SUBMIT_WAIT,
			.detail = COPY_HTOD },
	[ALLOC] = { .name = "alloc",
		    .kind = OP_ALLOC,
		    .effect = EFFECT_ALLOC,
		    .detail = MEMORY_DEVICE },
	[FREE] = { .name = "free",
		   .kind = OP_FREE,
		   .effect = EFFECT_FREE,
		   .detail = MEMORY_DEVICE },
	[SYNC] = { .name = "sync", .kind = OP_SYNC, .effect = EFFECT_SYNC_CONTEXT, .detail = 0 },
	[RECORD] = { .name = "record",
		     .kind = OP_EVENT,
		     .effect = EFFECT_EVENT_RECORD,
		     .detail = 0 },
	[WAIT] = { .name = "wait", .kind = OP_STREAM, .effect = EFFECT_STREAM_WAIT, .detail = 0 },
	[CREATE] = { .name = "create",
		     .kind = OP_CONTEXT,
		     .effect = EFFECT_CONTEXT_CREATE,
		     .detail = 0 },
};

static const struct core_config config = {
	.functions = { functions, FN_COUNT },
	.sink = COUNTING_SINK,
	.bounds_wait_ns = 10000000000ull,
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

static struct ts_event event_of(int fn, uint64_t time_ns)
{
	return (struct ts_event){
		.kind = TS_EVENT_API,
		.fn = (uint16_t)fn,
		.flags = fn == LAUNCH ? 0 : TS_EVENT_RETURNED,
		.tgid = 1000,
		.tid = 1000,
		.start_ns = time_ns,
		.end_ns = fn == LAUNCH ? 0 : time_ns + 500,
	};
}

/* Event number i of a load. */
static struct ts_event launches(uint64_t i, uint64_t time_ns)
{
	struct ts_event event = event_of(i % 100 ? LAUNCH : SYNC, time_ns);

	event.api.stream = i % 100 ? 0x5000 : 0;
	event.stack_id = i % 64 ? 0 : 1 + i / 64 % 50;
	return event;
}

static struct ts_event stacked_launches(uint64_t i, uint64_t time_ns)
{
	struct ts_event event = launches(i, time_ns);

	event.stack_id = 1 + i * 7 % 500;
	return event;
}

static struct ts_event many_streams(uint64_t i, uint64_t time_ns)
{
	struct ts_event event = event_of(i % 1000 ? LAUNCH : SYNC, time_ns);

	event.api.stream = i % 1000 ? 0x5000 + i % 32 * 0x100 : 0;
	event.tid = 1000 + i % 8;
	return event;
}

static struct ts_event launch_and_sync(uint64_t i, uint64_t time_ns)
{
	struct ts_event event = event_of(i % 2 ? LAUNCH : SYNC, time_ns);

	event.api.stream = i % 2 ? 0x5000 : 0;
	return event;
}

static struct ts_event never_synchronized(uint64_t i, uint64_t time_ns)
{
	struct ts_event event = event_of(LAUNCH, time_ns);

	event.api.stream = 0x5000 + i % 4 * 0x100;
	return event;
}

static struct ts_event waiting_copies(uint64_t i, uint64_t time_ns)
{
	struct ts_event event = event_of(COPY_WAIT, time_ns);

	event.api.bytes = 4096;
	return event;
}

/* Ten thousand are live; the oldest is freed, a new one is made. */
static struct ts_event allocations(uint64_t i, uint64_t time_ns)
{
	struct ts_event event = event_of(i % 2 && i > 20000 ? FREE : ALLOC, time_ns);

	event.api.address = 0x700000000000ull + (i / 2 - (i % 2 ? 10000 : 0)) * 512;
	event.api.bytes = 512;
	event.stack_id = 1 + i % 100;
	return event;
}

static struct ts_event streams_that_wait(uint64_t i, uint64_t time_ns)
{
	static const int fn[] = { LAUNCH, RECORD, WAIT, LAUNCH };
	struct ts_event event = event_of(i % 400 ? fn[i % 4] : SYNC, time_ns);

	event.api.stream = i % 400 ? (i % 4 < 2 ? 0x5000 : 0x6000) : 0;
	event.api.handle = 0xe00 + i / 4 % 16;
	return event;
}

static const struct ingest_load {
	const char *name;
	struct ts_event (*event)(uint64_t i, uint64_t time_ns);
} ingest_loads[] = {
	{ "launches, a sync every 100", launches },
	{ "the same, each with a stack", stacked_launches },
	{ "launches, 8 threads, 32 streams", many_streams },
	{ "launch and sync in turn", launch_and_sync },
	{ "launches, never synchronized", never_synchronized },
	{ "waiting copies", waiting_copies },
	{ "allocations and frees", allocations },
	{ "launch, record, wait, launch", streams_that_wait },
};

static void begin(struct core *core)
{
	static const struct core_origin bpf = { 0 };
	struct ts_event event = { .kind = TS_EVENT_PROCESS, .tgid = 1000, .start_ns = 1 };

	core_ingest(core, &bpf, &event, sizeof(event));
	for (uint32_t tid = 1000; tid < 1008; tid++) {
		event = event_of(CREATE, 1);
		event.tid = tid;
		event.api.context = 0xc1;
		core_ingest(core, &bpf, &event, sizeof(event));
	}
}

/* Events are made in small batches, so that making them is neither measured nor fills caches. */
static double round_ns(struct core *core, const struct ingest_load *load, uint64_t *number)
{
	static const struct core_origin bpf = { 0 };
	static struct ts_event batch[1000];
	double spent = 0;

	for (int done = 0; done < PER_ROUND; done += 1000) {
		double start;

		for (int i = 0; i < 1000; i++, ++*number)
			batch[i] = load->event(*number, 1000000 + *number * 1000);
		start = now_ns();
		for (int i = 0; i < 1000; i++)
			core_ingest(core, &bpf, &batch[i], sizeof(batch[i]));
		if (done % 100000 == 0) {
			core_tick(core, batch[999].start_ns);
			core_checkpoint(core, batch[999].start_ns);
		}
		spent += now_ns() - start;
	}
	return spent / PER_ROUND;
}

int main(void)
{
	printf("%-34s %9s %12s %9s\n", "load", "ns/event", "million/s", "lost");
	for (size_t i = 0; i < ARRAY_SIZE(ingest_loads); i++) {
		double spent[ROUNDS], ns;
		struct core_stats stats;
		uint64_t number = 1;
		struct core *core;

		if (core_new(&config, &core) < 0)
			return 1;
		begin(core);
		round_ns(core, &ingest_loads[i], &number);
		for (int r = 0; r < ROUNDS; r++)
			spent[r] = round_ns(core, &ingest_loads[i], &number);
		ns = median(spent, ROUNDS);
		core_stats(core, &stats);
		printf("%-34s %9.1f %12.2f %9llu\n", ingest_loads[i].name, ns, 1e3 / ns,
		       (unsigned long long)(stats.bad + stats.stray + stats.limited));
		core_free(core);
	}
	return told == 0;
}
