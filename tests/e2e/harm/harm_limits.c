/* Harm, limits: no descriptors, no memory, no threads left; descriptors and environment as others
 * do not expect them. */
#include "harm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ROUNDS	200
#define FILES	24
#define ROOM	(48ul << 20)
#define LOCKED	(64ul << 20)
#define OWN_UID 64777 /* a user that nobody else is: RLIMIT_NPROC counts its threads */

extern char **environ;

static void limit(int what, rlim_t soft)
{
	struct rlimit limits;

	getrlimit(what, &limits);
	limits.rlim_cur = soft;
	if (limits.rlim_max < soft || setrlimit(what, &limits) < 0)
		harm_say("limit %d: %s", what, strerror(errno));
}

/* No descriptor can be opened any more. */
static void no_descriptors(void)
{
	harm_begin();
	limit(RLIMIT_NOFILE, 3);
	harm_run();
	harm_say("open: %s", open("/", O_RDONLY) < 0 ? strerror(errno) : "works");
}

static unsigned int contents[FILES];

/* A file of its own for each, with its number in it. */
static void open_files(int fd[FILES])
{
	for (int i = 0; i < FILES; i++) {
		fd[i] = (int)syscall(SYS_memfd_create, "harm", MFD_CLOEXEC);
		contents[i] = 0x1234u * (unsigned int)i + 7;
		if (fd[i] < 0 || write(fd[i], &contents[i], sizeof(contents[i])) < 0)
			harm_say("no file %d", i);
	}
}

static void check_files(const int fd[FILES])
{
	int wrong = 0;

	for (int i = 0; i < FILES; i++) {
		unsigned int found = 0;
		struct stat st;

		wrong += fstat(fd[i], &st) < 0 || st.st_size != sizeof(found) ||
			 pread(fd[i], &found, sizeof(found), 0) != sizeof(found) ||
			 found != contents[i];
	}
	harm_say("files that are not as they were: %d", wrong);
}

/* Closes all descriptors, also those of others, and opens files in their places: nobody writes to
 * them, or closes them. */
static void close_all(void)
{
	int fd[FILES], more[FILES];

	harm_begin();
	harm_work(ROUNDS);
	close_range(3, ~0u, 0);
	open_files(fd);
	harm_hold(HARM_MIDDLE);
	harm_work(ROUNDS);
	check_files(fd);
	close_range(3, ~0u, 0);
	open_files(fd);
	for (int i = 0; i < FILES; i++)
		more[i] = fcntl(fd[i], F_DUPFD_CLOEXEC, 500);
	harm_work(ROUNDS);
	harm_hold(HARM_LATE);
	harm_work(ROUNDS);
	check_files(fd);
	check_files(more);
	harm_hold(HARM_LAST);
	check_files(fd);
	check_files(more);
}

/* The lowest free descriptor is the one that a program gets: some rely on that. */
static void lowest_descriptor(void)
{
	harm_begin();
	for (enum harm_place place = HARM_MIDDLE; place <= HARM_LAST; place++) {
		int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

		harm_say("the next descriptor: %d", fd);
		close(fd);
		harm_work(ROUNDS);
		harm_hold(place);
	}
}

/* Started with 0, 1 and 2 closed. */
static void no_streams(void)
{
	harm_begin();
	for (enum harm_place place = HARM_MIDDLE; place <= HARM_LAST; place++) {
		harm_work(ROUNDS);
		harm_say("write to 1: %s, to 2: %s",
			 write(1, "lost", 4) < 0 ? strerror(errno) : "works",
			 write(2, "lost", 4) < 0 ? strerror(errno) : "works");
		harm_hold(place);
	}
}

static unsigned long own_bytes(void)
{
	char text[64] = "";
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

	if (read(fd, text, sizeof(text) - 1) < 0)
		harm_say("no statm");
	close(fd);
	return strtoul(text, NULL, 10) * 4096;
}

static void little_space(void)
{
	harm_begin();
	harm_work(ROUNDS);
	limit(RLIMIT_AS, own_bytes() + ROOM);
	harm_hold(HARM_MIDDLE);
	harm_work(ROUNDS);
	harm_hold(HARM_LATE);
	harm_work(ROUNDS);
	harm_hold(HARM_LAST);
}

static void become_own_user(void)
{
	if (setgid(OWN_UID) < 0 || setuid(OWN_UID) < 0)
		harm_say("setuid: %s", strerror(errno));
}

static void *nothing(void *data)
{
	return data;
}

/* No thread can be started any more. */
static void no_threads(void)
{
	pthread_t thread;

	harm_begin();
	harm_work(ROUNDS);
	limit(RLIMIT_NPROC, 1);
	become_own_user();
	harm_run();
	harm_say("a thread: %s", strerror(pthread_create(&thread, NULL, nothing, NULL)));
}

/* Whatever is mapped is locked, within a limit. */
static void locked_memory(void)
{
	harm_begin();
	harm_work(ROUNDS);
	limit(RLIMIT_MEMLOCK, LOCKED);
	become_own_user();
	if (mlockall(MCL_FUTURE) < 0)
		harm_skip("mlockall: %s", strerror(errno));
	harm_run();
}

/* As setproctitle() does: the strings of the environment are the title's now. */
static void overwritten_title(void)
{
	char *first = harm_arguments[0], *end = first;
	char *kept[4];

	for (int i = 0; i < 4; i++)
		kept[i] = strdup(harm_arguments[i]);
	for (int i = 0; harm_arguments[i]; i++)
		end = harm_arguments[i] + strlen(harm_arguments[i]);
	for (int i = 0; environ[i]; i++)
		end = environ[i] + strlen(environ[i]);
	harm_driver = kept[3];
	harm_begin();
	memset(first, 'x', (size_t)(end - first));
	harm_run();
	harm_say("title: %.4s", first);
}

/* environ itself is gone. */
static void no_environment(void)
{
	harm_begin();
	clearenv();
	environ = NULL;
	harm_run();
	harm_say("PATH: %s", getenv("PATH") ?: "none");
}

#ifndef PR_SET_MDWE
#define PR_SET_MDWE		 65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

static void no_new_code(void)
{
	if (prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) < 0)
		harm_skip("no PR_SET_MDWE: %s", strerror(errno));
	harm_begin();
	harm_run();
	harm_say("memory to write and execute: %s",
		 mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
		      -1, 0) == MAP_FAILED
			 ? strerror(errno)
			 : "allowed");
}

const struct harm_case harm_limits[] = {
	{ "no-descriptors", no_descriptors },
	{ "close-all", close_all },
	{ "lowest-descriptor", lowest_descriptor },
	{ "no-streams", no_streams },
	{ "little-space", little_space },
	{ "no-threads", no_threads },
	{ "locked-memory", locked_memory },
	{ "overwritten-title", overwritten_title },
	{ "no-environment", no_environment },
	{ "no-new-code", no_new_code },
	{ NULL, NULL },
};
