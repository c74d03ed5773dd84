/* Waste: a small job that does each thing that `tsctl query waste` looks for, in a function of its
 * own, or with --clean the same work without it. Prints how many of each it did, and ends at a
 * newline.
 *   waste [--clean] [--pageable] [--idle-ms N] */
#include "workload.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES	    (1 << 20)
#define BATCH_BYTES (64 << 10)
/* A copy takes longer than the call that submits the next one. */
#define UPLOAD_BYTES (8 << 20)

static struct {
	uint64_t steps, idle_ms;
	bool clean, pageable;
} settings = { .steps = 20, .idle_ms = 1300 };

static const struct option_row options[] = {
	{ "steps", "steps, and copies (20)", OPTION_NUMBER, &settings.steps },
	{ "idle-ms", "how long memory lies idle before it is freed (1300)", OPTION_NUMBER,
	  &settings.idle_ms },
	{ "clean", "waste nothing", OPTION_FLAG, &settings.clean },
	{ "pageable", "copy from pageable memory", OPTION_FLAG, &settings.pageable },
};

static struct {
	CUcontext context;
	CUstream stream;
	CUfunction kernel;
	void *staging;
	CUdeviceptr batch;
} job;

static void job_sync(void)
{
	TRY(cuStreamSynchronize, (job.stream));
}

/* Blocks that nothing is ever copied to or set in. */
static NOINLINE void forget_to_use(void)
{
	CUdeviceptr block[3];

	for (int i = 0; i < 3; i++)
		TRY(cuMemAlloc_v2, (&block[i], BYTES));
	for (int i = 0; i < 3; i++) {
		if (settings.clean) {
			TRY(cuMemsetD8Async, (block[i] + 5000, 1, 100, job.stream));
			job_sync();
		}
		TRY(cuMemFree_v2, (block[i]));
	}
}

static NOINLINE void free_late(void)
{
	CUdeviceptr block;

	TRY(cuMemAlloc_v2, (&block, 2 * BYTES));
	TRY(cuMemsetD8Async, (block, 0, 2 * BYTES, job.stream));
	job_sync();
	if (!settings.clean)
		workload_sleep_until(workload_now() + settings.idle_ms * 1000000);
	TRY(cuMemFree_v2, (block));
}

static void step(CUdeviceptr batch)
{
	TRY(cuMemcpyHtoDAsync_v2, (batch, job.staging, BATCH_BYTES, job.stream));
	TRY(cuLaunchKernel, (job.kernel, 8, 1, 1, 64, 1, 1, 0, job.stream, NULL, NULL));
	job_sync();
}

static NOINLINE void train(void)
{
	CUdeviceptr batch = 0;

	for (uint64_t i = 0; i < settings.steps; i++) {
		if (!batch)
			TRY(cuMemAlloc_v2, (&batch, BATCH_BYTES));
		step(batch);
		if (!settings.clean) {
			TRY(cuMemFree_v2, (batch));
			batch = 0;
		}
	}
	if (batch)
		TRY(cuMemFree_v2, (batch));
}

/* Nobody could have changed the source: the copies before it may still be under way. */
static NOINLINE void upload_again(void)
{
	for (uint64_t i = 0; i < settings.steps; i++) {
		TRY(cuMemcpyHtoDAsync_v2, (job.batch, job.staging, UPLOAD_BYTES, job.stream));
		if (settings.clean)
			job_sync();
	}
	job_sync();
}

static void set_up(void)
{
	static const char image[] = IMAGE_HEAD IMAGE_KERNEL("step");
	CUmodule module;

	TRY(cuInit, (0));
	TRY(cuCtxCreate_v2, (&job.context, 0, 0));
	TRY(cuModuleLoadData, (&module, image));
	TRY(cuModuleGetFunction, (&job.kernel, module, "step"));
	TRY(cuStreamCreate, (&job.stream, CU_STREAM_NON_BLOCKING));
	if (settings.pageable)
		job.staging = calloc(1, UPLOAD_BYTES);
	else
		TRY(cuMemHostAlloc, (&job.staging, UPLOAD_BYTES, 0));
	TRY(cuMemAlloc_v2, (&job.batch, UPLOAD_BYTES));
}

int main(int argc, char **argv)
{
	workload_options(argc, argv, options, ARRAY_SIZE(options));
	set_up();
	forget_to_use();
	free_late();
	train();
	upload_again();
	tally_print();
	workload_say("{\"pid\":%d,\"steps\":%lu}\n", (int)getpid(), (unsigned long)settings.steps);
	workload_hold(-1);
	return 0;
}
