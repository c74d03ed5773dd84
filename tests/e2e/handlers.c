/* handlers.c: threads that call the driver without an end, and are interrupted there by a handler
 * that takes its time, for test_light: `own`: on a stack of its own; `deep`: far down the thread's
 * stack.
 *
 * Usage: handlers DRIVER own|deep. Ends at the end of its input. */
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

static int (*query)(void *event);
static bool deep, ends;

static void takes_its_time(int number)
{
	const struct timespec moment = { .tv_nsec = TAKES_NS };
	volatile char *room = deep ? alloca(DEEP_BYTES) : NULL;

	(void)number;
	if (room)
		room[0] = 1;
	nanosleep(&moment, NULL);
}

static void *calls(void *data)
{
	stack_t own = { .ss_sp = malloc(OWN_BYTES), .ss_size = OWN_BYTES };

	(void)data;
	if (!own.ss_sp || (!deep && sigaltstack(&own, NULL) < 0))
		abort();
	while (!__atomic_load_n(&ends, __ATOMIC_RELAXED))
		query(NULL);
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
