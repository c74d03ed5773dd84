/* Pipeline: items go to the device, through two kernels and back, each on one of some streams in
 * turn; to be predicted from a run with other options.
 *   pipeline --items N --streams S [--sync] */
#include "workload.h"

#include <stdlib.h>
#include <unistd.h>

#define BYTES	    4096
#define STREAMS_MAX 16

static struct {
	uint64_t items, streams;
	bool sync;
} settings = { .items = 40, .streams = 1 };

static const struct option_row options[] = {
	{ "items", "how many (40)", OPTION_NUMBER, &settings.items },
	{ "streams", "that they go round (1)", OPTION_NUMBER, &settings.streams },
	{ "sync", "wait for each item", OPTION_FLAG, &settings.sync },
};

static const char image[] = IMAGE_HEAD IMAGE_KERNEL("first_half") IMAGE_KERNEL("second_half");

static CUfunction first, second;
static CUstream streams[STREAMS_MAX];

static void launch(CUfunction kernel, CUstream stream)
{
	TRY(cuLaunchKernel, (kernel, 128, 1, 1, 256, 1, 1, 0, stream, NULL, NULL));
}

static void run(CUdeviceptr device, void *host)
{
	for (uint64_t i = 0; i < settings.items; i++) {
		CUstream stream = streams[i % settings.streams];

		TRY(cuMemcpyHtoDAsync_v2, (device, host, BYTES, stream));
		launch(first, stream);
		launch(second, stream);
		TRY(cuMemcpyDtoHAsync_v2, (host, device, BYTES, stream));
		if (settings.sync)
			TRY(cuStreamSynchronize, (stream));
	}
	TRY(cuCtxSynchronize, ());
}

int main(int argc, char **argv)
{
	CUcontext context;
	CUmodule module;
	CUdeviceptr device;
	void *host;

	workload_options(argc, argv, options, ARRAY_SIZE(options));
	if (settings.streams == 0 || settings.streams > STREAMS_MAX)
		return 2;
	TRY(cuInit, (0));
	TRY(cuDevicePrimaryCtxRetain, (&context, 0));
	TRY(cuCtxSetCurrent, (context));
	TRY(cuModuleLoadData, (&module, image));
	TRY(cuModuleGetFunction, (&first, module, "first_half"));
	TRY(cuModuleGetFunction, (&second, module, "second_half"));
	TRY(cuMemAlloc_v2, (&device, BYTES));
	TRY(cuMemHostAlloc, (&host, BYTES, 0));
	for (uint64_t i = 0; i < settings.streams; i++)
		TRY(cuStreamCreate, (&streams[i], CU_STREAM_NON_BLOCKING));
	run(device, host);
	TRY(cuMemFreeHost, (host));
	TRY(cuMemFree_v2, (device));
	TRY(cuModuleUnload, (module));
	TRY(cuDevicePrimaryCtxRelease_v2, (0));
	tally_print();
	workload_say("{\"pid\":%d,\"items\":%lu,\"streams\":%lu}\n", (int)getpid(),
		     (unsigned long)settings.items, (unsigned long)settings.streams);
	return 0;
}
