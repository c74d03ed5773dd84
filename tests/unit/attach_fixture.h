/* attach_fixture.h: programs to attach to, and what is to be the same of them afterwards. */
#ifndef TS_ATTACH_FIXTURE_H
#define TS_ATTACH_FIXTURE_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "daemon/attach/attach.h"
#include "tests/unit/attach_library.h"

#define DEADLINE_MS 60000

struct victim {
	pid_t pid;
	const char *mode;
	int in; /* a stream socket: its standard input */
	int out;
};

/* What a process has, counted. */
struct residue {
	int threads, descriptors, mappings, ours;
	int placed; /* at the place of ours, without a name */
};

static uint64_t fixture_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void fixture_rest(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

/* False: it takes too long. */
static bool fixture_rests(uint64_t end_ms)
{
	fixture_rest();
	return fixture_now_ms() < end_ms;
}

/* A file that looks like the driver's library, of a name that the daemons of the end-to-end tests
 * beside us do not look for: they would tidy up what we leave. */
static const char *fixture_cuda(void)
{
	static char path[64];
	char page[4096] = { 0 };
	int fd;

	if (path[0])
		return path;
	snprintf(path, sizeof(path), "/tmp/test_attach.%d", getpid());
	mkdir(path, 0755);
	strcat(path, "/libcuda.so.attach");
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
	if (fd < 0 || write(fd, page, sizeof(page)) != sizeof(page))
		abort();
	close(fd);
	return path;
}

static void fixture_end(void)
{
	char *slash, path[64];

	snprintf(path, sizeof(path), "%s", fixture_cuda());
	unlink(path);
	slash = strrchr(path, '/');
	*slash = '\0';
	rmdir(path);
}

/* `before` runs in the child, before the program. */
static struct victim victim_start_as(const char *program, const char *mode, const char *alone,
				     void (*before)(void))
{
	struct victim victim = { .mode = mode };
	int in[2], out[2];
	char c;

	fixture_cuda();
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) || pipe2(out, O_CLOEXEC))
		abort();
	victim.pid = fork();
	if (victim.pid == 0) {
		sigset_t none;

		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		dup2(in[1], 0);
		dup2(out[1], 1);
		if (before)
			before();
		execl(program, program, fixture_cuda(), mode, alone, NULL);
		_exit(127);
	}
	close(in[1]);
	close(out[1]);
	victim.in = in[0];
	victim.out = out[0];
	do
		if (read(victim.out, &c, 1) != 1)
			break;
	while (c != '\n');
	return victim;
}

static struct victim victim_start(const char *mode, const char *alone)
{
	return victim_start_as(ATTACH_TARGET, mode, alone, NULL);
}

/* What it is doing, for a message. */
static const char *victim_state(const struct victim *victim)
{
	static const char *const files[] = { "stat", "syscall" };
	static char text[1024];
	char path[64], line[400];
	int length = snprintf(text, sizeof(text), "'%s'", victim->mode);

	for (int i = 0; i < 2; i++) {
		FILE *file;

		line[0] = '\0';
		snprintf(path, sizeof(path), "/proc/%d/%s", victim->pid, files[i]);
		file = fopen(path, "re");
		if (file && fgets(line, sizeof(line), file))
			line[strcspn(line, "\n")] = '\0';
		if (file)
			fclose(file);
		length += snprintf(text + length, sizeof(text) - (size_t)length, ", %s: %s",
				   files[i], line);
	}
	return text;
}

/* Its exit status, or 1000 + the signal that ended it. */
static int victim_end(struct victim *victim)
{
	uint64_t end = fixture_now_ms() + DEADLINE_MS;
	bool late = false;
	int status;

	send(victim->in, "x", 1, MSG_NOSIGNAL);
	shutdown(victim->in, SHUT_WR);
	while (waitpid(victim->pid, &status, WNOHANG) == 0) {
		if (fixture_rests(end) || late)
			continue;
		late = true;
		fprintf(stderr, "does not end: %s\n", victim_state(victim));
		kill(victim->pid, SIGKILL);
	}
	close(victim->in);
	close(victim->out);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int count_entries(pid_t pid, const char *folder)
{
	char path[64];
	struct dirent *entry;
	int count = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, folder);
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		count += entry->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return count;
}

static struct residue residue_of(pid_t pid)
{
	struct residue residue = { count_entries(pid, "task"), count_entries(pid, "fd"), 0, 0, 0 };
	char path[64], line[512];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		residue.mappings++;
		residue.ours += strstr(strrchr(line, '/') ?: line, "tracesmith") != NULL;
		residue.placed += strtoull(line, NULL, 16) >> 24 == ATTACH_PLACE >> 24;
	}
	if (file)
		fclose(file);
	return residue;
}

static inline const char *residue_text(struct residue residue)
{
	static char text[2][128];
	static int turn;

	turn = !turn;
	snprintf(text[turn], sizeof(text[turn]),
		 "%d threads, %d descriptors, %d mappings, %d of ours, %d placed", residue.threads,
		 residue.descriptors, residue.mappings, residue.ours, residue.placed);
	return text[turn];
}

static int fixture_library(void)
{
	static int fd = -1;

	if (fd < 0)
		fd = open(ATTACH_LIBRARY, O_RDONLY | O_CLOEXEC);
	return fd;
}

/* Where the host is so busy that none of its threads was free in time, or one with a lock had no
 * processor, it is tried again, as the answer says. */
static int attach_again(const struct attach_request *request, struct attach_result *ret,
			struct remarks *why)
{
	uint64_t end = fixture_now_ms() + DEADLINE_MS;
	int r;

	while ((r = attach_run(request, ret, why)) == -EAGAIN && fixture_now_ms() < end)
		;
	return r;
}

static struct attach_request victim_request(const struct victim *victim, uint32_t entry_does)
{
	return (struct attach_request){
		.pid = victim->pid,
		.library = fixture_library(),
		.wanted.flush_ms = entry_does,
		.seccomp = true,
	};
}

static int victim_attach(const struct victim *victim, uint32_t entry_does,
			 struct attach_result *ret, struct remarks *why)
{
	struct attach_request request = victim_request(victim, entry_does);

	return attach_again(&request, ret, why);
}

static int victim_unload(const struct victim *victim, uint64_t handle, struct remarks *why)
{
	uint64_t end = fixture_now_ms() + DEADLINE_MS;
	int r;

	while ((r = attach_unload(victim->pid, 0, handle, why)) == -EAGAIN &&
	       fixture_now_ms() < end)
		;
	return r;
}

/* Reads from the library until the message of this kind. */
static bool fixture_hears(int socket, uint32_t message)
{
	struct pollfd wait = { .fd = socket, .events = POLLIN };
	uint32_t text[256];

	while (poll(&wait, 1, DEADLINE_MS) == 1 && recv(socket, text, sizeof(text), 0) > 0)
		if (text[0] == message)
			return true;
	return false;
}

static bool fixture_dismiss(int socket)
{
	struct ts_refused detach = { .message = TS_MESSAGE_DETACH };

	return send(socket, &detach, sizeof(detach), MSG_NOSIGNAL) == sizeof(detach) &&
	       fixture_hears(socket, TS_MESSAGE_STATE);
}

#endif
