/* Thread: starts one that no signal interrupts. */
#include "core/store/thread.h"

#include <signal.h>

int thread_start(pthread_t *ret, void *(*run)(void *data), void *data)
{
	sigset_t all, before;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(ret, NULL, run, data);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -r;
}
