/* Steps: works, launches, and waits at the end of each step, as a training loop does, and says how
 * often and how fast. The work is the CPU's and uses its caches. It knows what it pays for probes:
 * it sees whether a breakpoint is on its launches, and can make each cost more.
 *   steps --calls LAUNCHES_A_STEP --work UNITS_A_LAUNCH --seconds S --pause NS --price NS
 * SIGTERM ends it early, and well.
 */
#include "workload.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define WORDS	     (1 << 17) /* 1 MiB */
#define BREAKPOINT   0xcc
#define ENDBR64_SIZE 4

static struct {
	uint64_t calls, work, pause, price;
	double seconds;
} settings = { .calls = 100, .work = 500, .seconds = 1 };

static const struct option_row options[] = {
	{ "calls", "launches of a step (100)", OPTION_NUMBER, &settings.calls },
	{ "work", "units of work before each (500)", OPTION_NUMBER, &settings.work },
	{ "pause", "nanoseconds to sleep after each step (0)", OPTION_NUMBER, &settings.pause },
	{ "price", "nanoseconds that a launch with a breakpoint costs (0)", OPTION_NUMBER,
	  &settings.price },
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

/* Steps with breakpoints and without. */
static struct {
	uint64_t steps, ns;
} paid, unpaid;

/* A probe is on the first instruction, or behind an endbr64. */
static bool is_probed(void)
{
	const volatile uint8_t *code = (const uint8_t *)(uintptr_t)cuLaunchKernel;

	return code[0] == BREAKPOINT || code[ENDBR64_SIZE] == BREAKPOINT;
}

static void pay(void)
{
	uint64_t until_ns = workload_now() + settings.price;

	while (settings.price && workload_now() < until_ns)
		;
}

/* The thread's own time: what runs beside it, now more and now less, is no price. */
static uint64_t own_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void count_step(bool before, uint64_t start_ns)
{
	bool after = is_probed();

	/* The probes came or went in the middle of the others. */
	if (before && after) {
		paid.steps++;
		paid.ns += own_ns() - start_ns;
	} else if (!before && !after) {
		unpaid.steps++;
		unpaid.ns += own_ns() - start_ns;
	}
}

/* How much longer a step with breakpoints took. */
static double price(void)
{
	if (!paid.steps || !unpaid.steps)
		return 0;
	return ((double)paid.ns / (double)paid.steps) / ((double)unpaid.ns / (double)unpaid.steps) -
	       1;
}

static volatile sig_atomic_t ended;

static void on_signal(int number)
{
	ended = 1;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	static const char image[] = IMAGE_HEAD IMAGE_KERNEL("step");
	uint64_t start, own_start, steps = 0;
	CUcontext context;
	CUfunction kernel;
	CUmodule module;
	CUstream stream;

	workload_options(argc, argv, options, ARRAY_SIZE(options));
	sigaction(SIGTERM, &action, NULL);
	TRY(cuInit, (0));
	TRY(cuCtxCreate_v2, (&context, 0, 0));
	TRY(cuModuleLoadData, (&module, image));
	TRY(cuModuleGetFunction, (&kernel, module, "step"));
	TRY(cuStreamCreate, (&stream, 0));
	start = workload_now();
	own_start = own_ns();
	while (!ended && (double)(workload_now() - start) < settings.seconds * 1e9) {
		uint64_t start_ns = own_ns();
		bool probed = is_probed();

		for (uint64_t i = 0; i < settings.calls; i++) {
			work();
			if (is_probed())
				pay();
			TRY(cuLaunchKernel, (kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
		}
		TRY(cuStreamSynchronize, (stream));
		steps++;
		count_step(probed, start_ns);
		if (settings.pause)
			workload_sleep_until(workload_now() + settings.pause);
	}
	workload_say("{\"pid\":%d,\"steps\":%lu,\"launches\":%lu,\"seconds\":%.6f,"
		     "\"own_seconds\":%.6f,\"price\":%.6f,\"paid_seconds\":%.6f}\n",
		     (int)getpid(), (unsigned long)steps, (unsigned long)(steps * settings.calls),
		     (double)(workload_now() - start) / 1e9, (double)(own_ns() - own_start) / 1e9,
		     price(), (double)paid.ns / 1e9);
	return 0;
}
