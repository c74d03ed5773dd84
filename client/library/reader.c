/* Reader: a recording is read by a tsctl of ours, which answers in the daemon's place on a socket
 * that it gets as its standard input. What it prints goes to a file in memory. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/library/session.h"

#define PROGRAM	    "tsctl"
#define PROGRAM_ENV "TRACESMITH_TSCTL"
#define PRINTED	    PROGRAM ": "

extern char **environ;

/* Its signals are as if nobody had changed them: a program that ignores SIGPIPE has children that
 * do. */
static int start(pid_t *ret, const char *program, const char *path, int socket, int printed)
{
	char *const argument[] = { (char *)program, "answer", "--", (char *)path, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t how;
	sigset_t none, all;
	int r;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_init(&how);
	posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&how, &none);
	posix_spawnattr_setsigdefault(&how, &all);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, socket, STDIN_FILENO);
	posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_adddup2(&files, printed, STDERR_FILENO);
	r = posix_spawnp(ret, program, &files, &how, argument, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&how);
	return -r;
}

/* The last sentence that it has printed. */
static void take_printed(struct tracesmith *ts)
{
	char text[4 * CONNECTION_MESSAGE_BYTES], *last;
	const off_t end = lseek(ts->said, 0, SEEK_END);
	const off_t from = end > (off_t)sizeof(text) - 1 ? end - (off_t)sizeof(text) + 1 : 0;
	ssize_t size = end > 0 ? pread(ts->said, text, sizeof(text) - 1, from) : 0;

	while (size > 0 && text[size - 1] == '\n')
		size--;
	if (size <= 0)
		return;
	text[size] = '\0';
	last = strrchr(text, '\n');
	last = last ? last + 1 : text;
	if (strncmp(last, PRINTED, strlen(PRINTED)) == 0)
		last += strlen(PRINTED);
	session_fail(ts, TRACESMITH_UNAVAILABLE, "%s", last);
}

void reader_end(struct tracesmith *ts, bool now)
{
	if (ts->reader <= 0)
		return;
	if (now)
		kill(ts->reader, SIGKILL);
	while (waitpid(ts->reader, NULL, 0) < 0 && errno == EINTR)
		;
	ts->reader = 0;
	take_printed(ts);
}

EXPORT int tracesmith_open(struct tracesmith *ts, const char *path, const char *tsctl)
{
	const char *program = tsctl ? tsctl : getenv(PROGRAM_ENV);
	_cleanup_(closep) int theirs = -1;
	uint64_t until_ns;
	int fd[2], r;

	if (!ts)
		return TRACESMITH_BAD_REQUEST;
	session_close(ts);
	until_ns = session_until(ts);
	if (!path)
		return session_fail(ts, TRACESMITH_BAD_REQUEST, "A recording needs a path");
	if (!program || !*program)
		program = PROGRAM;
	ts->said = memfd_create("tsctl", MFD_CLOEXEC);
	if (ts->said < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) < 0)
		return session_fail(ts, TRACESMITH_FAILED, "Cannot read '%s': %s", path,
				    strerror(errno));
	theirs = fd[1];
	r = start(&ts->reader, program, path, theirs, ts->said);
	if (r < 0) {
		close(fd[0]);
		ts->reader = 0;
		return session_fail(ts, TRACESMITH_UNAVAILABLE,
				    "Cannot run '%s', which reads recordings: %s", program,
				    strerror(-r));
	}
	closep(&theirs);
	theirs = -1;
	return session_open(ts, fd[0], until_ns);
}
