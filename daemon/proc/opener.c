/* Opener: the process, and how it is asked: one SEQPACKET message each way. */
#include "daemon/proc/opener.h"

#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "daemon/helper/confine.h"
#include "daemon/helper/spawn.h"
#include "daemon/proc/variables.h"

#define NAME	   "ts-opener"
#define RIGHT(of)  (1ull << (of))
#define PATIENCE_S 1 /* of the loop */

struct message {
	uint32_t kind, pid;
	uint64_t start, end;
	uint64_t number; /* of the request: a late answer is none */
	char path[PATH_MAX];
};

struct answer {
	uint64_t number;
	int32_t result; /* with a text: its bytes */
	uint32_t value;
	char text[1024];
};

static enum opener_asker asker; /* in the opener */
static int opener = -1;		/* the socket */
static uint64_t asked;
static bool needed; /* by a helper: what it does without it would be half done */

static const uint64_t tracing =
	RIGHT(CAP_SYS_PTRACE) | RIGHT(CAP_DAC_READ_SEARCH) | RIGHT(CAP_CHECKPOINT_RESTORE);

static const uint16_t calls[] = {
	SYS_brk,	  SYS_clock_gettime, SYS_close,	   SYS_exit,
	SYS_exit_group,	  SYS_fcntl,	     SYS_fstat,	   SYS_fstatfs,
	SYS_futex,	  SYS_getrandom,     SYS_ioctl,	   SYS_lseek,
	SYS_madvise,	  SYS_mmap,	     SYS_mprotect, SYS_mremap,
	SYS_munmap,	  SYS_newfstatat,    SYS_openat,   SYS_openat2,
	SYS_pread64,	  SYS_read,	     SYS_recvmsg,  SYS_restart_syscall,
	SYS_rt_sigreturn, SYS_sendmsg,
};

static int confine(void)
{
	int r = confine_rights_but(tracing);

	return r < 0 ? r : confine_calls(calls, ARRAY_SIZE(calls));
}

static int act(const struct message *message, size_t size, const int *fd, uint32_t fds,
	       uint32_t *ret_value)
{
	const struct opener_request request = {
		.kind = message->kind,
		.pid = message->pid,
		.start = message->start,
		.end = message->end,
		.path = message->path,
		.file = fds ? fd[0] : -1,
	};

	if (size < offsetof(struct message, path) ||
	    (request.kind == OPENER_PATH &&
	     !memchr(message->path, '\0', size - offsetof(struct message, path))))
		return -EBADMSG;
	if (asker == OPENER_OF_LOOP && request.kind < OPENER_THREADS)
		return -EACCES;
	return opener_act(&request, false, ret_value);
}

static bool is_text(uint32_t kind)
{
	return kind >= OPENER_STAT && kind <= OPENER_VARIABLES;
}

/* Takes the descriptor, from which it is read. */
static int read_text(uint32_t kind, int fd, char *ret, size_t size)
{
	_cleanup_(closep) int file = fd;
	ssize_t n;

	if (file < 0)
		return file;
	if (kind == OPENER_VARIABLES)
		return variables_read(file, ret, size);
	n = read(file, ret, size - 1);
	if (n < 0)
		return -errno;
	ret[n] = '\0';
	return (int)n;
}

bool opener_serve(int socket)
{
	static struct message message;
	struct answer answer = { 0 };
	_cleanup_(closep) int opened = -1;
	int fd[SPAWN_FDS];
	uint32_t fds;
	ssize_t n = spawn_receive(socket, &message, sizeof(message), 0, fd, &fds);

	if (n <= 0 && n != -EMSGSIZE)
		return false;
	answer.result = act(&message, n < 0 ? 0 : (size_t)n, fd, fds, &answer.value);
	while (fds)
		close(fd[--fds]);
	answer.number = message.number;
	if (is_text(message.kind)) {
		answer.result =
			read_text(message.kind, answer.result, answer.text, sizeof(answer.text));
	} else if (message.kind != OPENER_OWNER && answer.result >= 0) {
		opened = answer.result;
		answer.result = 0;
	}
	return spawn_send(socket, &answer, sizeof(answer), &opened, opened >= 0) > 0;
}

