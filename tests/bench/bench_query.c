/* Bench_query: the time of every query, of two statements of SQL and of an export over a database
 * of ten million ops: 4 processes with 4 streams each, 20,000 ops a second, in the last 500
 * seconds; and an hour of sums of exact times of a fifth process, with 50 kernels on 4 streams and
 * 5 buckets of each. A first argument is another number of seconds. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/store/query/query.h"
#include "core/store/query/table.h"
#include "core/store/store.h"
#include "proto/frame.h"

#define SECOND_NS 1000000000ull
#define NOW_S	  10000000 /* after the boot: what is asked is older */
#define PROCESSES 4
#define STREAMS	  4 /* of each process */
#define STACKS	  16
#define ROUNDS	  5
#define EXACT	  (PROCESSES + 1)

enum { FN_LAUNCH = 1, FN_ALLOC, FN_FREE, FN_HTOD, FN_DTOH, FN_SYNC, FN_COUNT };

static const struct function functions[FN_COUNT] = {
	[FN_LAUNCH] = { .name = "cuLaunchKernel",
			.kind = OP_LAUNCH,
			.effect = EFFECT_SUBMIT,
			.detail = 0 },
	[FN_ALLOC] = { .name = "cuMemAlloc_v2",
		       .kind = OP_ALLOC,
		       .effect = EFFECT_ALLOC,
		       .detail = MEMORY_DEVICE },
	[FN_FREE] = { .name = "cuMemFree_v2",
		      .kind = OP_FREE,
		      .effect = EFFECT_FREE,
		      .detail = MEMORY_DEVICE },
	[FN_HTOD] = { .name = "cuMemcpyHtoD_v2",
		      .kind = OP_COPY,
		      .effect = EFFECT_SUBMIT_WAIT,
		      .detail = COPY_HTOD },
	[FN_DTOH] = { .name = "cuMemcpyDtoHAsync_v2",
		      .kind = OP_COPY,
		      .effect = EFFECT_SUBMIT,
		      .detail = COPY_DTOH },
	[FN_SYNC] = { .name = "cuStreamSynchronize",
		      .kind = OP_SYNC,
		      .effect = EFFECT_SYNC_STREAM,
		      .detail = 0 },
};

/* What each stream does in a second, and with how many stacks. */
static const struct {
	uint8_t kind;
	uint16_t fn;
	uint32_t calls, stacks;
	uint64_t took_ns; /* 0: no return is watched */
} mix[] = {
	{ OP_LAUNCH, FN_LAUNCH, 900, 8, 0 }, { OP_COPY, FN_HTOD, 100, 1, 20000 },
	{ OP_COPY, FN_DTOH, 100, 1, 0 },     { OP_ALLOC, FN_ALLOC, 50, 10, 2000 },
	{ OP_FREE, FN_FREE, 50, 1, 1500 },   { OP_SYNC, FN_SYNC, 25, 2, 100000 },
	{ OP_STATE, 0, 25, 1, 30000000 },
};

#define MIX_COUNT ARRAY_SIZE(mix)

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * SECOND_NS + now.tv_nsec;
}

static void add_ops(struct store *store, uint32_t process, uint32_t stream, uint64_t second,
		    size_t i)
{
	for (uint32_t n = 0; n < mix[i].calls; n++) {
		struct op op = {
			.start_ns =
				second * SECOND_NS + n * (SECOND_NS / mix[i].calls) + n * 37 % 1000,
			.process = process,
			.stream = stream,
			.tid = 1000 + stream,
			.fn = mix[i].fn,
			.kind = mix[i].kind,
			.detail =
				i == MIX_COUNT - 1 ? OP_STATE_PENDING : functions[mix[i].fn].detail,
			.bytes = mix[i].kind == OP_LAUNCH ? 0 : 4096,
			.stack_id = n % 100 < mix[i].stacks ? process * STACKS + n % STACKS + 1 : 0,
		};

		op.end_ns = mix[i].took_ns ? op.start_ns + mix[i].took_ns + n * 13 % 500 : 0;
		store_add_op(store, &op);
	}
}

