/* stands.c: threads in known functions, for test_stack: one sleeps, one computes, one sleeps deep
 * down its stack, and one sleeps for moments. Prints "ready" when all are there. With an argument,
 * the first thread, which sleeps, ends then instead. It runs as an ordinary user. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define NOBODY 65534
#define DEPTH  900 /* calls of 256 bytes and more */

static atomic_uint there;
static volatile unsigned long counted;

__attribute__((noinline)) static void sleeps_here(void)
{
	there++;
	pause();
	counted++;
}

__attribute__((noinline)) static void sleeps_called(void)
{
	sleeps_here();
	counted++;
}

__attribute__((noinline)) static void computes_here(void)
{
	for (;;)
		counted++;
}

__attribute__((noinline)) static void computes_called(void)
{
	there++;
	computes_here();
	counted++;
}

__attribute__((noinline)) static void deep_below(unsigned int depth)
{
	volatile char room[256];

	room[0] = (char)depth;
	if (depth)
		deep_below(depth - 1);
	else
		sleeps_here();
	counted += (unsigned long)room[0];
}

__attribute__((noinline)) static void moments(void)
{
	const struct timespec moment = { .tv_nsec = 100000 };

	there++;
	for (;;) {
		clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
		counted++;
	}
}

static void *run_computes(void *data)
{
	prctl(PR_SET_NAME, "computes");
	computes_called();
	return NULL;
}

static void *run_deep(void *data)
{
	prctl(PR_SET_NAME, "deep");
	deep_below(DEPTH);
	return NULL;
}

static void *run_moments(void *data)
{
	prctl(PR_SET_NAME, "moments");
	moments();
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (geteuid() == 0 && (setgid(NOBODY) < 0 || setuid(NOBODY) < 0))
		return 1;
	/* What changing its user undoes: */
	prctl(PR_SET_DUMPABLE, 1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pthread_create(&thread, NULL, run_computes, NULL);
	pthread_create(&thread, NULL, run_deep, NULL);
	pthread_create(&thread, NULL, run_moments, NULL);
	while (there < 3)
		usleep(1000);
	puts("ready");
	fflush(stdout);
	if (argc > 1)
		pthread_exit(NULL);
	sleeps_called();
	return 0;
}
