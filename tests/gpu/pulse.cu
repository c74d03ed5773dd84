/* Pulse: every few milliseconds a little work on one stream, and waits for none of it, so that the
 * device is idle nearly all the time.
 *
 *   pulse graph|kernel|copy MILLISECONDS PACE_US [sync]
 *
 * Ends without a synchronization; the last line says how many there were. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <time.h>

#include "check.h"

enum { COUNT = 1 << 14, WARM = 10 };

static __global__ void add(float *x, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		x[i] += 1;
}

static float *to, *from;

static void submit(const char *what, cudaStream_t stream)
{
	if (strcmp(what, "copy"))
		add<<<COUNT / 256, 256, 0, stream>>>(to, COUNT);
	if (strcmp(what, "kernel"))
		CHECK(cudaMemcpyAsync(to, from, COUNT * sizeof(*to), cudaMemcpyDeviceToDevice,
				      stream));
	if (!strcmp(what, "graph"))
		add<<<COUNT / 256, 256, 0, stream>>>(to, COUNT);
}

static cudaGraphExec_t make(cudaStream_t stream)
{
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
	submit("graph", stream);
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	return exec;
}

int main(int argc, char **argv)
{
	struct timespec next;
	cudaGraphExec_t exec;
	cudaStream_t stream;
	long count, pace_ns;

	if (argc < 4)
		return 2;
	pace_ns = atol(argv[3]) * 1000;
	count = atol(argv[2]) * 1000000 / pace_ns;
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaMalloc(&to, COUNT * sizeof(*to)));
	CHECK(cudaMalloc(&from, COUNT * sizeof(*from)));
	exec = make(stream);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (long i = 0; i < WARM + count; i++) {
		if (!strcmp(argv[1], "graph"))
			CHECK(cudaGraphLaunch(exec, stream));
		else
			submit(argv[1], stream);
		if (argc > 4)
			CHECK(cudaStreamSynchronize(stream));
		next.tv_nsec += pace_ns;
		next.tv_sec += next.tv_nsec / 1000000000;
		next.tv_nsec %= 1000000000;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	printf("%ld\n", WARM + count);
	return 0;
}
