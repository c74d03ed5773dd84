/* Empty: launches empty kernels back to back and prints, ten times a second, when (CLOCK_MONOTONIC)
 * and how many nanoseconds a launch took. Ends by itself, or when its input ends. */
#include <cuda_runtime.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BATCH 1000

static __global__ void empty(void)
{
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
	double end = now() + (argc > 1 ? atof(argv[1]) : 60), from, to;
	struct pollfd input = { 0, POLLIN, 0 };
	long launches;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while (now() < end && poll(&input, 1, 0) <= 0) {
		from = now();
		launches = 0;
		do {
			for (int i = 0; i < BATCH; i++)
				empty<<<1, 32>>>();
			cudaDeviceSynchronize();
			launches += BATCH;
			to = now();
		} while (to - from < 0.1);
		printf("%.6f %.3f\n", from, (to - from) * 1e9 / launches);
	}
	return cudaGetLastError() != cudaSuccess;
}
