/* Bench: what a probe adds to one call of the function that it is on.
 *
 * The same loop runs with and without probes in turn, in one process, and medians are compared:
 * two runs of one program differ by more than what is measured here. The functions do nothing
 * (driver/driver.c), so all that is added is the probe's.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "core/base/array.h"
#include "daemon/intake/turn.h"
#include "daemon/probe/probe.h"

#define ROUNDS 15
#define CALLS  40000

static int (*launch)(void *, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
		     unsigned int, unsigned int, void *, void **, void **);
static int (*allocate)(void **, size_t);
static int (*release)(void *);
static int (*query)(void *);
static int (*pop)(void **);
static uint64_t received;

static void call_launch(void)
{
	launch((void *)1, 1, 2, 3, 4, 5, 6, 7, (void *)8, NULL, NULL);
}

static void call_alloc(void)
{
	void *address;

	allocate(&address, 4096);
}

static void call_free(void)
{
	release((void *)0x7f0000000000);
}

static void call_query(void)
{
	query((void *)1);
}

static void call_pop(void)
{
	void *context;

	pop(&context);
}

struct row {
	const char *name;
	void (*call)(void);
	int depth; /* of the caller's stack */
	uint32_t stacks_per_s;
	uint32_t pid; /* filter, 0: none */
};

static const struct row rows[] = {
	{ "filtered out", call_launch, 0, 0, 1 },
	{ "enter, one argument", call_query, 0, 0, 0 },
	{ "enter, launch", call_launch, 0, 0, 0 },
	{ "enter, launch, stack of 5", call_launch, 0, 1000000000, 0 },
	{ "enter, launch, stack of 15", call_launch, 10, 1000000000, 0 },
	{ "enter, launch, stack of 45", call_launch, 40, 1000000000, 0 },
	{ "enter and return, free", call_free, 0, 0, 0 },
	{ "enter and return, alloc, stack of 5", call_alloc, 0, 0, 0 },
	{ "enter, single-stepped", call_pop, 0, 0, 0 },
};

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static __attribute__((noinline)) double loop(const struct row *row, int depth)
{
	double ns, start;

	if (depth > 0) {
		ns = loop(row, depth - 1);
		__asm__ volatile(""); /* no tail call: the frame is wanted */
		return ns;
	}
	start = now_ns();
	for (int i = 0; i < CALLS; i++)
		row->call();
	return (now_ns() - start) / CALLS;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *value)
{
	qsort(value, ROUNDS, sizeof(*value), compare);
	return value[ROUNDS / 2];
}

static void on_record(void *data, const void *record, size_t size)
{
	received += ((const struct ts_event *)record)->kind == TS_EVENT_API;
}

static int measure(struct turn *turn, struct probe *probe, struct probe_config *config, int fd,
		   const struct row *row)
{
	double off[ROUNDS], on[ROUNDS], base, probed;
	struct probe_library *library;
	uint32_t keeper;
	uint64_t now_ns;

	config->samples_per_s = row->stacks_per_s;
	config->pid_count = row->pid ? 1 : 0;
	config->pid[0] = row->pid;
	probe_configure(probe, config);
	for (int i = 0; i < ROUNDS; i++) {
		off[i] = loop(row, row->depth);
		if (probe_read(probe, fd, "driver", 0, &library) < 0 ||
		    probe_put_on(library, fd, &keeper) < 0)
			return -1;
		received = 0;
		on[i] = loop(row, row->depth);
		now_ns = uv_hrtime();
		while (intake_reach(turn->intake, now_ns) < now_ns)
			continue;
		if (!row->pid && received != CALLS)
			fprintf(stderr, "%s: %lu of %d calls seen\n", row->name, received, CALLS);
		probe_detach(library);
	}
	base = median(off);
	probed = median(on);
	printf("%-38s %10.1f %10.1f %10.1f\n", row->name, base, probed, probed - base);
	return 0;
}

static int open_driver(const char *path)
{
	void *driver = dlopen(path, RTLD_NOW);

	if (!driver)
		return -1;
	*(void **)&launch = dlsym(driver, "cuLaunchKernel");
	*(void **)&allocate = dlsym(driver, "cuMemAlloc_v2");
	*(void **)&release = dlsym(driver, "cuMemFree_v2");
	*(void **)&query = dlsym(driver, "cuEventQuery");
	*(void **)&pop = dlsym(driver, "cuCtxPopCurrent_v2");
	return open(path, O_RDONLY | O_CLOEXEC);
}

static bool is_driver(void *data, const char *path, const struct stat *file)
{
	return true;
}

int main(int argc, char **argv)
{
	struct probe_config config = {
		.ring_bytes = 64 << 20,
		.stack_depth = 64,
	};
	struct probe_callbacks callbacks = { .record = on_record };
	const struct broker_config broker_config = { .wanted = is_driver };
	struct broker *broker;
	struct turn turn = { 0 };
	struct probe *probe;
	uv_loop_t events;
	int fd;

	fd = open_driver(argc > 1 ? argv[1] : BENCH_DRIVER);
	if (fd < 0) {
		fprintf(stderr, "no driver library: %s\n", dlerror());
		return 1;
	}
	uv_loop_init(&events);
	if (turn_init(&turn, &events, intake_sources, INTAKE_SOURCES) < 0 ||
	    broker_start(&broker_config, &broker) < 0 ||
	    probe_new(&events, turn.intake, broker, &config, &callbacks, NULL, &probe) < 0)
		return geteuid() ? 77 : 1;
	printf("%-38s %10s %10s %10s\n", "probe (ns per call, medians)", "without", "with",
	       "added");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (measure(&turn, probe, &config, fd, &rows[i]) < 0)
			return 1;
	probe_close(probe, NULL);
	turn_close(&turn);
	uv_run(&events, UV_RUN_DEFAULT);
	uv_loop_close(&events);
	return 0;
}
