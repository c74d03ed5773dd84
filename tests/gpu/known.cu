/* Known: calls runtime functions each a different number of times and prints, as JSON lines, which
 * driver functions that must have reached. Built with the shared and with the static runtime. */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"

#define TIMES(n) for (int i = 0; i < (n); i++)

static void expect(const char *fn, int calls)
{
	printf("{\"fn\": \"%s\", \"calls\": %d}\n", fn, calls);
}

static __global__ void empty(void)
{
}

static __global__ void scale(float *x, float a, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		x[i] *= a;
}

static void memory(void)
{
	void *p[64], *h[64];

	TIMES(11) CHECK(cudaMalloc(&p[i], 1000 * (i + 1)));
	TIMES(11) CHECK(cudaFree(p[i]));
	expect("cuMemAlloc_v2", 11 + 2); /* and those of main */
	expect("cuMemFree_v2", 11 + 12);
	TIMES(12) CHECK(cudaMallocManaged(&h[i], 4096));
	TIMES(12) CHECK(cudaFree(h[i])); /* cuMemFree_v2, counted above */
	expect("cuMemAllocManaged", 12);
	TIMES(13) CHECK(cudaMallocHost(&h[i], 4096));
	TIMES(14) CHECK(cudaHostAlloc(&p[i], 4096, cudaHostAllocDefault));
	TIMES(13) CHECK(cudaFreeHost(h[i]));
	TIMES(14) CHECK(cudaFreeHost(p[i]));
	expect("cuMemHostAlloc", 13 + 14);
	expect("cuMemFreeHost", 13 + 14);
	TIMES(15) CHECK(cudaMallocAsync(&p[i], 8192, 0));
	TIMES(15) CHECK(cudaFreeAsync(p[i], 0));
	expect("cuMemAllocAsync", 15);
	expect("cuMemFreeAsync", 15);
}

static void copies(void *d, void *e, void *h, cudaStream_t stream)
{
	TIMES(16) CHECK(cudaMemcpy(d, h, 4096, cudaMemcpyHostToDevice));
	expect("cuMemcpyHtoD_v2", 16);
	TIMES(17) CHECK(cudaMemcpy(h, d, 4096, cudaMemcpyDeviceToHost));
	expect("cuMemcpyDtoH_v2", 17);
	TIMES(18) CHECK(cudaMemcpy(e, d, 4096, cudaMemcpyDeviceToDevice));
	expect("cuMemcpyDtoD_v2", 18);
	TIMES(19) CHECK(cudaMemcpyAsync(d, h, 4096, cudaMemcpyHostToDevice, stream));
	expect("cuMemcpyHtoDAsync_v2", 19);
	TIMES(20) CHECK(cudaMemcpyAsync(h, d, 4096, cudaMemcpyDeviceToHost, stream));
	expect("cuMemcpyDtoHAsync_v2", 20);
	TIMES(21) CHECK(cudaMemcpyAsync(e, d, 4096, cudaMemcpyDeviceToDevice, stream));
	expect("cuMemcpyDtoDAsync_v2", 21);
	TIMES(22) CHECK(cudaMemset(d, 0, 4096));
	expect("cuMemsetD8_v2", 22);
	TIMES(23) CHECK(cudaMemsetAsync(d, 0, 4096, stream));
	expect("cuMemsetD8Async", 23);
}

static void work(void *d, cudaStream_t stream, cudaEvent_t event)
{
	cudaLaunchConfig_t config = { dim3(2, 3, 4), dim3(32, 2, 1), 0, stream, NULL, 0 };
	float a = 1;
	int n = 1024;
	void *args[] = { &d, &a, &n };

	TIMES(101) empty<<<1, 32, 0, stream>>>();
	TIMES(33) scale<<<4, 256, 0, stream>>>((float *)d, 1, 1024);
	expect("cuLaunchKernel", 101 + 33 + 5); /* and those that graph() captures */
	TIMES(34) CHECK(cudaLaunchKernelExC(&config, (const void *)empty, NULL));
	expect("cuLaunchKernelEx", 34);
	TIMES(35) CHECK(cudaLaunchCooperativeKernel((const void *)scale, dim3(4), dim3(256), args, 0,
						    stream));
	expect("cuLaunchCooperativeKernel", 35);
	TIMES(36) CHECK(cudaEventRecord(event, stream));
	expect("cuEventRecord", 36);
	TIMES(37) CHECK(cudaEventSynchronize(event));
	expect("cuEventSynchronize", 37);
	TIMES(38) cudaEventQuery(event);
	expect("cuEventQuery", 38);
	TIMES(39) CHECK(cudaStreamWaitEvent(stream, event, 0));
	expect("cuStreamWaitEvent", 39);
	TIMES(40) CHECK(cudaStreamSynchronize(stream));
	expect("cuStreamSynchronize", 40);
	TIMES(41) cudaStreamQuery(stream);
	expect("cuStreamQuery", 41);
}

static void graph(cudaStream_t stream)
{
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	TIMES(5) empty<<<1, 32, 0, stream>>>();
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	TIMES(42) CHECK(cudaGraphLaunch(exec, stream));
	expect("cuGraphLaunch", 42);
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
}

int main(int argc, char **argv)
{
	cudaStream_t stream, more[64];
	cudaEvent_t event, events[64];
	void *d, *e, *h;

	CHECK(cudaMalloc(&d, 1 << 20));
	CHECK(cudaMalloc(&e, 1 << 20));
	h = malloc(1 << 20);
	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaEventCreate(&event));
	memory();
	copies(d, e, h, stream);
	work(d, stream, event);
	graph(stream);
	TIMES(43) CHECK(cudaStreamCreate(&more[i]));
	TIMES(43) CHECK(cudaStreamDestroy(more[i]));
	expect("cuStreamDestroy_v2", 43);
	TIMES(44) CHECK(cudaEventCreate(&events[i]));
	TIMES(44) CHECK(cudaEventDestroy(events[i]));
	expect("cuEventDestroy_v2", 44);
	TIMES(7) CHECK(cudaDeviceSynchronize());
	expect("cuCtxSynchronize_v2", 7);
	printf("{\"pid\": %d}\n", getpid());
	fflush(stdout);
	_exit(0);
}
