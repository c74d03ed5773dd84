/* complain.h: error messages and exit statuses. */
#ifndef TS_CLIENT_COMPLAIN_H
#define TS_CLIENT_COMPLAIN_H

#include <stdbool.h>

enum exit_status {
	EXIT_DONE = 0,
	EXIT_FAILED = 1, /* the reason is on stderr */
	EXIT_USAGE = 2,
};

/* Prints one sentence on stderr after the program's name. Control characters are made visible,
 * since names come from other programs. Returns EXIT_FAILED. */
int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints that there was not enough memory, the first time, and returns EXIT_FAILED: the program
 * ends with that, whatever else comes, so that writers to a stream need not pass it on. */
int complain_memory(void);
/* Whether that was printed. */
bool complain_is_short(void);

/* From now on this thread's sentences are put here instead, the last one stays; NULL: printed
 * again. */
#define COMPLAINT_BYTES 512
void complain_into(char text[COMPLAINT_BYTES]);

#endif
