/* Leak: a small training job with one planted leak among healthy allocations.
 * train_step -> cache_lookup -> leaky_cache_insert keeps a block every few steps and forgets it;
 * everything else is given back: by the same function, by another thread, through another
 * family of calls, or after its address was used again. At the end only the leak is live. */
#include "workload.h"

#include <pthread.h>
#include <unistd.h>

#define LAYERS	     4
#define BATCH_BYTES  (64 << 10)
#define WEIGHT_BYTES (1 << 20)

static struct {
	uint64_t steps, leak_every, leak_bytes;
	double seconds, pace_ms;
	bool clean;
} settings = { .steps = 200, .leak_every = 10, .leak_bytes = 12345, .seconds = -1 };

static const struct option_row options[] = {
	{ "steps", "training steps (200)", OPTION_NUMBER, &settings.steps },
	{ "leak-every", "leak in one of so many steps (10)", OPTION_NUMBER, &settings.leak_every },
	{ "leak-bytes", "bytes of a leaked block (12345)", OPTION_NUMBER, &settings.leak_bytes },
	{ "pace-ms", "milliseconds from step to step (0: flat out)", OPTION_REAL,
	  &settings.pace_ms },
	{ "seconds", "then stay for this long, instead of until a newline", OPTION_REAL,
	  &settings.seconds },
	{ "clean", "leak nothing", OPTION_FLAG, &settings.clean },
};

static struct {
	CUcontext context;
	CUstream compute, transfer;
	CUevent loaded;
	CUfunction forward, backward, adam;
	CUdeviceptr weights[LAYERS], state[LAYERS], workspace;
	CUdeviceptr activations[LAYERS];
	void *staging;
	uint64_t leaked, leaked_bytes;
} job;

/* One batch that the loader's thread gave back */
static struct {
	pthread_t thread;
	CUdeviceptr batch;
} loader;

static NOINLINE void leaky_cache_insert(uint64_t bytes)
{
	CUdeviceptr block;

	TRY(cuMemAlloc_v2, (&block, bytes));
	TRY(cuMemsetD8Async, (block, 0, bytes, job.compute));
	job.leaked++;
	job.leaked_bytes += bytes;
	/* block is forgotten here: this is the bug to find */
}

static NOINLINE void cache_lookup(uint64_t step)
{
	if (!settings.clean && settings.leak_every && step % settings.leak_every == 0)
		leaky_cache_insert(settings.leak_bytes);
}

static void *drop_batch(void *unused)
{
	(void)unused;
	TRY(cuCtxSetCurrent, (job.context));
	TRY(cuMemFree_v2, (loader.batch));
	return NULL;
}

static NOINLINE CUdeviceptr load_batch(void)
{
	CUdeviceptr batch;

	TRY(cuMemAlloc_v2, (&batch, BATCH_BYTES));
	TRY(cuMemcpyHtoDAsync_v2, (batch, job.staging, BATCH_BYTES, job.transfer));
	TRY(cuEventRecord, (job.loaded, job.transfer));
	TRY(cuStreamWaitEvent, (job.compute, job.loaded, 0));
	return batch;
}

static NOINLINE void launch(CUfunction function, unsigned int blocks)
{
	TRY(cuLaunchKernel, (function, blocks, 1, 1, 256, 1, 1, 0, job.compute, NULL, NULL));
}

static NOINLINE void forward(void)
{
	for (int i = 0; i < LAYERS; i++) {
		TRY(cuMemAllocAsync, (&job.activations[i], 8192u << i, job.compute));
		launch(job.forward, 64);
	}
}

/* Half of the activations go back through the other family. */
static NOINLINE void backward(void)
{
	for (int i = LAYERS - 1; i >= 0; i--) {
		launch(job.backward, 96);
		if (i % 2)
			TRY(cuMemFreeAsync, (job.activations[i], job.compute));
		else
			TRY(cuMemFree_v2, (job.activations[i]));
	}
}