static void add_rollups(struct store *store, uint32_t process, uint32_t stream, uint64_t second,
			size_t i)
{
	const bool timed = mix[i].took_ns;

	for (uint32_t n = 0; mix[i].kind != OP_STATE && n <= mix[i].stacks; n++) {
		struct core_rollup rollup = {
			.second = second,
			.stack_id = n ? process * STACKS + n : 0,
			.process = process,
			.stream = stream,
			.fn = mix[i].fn,
			.kind = mix[i].kind,
			.detail = functions[mix[i].fn].detail,
			.calls = n ? 1 : mix[i].calls - mix[i].stacks,
			.total_ns = mix[i].took_ns * 10,
			.min_ns = mix[i].took_ns,
			.max_ns = mix[i].took_ns * 2,
			.bytes = 4096,
		};

		rollup.timed = timed ? rollup.calls : 0;
		store_add(store, &rollup);
		if (mix[i].kind != OP_ALLOC)
			continue;
		rollup.freed = true;
		store_add(store, &rollup);
	}
}

static void add_second(struct store *store, uint64_t second)
{
	for (uint32_t stream = 1; stream <= PROCESSES * STREAMS; stream++)
		for (size_t i = 0; i < MIX_COUNT; i++) {
			uint32_t process = 1 + (stream - 1) / STREAMS;

			add_ops(store, process, stream, second, i);
			add_rollups(store, process, stream, second, i);
		}
	store_commit(store, (second + 1) * SECOND_NS);
}

static void add_stacks(struct store *store, uint32_t process)
{
	static const struct frame frame[] = {
		{ .module = "/lib/libcuda.so.1", .function = "cuLaunchKernel", .offset = 1 },
		{ .module = "/opt/app", .function = "step", .offset = 2 },
		{ .module = "/opt/app", .function = "train", .offset = 3 },
		{ .module = "/opt/app", .function = "main", .offset = 4 },
	};

	for (uint32_t i = 1; i <= STACKS; i++)
		store_add_stack(store, &(struct store_stack){ .id = process * STACKS + i,
							      .process = process,
							      .frame = frame,
							      .count = 4 });
}

static void add_process(struct store *store, uint32_t id, uint64_t first_ns)
{
	const struct core_process process = {
		.id = id, .pid = 5000000 + id, .first_ns = first_ns, .comm = "bench"
	};
	const struct core_memory memory = { id, 0, MEMORY_DEVICE, 1 << 20, 256, 2 << 20, 0, 0 };

	store_add(store, &process);
	store_add(store, &memory);
	add_stacks(store, id);
	for (uint32_t i = 0; i < STREAMS; i++) {
		const struct core_stream stream = { .id = 1 + (id - 1) * STREAMS + i,
						    .process = id };

		store_add(store, &stream);
	}
	for (uint32_t i = 0; i < 1000; i++) {
		const struct core_allocation allocation = { .id = id * 1000 + i,
							    .bytes = 4096,
							    .start_ns = first_ns + i,
							    .stack_id = id * STACKS + i % 10 + 1,
							    .process = id,
							    .fn = FN_ALLOC,
							    .kind = MEMORY_DEVICE };

		store_add(store, &allocation);
	}
}

/* What is older than this is kept by the minute. */
#define RECENT_S 180
#define KERNELS	 50
#define BUCKETS	 5

static void add_work(struct store *store, uint64_t second, uint64_t calls)
{
	for (uint32_t i = 0; i < KERNELS * STREAMS * BUCKETS; i++) {
		uint64_t kernel = 1 + i % KERNELS;
		uint64_t ns = 1000 * kernel + i / (KERNELS * STREAMS) * 4096;
		const struct core_work work = { .second = second,
						.name = kernel * 0x9e3779b97f4a7c15,
						.process = EXACT,
						.stream = 1000 + i / KERNELS % STREAMS,
						.bucket = work_bucket(ns),
						.kind = OP_KERNEL,
						.count = calls,
						.total_ns = ns * calls,
						.min_ns = ns,
						.max_ns = ns,
						.delay_ns = 5000 * calls };

		store_add(store, &work);
	}
	for (uint8_t state = OP_STATE_IDLE; state <= OP_STATE_SYNCING; state++)
		for (uint8_t kernels = 0; kernels < STREAMS; kernels++)
			store_add(store, &(struct core_busy){ .second = second,
							      .ns = 40000000 * calls,
							      .process = EXACT,
							      .state = state,
							      .kernels = kernels,
							      .copies = kernels % 2 });
}

static void add_exact(struct store *store, uint64_t until)
{
	char text[64];

	for (uint64_t kernel = 1; kernel <= KERNELS; kernel++) {
		snprintf(text, sizeof(text), "_Z10kernel%04dPfPKfi", (int)kernel);
		store_add_name(store, kernel * 0x9e3779b97f4a7c15, text, strlen(text));
	}
	for (uint64_t second = until - 3600; second < until; second++)
		if (second >= until - RECENT_S || second % 60 == 0)
			add_work(store, second, second >= until - RECENT_S ? 1 : 60);
}

