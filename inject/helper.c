/* Helper: starts a detached thread that no signal interrupts, and that has nothing of the thread
 * that starts it: neither its scheduling, which may be real-time, nor its processors. */
#include "inject/helper.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <unistd.h>

/* CUPTI is called on it: setting it up and a flush used 20 KiB (13.0.1 on an H200). Where it is not
 * known what else libc puts there, as much as threads usually have. */
#define STACK_BYTES	  (1 << 20)
#define STACK_BYTES_GUESS (8 << 20)

/* libc takes the variables that each thread of the program has, which may be megabytes, from the
 * stack. */
static size_t stack_bytes(const pthread_attr_t *attributes)
{
	size_t (*least)(const pthread_attr_t *) =
		(size_t(*)(const pthread_attr_t *))dlsym(RTLD_DEFAULT, "__pthread_get_minstack");

	return least ? STACK_BYTES + least(attributes) : STACK_BYTES_GUESS;
}

/* What is as it should be is left alone: a filter of system calls may refuse to change it. False:
 * nothing was to be changed. */
static bool set_scheduling(pthread_attr_t *attributes)
{
	const struct sched_param none = { .sched_priority = 0 };
	cpu_set_t ours, program;
	bool changed = false;

	if (prctl(PR_GET_SECCOMP) > 0)
		return false;
	if (sched_getscheduler(0) != SCHED_OTHER) {
		pthread_attr_setinheritsched(attributes, PTHREAD_EXPLICIT_SCHED);
		pthread_attr_setschedpolicy(attributes, SCHED_OTHER);
		pthread_attr_setschedparam(attributes, &none);
		changed = true;
	}
	if (sched_getaffinity(0, sizeof(ours), &ours) == 0 &&
	    sched_getaffinity(getpid(), sizeof(program), &program) == 0 &&
	    !CPU_EQUAL(&ours, &program))
		changed |= pthread_attr_setaffinity_np(attributes, sizeof(program), &program) == 0;
	return changed;
}

static int start(bool free, void *(*run)(void *data), bool *ret_free)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int r = pthread_attr_init(&attributes);

	if (r)
		return -r;
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, stack_bytes(&attributes));
	*ret_free = free && set_scheduling(&attributes);
	r = pthread_create(&thread, &attributes, run, NULL);
	pthread_attr_destroy(&attributes);
	return -r;
}

int helper_start(void *(*run)(void *data))
{
	sigset_t all, before;
	bool free;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = start(true, run, &free);
	/* A thread of SCHED_IDLE may not leave it without privilege. */
	if (r < 0 && free)
		r = start(false, run, &free);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}
