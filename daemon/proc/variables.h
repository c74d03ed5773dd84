/* variables.h: variables of an environment that say what a process is part of. */
#ifndef TS_VARIABLES_H
#define TS_VARIABLES_H

#include <stddef.h>

/* `environment` is of `size` bytes, as /proc has it. They become KEY=VALUE in lines; those for
 * which there is no room are left out. Returns the bytes. */
size_t variables_choose(const char *environment, size_t size, char *ret, size_t room);
/* The same of a file, or a negative errno. */
int variables_read(int fd, char *ret, size_t room);

#endif
