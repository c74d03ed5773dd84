/* complain.h: what tsctl says of a failure, and how it ends. */
#ifndef TS_CLIENT_COMPLAIN_H
#define TS_CLIENT_COMPLAIN_H

enum exit_status {
	EXIT_DONE = 0,
	EXIT_FAILED = 1, /* said why on stderr */
	EXIT_USAGE = 2,
};

/* Prints one sentence on stderr, after the program's name; control characters in what others named
 * are made visible. Returns EXIT_FAILED. */
int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