static void wait_for_writer(struct store *store)
{
	struct store_stats stats;

	for (store_stats(store, &stats); stats.queued_batches > 1; store_stats(store, &stats))
		usleep(200);
}

static int fill(const char *path, uint64_t seconds)
{
	const struct store_config config = { .path = path,
					     .boot_id = "bench",
					     .functions = { functions, FN_COUNT } };
	uint64_t first = NOW_S - seconds;
	struct store *store;
	struct store_stats stats;
	int r = store_open(&config, &store);

	if (r < 0)
		return r;
	for (uint32_t id = 1; id <= PROCESSES; id++)
		add_process(store, id, first * SECOND_NS);
	add_process(store, EXACT, first * SECOND_NS);
	add_exact(store, first + seconds);
	for (uint64_t second = first; second < first + seconds; second++) {
		add_second(store, second);
		wait_for_writer(store);
	}
	store_commit(store, (first + seconds) * SECOND_NS);
	wait_for_writer(store);
	store_stats(store, &stats);
	store_free(store);
	printf("%llu ops, %llu dropped, %.1f MiB\n\n", (unsigned long long)stats.ops_written,
	       (unsigned long long)stats.ops_dropped, stats.database_bytes / 1048576.0);
	return 0;
}

/* Replies are packed, as for a client, and dropped. */
static int on_send(void *data, const Tracesmith__V1__Reply *reply)
{
	uint64_t *rows = data;
	uint8_t *bytes;
	size_t size;
	int r = ts_frame_pack(&reply->base, TS_FRAME_REPLY_MAX, &bytes, &size);

	if (r < 0)
		return r;
	free(bytes);
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

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void measure(const char *path, const char *name, const Tracesmith__V1__Request *request)
{
	uint64_t rows = 0, begin_ns;
	struct query_job job = { .request = request,
				 .database = path,
				 .boot_id = "bench",
				 .now_ns = NOW_S * SECOND_NS,
				 .send = on_send,
				 .cancelled = never,
				 .data = &rows };
	double ms[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		begin_ns = clock_ns();
		query_run(&job);
		ms[i] = (clock_ns() - begin_ns) / 1e6;
	}
	qsort(ms, ROUNDS, sizeof(ms[0]), compare);
	printf("%-28s %8.1f ms %8.1f ms %9llu rows\n", name, ms[ROUNDS / 2], ms[ROUNDS - 1],
	       (unsigned long long)rows);
}

static void measure_queries(const char *path)
{
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;
	Tracesmith__V1__QueryRequest query = TRACESMITH__V1__QUERY_REQUEST__INIT;
	const struct query *row;

	request.id = 1;
	request.body_case = TRACESMITH__V1__REQUEST__BODY_QUERY;
	request.query = &query;
	for (size_t i = 0; (row = query_at(i)); i++) {
		query.name = (char *)row->name;
		measure(path, row->name, &request);
	}
}

static void measure_rest(const char *path)
{
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;
	Tracesmith__V1__SqlRequest sql = TRACESMITH__V1__SQL_REQUEST__INIT;
	Tracesmith__V1__ExportRequest export = TRACESMITH__V1__EXPORT_REQUEST__INIT;

	request.id = 1;
	request.body_case = TRACESMITH__V1__REQUEST__BODY_SQL;
	request.sql = &sql;
	sql.text = "SELECT count(*) FROM op";
	measure(path, "sql: count of all ops", &request);
	sql.text = "SELECT fn, count(*), sum(bytes) FROM op WHERE kind = 'copy' GROUP BY fn";
	measure(path, "sql: copies by function", &request);
	request.body_case = TRACESMITH__V1__REQUEST__BODY_EXPORT;
	request.export = &export;
	measure(path, "export", &request);
}

int main(int argc, char **argv)
{
	char directory[] = "/tmp/ts-bench-XXXXXX", path[64], file[80];
	int r;

	if (!mkdtemp(directory))
		return 1;
	snprintf(path, sizeof(path), "%s/db", directory);
	r = fill(path, argc > 1 ? strtoull(argv[1], NULL, 10) : 500);
	if (r == 0) {
		printf("%-28s %11s %11s\n", "query", "median", "worst");
		measure_queries(path);
		measure_rest(path);
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
