/* Leak: a small job on a real GPU, for the demo. It runs until it is ended, and keeps a block in
 * one of ten steps: train_step -> cache_lookup -> leaky_cache_insert. */
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#include <cuda_runtime.h>

#define TRY(call)                                                                                  \
	do {                                                                                       \
		cudaError_t error = (call);                                                        \
		if (error != cudaSuccess) {                                                        \
			fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));             \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

enum { COUNT = 1 << 16, LEAK_BYTES = 12345, LEAK_EVERY = 10, PACE_US = 5000 };

__global__ void forward(float *data)
{
	data[blockIdx.x * blockDim.x + threadIdx.x] += 1.0f;
}

extern "C" __attribute__((noinline)) void leaky_cache_insert(void)
{
	void *block;

	TRY(cudaMalloc(&block, LEAK_BYTES));
	/* block is forgotten here: this is the bug to find */
}

extern "C" __attribute__((noinline)) void cache_lookup(unsigned long step)
{
	if (step % LEAK_EVERY == 0)
		leaky_cache_insert();
}

extern "C" __attribute__((noinline)) void train_step(float *host, unsigned long step)
{
	float *batch;

	TRY(cudaMalloc(&batch, COUNT * sizeof(*batch)));
	TRY(cudaMemcpy(batch, host, COUNT * sizeof(*batch), cudaMemcpyHostToDevice));
	forward<<<COUNT / 256, 256>>>(batch);
	TRY(cudaDeviceSynchronize());
	TRY(cudaFree(batch));
	cache_lookup(step);
}

int main(void)
{
	float *host;

	TRY(cudaMallocHost(&host, COUNT * sizeof(*host)));
	for (unsigned long step = 0;; step++) {
		train_step(host, step);
		usleep(PACE_US);
	}
}
