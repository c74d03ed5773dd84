/* launch.h: a program is started so that it is recorded in the exact tier. */
#ifndef TS_CLIENT_LAUNCH_H
#define TS_CLIENT_LAUNCH_H

#include "client/base/options.h"

/* As env(1) and the shells have it. */
enum { EXIT_CANNOT_RUN = 126, EXIT_NO_PROGRAM = 127 };

/* Sets the environment by which the driver loads the library into the program that is executed
 * next. A negative errno: it said on stderr why not. */
int launch_prepare(const struct options *options, const char *program);
/* Says that it could not be executed; returns the exit status. */
int launch_failed(const char *program, int error);

#endif
