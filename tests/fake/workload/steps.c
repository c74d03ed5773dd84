/* Steps: works, launches, and waits at the end of each step, as a training loop does, and says how
 * often and how fast. The work is the CPU's and uses its caches.
 *   steps --calls LAUNCHES_A_STEP --work UNITS_A_LAUNCH --seconds S --pause NS
 */
#include "workload.h"

#include <stdlib.h>
#include <unistd.h>

#define WORDS (1 << 17) /* 1 MiB */

static struct {
	uint64_t calls, work, pause;
	double seconds;
} settings = { .calls = 100, .work = 500, .seconds = 1 };

static const struct option_row options[] = {
	{ "calls", "launches of a step (100)", OPTION_NUMBER, &settings.calls },
	{ "work", "units of work before each (500)", OPTION_NUMBER, &settings.work },
	{ "pause", "nanoseconds to sleep after each step (0)", OPTION_NUMBER, &settings.pause },
	{ "seconds", "for this long (1)", OPTION_REAL, &settings.seconds },
};

static uint64_t memory[WORDS], seed = 88172645463325252ull;

static NOINLINE void work(void)
{
	for (uint64_t i = 0; i < settings.work; i++) {
		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		memory[seed % WORDS] += seed;
	}
}

int main(int argc, char **argv)
{
	static const char image[] = IMAGE_HEAD IMAGE_KERNEL("step");
	uint64_t start, steps = 0;
	CUcontext context;
	CUfunction kernel;
	CUmodule module;
	CUstream stream;

	workload_options(argc, argv, options, ARRAY_SIZE(options));
	TRY(cuInit, (0));
	TRY(cuCtxCreate_v2, (&context, 0, 0));
	TRY(cuModuleLoadData, (&module, image));
	TRY(cuModuleGetFunction, (&kernel, module, "step"));
	TRY(cuStreamCreate, (&stream, 0));
	start = workload_now();
	while ((double)(workload_now() - start) < settings.seconds * 1e9) {
		for (uint64_t i = 0; i < settings.calls; i++) {
			work();
			TRY(cuLaunchKernel, (kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
		}
		TRY(cuStreamSynchronize, (stream));
		steps++;
		if (settings.pause)
			workload_sleep_until(workload_now() + settings.pause);
	}
	workload_say("{\"pid\":%d,\"steps\":%lu,\"launches\":%lu,\"seconds\":%.6f}\n",
		     (int)getpid(), (unsigned long)steps, (unsigned long)(steps * settings.calls),
		     (double)(workload_now() - start) / 1e9);
	return 0;
}
