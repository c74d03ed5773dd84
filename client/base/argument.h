/* argument.h: arguments that several verbs take, and the window that they share. */
#ifndef TS_CLIENT_ARGUMENT_H
#define TS_CLIENT_ARGUMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "client/base/options.h"

/* The process that an argument names; -EINVAL: it names none, and stderr says so. */
int argument_pid(const char *text, uint32_t *ret);

/* The recording that an argument names, if there is one; -EINVAL: --file names one as well, and
 * stderr says so. */
int argument_file(struct options *options, int count, char **argument);

/* The daemon has days: without --since it is asked about the 10 seconds before --until, or before
 * now. A recording is taken as a whole. True: it is those seconds. */
bool argument_window(struct options *options);

#endif
