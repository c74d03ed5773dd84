/* Bench_store: ops a second from store_add_op to committed, bytes an op in the database with all
 * its indexes, and the speed of statements over ten million ops. Batches are handed over as the
 * daemon does, every 250 ms of the ops' own time, one after the other as fast as the writer takes
 * them. A first argument is the path of the database, a second one the only load to measure. */
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/store/store.h"
#include "daemon/limits.h"
#include "tests/bench/load.h"

#define COMMIT_NS 250000000ull
#define ROUNDS	  5

static const struct function functions[] = {
	[1] = { .name = "cuLaunchKernel", .kind = OP_LAUNCH, .effect = EFFECT_SUBMIT, .detail = 0 },
	[2] = { .name = "cuMemAlloc_v2",
		.kind = OP_ALLOC,
		.effect = EFFECT_ALLOC,
		.detail = MEMORY_DEVICE },
	[4] = { .name = "cuMemcpyHtoD_v2",
		.kind = OP_COPY,
		.effect = EFFECT_SUBMIT_WAIT,
		.detail = COPY_HTOD },
};

struct shape {
	const char *name;
	uint32_t streams;
	uint64_t interval_ns; /* between ops of one stream; 0: as the load has it */
	uint64_t ops;
};

static const struct shape shapes[] = {
	{ "1 busy stream", 1, 0, 10000000 },
	{ "8 busy streams", 8, 0, 4000000 },
	{ "64 streams, 100 op/s", 64, 10000000, 1000000 },
	{ "64 streams, 10 op/s", 64, 100000000, 300000 },
};

static double cpu_ns(void)
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return (double)used.tv_sec * 1e9 + (double)used.tv_nsec;
}

static void wait_for_writer(struct store *store)
{
	struct store_stats stats;

	for (store_stats(store, &stats); stats.queued_batches; store_stats(store, &stats))
		nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
}

/* One op of each stream in turn. What making them costs is measured apart. */
static void add_ops(struct store *store, const struct shape *shape, const struct load *load)
{
	struct load_state *state = calloc(shape->streams, sizeof(*state));
	uint64_t commit_ns = 0, step = 123456789012345, added = 0;

	for (uint32_t i = 0; i < shape->streams; i++)
		state[i] = load_start(i);
	for (uint64_t i = 0; i < shape->ops; i++) {
		uint32_t stream = (uint32_t)(i % shape->streams);
		struct op op;

		if (stream == 0)
			step += shape->interval_ns;
		load->make(&state[stream], &op);
		if (shape->interval_ns) {
			uint64_t later = step + load_random(&state[stream], 1000000) - op.start_ns;

			op.start_ns += later;
			op.end_ns += op.end_ns ? later : 0;
			op.gpu_start_ns += op.gpu_start_ns ? later : 0;
			op.gpu_end_ns += op.gpu_end_ns ? later : 0;
			op.seen_ns += op.seen_ns ? later : 0;
		}
		op.process = 1 + stream / 8;
		op.stream = 1 + stream;
		added++;
		if (store)
			store_add_op(store, &op);
		if (store &&
		    (op.start_ns >= commit_ns + COMMIT_NS || added == LIMIT_STORE_OPS / 4)) {
			commit_ns = op.start_ns;
			added = 0;
			store_commit(store, commit_ns);
			wait_for_writer(store);
		}
	}
	free(state);
}

/* Lets an hour pass, in which all that is small is merged. */
static void let_merge(struct store *store, uint64_t now)
{
	for (int i = 0; i < 600; i++) {
		now += 6000000000;
		store_commit(store, now);
		wait_for_writer(store);
	}
}

static struct store *open_store(const char *path)
{
	struct store_config config = {
		.path = path,
		.boot_id = "bench",
		.functions = { functions, ARRAY_SIZE(functions) },
	};
	struct store *store;

	unlink(path);
	if (store_open(&config, &store) < 0)
		exit(1);
	return store;
}

