/* helper.h: starts the threads of the library. */
#ifndef TS_INJECT_HELPER_H
#define TS_INJECT_HELPER_H

/* Detached, with all signals blocked, which are the program's; scheduled as SCHED_OTHER on the
 * processors of the program's first thread, as far as the kernel allows it. Negative errno. Not
 * core's thread_start(): the library has nothing but libc. */
int helper_start(void *(*run)(void *data));

#endif
