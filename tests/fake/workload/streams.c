/* Streams: a training-like job with several threads, each with a device and three streams.
 * Each step loads a batch on one stream, computes on another, reduces on a third; events order
 * them. Every step ends with one synchronization, every tenth with one of the context. */
#include "workload.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define BATCH_BYTES (256 << 10)
#define LOSS_BYTES  4096

static struct {
	uint64_t threads, steps;
	double seconds, pace_ms;
	bool hold;
} settings = { .threads = 4, .steps = 50, .seconds = -1 };

static const struct option_row options[] = {
	{ "threads", "worker threads, spread over the devices (4)", OPTION_NUMBER,
	  &settings.threads },
	{ "steps", "steps of each thread (50)", OPTION_NUMBER, &settings.steps },
	{ "seconds", "for this long, instead of --steps", OPTION_REAL, &settings.seconds },
	{ "pace-ms", "milliseconds from step to step (0: flat out)", OPTION_REAL,
	  &settings.pace_ms },
	{ "hold", "wait for a newline before the end", OPTION_FLAG, &settings.hold },
};

static const char image[] =
	IMAGE_HEAD IMAGE_KERNEL("embedding_forward") IMAGE_KERNEL("attention_forward")
		IMAGE_KERNEL("gemm_f16_128x128") IMAGE_KERNEL("softmax_forward")
			IMAGE_KERNEL("layer_norm_forward") IMAGE_KERNEL("cross_entropy_loss")
				IMAGE_KERNEL("attention_backward") IMAGE_KERNEL("gemm_f16_backward")
					IMAGE_KERNEL("layer_norm_backward")
						IMAGE_KERNEL("all_reduce_sum")
							IMAGE_KERNEL("adam_update");

enum { EMBED, ATTENTION, GEMM, SOFTMAX, NORM, LOSS, ATTENTION_B, GEMM_B, NORM_B, REDUCE, ADAM };

static const char *const kernel_names[] = {
	"embedding_forward",   "attention_forward",  "gemm_f16_128x128",   "softmax_forward",
	"layer_norm_forward",  "cross_entropy_loss", "attention_backward", "gemm_f16_backward",
	"layer_norm_backward", "all_reduce_sum",     "adam_update",
};

struct trainer {
	pthread_t id;
	int device;
	CUcontext context;
	CUmodule module;
	CUfunction kernels[ARRAY_SIZE(kernel_names)];
	CUstream load, compute, reduce;
	CUevent loaded, graded, reduced;
	CUdeviceptr batch, grads, loss;
	void *staging, *loss_host;
	uint64_t steps;
};

static void trainer_launch(struct trainer *t, int kernel, unsigned int blocks, CUstream stream)
{
	TRY(cuLaunchKernel, (t->kernels[kernel], blocks, 1, 1, 256, 1, 1, 0, stream, NULL, NULL));
}

static NOINLINE void load_batch(struct trainer *t)
{
	TRY(cuMemcpyHtoDAsync_v2, (t->batch, t->staging, BATCH_BYTES, t->load));
	TRY(cuEventRecord, (t->loaded, t->load));
	TRY(cuStreamWaitEvent, (t->compute, t->loaded, 0));
}

static NOINLINE void forward(struct trainer *t)
{
	trainer_launch(t, EMBED, 128, t->compute);
	for (int layer = 0; layer < 3; layer++) {
		trainer_launch(t, NORM, 64, t->compute);
		trainer_launch(t, ATTENTION, 256, t->compute);
		trainer_launch(t, SOFTMAX, 64, t->compute);
		trainer_launch(t, GEMM, 512, t->compute);
	}
	trainer_launch(t, LOSS, 16, t->compute);
}

static NOINLINE void backward(struct trainer *t)
{
	TRY(cuMemsetD32Async, (t->grads, 0, BATCH_BYTES / 4, t->compute));
	for (int layer = 0; layer < 3; layer++) {
		trainer_launch(t, GEMM_B, 768, t->compute);
		trainer_launch(t, ATTENTION_B, 384, t->compute);
		trainer_launch(t, NORM_B, 64, t->compute);
	}
	TRY(cuEventRecord, (t->graded, t->compute));
}

static NOINLINE void optimizer_step(struct trainer *t)
{
	TRY(cuStreamWaitEvent, (t->reduce, t->graded, 0));
	trainer_launch(t, REDUCE, 128, t->reduce);
	TRY(cuEventRecord, (t->reduced, t->reduce));
	TRY(cuStreamWaitEvent, (t->compute, t->reduced, 0));
	trainer_launch(t, ADAM, 128, t->compute);
}

