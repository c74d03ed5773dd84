/* Rate: calls the driver as often as asked, or as often as it can, and says how often that was.
 *   rate --kind launch|alloc|mixed --threads T --rate CALLS_PER_S_AND_THREAD --seconds S
 * A rate of 0 is flat out. --count N makes exactly N iterations a thread. */
#include "workload.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BATCH	    64 /* iterations between looks at the clock */
#define ALLOC_BYTES 4096

static struct {
	const char *kind;
	uint64_t threads, rate, count;
	double seconds;
	bool hold, stop;
} settings = { .kind = "launch", .threads = 1, .seconds = 1 };

static const struct option_row options[] = {
	{ "kind", "launch (default), alloc or mixed", OPTION_TEXT, &settings.kind },
	{ "threads", "number of threads (1)", OPTION_NUMBER, &settings.threads },
	{ "rate", "iterations a second and thread, 0: flat out", OPTION_NUMBER, &settings.rate },
	{ "count", "exactly so many iterations a thread, instead of --seconds", OPTION_NUMBER,
	  &settings.count },
	{ "seconds", "for this long (1)", OPTION_REAL, &settings.seconds },
	{ "stop", "until a newline comes, instead of --seconds", OPTION_FLAG, &settings.stop },
	{ "hold", "wait for a newline before the calls and after them", OPTION_FLAG,
	  &settings.hold },
};

static CUcontext context;
static CUfunction kernel;
static _Atomic uint64_t launches, allocs, errors;
static atomic_bool stopped;

struct worker {
	pthread_t id;
	CUstream stream;
	bool launch, alloc;
	uint64_t iterations, errors;
};

static NOINLINE void spin_launch(struct worker *w)
{
	w->errors +=
		cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, w->stream, NULL, NULL) != CUDA_SUCCESS;
}

static NOINLINE void spin_alloc(struct worker *w)
{
	CUdeviceptr ptr;

	if (cuMemAlloc_v2(&ptr, ALLOC_BYTES) != CUDA_SUCCESS)
		w->errors++;
	else
		w->errors += cuMemFree_v2(ptr) != CUDA_SUCCESS;
}

static void *work(void *data)
{
	struct worker *w = data;
	uint64_t start = workload_now();
	uint64_t end = start + (uint64_t)(settings.seconds * 1e9);

	TRY(cuCtxSetCurrent, (context));
	for (;;) {
		uint64_t batch = BATCH;

		if (settings.count)
			batch = settings.count - w->iterations < BATCH
					? settings.count - w->iterations
					: BATCH;
		if (settings.rate && settings.rate / 100 < batch)
			batch = settings.rate / 100 ? settings.rate / 100 : 1;
		if (batch == 0 || (settings.stop    ? atomic_load(&stopped)
				   : settings.count ? false
						    : workload_now() >= end))
			break;
		for (uint64_t i = 0; i < batch; i++) {
			if (w->launch)
				spin_launch(w);
			if (w->alloc)
				spin_alloc(w);
		}
		w->iterations += batch;
		if (settings.rate)
			workload_sleep_until(start + w->iterations * 1000000000 / settings.rate);
	}
	atomic_fetch_add(&launches, w->launch ? w->iterations : 0);
	atomic_fetch_add(&allocs, w->alloc ? w->iterations : 0);
	atomic_fetch_add(&errors, w->errors);
	return NULL;
}

static void run(void)
{
	struct worker *workers = calloc(settings.threads, sizeof(*workers));

	if (!workers)
		abort();
	for (uint64_t i = 0; i < settings.threads; i++) {
		workers[i].launch = strcmp(settings.kind, "alloc") != 0;
		workers[i].alloc = strcmp(settings.kind, "launch") != 0;
		TRY(cuStreamCreate, (&workers[i].stream, CU_STREAM_NON_BLOCKING));
	}
	for (uint64_t i = 0; i < settings.threads; i++)
		pthread_create(&workers[i].id, NULL, work, &workers[i]);
	if (settings.stop)
		workload_hold(-1);
	atomic_store(&stopped, true);
	for (uint64_t i = 0; i < settings.threads; i++)
		pthread_join(workers[i].id, NULL);
	for (uint64_t i = 0; i < settings.threads; i++)
		TRY(cuStreamDestroy_v2, (workers[i].stream));
	free(workers);
}

int main(int argc, char **argv)
{
	static const char image[] = IMAGE_HEAD IMAGE_KERNEL("tick_ns1");
	uint64_t start, calls;
	CUmodule module;
	double seconds;

	workload_options(argc, argv, options, ARRAY_SIZE(options));
	TRY(cuInit, (0));
	TRY(cuCtxCreate_v2, (&context, 0, 0));
	TRY(cuModuleLoadData, (&module, image));
	TRY(cuModuleGetFunction, (&kernel, module, "tick_ns1"));
	if (settings.hold) {
		workload_say("{\"pid\":%d,\"ready\":1}\n", (int)getpid());
		workload_hold(-1);
	}
	start = workload_now();
	run();
	seconds = (double)(workload_now() - start) / 1e9;
	tally_add(TALLY_cuLaunchKernel, launches);
	tally_add(TALLY_cuMemAlloc_v2, allocs);
	tally_add(TALLY_cuMemFree_v2, allocs);
	calls = launches + 2 * allocs;
	if (settings.hold) {
		workload_say("{\"pid\":%d,\"done\":1}\n", (int)getpid());
		workload_hold(-1);
	}
	TRY(cuCtxDestroy_v2, (context));
	tally_print();
	workload_say("{\"pid\":%d,\"kind\":\"%s\",\"threads\":%lu,\"calls\":%lu,\"failed\":%lu,"
		     "\"seconds\":%.6f,\"calls_per_s\":%.0f,\"ns_per_call\":%.1f}\n",
		     (int)getpid(), settings.kind, (unsigned long)settings.threads,
		     (unsigned long)calls, (unsigned long)errors, seconds, (double)calls / seconds,
		     seconds * 1e9 * (double)settings.threads / (double)calls);
	return errors != 0;
}
