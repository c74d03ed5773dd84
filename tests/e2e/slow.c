/* Slow: preloaded into the daemon, a name service that takes two seconds to answer, and a slow disk
 * below libcuda: its first bytes take two seconds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define SLOW_S 2

static void *next(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

static void be_slow(int fd, off_t offset)
{
	char link[64], path[4096];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	if (!offset && strstr(path, "libcuda"))
		sleep(SLOW_S);
}

#define SLOW_PREAD(name, parameters, arguments)                                                    \
	__attribute__((visibility("default"))) ssize_t name parameters;                            \
	ssize_t name parameters                                                                    \
	{                                                                                          \
		ssize_t(*real) parameters = next(#name);                                           \
                                                                                                   \
		be_slow(fd, offset);                                                               \
		return real arguments;                                                             \
	}
#undef pread
#undef pread64
SLOW_PREAD(pread, (int fd, void *to, size_t size, off_t offset), (fd, to, size, offset))
SLOW_PREAD(pread64, (int fd, void *to, size_t size, off_t offset), (fd, to, size, offset))
SLOW_PREAD(__pread_chk, (int fd, void *to, size_t size, off_t offset, size_t room),
	   (fd, to, size, offset, room))
SLOW_PREAD(__pread64_chk, (int fd, void *to, size_t size, off_t offset, size_t room),
	   (fd, to, size, offset, room))

__attribute__((visibility("default"))) struct passwd *getpwuid(uid_t uid)
{
	struct passwd *(*real)(uid_t) = next("getpwuid");

	sleep(SLOW_S);
	return real(uid);
}

__attribute__((visibility("default"))) int getpwuid_r(uid_t uid, struct passwd *entry, char *room,
						      size_t size, struct passwd **ret)
{
	int (*real)(uid_t, struct passwd *, char *, size_t, struct passwd **) = next("getpwuid_r");

	sleep(SLOW_S);
	return real(uid, entry, room, size, ret);
}
