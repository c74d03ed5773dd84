/* Loop: a busy program that computes, to attach to and detach from. Each thread
 * copies numbers to the device and back and folds them; what comes out depends on the number of
 * rounds alone, and is printed at the end with the expected value.
 *   loop --threads T --seconds S --stress
 * With --stress other threads allocate, load libraries, fork, take signals and sit in system
 * calls all the time. SIGTERM ends it early, and well. */
#include "workload.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NUMBERS	   1024
#define SIGNAL_NS  500000
#define NAP_NS	   200000
#define BLOCKS	   64
#define PIPE_BYTES 64
#define REPORT_NS  100000000
#define WATCH_NS   5000000

static struct {
	uint64_t threads, rounds;
	double seconds, pace_ms;
	bool stress, progress, graphs;
} settings = { .threads = 2, .seconds = 10 };

static const struct option_row options[] = {
	{ "threads", "computing threads (2)", OPTION_NUMBER, &settings.threads },
	{ "seconds", "for this long (10)", OPTION_REAL, &settings.seconds },
	{ "rounds", "exactly so many rounds a thread, instead of --seconds", OPTION_NUMBER,
	  &settings.rounds },
	{ "pace-ms", "milliseconds from round to round (0: flat out)", OPTION_REAL,
	  &settings.pace_ms },
	{ "stress", "allocate, dlopen, fork, take signals and wait in system calls meanwhile",
	  OPTION_FLAG, &settings.stress },
	{ "graphs", "launch the last steps of a round as a graph", OPTION_FLAG, &settings.graphs },
	{ "progress", "say the rounds made so far ten times a second", OPTION_FLAG,
	  &settings.progress },
};

struct worker {
	pthread_t id;
	_Atomic uint64_t rounds;
	uint64_t sum;
};

static CUcontext context;
static CUfunction kernel;
static uint64_t end_ns;
static _Atomic bool stop;
static _Atomic uint64_t signals, forks, loads, blocks, naps, launches, graphs;
static struct worker *workers;
static uint64_t used_bytes; /* of the device, before it computes */

/* What a round makes of the sum; the device only carries the numbers. */
static uint64_t fold(uint64_t sum, const uint32_t *numbers)
{
	for (size_t i = 0; i < NUMBERS; i++)
		sum = (sum ^ numbers[i]) * 1099511628211u;
	return sum;
}

static void fill(uint32_t *numbers, uint64_t round)
{
	for (size_t i = 0; i < NUMBERS; i++)
		numbers[i] = (uint32_t)((round + 1) * 2654435761u + i * 40503u);
}

static uint64_t expected(uint64_t rounds)
{
	uint32_t numbers[NUMBERS];
	uint64_t sum = 0;

	for (uint64_t r = 0; r < rounds; r++) {
		fill(numbers, r);
		sum = fold(sum, numbers);
	}
	return sum;
}

static bool finished(uint64_t rounds)
{
	if (settings.rounds)
		return rounds >= settings.rounds;
	return atomic_load(&stop) || workload_now() >= end_ns;
}

static bool finished_all(void)
{
	for (uint64_t i = 0; i < settings.threads; i++)
		if (!finished(atomic_load(&workers[i].rounds)))
			return false;
	return true;
}

static NOINLINE void last_steps(CUstream stream, CUdeviceptr from, CUdeviceptr to)
{
	TRY(cuLaunchKernel, (kernel, 4, 1, 1, 64, 1, 1, 0, stream, NULL, NULL));
	TRY(cuMemcpyDtoDAsync_v2, (to, from, NUMBERS * 4, stream));
}