/* Of its asker's descriptors it keeps its own end, and `kept`. */
_Noreturn static void run(int socket, int kept, pid_t parent)
{
	const int ends[] = { socket, kept };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, NAME);
	if (getppid() != parent)
		_exit(EXIT_SUCCESS);
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	spawn_keep(ends, ARRAY_SIZE(ends));
	if (confine() < 0)
		_exit(EXIT_FAILURE);
	while (opener_serve(socket))
		;
	_exit(EXIT_SUCCESS);
}

int opener_start(enum opener_asker whose, int kept)
{
	pid_t self = getpid(), pid;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		asker = whose;
		run(pair[1], kept, self);
	}
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return -errno;
	}
	needed = whose == OPENER_OF_HELPER;
	if (whose == OPENER_OF_LOOP)
		setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO,
			   &(struct timeval){ .tv_sec = PATIENCE_S }, sizeof(struct timeval));
	closep(&opener);
	opener = pair[0];
	return 0;
}

int opener_life(void)
{
	return opener;
}

/* The answer to this request. */
static int receive(struct answer *ret, int fd[SPAWN_FDS], uint32_t *ret_fds)
{
	ssize_t n;

	for (;;) {
		n = spawn_receive(opener, ret, sizeof(*ret), 0, fd, ret_fds);
		if (n == -EAGAIN)
			return -ETIMEDOUT;
		if (n != sizeof(*ret))
			return n < 0 && n != -ECONNRESET ? (int)n : -EPIPE;
		if (ret->number == asked && ret->result >= 0)
			ret->text[sizeof(ret->text) - 1] = '\0';
		if (ret->number == asked)
			return ret->result;
		while (*ret_fds)
			close(fd[--*ret_fds]);
	}
}

/* A descriptor, if one comes, is the caller's. */
static int exchange(const struct opener_request *request, struct answer *answer, int *ret_fd)
{
	struct message message = {
		.kind = request->kind,
		.pid = request->pid,
		.start = request->start,
		.end = request->end,
	};
	size_t size = offsetof(struct message, path);
	int fd[SPAWN_FDS], r;
	uint32_t fds;
	ssize_t n;

	if (request->kind == OPENER_PATH) {
		if (strlen(request->path) >= sizeof(message.path))
			return -ENAMETOOLONG;
		strcpy(message.path, request->path);
		size += strlen(request->path) + 1;
	}
	message.number = ++asked;
	n = spawn_send(opener, &message, size, &request->file, request->kind == OPENER_FILE);
	r = n < 0 ? (int)n : receive(answer, fd, &fds);
	if (r == -EPIPE && needed)
		_exit(EXIT_FAILURE);
	if (n < 0)
		return r;
	*ret_fd = fds ? fd[0] : -1;
	while (fds > 1)
		close(fd[--fds]);
	return r;
}

int opener_ask(const struct opener_request *request, uint32_t *ret_number)
{
	struct answer answer;
	int fd, r;

	if (opener < 0)
		return opener_act(request, true, ret_number);
	r = exchange(request, &answer, &fd);
	if (r < 0)
		return r;
	if (request->kind == OPENER_OWNER) {
		*ret_number = answer.value;
		return 0;
	}
	return fd < 0 ? -EPROTO : fd;
}

int opener_open(enum opener_kind kind, uint32_t pid)
{
	const struct opener_request request = { .kind = kind, .pid = pid, .file = -1 };

	return opener_ask(&request, NULL);
}

ssize_t opener_read(enum opener_kind kind, uint32_t pid, char *ret, size_t size)
{
	const struct opener_request request = { .kind = kind, .pid = pid, .file = -1 };
	struct answer answer;
	int fd, r;

	if (opener < 0)
		return read_text(kind, opener_act(&request, true, NULL), ret, size);
	r = exchange(&request, &answer, &fd);
	if (r < 0)
		return r;
	snprintf(ret, size, "%s", answer.text);
	return (ssize_t)strlen(ret);
}
