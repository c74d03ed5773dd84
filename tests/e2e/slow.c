/* Slow: preloaded into the daemon, what may take long, and takes six seconds here: answers of a
 * name service; the first bytes of a libcuda, and the names in its folder; the first read of a file
 * whose name has `slow-to-read`; opening the library that is loaded into programs; and the kernel,
 * to take probes off a library (TS_SLOW_LINKS=S: S seconds). Or, instead
 * of all that, the mappings of programs called `slow-to-map`, until somebody writes to the FIFO
 * TS_SLOW_MAPS; or only the first bytes of a libcuda, for TS_SLOW_DRIVER milliseconds; or only the
 * start of a child by a thread, until there is a file TS_SLOW_CHILD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define SLOW_S	      6 /* longer than a thread waits for a processor */
#define CHILD_POLL_US 1000
#define CHILD_POLLS   20000

static void *next(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

static int is_all_slow(void)
{
	return !getenv("TS_SLOW_MAPS") && !getenv("TS_SLOW_DRIVER") && !getenv("TS_SLOW_CHILD");
}

static void take_long(void)
{
	if (is_all_slow())
		sleep(SLOW_S);
}

static int is_named(int fd, const char *name)
{
	char link[64], path[4096];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	return strstr(path, name) != NULL;
}

static void be_slow(int fd, size_t size, off_t offset)
{
	const char *driver_ms = getenv("TS_SLOW_DRIVER");
	static int read;

	if (!read && is_named(fd, "slow-to-read") &&
	    !__atomic_fetch_add(&read, 1, __ATOMIC_RELAXED))
		take_long();
	if (!offset && size == sizeof(Elf64_Ehdr) && is_named(fd, "libcuda")) {
		dprintf(STDERR_FILENO, "A disk is slow to read a libcuda\n");
		if (driver_ms)
			usleep((useconds_t)atoi(driver_ms) * 1000);
		take_long();
	}
}

#define SLOW_PREAD(name, parameters, arguments)                                                    \
	__attribute__((visibility("default"))) ssize_t name parameters;                            \
	ssize_t name parameters                                                                    \
	{                                                                                          \
		ssize_t(*real) parameters = next(#name);                                           \
                                                                                                   \
		be_slow(fd, size, offset);                                                         \
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

	take_long();
	return real(uid);
}

__attribute__((visibility("default"))) int getpwuid_r(uid_t uid, struct passwd *entry, char *room,
						      size_t size, struct passwd **ret)
{
	int (*real)(uid_t, struct passwd *, char *, size_t, struct passwd **) = next("getpwuid_r");

	take_long();
	return real(uid, entry, room, size, ret);
}

__attribute__((visibility("default"))) int getpwnam_r(const char *name, struct passwd *entry,
						      char *room, size_t size, struct passwd **ret)
{
	int (*real)(const char *, struct passwd *, char *, size_t, struct passwd **) =
		next("getpwnam_r");

	take_long();
	return real(name, entry, room, size, ret);
}

__attribute__((visibility("default"))) struct group *getgrnam(const char *name)
{
	struct group *(*real)(const char *) = next("getgrnam");

	take_long();
	return real(name);
}

__attribute__((visibility("default"))) int getgrnam_r(const char *name, struct group *entry,
						      char *room, size_t size, struct group **ret)
{
	int (*real)(const char *, struct group *, char *, size_t, struct group **) =
		next("getgrnam_r");

	take_long();
	return real(name, entry, room, size, ret);
}

__attribute__((visibility("default"))) int glob(const char *pattern, int flags,
						int (*failed)(const char *path, int error),
						glob_t *ret)
{
	int (*real)(const char *, int, int (*)(const char *, int), glob_t *) = next("glob");

	take_long();
	return real(pattern, flags, failed, ret);
}

/* Whoever does this may make few system calls. */
static void wait_for_maps(const char *path, int (*real)(const char *, int, mode_t))
{
	static const char wanted[] = "slow-to-map\n";
	const char *fifo = getenv("TS_SLOW_MAPS"), *end = strrchr(path, '/');
	char name[sizeof(wanted)] = "", comm[64];
	int fd;

	if (!fifo || !end || strcmp(end, "/maps") != 0)
		return;
	snprintf(comm, sizeof(comm), "%.*s/comm", (int)(end - path), path);
	fd = real(comm, O_RDONLY | O_CLOEXEC, 0);
	if (fd >= 0 && read(fd, name, sizeof(name) - 1) > 0 && strcmp(name, wanted) == 0)
		close(real(fifo, O_RDONLY | O_CLOEXEC, 0));
	if (fd >= 0)
		close(fd);
}

#define SLOW_OPEN(name)                                                                            \
	__attribute__((visibility("default"))) int name(const char *path, int flags, ...);         \
	int name(const char *path, int flags, ...)                                                 \
	{                                                                                          \
		int (*real)(const char *, int, mode_t) = next(#name);                              \
		mode_t mode;                                                                       \
		va_list rest;                                                                      \
                                                                                                   \
		va_start(rest, flags);                                                             \
		mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;                                 \
		va_end(rest);                                                                      \
		if (strstr(path, "libtracesmith"))                                                 \
			take_long();                                                               \
		wait_for_maps(path, real);                                                         \
		return real(path, flags, mode);                                                    \
	}
#undef open
#undef open64
SLOW_OPEN(open)
SLOW_OPEN(open64)

/* As fortified code calls it, where the flags are no constant. */
__attribute__((visibility("default"))) int __open_2(const char *path, int flags);
int __open_2(const char *path, int flags)
{
	return open(path, flags);
}

/* The daemon's threads make a pair of sockets before they start a child. */
__attribute__((visibility("default"))) int socketpair(int domain, int type, int protocol,
						      int pair[2])
{
	int (*real)(int, int, int, int *) = next("socketpair");
	const char *file = getenv("TS_SLOW_CHILD");

	for (int i = 0; file && syscall(SYS_gettid) != getpid() && i < CHILD_POLLS; i++) {
		if (access(file, F_OK) == 0)
			break;
		usleep(CHILD_POLL_US);
	}
	return real(domain, type, protocol, pair);
}

/* It hands over what it closes, and only the last descriptor of a link takes its time. */
static int is_broker(void)
{
	char name[16] = "";

	return prctl(PR_GET_NAME, name) == 0 && strcmp(name, "ts-broker") == 0;
}

/* The probes of a library are one or two links. */
__attribute__((visibility("default"))) int close(int fd)
{
	int (*real)(int) = next("close");
	const char *seconds = getenv("TS_SLOW_LINKS");
	int error = errno;

	if (is_all_slow() && is_named(fd, "bpf_link") && !is_broker())
		sleep(seconds ? (unsigned int)atoi(seconds) : SLOW_S);
	errno = error;
	return real(fd);
}
