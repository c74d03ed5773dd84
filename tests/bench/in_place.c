/* In place: what a call costs in a program that uses caches and branch predictors as real ones do
 * between two launches. Prints for each 50 ms: the time in seconds, and the median of an iteration
 * in nanoseconds, with the clock's own 20. in_place WORK_KIB SECONDS */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include <cuda.h>

#define STEPS	    600
#define SAMPLES	    200000
#define SYNCHRONIZE 0.05

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t work(uint64_t *word, size_t count, uint64_t seed)
{
	for (int i = 0; i < STEPS; i++) {
		uint64_t *at;

		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		at = &word[seed % count];
		if (*at & 1)
			seed += *at;
		*at += (uint64_t)i;
	}
	return seed | 1;
}

int main(int argc, char **argv)
{
	size_t count = (argc > 1 ? strtoul(argv[1], NULL, 10) : 64) * 1024 / sizeof(uint64_t);
	uint64_t until_ns, window_ns, seed = 88172645463325252u, *word;
	uint32_t *sample = malloc(SAMPLES * sizeof(*sample));
	size_t samples = 0;
	CUcontext context;
	CUmodule module;
	CUfunction function;
	CUstream stream;

	if (!count || !sample || !(word = malloc(count * sizeof(*word))))
		return 1;
	for (size_t i = 0; i < count; i++)
		word[i] = i * 0x9e3779b97f4a7c15u;
	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
	    cuStreamCreate(&stream, 0) || cuModuleLoadData(&module, "x") ||
	    cuModuleGetFunction(&function, module, "k"))
		return 1;
	window_ns = clock_ns(CLOCK_MONOTONIC);
	until_ns = window_ns + strtoul(argc > 2 ? argv[2] : "10", NULL, 10) * NS_PER_S;
	while (window_ns < until_ns) {
		uint64_t begin_ns = clock_ns(CLOCK_MONOTONIC), end_ns;

		seed = work(word, count, seed);
		cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
		end_ns = clock_ns(CLOCK_MONOTONIC);
		sample[samples++] = (uint32_t)(end_ns - begin_ns);
		if (end_ns - window_ns < SYNCHRONIZE * NS_PER_S && samples < SAMPLES)
			continue;
		qsort(sample, samples, sizeof(*sample), compare);
		printf("%.3f %u\n", (double)end_ns / NS_PER_S, sample[samples / 2]);
		fflush(stdout);
		cuStreamSynchronize(stream);
		samples = 0;
		window_ns = clock_ns(CLOCK_MONOTONIC);
	}
	return 0;
}
