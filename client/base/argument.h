/* argument.h: arguments that several verbs take, and the window that they share. */
#ifndef TS_CLIENT_ARGUMENT_H
#define TS_CLIENT_ARGUMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "client/base/options.h"

/* The process that an argument names. -EINVAL: none; the error was printed. */
int argument_pid(const char *text, uint32_t *ret);

/* The recording that an argument names, if any. -EINVAL: --file names one as well; the error was
 * printed. */
int argument_file(struct options *options, int count, char **argument);

/* The daemon stores days of data: without --since, the window is the 10 seconds before --until or
 * before now. A recording is used as a whole. Returns whether the window is those seconds. */
bool argument_window(struct options *options);

#endif
