/* Bench_exact_store: records of the exact tier through the model and the store until they are
 * written: how many a second of CPU of all threads, and how many bytes in the database. Batches are
 * as large as the daemon's, and come as fast as the writer takes them. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/store/store.h"
#include "tests/bench/exact_load.h"

#define KERNELS 4000000

static struct store *store;
static uint64_t states;

static void store_op(void *data, const struct op *op)
{
	states += op->kind == OP_STATE;
	store_add_op(store, op);
}

static void store_row(void *data, enum core_row type, const void *row)
{
	if (type != CORE_ROW_STACK)
		store_add_row(store, type, row);
}

static const struct core_config config = {
	EXACT_LIMITS,
	.sink = { store_op, store_row },
};

static double cpu_ns(clockid_t clock)
{
	struct timespec used;

	clock_gettime(clock, &used);
	return (double)used.tv_sec * 1e9 + (double)used.tv_nsec;
}

static void wait_for_writer(void)
{
	struct store_stats stats;

	for (store_stats(store, &stats); stats.queued_batches; store_stats(store, &stats))
		nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
}

static void measure(const char *path, struct burst *b)
{
	struct store_config store_config = {
		.path = path,
		.boot_id = "bench",
		.functions = { functions, FN_COUNT },
	};
	double cpu, loop = 0, making = 0, records;
	struct store_stats stats;

	unlink(path);
	if (store_open(&store_config, &store) < 0 || core_new(&config, &b->core) < 0)
		exit(1);
	states = b->number = b->records = 0;
	b->uneven = true;
	cpu = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
	begin(b->core);
	while (b->number < KERNELS) {
		double begun = cpu_ns(CLOCK_THREAD_CPUTIME_ID), made;

		burst_make_all(b);
		made = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
		making += made - begun;
		burst_give(b);
		store_commit(store, burst_end_ns(b));
		loop += cpu_ns(CLOCK_THREAD_CPUTIME_ID) - made;
		wait_for_writer();
	}
	/* The last states are told when nothing can come any more. */
	for (int i = 0; i < 50; i++) {
		uint64_t now = burst_end_ns(b) + (uint64_t)i * 100000000;

		core_tick(b->core, now);
		core_checkpoint(b->core, now);
		store_commit(store, now);
		wait_for_writer();
	}
	core_free(b->core);
	records = (double)b->records;
	store_stats(store, &stats);
	store_free(store);
	cpu = cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu - making;
	printf("%-30s %9.2f %9.0f %9.0f %9.2f %9.2f %9.1f %8lu\n", b->load->name,
	       records * 1e3 / cpu, loop / records, (cpu - loop) / records,
	       (double)stats.ops_written / KERNELS, (double)states / KERNELS,
	       (double)stats.chunk_bytes / KERNELS, (unsigned long)stats.ops_dropped);
}

int main(int argc, char **argv)
{
	const char *path = argc > 1 ? argv[1] : "/tmp/bench_exact_store.db";
	static struct burst b;

	printf("%-30s %9s %9s %9s %9s %9s %9s %8s\n", "load", "million/s", "ns model", "ns store",
	       "written", "states", "bytes", "dropped");
	printf("%-30s %9s %9s %9s %9s %9s %9s\n", "", "of cpu", "a record", "a record", "a kernel",
	       "a kernel", "a kernel");
	for (size_t i = 0; i < ARRAY_SIZE(exact_loads); i++) {
		b.load = &exact_loads[i];
		measure(path, &b);
	}
	return unlink(path);
}
