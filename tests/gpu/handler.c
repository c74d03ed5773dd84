/* handler.c: preloaded into a program, it interrupts its main thread again and again by a handler
 * that takes its time, on a stack of its own: whoever attaches or detaches meets it there. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#define OWN_BYTES (256 << 10)
#define TAKES_NS  30000000
#define APART_NS  40000000

static pthread_t interrupted;

static void takes_its_time(int number)
{
	const struct timespec moment = { .tv_nsec = TAKES_NS };

	(void)number;
	nanosleep(&moment, NULL);
}

static void *interrupts(void *data)
{
	const struct timespec moment = { .tv_nsec = APART_NS };

	for (;;) {
		nanosleep(&moment, NULL);
		pthread_kill(interrupted, SIGUSR1);
	}
	return data;
}

__attribute__((constructor)) static void begin(void)
{
	const struct sigaction action = { .sa_handler = takes_its_time,
					  .sa_flags = SA_ONSTACK | SA_RESTART };
	const stack_t own = { .ss_sp = malloc(OWN_BYTES), .ss_size = OWN_BYTES };
	pthread_t from;

	interrupted = pthread_self();
	if (!own.ss_sp || sigaltstack(&own, NULL) < 0 || sigaction(SIGUSR1, &action, NULL) < 0 ||
	    pthread_create(&from, NULL, interrupts, NULL) != 0)
		abort();
}
