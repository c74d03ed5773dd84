/* handlers.c: threads that are interrupted by a handler that takes its time, for test_light. They
 * call the driver without an end, and the handler runs on a stack of its own (`own`) or far down
 * the thread's (`deep`); or they have malloc() ask the kernel for memory, with its lock held
 * (`memory`).
 *
 * Usage: handlers DRIVER own|deep|memory. Ends at the end of its input. */
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS	   2
#define OWN_BYTES  (256 << 10)
#define DEEP_BYTES (40 << 10)
#define TAKES_NS   30000000
#define APART_NS   35000000
#define PARTS	   512
#define PART_BYTES (64 << 10)

static int (*query)(void *event);
static bool deep, memory, ends;

static void takes_its_time(int number)
{
	const struct timespec moment = { .tv_nsec = TAKES_NS };
	volatile char *room = deep ? alloca(DEEP_BYTES) : NULL;

	(void)number;
	if (room)
		room[0] = 1;
	nanosleep(&moment, NULL);
}

/* The thread's arena grows, and is trimmed when it is empty. */
static void ask_for_memory(void)
{
	static _Thread_local void *part[PARTS];

	for (int i = 0; i < PARTS; i++)
		part[i] = malloc(PART_BYTES);
	for (int i = PARTS; i-- > 0;)
		free(part[i]);
}

static void *calls(void *data)
{
	stack_t own = { .ss_sp = malloc(OWN_BYTES), .ss_size = OWN_BYTES };

	(void)data;
	if (!own.ss_sp || (!deep && sigaltstack(&own, NULL) < 0))
		abort();
	while (!__atomic_load_n(&ends, __ATOMIC_RELAXED)) {
		query(NULL);
		if (memory)
			ask_for_memory();
	}
	return NULL;
}

static void *interrupts(void *data)
{
	const struct timespec moment = { .tv_nsec = APART_NS };
	pthread_t *thread = data;

	while (!__atomic_load_n(&ends, __ATOMIC_RELAXED)) {
		for (int i = 0; i < THREADS; i++)
			pthread_kill(thread[i], SIGUSR1);
		nanosleep(&moment, NULL);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	const struct sigaction action = { .sa_handler = takes_its_time,
					  .sa_flags = SA_ONSTACK | SA_RESTART };
	pthread_t thread[THREADS], from;
	void *driver;

	if (argc != 3 || !(driver = dlopen(argv[1], RTLD_NOW)) ||
	    !(query = (int (*)(void *))dlsym(driver, "cuEventQuery")))
		return 2;
	deep = strcmp(argv[2], "deep") == 0;
	memory = strcmp(argv[2], "memory") == 0;
	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, calls, NULL) != 0)
			return 1;
	if (pthread_create(&from, NULL, interrupts, thread) != 0)
		return 1;
	while (getchar() != EOF)
		;
	__atomic_store_n(&ends, true, __ATOMIC_RELAXED);
	pthread_join(from, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	return 0;
}