static NOINLINE void optimizer_step(void)
{
	CUdeviceptr scratch, again;

	TRY(cuMemAlloc_v2, (&scratch, 4096));
	launch(job.adam, 32);
	TRY(cuMemFree_v2, (scratch));
	/* Most likely at the same address as before */
	TRY(cuMemAlloc_v2, (&again, 4096));
	TRY(cuMemFree_v2, (again));
}

static NOINLINE void train_step(uint64_t step)
{
	CUdeviceptr batch = load_batch();

	forward();
	backward();
	optimizer_step();
	cache_lookup(step);
	TRY(cuStreamSynchronize, (job.compute));
	loader.batch = batch;
	if (step % 4) {
		TRY(cuMemFree_v2, (batch));
		return;
	}
	pthread_create(&loader.thread, NULL, drop_batch, NULL);
	pthread_join(loader.thread, NULL);
}

static NOINLINE void build_model(void)
{
	static const char image[] = IMAGE_HEAD IMAGE_KERNEL("forward_gemm")
		IMAGE_KERNEL("backward_gemm") IMAGE_KERNEL("adam_update");
	CUmodule module;
	size_t pitch;

	TRY(cuInit, (0));
	TRY(cuDevicePrimaryCtxRetain, (&job.context, 0));
	TRY(cuCtxSetCurrent, (job.context));
	TRY(cuModuleLoadData, (&module, image));
	TRY(cuModuleGetFunction, (&job.forward, module, "forward_gemm"));
	TRY(cuModuleGetFunction, (&job.backward, module, "backward_gemm"));
	TRY(cuModuleGetFunction, (&job.adam, module, "adam_update"));
	TRY(cuStreamCreate, (&job.compute, CU_STREAM_NON_BLOCKING));
	TRY(cuStreamCreate, (&job.transfer, CU_STREAM_NON_BLOCKING));
	TRY(cuEventCreate, (&job.loaded, CU_EVENT_DISABLE_TIMING));
	TRY(cuMemHostAlloc, (&job.staging, BATCH_BYTES, 0));
	for (int i = 0; i < LAYERS; i++) {
		TRY(cuMemAlloc_v2, (&job.weights[i], WEIGHT_BYTES));
		TRY(cuMemAllocManaged, (&job.state[i], WEIGHT_BYTES, CU_MEM_ATTACH_GLOBAL));
	}
	TRY(cuMemAllocPitch_v2, (&job.workspace, &pitch, 1000, 16, 4));
}

static NOINLINE void free_model(void)
{
	TRY(cuCtxSynchronize, ());
	for (int i = 0; i < LAYERS; i++) {
		TRY(cuMemFree_v2, (job.weights[i]));
		TRY(cuMemFree_v2, (job.state[i]));
	}
	TRY(cuMemFree_v2, (job.workspace));
	TRY(cuMemFreeHost, (job.staging));
	TRY(cuEventDestroy_v2, (job.loaded));
	TRY(cuStreamDestroy_v2, (job.compute));
	TRY(cuStreamDestroy_v2, (job.transfer));
}

int main(int argc, char **argv)
{
	uint64_t next;

	workload_options(argc, argv, options, ARRAY_SIZE(options));
	build_model();
	next = workload_now();
	for (uint64_t step = 1; step <= settings.steps; step++) {
		train_step(step);
		next += (uint64_t)(settings.pace_ms * 1e6);
		if (settings.pace_ms > 0)
			workload_sleep_until(next);
	}
	free_model();
	tally_print();
	workload_say("{\"pid\":%d,\"leak\":\"leaky_cache_insert\",\"bytes\":%lu,\"count\":%lu,"
		     "\"block_bytes\":%lu,\"steps\":%lu}\n",
		     (int)getpid(), (unsigned long)job.leaked_bytes, (unsigned long)job.leaked,
		     (unsigned long)settings.leak_bytes, (unsigned long)settings.steps);
	workload_hold(settings.seconds);
	return 0;
}
