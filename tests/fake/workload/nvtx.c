/* NVTX: makes a known number of ranges and marks, with a kernel in each range.
 *   nvtx --threads T --ranges N    each thread: N pushed ranges, N with a domain in the first, a
 *                                  range over all of them, and N marks */
#include "workload.h"

#include "nvtx.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static struct {
	uint64_t threads, ranges, texts;
	bool hold, wide, first;
} settings = { .threads = 2, .ranges = 10 };

static const struct option_row options[] = {
	{ "threads", "number of threads (2)", OPTION_NUMBER, &settings.threads },
	{ "ranges", "ranges of each thread (10)", OPTION_NUMBER, &settings.ranges },
	{ "wide", "one range of each kind with a wide text, too", OPTION_FLAG, &settings.wide },
	{ "texts", "marks with a different text each, before the rest", OPTION_NUMBER,
	  &settings.texts },
	{ "first", "a range before the first call of CUDA, too", OPTION_FLAG, &settings.first },
	{ "hold", "wait for a newline before the end", OPTION_FLAG, &settings.hold },
};

static CUcontext context;
static CUfunction kernel;
static void *domain;

/* In "outer", which ends last. */
static void wide(void)
{
	void *there = nvtx_domain_wide(L"Dom\u00e4ne");
	uint64_t started;

	nvtx_push("outer");
	nvtx_push_wide(L"gr\u00f6\u00dfe \u4e2d \U0001f600");
	nvtx_pop();
	nvtx_push_ex_wide(L"ex \u00e9");
	nvtx_pop();
	nvtx_domain_push_wide(there, L"in \u00e9");
	nvtx_domain_pop(there);
	nvtx_domain_push_registered(there, L"known \u00e9");
	nvtx_domain_pop(there);
	started = nvtx_start_wide(L"started \u00e9");
	nvtx_end(started);
	nvtx_mark_wide(L"mark \u00e9");
	nvtx_pop();
}

static void *work(void *unused)
{
	uint64_t all;
	CUstream stream;

	(void)unused;
	TRY(cuCtxSetCurrent, (context));
	TRY(cuStreamCreate, (&stream, CU_STREAM_NON_BLOCKING));
	all = nvtx_start("all ranges");
	for (uint64_t i = 0; i < settings.ranges; i++) {
		nvtx_push("step");
		nvtx_domain_push(domain, "forward", 0xff00ff00, i);
		TRY(cuLaunchKernel, (kernel, 8, 1, 1, 64, 1, 1, 0, stream, NULL, NULL));
		nvtx_domain_pop(domain);
		nvtx_pop();
		nvtx_mark("step done");
	}
	TRY(cuStreamSynchronize, (stream));
	nvtx_end(all);
	TRY(cuStreamDestroy_v2, (stream));
	return NULL;
}

int main(int argc, char **argv)
{
	static const char image[] = IMAGE_HEAD IMAGE_KERNEL("ranged_kernel");
	pthread_t *ids;
	CUmodule module;

	workload_options(argc, argv, options, ARRAY_SIZE(options));
	ids = calloc(settings.threads, sizeof(*ids));
	if (!ids)
		abort();
	if (settings.first) {
		nvtx_push("first");
		nvtx_pop();
	}
	TRY(cuInit, (0));
	TRY(cuCtxCreate_v2, (&context, 0, 0));
	TRY(cuModuleLoadData, (&module, image));
	TRY(cuModuleGetFunction, (&kernel, module, "ranged_kernel"));
	domain = nvtx_domain("model");
	for (uint64_t i = 0; i < settings.texts; i++) {
		char text[32];

		snprintf(text, sizeof(text), "text %lu", (unsigned long)i);
		nvtx_mark(text);
	}
	if (settings.wide)
		wide();
	for (uint64_t i = 0; i < settings.threads; i++)
		pthread_create(&ids[i], NULL, work, NULL);
	for (uint64_t i = 0; i < settings.threads; i++)
		pthread_join(ids[i], NULL);
	tally_print();
	workload_say("{\"pid\":%d,\"taken\":%d,\"threads\":%lu,\"pushed\":%lu,\"in_domain\":%lu,"
		     "\"started\":%lu,\"marks\":%lu}\n",
		     (int)getpid(), nvtx_taken(), (unsigned long)settings.threads,
		     (unsigned long)(settings.threads * settings.ranges),
		     (unsigned long)(settings.threads * settings.ranges),
		     (unsigned long)settings.threads,
		     (unsigned long)(settings.threads * settings.ranges));
	if (settings.hold)
		workload_hold(-1);
	TRY(cuCtxDestroy_v2, (context));
	free(ids);
	return 0;
}
