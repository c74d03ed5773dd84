/* Odd: what programs rarely do: copies that are captured and never launched, graphs in graphs,
 * calls that fail. The last lines say what the GPU was given. odd --launches N --again */
#include "workload.h"

#include <stdlib.h>
#include <unistd.h>

#define BIG	     (10ull << 20)
#define OUTER_KERNEL 1 /* of its own, beside two copies of the inner graph */
#define INNER_KERNEL 2

static struct {
	uint64_t launches;
	bool again, hold;
} settings = { .launches = 5 };

static const struct option_row options[] = {
	{ "launches", "launches of each graph (5)", OPTION_NUMBER, &settings.launches },
	{ "again", "run this program again in this process, as 'odd --launches 1'", OPTION_FLAG,
	  &settings.again },
	{ "hold", "wait for a newline before the calls and after them", OPTION_FLAG,
	  &settings.hold },
};

static struct {
	CUstream stream;
	CUfunction kernel;
	CUdeviceptr memory;
	char *host;
} w;

static void begin(void)
{
	static const char image[] = IMAGE_HEAD IMAGE_KERNEL("odd_kernel");
	CUcontext context;
	CUmodule module;

	TRY(cuInit, (0));
	TRY(cuDevicePrimaryCtxRetain, (&context, 0));
	TRY(cuCtxSetCurrent, (context));
	TRY(cuModuleLoadData, (&module, image));
	TRY(cuModuleGetFunction, (&w.kernel, module, "odd_kernel"));
	TRY(cuStreamCreate, (&w.stream, CU_STREAM_NON_BLOCKING));
	TRY(cuMemAlloc_v2, (&w.memory, BIG));
	w.host = calloc(1, BIG);
}

static CUresult launch(CUstream stream)
{
	return T(cuLaunchKernel, (w.kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
}

static void capture_copies(int count)
{
	CUgraph graph;

	TRY(cuStreamBeginCapture_v2, (w.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	for (int i = 0; i < count; i++)
		TRY(cuMemcpyHtoDAsync_v2, (w.memory, w.host, BIG, w.stream));
	TRY(cuStreamEndCapture, (w.stream, &graph));
	TRY(cuGraphDestroy, (graph));
}

static void fail(void)
{
	static char nothing[4096];
	CUdeviceptr memory;

	for (int i = 0; i < 3; i++) {
		T(cuMemcpyHtoDAsync_v2, (16, w.host, BIG, w.stream));
		T(cuMemsetD8Async, (16, 0, BIG, w.stream));
		T(cuMemcpyHtoD_v2, (16, w.host, BIG));
		T(cuMemAlloc_v2, (&memory, 1ull << 54));
		launch((CUstream)nothing);
	}
}

static void graphs(void)
{
	CUgraphExec inner_exec, outer_exec;
	CUgraph inner, outer;
	CUgraphNode node;
	CUDA_KERNEL_NODE_PARAMS_v1 params = { .func = w.kernel,
					      .gridDimX = 1,
					      .gridDimY = 1,
					      .gridDimZ = 1,
					      .blockDimX = 1,
					      .blockDimY = 1,
					      .blockDimZ = 1 };

	TRY(cuStreamBeginCapture_v2, (w.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	for (int i = 0; i < INNER_KERNEL; i++)
		launch(w.stream);
	TRY(cuStreamEndCapture, (w.stream, &inner));
	TRY(cuGraphInstantiateWithFlags, (&inner_exec, inner, 0));
	TRY(cuGraphCreate, (&outer, 0));
	TRY(cuGraphAddKernelNode, (&node, outer, NULL, 0, &params));
	for (int i = 0; i < 2; i++)
		TRY(cuGraphAddChildGraphNode, (&node, outer, &node, 1, inner));
	TRY(cuGraphInstantiateWithFlags, (&outer_exec, outer, 0));
	for (uint64_t i = 0; i < settings.launches; i++) {
		TRY(cuGraphLaunch, (inner_exec, w.stream));
		TRY(cuGraphLaunch, (outer_exec, w.stream));
	}
	TRY(cuStreamSynchronize, (w.stream));
}

int main(int argc, char **argv)
{
	workload_options(argc, argv, options, ARRAY_SIZE(options));
	if (settings.hold)
		workload_hold(-1);
	begin();
	TRY(cuMemcpyHtoD_v2, (w.memory, w.host, BIG));
	capture_copies(10);
	fail();
	graphs();
	if (settings.again) {
		execl(argv[0], argv[0], "--launches", "1", NULL);
		return 1;
	}
	workload_say("{\"launches\":%lu,\"inner\":%d,\"outer\":%d,\"moved\":%llu}\n",
		     (unsigned long)settings.launches, INNER_KERNEL,
		     OUTER_KERNEL + 2 * INNER_KERNEL, BIG);
	if (settings.hold)
		workload_hold(-1);
	return 0;
}
