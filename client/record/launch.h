/* launch.h: prepares a program to be recorded in the exact tier. */
#ifndef TS_CLIENT_LAUNCH_H
#define TS_CLIENT_LAUNCH_H

#include "client/base/options.h"

/* As in env(1) and the shells. */
enum { EXIT_CANNOT_RUN = 126, EXIT_NO_PROGRAM = 127 };

/* Sets the environment that makes the driver load the library into the program executed next. A
 * negative errno: the error was printed. */
int launch_prepare(const struct options *options, const char *program);
/* Prints that the program could not be executed, and returns the exit status. */
int launch_failed(const char *program, int error);

#endif
