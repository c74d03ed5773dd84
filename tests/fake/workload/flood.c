/* Flood: calls one function flat out until it is told to stop, and then a few times whenever it is
 * asked to; it says how often.
 *   flood --kind launch|alloc --threads T
 * The first newline ends the flood; each further one is for BURST calls by one thread. With --leave
 * the first thread of the process ends before all this, with --leave-later at the first newline.
 * With
 * --exec another thread than the first one then runs this program anew, as one that makes no flood.
 */
#include "workload.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BURST	    100
#define BATCH	    64
#define ALLOC_BYTES 4096
#define THREADS_MAX 64

static struct {
	const char *kind;
	uint64_t threads;
	bool leave, leave_later, exec;
} settings = { .kind = "launch", .threads = 2 };

static const struct option_row options[] = {
	{ "kind", "launch (default) or alloc", OPTION_TEXT, &settings.kind },
	{ "threads", "number of threads (2)", OPTION_NUMBER, &settings.threads },
	{ "leave", "let the first thread end", OPTION_FLAG, &settings.leave },
	{ "leave-later", "let it end at the first newline", OPTION_FLAG, &settings.leave_later },
	{ "exec", "run another program from another thread then", OPTION_FLAG, &settings.exec },
};

static CUcontext context;
static CUfunction kernel;
static CUstream stream;
static bool allocs;
static sem_t left;
static atomic_bool stop;
static _Atomic uint64_t made;

static void call(uint64_t times)
{
	CUdeviceptr address;

	for (uint64_t i = 0; i < times; i++) {
		if (!allocs) {
			TRY(cuLaunchKernel, (kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
			continue;
		}
		TRY(cuMemAlloc_v2, (&address, ALLOC_BYTES));
		TRY(cuMemFree_v2, (address));
	}
	atomic_fetch_add(&made, times);
}

static void *flood(void *data)
{
	TRY(cuCtxSetCurrent, (context));
	while (!atomic_load(&stop))
		call(BATCH);
	return NULL;
}

static void say(const char *what)
{
	workload_say("{\"pid\":%d,\"%s\":%lu}\n", (int)getpid(), what,
		     (unsigned long)atomic_load(&made));
}

static bool read_line(void)
{
	char c;

	while (read(STDIN_FILENO, &c, 1) == 1)
		if (c == '\n')
			return true;
	return false;
}

static void *run(void *data)
{
	static const char image[] = IMAGE_HEAD IMAGE_KERNEL("flood");
	pthread_t thread[THREADS_MAX];
	CUmodule module;

	allocs = !strcmp(settings.kind, "alloc");
	TRY(cuInit, (0));
	TRY(cuCtxCreate_v2, (&context, 0, 0));
	TRY(cuModuleLoadData, (&module, image));
	TRY(cuModuleGetFunction, (&kernel, module, "flood"));
	TRY(cuStreamCreate, (&stream, 0));
	for (uint64_t i = 0; i < settings.threads && i < THREADS_MAX; i++)
		if (pthread_create(&thread[i], NULL, flood, NULL))
			exit(1);
	say("ready");
	read_line();
	if (settings.exec)
		execl("/proc/self/exe", "flood", "--threads", "0", NULL);
	sem_post(&left);
	atomic_store(&stop, true);
	for (uint64_t i = 0; i < settings.threads && i < THREADS_MAX; i++)
		pthread_join(thread[i], NULL);
	say("flooded");
	while (read_line()) {
		call(BURST);
		say("calls");
	}
	exit(0);
}

int main(int argc, char **argv)
{
	pthread_t thread;

	workload_options(argc, argv, options, ARRAY_SIZE(options));
	sem_init(&left, 0, 0);
	if (!settings.leave && !settings.leave_later && !settings.exec)
		run(NULL);
	if (pthread_create(&thread, NULL, run, NULL))
		return 1;
	if (!settings.leave)
		sem_wait(&left);
	pthread_exit(NULL);
}
