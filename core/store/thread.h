/* thread.h: starts the threads of both programs, and says which go first. */
#ifndef TS_THREAD_H
#define TS_THREAD_H

#include <pthread.h>
#include <stddef.h>

/* All signals are blocked in it: they are for the thread that handles them. Negative errno. */
int thread_start(pthread_t *ret, void *(*run)(void *data), void *data);
/* The same, with a stack of this size. */
int thread_start_sized(pthread_t *ret, size_t stack_bytes, void *(*run)(void *data), void *data);
/* Where all CPUs are busy, this thread is to get one soon; those that it starts are not. Needs
 * CAP_SYS_NICE or a limit that allows it (RLIMIT_NICE), and does nothing without. */
#define THREAD_HURRY_NICE (-10)
void thread_hurry(void);
/* So are those that it starts. */
void thread_hurry_with_others(void);

#endif
