/* Bench_fragment: what it takes to measure fragmentation: of blocks in memory, and by a query of a
 * database that has them; CPU time. A first argument is another number of blocks than 100,000. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/memory/pools.h"
#include "core/store/query/query.h"
#include "core/store/store.h"

#define SECOND_NS     1000000000ull
#define NOW_NS	      (100000 * SECOND_NS)
#define ROUNDS	      7
#define SEGMENT_BYTES (20ull << 20)
#define BLOCK_BYTES   65536ull
#define STACKS	      200
#define BASE	      0x7f0000000000ull

struct memory {
	size_t blocks, segments;
	struct fragment_span *block, *segment, *shuffled;
};

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void say(const char *what, double ms[ROUNDS])
{
	qsort(ms, ROUNDS, sizeof(ms[0]), compare);
	printf("%-28s %8.1f ms %8.1f ms\n", what, ms[ROUNDS / 2], ms[ROUNDS - 1]);
}

/* Every other place of each segment has a block; in the order in which a hash has them. */
static int make(struct memory *memory)
{
	const size_t places = SEGMENT_BYTES / BLOCK_BYTES;

	memory->segments = (2 * memory->blocks + places - 1) / places;
	memory->block = calloc(memory->blocks, sizeof(*memory->block));
	memory->shuffled = calloc(memory->blocks, sizeof(*memory->shuffled));
	memory->segment = calloc(memory->segments, sizeof(*memory->segment));
	if (!memory->block || !memory->shuffled || !memory->segment)
		return -1;
	for (size_t i = 0; i < memory->segments; i++)
		memory->segment[i] = (struct fragment_span){ .address = BASE + i * SEGMENT_BYTES,
							     .bytes = SEGMENT_BYTES };
	for (size_t i = 0; i < memory->blocks; i++)
		memory->shuffled[i] =
			(struct fragment_span){ .address = BASE + 2 * i * BLOCK_BYTES,
						.bytes = BLOCK_BYTES,
						.start_ns = NOW_NS - 1000 * SECOND_NS + i,
						.owner = 1 + i % STACKS };
	for (size_t i = memory->blocks - 1; i > 0; i--) {
		size_t other = (size_t)rand() % (i + 1);
		struct fragment_span moved = memory->shuffled[i];

		memory->shuffled[i] = memory->shuffled[other];
		memory->shuffled[other] = moved;
	}
	return 0;
}

static void count_divider(void *data, const struct fragment_span *oldest, uint64_t smaller_bytes)
{
	++*(uint64_t *)data;
}

static void measure_memory(const struct memory *memory)
{
	uint64_t splits = 0;
	const struct fragment_pool pool = {
		.segment = memory->segment,
		.segment_count = memory->segments,
		.block = memory->block,
		.block_count = memory->blocks,
		.request_bytes = BLOCK_BYTES,
		.divider = count_divider,
		.divider_data = &splits,
	};
	double sorted[ROUNDS], walked[ROUNDS];
	struct fragment fragment;

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t start_ns, sorted_ns;

		memcpy(memory->block, memory->shuffled, memory->blocks * sizeof(*memory->block));
		start_ns = cpu_ns();
		fragment_sort(memory->block, memory->blocks);
		sorted_ns = cpu_ns();
		fragment_measure(&pool, &fragment);
		sorted[i] = (double)(sorted_ns - start_ns) / 1e6;
		walked[i] = (double)(cpu_ns() - sorted_ns) / 1e6;
	}
	say("sorting blocks", sorted);
	say("measuring", walked);
	printf("index %.3f, %llu splits\n", fragment.index_ppm / 1e6,
	       (unsigned long long)splits / ROUNDS);
}

static int fill(const char *path, const struct memory *memory)
{
	const struct store_config config = { .path = path, .boot_id = "bench" };
	const struct core_process process = { .id = 1, .pid = 1001, .comm = "job" };
	const struct core_pool pool = { .process = 1,
					.kind = CORE_POOL_ALLOCATOR,
					.address = 1,
					.bytes = memory->segments * SEGMENT_BYTES,
					.used_bytes = memory->blocks * BLOCK_BYTES };
	struct core_allocation allocation = { .process = 1, .handles = 1 };
	struct store *store;
	int r = store_open(&config, &store);

	if (r < 0)
		return r;
	store_add(store, &process);
	store_add(store, &pool);
	for (size_t i = 0; i < memory->segments + memory->blocks; i++) {
		const struct fragment_span *span =
			i < memory->segments ? &memory->segment[i]
					     : &memory->shuffled[i - memory->segments];

		allocation.id = i + 1;
		allocation.address = span->address;
		allocation.bytes = span->bytes;
		allocation.start_ns = span->start_ns;
		allocation.stack_id = span->owner;
		allocation.kind = i < memory->segments ? MEMORY_DEVICE : MEMORY_TENSOR;
		store_add(store, &allocation);
	}
	store_commit(store, NOW_NS);
	store_free(store);
	return 0;
}

static int on_send(void *data, const Tracesmith__V1__Reply *reply)
{
	if (reply->body_case == TRACESMITH__V1__REPLY__BODY_ERROR)
		fprintf(stderr, "%s\n", reply->error->message);
	return 0;
}

static bool never(void *data)
{
	return false;
}

static void measure_query(const char *path, const char *what, const char *name, uint32_t by)
{
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;
	Tracesmith__V1__QueryRequest query = TRACESMITH__V1__QUERY_REQUEST__INIT;
	struct query_job job = { .request = &request,
				 .database = path,
				 .boot_id = "bench",
				 .now_ns = NOW_NS,
				 .send = on_send,
				 .cancelled = never };
	double ms[ROUNDS];

	request.id = 1;
	request.body_case = TRACESMITH__V1__REQUEST__BODY_QUERY;
	request.query = &query;
	query.name = (char *)name;
	query.by = by;
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t start_ns = cpu_ns();

		query_run(&job);
		ms[i] = (double)(cpu_ns() - start_ns) / 1e6;
	}
	say(what, ms);
}

int main(int argc, char **argv)
{
	struct memory memory = { .blocks = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000 };
	char directory[] = "/tmp/ts-bench-XXXXXX", path[64], file[80];
	int r;

	if (!memory.blocks || make(&memory) < 0 || !mkdtemp(directory))
		return 1;
	snprintf(path, sizeof(path), "%s/db", directory);
	printf("%zu blocks in %zu segments\n%-28s %11s %11s\n", memory.blocks, memory.segments, "",
	       "median", "worst");
	measure_memory(&memory);
	r = fill(path, &memory);
	if (r < 0)
		fprintf(stderr, "%s\n", strerror(-r));
	measure_query(path, "query", "fragmentation", 0);
	measure_query(path, "query --by-stack", "fragmentation", 1);
	measure_query(path, "query fragmentation-sizes", "fragmentation-sizes", 0);
	for (const char *const *suffix = (const char *const[]){ "", "-wal", "-shm", NULL }; *suffix;
	     suffix++) {
		snprintf(file, sizeof(file), "%s%s", path, *suffix);
		unlink(file);
	}
	rmdir(directory);
	free(memory.block);
	free(memory.shuffled);
	free(memory.segment);
	return r < 0;
}
