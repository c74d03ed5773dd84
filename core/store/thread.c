/* Thread: starts those that no signal interrupts. What is "nice" belongs to a thread, not to its
 * process, whatever POSIX says. */
#include "core/store/thread.h"

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

static int start(pthread_t *ret, const pthread_attr_t *attributes, void *(*run)(void *data),
		 void *data)
{
	sigset_t all, before;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(ret, attributes, run, data);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -r;
}

int thread_start(pthread_t *ret, void *(*run)(void *data), void *data)
{
	return start(ret, NULL, run, data);
}

int thread_start_sized(pthread_t *ret, size_t stack_bytes, void *(*run)(void *data), void *data)
{
	pthread_attr_t attributes;
	int r = -pthread_attr_init(&attributes);

	if (r < 0)
		return r;
	r = -pthread_attr_setstacksize(&attributes, stack_bytes);
	if (r == 0)
		r = start(ret, &attributes, run, data);
	pthread_attr_destroy(&attributes);
	return r;
}

void thread_hurry_with_others(void)
{
	setpriority(PRIO_PROCESS, (id_t)gettid(), THREAD_HURRY_NICE);
}

void thread_hurry(void)
{
	const struct sched_param param = { .sched_priority = 0 };

	if (sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &param) == 0)
		setpriority(PRIO_PROCESS, (id_t)gettid(), THREAD_HURRY_NICE);
}