/* Without the pages that are free for what comes next. */
static double used_bytes(const char *path)
{
	sqlite3_stmt *stmt;
	sqlite3 *db;
	double bytes;

	if (store_reader_open(path, 0, &db) < 0 ||
	    sqlite3_prepare_v2(db,
			       "SELECT (page_count - freelist_count) * page_size"
			       " FROM pragma_page_count, pragma_freelist_count, pragma_page_size",
			       -1, &stmt, NULL) != SQLITE_OK ||
	    sqlite3_step(stmt) != SQLITE_ROW)
		exit(1);
	bytes = sqlite3_column_double(stmt, 0);
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	return bytes;
}

static void measure_load(const char *path, const struct shape *shape, const struct load *load)
{
	struct store *store = open_store(path);
	double making = cpu_ns(), cpu, wall;
	struct store_stats stats;
	double used;

	add_ops(NULL, shape, load);
	making = cpu_ns() - making;
	cpu = cpu_ns();
	wall = now_ns();
	add_ops(store, shape, load);
	let_merge(store, 123456789012345);
	cpu = cpu_ns() - cpu - making;
	wall = now_ns() - wall - making;
	store_stats(store, &stats);
	store_free(store);
	used = used_bytes(path);
	if (stats.ops_written != shape->ops)
		printf("%lu dropped!\n", (unsigned long)stats.ops_dropped);
	printf("%-22s %-8s %9lu %12.2f %12.2f %9.2f %9.2f\n", shape->name, load->name,
	       (unsigned long)shape->ops, (double)shape->ops * 1e3 / cpu,
	       (double)shape->ops * 1e3 / wall, (double)stats.chunk_bytes / (double)shape->ops,
	       used / (double)shape->ops);
}

static void measure_statement(const char *path, const char *sql)
{
	double time[ROUNDS];
	sqlite3 *db;

	if (store_reader_open(path, 0, &db) < 0)
		exit(1);
	for (int i = 0; i < ROUNDS; i++) {
		double begin = now_ns();

		if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
			printf("%s\n", sqlite3_errmsg(db));
		time[i] = (now_ns() - begin) / 1e6;
	}
	sqlite3_close(db);
	printf("%10.1f  %s\n", median(time, ROUNDS), sql);
}

static const char *const statements[] = {
	"SELECT count(*) FROM op",
	"SELECT sum(bytes), max(start_ns) FROM op",
	"SELECT count(*) FROM op WHERE kind='launch' AND gpu_end_ns - gpu_start_ns > 1000000",
	"SELECT fn, count(*) FROM op GROUP BY fn",
	"SELECT handle, count(*) FROM op GROUP BY handle",
	("SELECT count(*) FROM op WHERE stream=1 AND start_ns BETWEEN 123460000000000 AND"
	 " 123461000000000"),
	"SELECT count(*) FROM op WHERE process=77",
};

int main(int argc, char **argv)
{
	const char *path = argc > 1 ? argv[1] : "/tmp/bench_store.db";
	const char *only = argc > 2 ? argv[2] : NULL;

	printf("%-22s %-8s %9s %12s %12s %9s %9s\n", "shape", "load", "ops", "Mop/s of cpu",
	       "Mop/s of wall", "written/op", "stored/op");
	for (size_t i = 1; i < ARRAY_SIZE(shapes); i++)
		for (size_t k = 0; k < LOAD_COUNT; k++)
			if (!only || strcmp(only, loads[k].name) == 0)
				measure_load(path, &shapes[i], &loads[k]);
	if (only)
		return unlink(path);
	measure_load(path, &shapes[0], &loads[0]);
	printf("\n%10s  over ten million ops\n", "ms");
	for (size_t i = 0; i < ARRAY_SIZE(statements); i++)
		measure_statement(path, statements[i]);
	unlink(path);
	return 0;
}
