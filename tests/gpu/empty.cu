/* Empty: launches empty kernels back to back, from one thread or several, each on a stream of its
 * own, and prints, fifty times a second, when (CLOCK_MONOTONIC) and how many nanoseconds a launch
 * took a thread. Ends by itself, or when its input ends.
 *   empty [SECONDS [THREADS]]
 */
#include <cuda_runtime.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <atomic>
#include <thread>
#include <vector>

#define BATCH	 100
#define BATCHES	 10 /* between two synchronizations */
#define SAMPLE_S 0.02

static std::atomic<long> launches;
static std::atomic<bool> over;

static __global__ void empty(void)
{
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static void launch(void)
{
	cudaStream_t stream;

	cudaStreamCreate(&stream);
	for (long batch = 1; !over; batch++) {
		for (int i = 0; i < BATCH; i++)
			empty<<<1, 32, 0, stream>>>();
		launches += BATCH;
		if (batch % BATCHES == 0)
			cudaStreamSynchronize(stream);
	}
}

int main(int argc, char **argv)
{
	double end = now() + (argc > 1 ? atof(argv[1]) : 60), from = now(), to;
	long count = argc > 2 ? atol(argv[2]) : 1, before = 0, done;
	struct pollfd input = { 0, POLLIN, 0 };
	std::vector<std::thread> threads;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (long i = 0; i < count; i++)
		threads.emplace_back(launch);
	while (now() < end && poll(&input, 1, (int)(SAMPLE_S * 1e3)) <= 0) {
		to = now();
		done = launches;
		if (done == before)
			continue;
		printf("%.6f %.3f\n", from, (to - from) * 1e9 * count / (done - before));
		from = to;
		before = done;
	}
	over = true;
	for (std::thread &thread : threads)
		thread.join();
	return cudaGetLastError() != cudaSuccess;
}
