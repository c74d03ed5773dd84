/* helper.h: starts the threads of the library. */
#ifndef TS_INJECT_HELPER_H
#define TS_INJECT_HELPER_H

#include <stddef.h>

/* Detached, with all signals blocked: they are the program's. Negative errno. Not core's
 * thread_start(): the library has nothing but libc. */
int helper_start(size_t stack_bytes, void *(*run)(void *data));

#endif
