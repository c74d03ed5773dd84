/* Bench_live: a million live allocations of 4 processes, made in 1,000 places, and as many blocks
 * of PyTorch's allocator: bytes and CPU time that each takes in the model; the time of `leaks` and
 * `memory --by stack`, and their CPU time, medians of 5. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/model/core.h"
#include "core/store/query/query.h"
#include "core/store/store.h"
#include "daemon/limits.h"
#include "proto/frame.h"
#include "tests/bench/counting_sink.h"
#include "tests/bench/load.h"

#define ALLOCATIONS 1000000
#define PROCESSES   4
#define PLACES	    1000
#define ROUNDS	    5
#define SECOND_NS   1000000000ull
#define NOW_S	    1000

enum { ALLOC, TENSOR, FN_COUNT };

static const struct function functions[FN_COUNT] = {
	[ALLOC] = { .name = "cuMemAlloc_v2",
		    .kind = OP_ALLOC,
		    .effect = EFFECT_ALLOC,
		    .detail = MEMORY_DEVICE },
	[TENSOR] = { .name = "c10::reportMemoryUsageToProfiler",
		     .kind = OP_ALLOC,
		     .effect = EFFECT_TENSOR,
		     .detail = MEMORY_TENSOR },
};

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * SECOND_NS + now.tv_nsec;
}

static size_t taken(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

static struct core *model_new(void)
{
	const struct core_config config = {
		.functions = { functions, FN_COUNT },
		.sink = COUNTING_SINK,
		.bounds_wait_ns = 10 * SECOND_NS,
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
	struct core *core;

	return core_new(&config, &core) == 0 ? core : NULL;
}

static void announce(struct core *core, uint32_t pid)
{
	struct ts_event event = {
		.kind = TS_EVENT_PROCESS,
		.tgid = pid,
		.tid = pid,
		.start_ns = SECOND_NS,
	};

	event.process.started_ns = SECOND_NS;
	core_ingest(core, &(struct core_origin){ .calls = true }, &event, sizeof(event));
}

static void allocate(struct core *core, uint16_t fn, uint64_t i)
{
	struct ts_event event = {
		.kind = TS_EVENT_API,
		.fn = fn,
		.flags = fn == ALLOC ? TS_EVENT_RETURNED : 0,
		.tgid = 1000 + i % PROCESSES,
		.tid = 1000 + i % PROCESSES,
		.start_ns = SECOND_NS + i * 1000,
		.end_ns = fn == ALLOC ? SECOND_NS + i * 1000 + 500 : 0,
		.stack_id = 1 + i % PLACES,
	};

	event.api.address = 0x7f0000000000 + i * 4096;
	event.api.bytes = 4096;
	event.api.source = event.api.handle = (i + 1) * 4096;
	core_ingest(core, &(struct core_origin){ .calls = true }, &event, sizeof(event));
}

static int measure_model(uint16_t fn)
{
	struct core *core = model_new();
	struct core_stats stats;
	uint64_t begin_ns;
	size_t before;

	if (!core)
		return -1;
	for (uint32_t i = 0; i < PROCESSES; i++)
		announce(core, 1000 + i);
	core_checkpoint(core, SECOND_NS);
	before = taken();
	begin_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	for (uint64_t i = 0; i < ALLOCATIONS; i++) {
		allocate(core, fn, i);
		if (i % 10000 == 0)
			core_checkpoint(core, SECOND_NS + i * 1000);
	}
	core_checkpoint(core, NOW_S * SECOND_NS);
	core_stats(core, &stats);
	printf("%-28s %8.1f bytes %8.1f ns\n",
	       fn == ALLOC ? "each live allocation" : "each live block of PyTorch",
	       (double)(taken() - before) / (double)stats.allocations,
	       (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns) / ALLOCATIONS);
	core_free(core);
	return stats.allocations == ALLOCATIONS ? 0 : -1;
}

static int fill(const char *path)
{
	const struct store_config config = { .path = path,
					     .boot_id = "bench",
					     .functions = { functions, FN_COUNT } };
	struct store_stats stats = { .queued_batches = 1 };
	struct store *store;
	int r = store_open(&config, &store);

	if (r < 0)
		return r;
	for (uint32_t id = 1; id <= PROCESSES; id++)
		store_add(store, &(struct core_process){ .id = id,
							 .pid = 5000000 + id,
							 .first_ns = SECOND_NS,
							 .comm = "bench" });
	for (uint64_t i = 0; i < ALLOCATIONS; i++) {
		store_add(store, &(struct core_allocation){ .id = i + 1,
							    .address = 0x7f0000000000 + i * 4096,
							    .bytes = 4096,
							    .start_ns = SECOND_NS + i * 1000,
							    .end_ns = SECOND_NS + i * 1000 + 500,
							    .stack_id = 1 + i % PLACES,
							    .process = 1 + i % PROCESSES,
							    .tid = 1000,
							    .handles = 1,
							    .fn = ALLOC,
							    .kind = MEMORY_DEVICE });
		if (i % 50000 == 49999)
			store_commit(store, 2 * SECOND_NS + i);
		while (i % 50000 == 49999 && stats.queued_batches) {
			usleep(1000);
			store_stats(store, &stats);
		}
		stats.queued_batches = 1;
	}
	store_free(store);
	return stats.rows_dropped ? -1 : 0;
}

static int on_send(void *data, const Tracesmith__V1__Reply *reply)
{
	uint64_t *rows = data;

	if (reply->body_case == TRACESMITH__V1__REPLY__BODY_DONE)
		*rows = reply->done->rows;
	if (reply->body_case == TRACESMITH__V1__REPLY__BODY_ERROR)
		fprintf(stderr, "%s\n", reply->error->message);
	return 0;
}

static bool never(void *data)
{
	return false;
}

static void measure(const char *path, char *name, uint32_t by)
{
	Tracesmith__V1__QueryRequest query = TRACESMITH__V1__QUERY_REQUEST__INIT;
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;
	uint64_t rows = 0;
	struct query_job job = { .request = &request,
				 .database = path,
				 .boot_id = "bench",
				 .now_ns = NOW_S * SECOND_NS,
				 .send = on_send,
				 .cancelled = never,
				 .data = &rows };
	double ms[ROUNDS], cpu_ms[ROUNDS];

	query.name = name;
	query.by = by;
	request.id = 1;
	request.body_case = TRACESMITH__V1__REQUEST__BODY_QUERY;
	request.query = &query;
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t begin_ns = clock_ns(CLOCK_MONOTONIC);
		uint64_t cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);

		query_run(&job);
		ms[i] = (double)(clock_ns(CLOCK_MONOTONIC) - begin_ns) / 1e6;
		cpu_ms[i] = (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns) / 1e6;
	}
	printf("%-28s %8.1f ms %8.1f ms %9llu rows\n", by ? "memory --by stack" : name,
	       median(ms, ROUNDS), median(cpu_ms, ROUNDS), (unsigned long long)rows);
}

int main(void)
{
	char directory[] = "/tmp/ts-bench-XXXXXX", path[64], file[80];
	int r = measure_model(ALLOC);

	if (r < 0 || measure_model(TENSOR) < 0 || !mkdtemp(directory))
		return 1;
	snprintf(path, sizeof(path), "%s/db", directory);
	r = fill(path);
	if (r == 0) {
		measure(path, "leaks", 0);
		measure(path, "memory", 1);
	}
	for (const char *const *suffix = (const char *const[]){ "", "-wal", "-shm", NULL }; *suffix;
	     suffix++) {
		snprintf(file, sizeof(file), "%s%s", path, *suffix);
		unlink(file);
	}
	rmdir(directory);
	if (r < 0)
		fprintf(stderr, "%s\n", strerror(-r));
	return r < 0;
}