static NOINLINE void report_loss(struct trainer *t)
{
	TRY(cuMemcpyDtoHAsync_v2, (t->loss_host, t->loss, LOSS_BYTES, t->compute));
	if (t->steps % 10 == 9)
		TRY(cuCtxSynchronize, ());
	else
		TRY(cuStreamSynchronize, (t->compute));
}

static NOINLINE void train_step(struct trainer *t)
{
	load_batch(t);
	forward(t);
	backward(t);
	optimizer_step(t);
	report_loss(t);
	t->steps++;
}

static void trainer_setup(struct trainer *t)
{
	TRY(cuDevicePrimaryCtxRetain, (&t->context, t->device));
	TRY(cuCtxSetCurrent, (t->context));
	TRY(cuModuleLoadData, (&t->module, image));
	for (size_t i = 0; i < ARRAY_SIZE(kernel_names); i++)
		TRY(cuModuleGetFunction, (&t->kernels[i], t->module, kernel_names[i]));
	TRY(cuStreamCreate, (&t->load, CU_STREAM_NON_BLOCKING));
	TRY(cuStreamCreateWithPriority, (&t->compute, CU_STREAM_NON_BLOCKING, -1));
	TRY(cuStreamCreate, (&t->reduce, CU_STREAM_NON_BLOCKING));
	TRY(cuEventCreate, (&t->loaded, CU_EVENT_DISABLE_TIMING));
	TRY(cuEventCreate, (&t->graded, CU_EVENT_DISABLE_TIMING));
	TRY(cuEventCreate, (&t->reduced, CU_EVENT_DEFAULT));
	TRY(cuMemAlloc_v2, (&t->batch, BATCH_BYTES));
	TRY(cuMemAlloc_v2, (&t->grads, BATCH_BYTES));
	TRY(cuMemAlloc_v2, (&t->loss, LOSS_BYTES));
	TRY(cuMemHostAlloc, (&t->staging, BATCH_BYTES, 0));
	TRY(cuMemHostAlloc, (&t->loss_host, LOSS_BYTES, 0));
}

static void trainer_finish(struct trainer *t)
{
	TRY(cuMemFree_v2, (t->batch));
	TRY(cuMemFree_v2, (t->grads));
	TRY(cuMemFree_v2, (t->loss));
	TRY(cuMemFreeHost, (t->staging));
	TRY(cuMemFreeHost, (t->loss_host));
	TRY(cuEventDestroy_v2, (t->loaded));
	TRY(cuEventDestroy_v2, (t->graded));
	TRY(cuEventDestroy_v2, (t->reduced));
	TRY(cuStreamDestroy_v2, (t->load));
	TRY(cuStreamDestroy_v2, (t->compute));
	TRY(cuStreamDestroy_v2, (t->reduce));
	TRY(cuModuleUnload, (t->module));
	TRY(cuDevicePrimaryCtxRelease_v2, (t->device));
}

static void *train(void *data)
{
	struct trainer *t = data;
	uint64_t start, next;

	trainer_setup(t);
	start = next = workload_now();
	while (settings.seconds >= 0 ? (double)(workload_now() - start) < settings.seconds * 1e9
				     : t->steps < settings.steps) {
		train_step(t);
		next += (uint64_t)(settings.pace_ms * 1e6);
		if (settings.pace_ms > 0)
			workload_sleep_until(next);
	}
	trainer_finish(t);
	return NULL;
}

int main(int argc, char **argv)
{
	struct trainer *trainers;
	uint64_t steps = 0;
	int devices;

	workload_options(argc, argv, options, ARRAY_SIZE(options));
	trainers = calloc(settings.threads, sizeof(*trainers));
	if (!trainers)
		abort();
	TRY(cuInit, (0));
	TRY(cuDeviceGetCount, (&devices));
	for (uint64_t i = 0; i < settings.threads; i++) {
		trainers[i].device = (int)(i % (uint64_t)devices);
		pthread_create(&trainers[i].id, NULL, train, &trainers[i]);
	}
	for (uint64_t i = 0; i < settings.threads; i++) {
		pthread_join(trainers[i].id, NULL);
		steps += trainers[i].steps;
	}
	tally_print();
	workload_say("{\"pid\":%d,\"threads\":%lu,\"devices\":%d,\"steps\":%lu}\n", (int)getpid(),
		     (unsigned long)settings.threads, devices, (unsigned long)steps);
	if (settings.hold)
		workload_hold(-1);
	free(trainers);
	return 0;
}
