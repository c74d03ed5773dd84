/* attach_target.h: shared by the files of the program that the tests attach to. */
#ifndef TS_ATTACH_TARGET_H
#define TS_ATTACH_TARGET_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define WAIT_MS 400

extern atomic_int stopping; /* jobs and threads end */
extern atomic_int handled;  /* signals */

void fail(const char *what, long value);
#define CHECK(condition, value)                                                                    \
	do {                                                                                       \
		if (!(condition))                                                                  \
			fail(#condition, (long)(value));                                           \
	} while (0)
int64_t now_ms(void);
/* Says that it is. */
void ready(void);
/* A byte of the standard input. Who asks whether we are there is answered. */
ssize_t next_byte(char *ret);
/* Counts it. */
void handle(int signal, int flags);

/* Whether it was a mode of that kind; it is over then. */
bool run_wait(const char *name);
bool run_beside(const char *mode);
bool run_loader(const char *mode);

#endif
