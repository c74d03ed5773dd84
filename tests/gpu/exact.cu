/* Exact: does a known number of kernels, copies, sets and graph launches, on streams and threads of
 * its own, and prints as JSON lines what the device must have done. Waits for a line of input before
 * it starts and before it ends, so that somebody may attach and look. */
#include <cuda_runtime.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"

#define TIMES(n) for (int i = 0; i < (n); i++)
#define THREADS	 3

static __global__ void spin(long long cycles)
{
	long long begin = clock64();

	while (clock64() - begin < cycles)
		;
}

static __global__ void empty(void)
{
}

template <typename T> static __global__ void scale(T *x, T a, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		x[i] *= a;
}

struct thread {
	pthread_t id;
	int number, device;
};

static void *thread_run(void *data)
{
	struct thread *thread = (struct thread *)data;
	cudaStream_t stream;
	float *x;

	CHECK(cudaSetDevice(thread->device));
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaMalloc(&x, 4096));
	TIMES(100 * (thread->number + 1)) scale<float><<<4, 256, 0, stream>>>(x, 1, 1024);
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaFree(x));
	CHECK(cudaStreamDestroy(stream));
	return NULL;
}

static void threads(int devices)
{
	struct thread thread[THREADS];

	for (int i = 0; i < THREADS; i++) {
		thread[i].number = i;
		thread[i].device = i % devices;
		pthread_create(&thread[i].id, NULL, thread_run, &thread[i]);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i].id, NULL);
	printf("{\"kernel\": \"void scale<float>(float*, float, int)\", \"count\": %d}\n",
	       100 + 200 + 300);
}

static void copies(cudaStream_t stream)
{
	void *d, *e, *h, *p;

	CHECK(cudaMalloc(&d, 1 << 20));
	CHECK(cudaMalloc(&e, 1 << 20));
	CHECK(cudaMallocHost(&p, 1 << 20));
	h = malloc(1 << 20);
	TIMES(16) CHECK(cudaMemcpy(d, h, 4096, cudaMemcpyHostToDevice));
	TIMES(19) CHECK(cudaMemcpyAsync(d, p, 1 << 20, cudaMemcpyHostToDevice, stream));
	printf("{\"copy\": \"HtoD\", \"count\": %d, \"bytes\": %d}\n", 16 + 19, 16 * 4096 + (19 << 20));
	TIMES(17) CHECK(cudaMemcpy(h, d, 4096, cudaMemcpyDeviceToHost));
	TIMES(20) CHECK(cudaMemcpyAsync(p, d, 1 << 20, cudaMemcpyDeviceToHost, stream));
	printf("{\"copy\": \"DtoH\", \"count\": %d, \"bytes\": %d}\n", 17 + 20, 17 * 4096 + (20 << 20));
	TIMES(21) CHECK(cudaMemcpyAsync(e, d, 1 << 20, cudaMemcpyDeviceToDevice, stream));
	printf("{\"copy\": \"DtoD\", \"count\": %d, \"bytes\": %d}\n", 21, 21 << 20);
	TIMES(22) CHECK(cudaMemset(d, 0, 4096));
	TIMES(23) CHECK(cudaMemsetAsync(d, 0, 4096, stream));
	printf("{\"set\": 1, \"count\": %d, \"bytes\": %d}\n", 22 + 23, 45 * 4096);
	CHECK(cudaStreamSynchronize(stream));
}

/* A fork and a join in the graph, so that its nodes run on more than one stream. */
static void graph(cudaStream_t stream, cudaStream_t other)
{
	cudaGraphExec_t exec;
	cudaGraph_t captured;
	cudaEvent_t forked, joined;

	CHECK(cudaEventCreate(&forked));
	CHECK(cudaEventCreate(&joined));
	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	spin<<<1, 32, 0, stream>>>(1000);
	CHECK(cudaEventRecord(forked, stream));
	CHECK(cudaStreamWaitEvent(other, forked, 0));
	spin<<<1, 32, 0, stream>>>(2000);
	spin<<<1, 32, 0, other>>>(2000);
	CHECK(cudaEventRecord(joined, other));
	CHECK(cudaStreamWaitEvent(stream, joined, 0));
	spin<<<1, 32, 0, stream>>>(1000);
	CHECK(cudaStreamEndCapture(stream, &captured));
	CHECK(cudaGraphInstantiate(&exec, captured, 0));
	TIMES(42) CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaStreamSynchronize(stream));
	printf("{\"kernel\": \"spin(long long)\", \"count\": %d}\n", 42 * 4 + 7);
	printf("{\"graph_launches\": 42, \"nodes\": 4}\n");
}

static void wait_for_line(void)
{
	fflush(stdout);
	while (getchar() != '\n' && !feof(stdin))
		;
}

int main(int argc, char **argv)
{
	int devices = argc > 1 ? atoi(argv[1]) : 1;
	cudaStream_t stream, other;

	for (int i = devices - 1; i >= 0; i--) {
		CHECK(cudaSetDevice(i));
		CHECK(cudaFree(NULL));
	}
	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
	printf("{\"pid\": %d}\n", getpid());
	wait_for_line();
	TIMES(1000) empty<<<2, 64, 0, stream>>>();
	TIMES(7) spin<<<1, 32, 0, other>>>(100000);
	TIMES(11) empty<<<2, 64>>>();
	printf("{\"kernel\": \"empty()\", \"count\": %d}\n", 1000 + 11);
	threads(devices);
	copies(stream);
	graph(stream, other);
	CHECK(cudaDeviceSynchronize());
	printf("{\"done\": 1}\n");
	wait_for_line();
	return 0;
}
