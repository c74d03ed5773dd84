/* Paths: a loop in which several functions launch work, some of it the same, for times that do not
 * change; so that what a sample of call stacks tells can be compared with what all of them do.
 *   paths --rounds N */
#include "workload.h"

#include <stdlib.h>
#include <unistd.h>

#define BYTES	 (256 << 10)
#define RARELY	 50 /* rounds */
#define FORWARDS 4

static struct {
	uint64_t rounds;
} settings = { .rounds = 2000 };

static const struct option_row options[] = {
	{ "rounds", "how many (2000)", OPTION_NUMBER, &settings.rounds },
};

static const char image[] = IMAGE_HEAD IMAGE_KERNEL("shared") IMAGE_KERNEL("relu_us5")
	IMAGE_KERNEL("rare_us900") IMAGE_KERNEL("in_graph_us7");

static CUfunction shared, relu, rare, in_graph;
static CUstream stream;
static CUgraphExec graph;
static CUdeviceptr device;
static void *host;

/* Whoever reads its stacks needs the debug information. */
static inline __attribute__((always_inline)) void launch(CUfunction kernel, unsigned int blocks)
{
	TRY(cuLaunchKernel, (kernel, blocks, 1, 1, 250, 1, 1, 0, stream, NULL, NULL));
}

static NOINLINE void forward(void)
{
	for (int i = 0; i < FORWARDS; i++) {
		launch(shared, 300); /* 3 us */
		launch(relu, 1);
	}
}

static NOINLINE void backward(void)
{
	launch(shared, 5700); /* 30 us */
	launch(shared, 5700);
}

static NOINLINE void update(void)
{
	TRY(cuMemcpyHtoDAsync_v2, (device, host, BYTES, stream));
	TRY(cuMemsetD8Async, (device, 0, BYTES, stream));
}

static NOINLINE void replay(void)
{
	TRY(cuGraphLaunch, (graph, stream));
}

static NOINLINE void seldom(void)
{
	launch(rare, 1);
}

static void make_graph(void)
{
	CUgraph made;

	TRY(cuStreamBeginCapture_v2, (stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	launch(in_graph, 1);
	launch(in_graph, 1);
	TRY(cuStreamEndCapture, (stream, &made));
	TRY(cuGraphInstantiateWithFlags, (&graph, made, 0));
	TRY(cuGraphDestroy, (made));
}

static void run(void)
{
	for (uint64_t i = 0; i < settings.rounds; i++) {
		forward();
		backward();
		update();
		replay();
		if (i % RARELY == 0)
			seldom();
		TRY(cuStreamSynchronize, (stream));
	}
}

int main(int argc, char **argv)
{
	CUcontext context;
	CUmodule module;

	workload_options(argc, argv, options, ARRAY_SIZE(options));
	TRY(cuInit, (0));
	TRY(cuDevicePrimaryCtxRetain, (&context, 0));
	TRY(cuCtxSetCurrent, (context));
	TRY(cuModuleLoadData, (&module, image));
	TRY(cuModuleGetFunction, (&shared, module, "shared"));
	TRY(cuModuleGetFunction, (&relu, module, "relu_us5"));
	TRY(cuModuleGetFunction, (&rare, module, "rare_us900"));
	TRY(cuModuleGetFunction, (&in_graph, module, "in_graph_us7"));
	TRY(cuMemAlloc_v2, (&device, BYTES));
	TRY(cuMemHostAlloc, (&host, BYTES, 0));
	TRY(cuStreamCreate, (&stream, CU_STREAM_NON_BLOCKING));
	make_graph();
	run();
	TRY(cuGraphExecDestroy, (graph));
	TRY(cuStreamDestroy_v2, (stream));
	TRY(cuMemFreeHost, (host));
	TRY(cuMemFree_v2, (device));
	TRY(cuModuleUnload, (module));
	TRY(cuDevicePrimaryCtxRelease_v2, (0));
	tally_print();
	workload_say("{\"pid\":%d,\"rounds\":%lu}\n", (int)getpid(),
		     (unsigned long)settings.rounds);
	return 0;
}