static CUgraphExec make_graph(CUstream stream, CUdeviceptr from, CUdeviceptr to)
{
	CUgraphExec exec;
	CUgraph graph;

	TRY(cuStreamBeginCapture_v2, (stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	last_steps(stream, from, to);
	TRY(cuStreamEndCapture, (stream, &graph));
	TRY(cuGraphInstantiateWithFlags, (&exec, graph, 0));
	TRY(cuGraphDestroy, (graph));
	return exec;
}

static NOINLINE void compute_round(struct worker *w, CUstream stream, CUgraphExec exec,
				   CUdeviceptr from, CUdeviceptr to)
{
	uint32_t numbers[NUMBERS], back[NUMBERS];

	fill(numbers, w->rounds);
	TRY(cuMemcpyHtoDAsync_v2, (from, numbers, sizeof(numbers), stream));
	for (int i = 0; i < 4; i++)
		TRY(cuLaunchKernel, (kernel, 4, 1, 1, 64, 1, 1, 0, stream, NULL, NULL));
	if (exec)
		TRY(cuGraphLaunch, (exec, stream));
	else
		last_steps(stream, from, to);
	TRY(cuMemcpyDtoHAsync_v2, (back, to, sizeof(back), stream));
	TRY(cuStreamSynchronize, (stream));
	atomic_fetch_add(&launches, exec ? 4 : 5);
	atomic_fetch_add(&graphs, exec ? 1 : 0);
	w->sum = fold(w->sum, back);
	atomic_fetch_add(&w->rounds, 1);
}

static void *compute(void *data)
{
	struct worker *w = data;
	uint64_t next = workload_now();
	CUdeviceptr from, to;
	CUgraphExec exec = NULL;
	CUstream stream;

	TRY(cuCtxSetCurrent, (context));
	TRY(cuStreamCreate, (&stream, CU_STREAM_NON_BLOCKING));
	TRY(cuMemAlloc_v2, (&from, NUMBERS * 4));
	TRY(cuMemAlloc_v2, (&to, NUMBERS * 4));
	if (settings.graphs)
		exec = make_graph(stream, from, to);
	while (!finished(w->rounds)) {
		compute_round(w, stream, exec, from, to);
		next += (uint64_t)(settings.pace_ms * 1e6);
		if (settings.pace_ms > 0)
			workload_sleep_until(next);
	}
	if (exec)
		TRY(cuGraphExecDestroy, (exec));
	TRY(cuMemFree_v2, (from));
	TRY(cuMemFree_v2, (to));
	TRY(cuStreamDestroy_v2, (stream));
	return NULL;
}

/* --- stress --- */

static void on_signal(int number)
{
	(void)number;
	atomic_fetch_add(&signals, 1);
}

static void on_term(int number)
{
	(void)number;
	atomic_store(&stop, true);
}

static void *stress_memory(void *unused)
{
	void *held[BLOCKS] = { NULL };

	(void)unused;
	for (size_t i = 0; !atomic_load(&stop); i++) {
		size_t slot = i % BLOCKS;

		free(held[slot]);
		held[slot] = malloc(16 + i * 7919 % 100000);
		if (held[slot])
			memset(held[slot], (int)i, 16);
		atomic_fetch_add(&blocks, 1);
	}
	for (size_t i = 0; i < BLOCKS; i++)
		free(held[i]);
	return NULL;
}

static void *stress_loader(void *unused)
{
	(void)unused;
	while (!atomic_load(&stop)) {
		void *library = dlopen("libm.so.6", RTLD_NOW);

		if (library && dlsym(library, "cos"))
			atomic_fetch_add(&loads, 1);
		if (library)
			dlclose(library);
	}
	return NULL;
}

static void *stress_fork(void *unused)
{
	(void)unused;
	while (!atomic_load(&stop)) {
		pid_t pid = fork();
		int status;

		if (pid == 0)
			_exit(7);
		if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
		    WEXITSTATUS(status) == 7)
			atomic_fetch_add(&forks, 1);
		workload_sleep_until(workload_now() + 5000000);
	}
	return NULL;
}

/* Signals to every computing thread in turn. */
static void *stress_signal(void *unused)
{
	(void)unused;
	for (uint64_t i = 0; !atomic_load(&stop); i++) {
		pthread_kill(workers[i % settings.threads].id, SIGUSR1);
		workload_sleep_until(workload_now() + SIGNAL_NS);
	}
	return NULL;
}

static void *stress_calls(void *unused)
{
	char bytes[PIPE_BYTES];
	int fds[2];

	(void)unused;
	if (pipe(fds) != 0)
		abort();
	while (!atomic_load(&stop)) {
		workload_sleep_until(workload_now() + NAP_NS);
		if (write(fds[1], bytes, sizeof(bytes)) != sizeof(bytes) ||
		    read(fds[0], bytes, sizeof(bytes)) != sizeof(bytes))
			abort();
		atomic_fetch_add(&naps, 1);
	}
	close(fds[0]);
	close(fds[1]);
	return NULL;
}

static void *(*const stresses[])(void *) = { stress_memory, stress_loader, stress_fork,
					     stress_signal, stress_calls };

static void *say_progress(void *unused)
{
	(void)unused;
	while (!atomic_load(&stop)) {
		uint64_t rounds = 0;

		for (uint64_t i = 0; i < settings.threads; i++)
			rounds += atomic_load(&workers[i].rounds);
		workload_say("{\"pid\":%d,\"rounds\":%lu}\n", (int)getpid(), (unsigned long)rounds);
		workload_sleep_until(workload_now() + REPORT_NS);
	}
	return NULL;
}

/* True: every thread's sum is right. */
/* Of the device, in all processes. */
static uint64_t used_now(void)
{
	size_t free_bytes, total_bytes;

	TRY(cuMemGetInfo_v2, (&free_bytes, &total_bytes));
	return total_bytes - free_bytes;
}

static bool say_result(void)
{
	uint64_t rounds = 0, sum = 0;
	bool right = true;

	for (uint64_t i = 0; i < settings.threads; i++) {
		right &= workers[i].sum == expected(workers[i].rounds);
		rounds += workers[i].rounds;
		sum = sum * 31 + workers[i].sum;
	}
	workload_say("{\"pid\":%d,\"threads\":%lu,\"rounds\":%lu,\"launches\":%lu,\"graphs\":%lu,"
		     "\"checksum\":\"%016lx\",\"right\":%s,\"signals\":%lu,\"forks\":%lu,"
		     "\"loads\":%lu,\"blocks\":%lu,\"naps\":%lu,\"kept_bytes\":%lu}\n",
		     (int)getpid(), (unsigned long)settings.threads, (unsigned long)rounds,
		     (unsigned long)launches, (unsigned long)graphs, (unsigned long)sum,
		     right ? "true" : "false", (unsigned long)signals, (unsigned long)forks,
		     (unsigned long)loads, (unsigned long)blocks, (unsigned long)naps,
		     (unsigned long)(used_now() - used_bytes));
	return right;
}

int main(int argc, char **argv)
{
	static const char image[] = IMAGE_HEAD IMAGE_KERNEL("carry");
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	pthread_t others[ARRAY_SIZE(stresses) + 1];
	size_t others_count = 0;
	CUmodule module;
	bool right;

	workload_options(argc, argv, options, ARRAY_SIZE(options));
	workers = calloc(settings.threads, sizeof(*workers));
	if (!workers)
		abort();
	sigaction(SIGUSR1, &action, NULL);
	action.sa_handler = on_term;
	sigaction(SIGTERM, &action, NULL);
	TRY(cuInit, (0));
	TRY(cuCtxCreate_v2, (&context, 0, 0));
	TRY(cuModuleLoadData, (&module, image));
	TRY(cuModuleGetFunction, (&kernel, module, "carry"));
	end_ns = workload_now() + (uint64_t)(settings.seconds * 1e9);
	used_bytes = used_now();
	workload_say("{\"pid\":%d,\"ready\":1}\n", (int)getpid());
	for (uint64_t i = 0; i < settings.threads; i++)
		pthread_create(&workers[i].id, NULL, compute, &workers[i]);
	for (size_t i = 0; settings.stress && i < ARRAY_SIZE(stresses); i++)
		pthread_create(&others[others_count++], NULL, stresses[i], NULL);
	if (settings.progress)
		pthread_create(&others[others_count++], NULL, say_progress, NULL);
	while (!finished_all())
		workload_sleep_until(workload_now() + WATCH_NS);
	/* Those who send signals to the computing threads end before them. */
	atomic_store(&stop, true);
	for (size_t i = 0; i < others_count; i++)
		pthread_join(others[i], NULL);
	for (uint64_t i = 0; i < settings.threads; i++)
		pthread_join(workers[i].id, NULL);
	right = say_result();
	TRY(cuCtxDestroy_v2, (context));
	free(workers);
	return right ? 0 : 1;
}
