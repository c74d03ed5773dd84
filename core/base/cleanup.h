/* cleanup.h: owning locals free themselves; TAKE hands one over. */
#ifndef TS_CLEANUP_H
#define TS_CLEANUP_H

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(f) __attribute__((cleanup(f)))

#define TAKE(p)                                                                                    \
	({                                                                                         \
		__typeof__(p) *take_ptr = &(p), take_value = *take_ptr;                            \
		*take_ptr = NULL;                                                                  \
		take_value;                                                                        \
	})

#define TAKE_FD(fd)                                                                                \
	({                                                                                         \
		int *take_fd = &(fd), take_value = *take_fd;                                       \
		*take_fd = -1;                                                                     \
		take_value;                                                                        \
	})

/* Makes `name`p, the cleanup function of an owning `type *`, from a free that takes NULL. */
#define CLEANUP_DEFINE(type, free_function)                                                        \
	static inline void free_function##p(type **p)                                              \
	{                                                                                          \
		free_function(*p);                                                                 \
	}

static inline void freep(void *p)
{
	free(*(void **)p);
}

static inline void closedirp(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static inline void closep(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

#endif
