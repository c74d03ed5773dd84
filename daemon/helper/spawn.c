/* Spawn: the zygote and what it forks. The zygote has one thread, and of the daemon's descriptors
 * only standard output and error. */
#include "daemon/helper/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"

#define NAME "ts-zygote"

ssize_t spawn_send(int socket, const void *data, size_t size, const int *fd, uint32_t fds)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(SPAWN_FDS * sizeof(int))];
	struct iovec iov = { (void *)data, size };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (fds > SPAWN_FDS)
		return -EINVAL;
	if (fds) {
		struct cmsghdr *head = (struct cmsghdr *)control;

		memset(control, 0, sizeof(control));
		*head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(fds * sizeof(int)),
					  .cmsg_level = SOL_SOCKET,
					  .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(head), fd, fds * sizeof(int));
		message.msg_control = control;
		message.msg_controllen = CMSG_SPACE(fds * sizeof(int));
	}
	n = sendmsg(socket, &message, MSG_NOSIGNAL);
	return n < 0 ? -errno : n;
}

static uint32_t message_fds(struct msghdr *message, int fd[SPAWN_FDS])
{
	uint32_t fds = 0;

	for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head;
	     head = CMSG_NXTHDR(message, head)) {
		size_t size = head->cmsg_len - CMSG_LEN(0);

		if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS ||
		    fds + size / sizeof(int) > SPAWN_FDS)
			continue;
		memcpy(fd + fds, CMSG_DATA(head), size);
		fds += (uint32_t)(size / sizeof(int));
	}
	return fds;
}

ssize_t spawn_receive(int socket, void *data, size_t size, int flags, int fd[SPAWN_FDS],
		      uint32_t *ret_fds)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(SPAWN_FDS * sizeof(int))];
	struct iovec iov = { data, size };
	struct msghdr message = { .msg_iov = &iov,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	ssize_t n;

	do
		n = recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	*ret_fds = 0;
	if (n < 0)
		return -errno;
	*ret_fds = message_fds(&message, fd);
	return message.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ? -EMSGSIZE : n;
}

void spawn_keep(const int *fd, size_t count)
{
	int before = STDERR_FILENO, next;

	do {
		next = INT_MAX;
		for (size_t i = 0; i < count; i++)
			if (fd[i] > before && fd[i] < next)
				next = fd[i];
		if (next > before + 1)
			syscall(SYS_close_range, before + 1, next - 1, 0);
		before = next;
	} while (next < INT_MAX);
}

/* Ends with its parent, which may have ended already. */
static void follow(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_SUCCESS);
}

_Noreturn static void child_run(const struct spawn_role *role, int socket, pid_t zygote)
{
	int pidfd;

	follow(zygote);
	signal(SIGCHLD, SIG_DFL);
	prctl(PR_SET_NAME, role->name);
	pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	if (pidfd < 0 || spawn_send(socket, "", 1, &pidfd, 1) < 0)
		_exit(EXIT_FAILURE);
	close(pidfd);
	role->run(socket);
	_exit(EXIT_SUCCESS);
}

_Noreturn static void zygote_run(const struct spawn_role *roles, uint32_t count, int socket)
{
	pid_t self = getpid();
	int fd[SPAWN_FDS];
	uint32_t role, fds;

	for (;;) {
		ssize_t n = spawn_receive(socket, &role, sizeof(role), 0, fd, &fds);

		if (n != sizeof(role) || fds != 1 || role >= count)
			_exit(EXIT_SUCCESS);
		if (fork() == 0) {
			close(socket);
			child_run(&roles[role], fd[0], self);
		}
		close(fd[0]); /* if there is no child, its end tells */
	}
}

/* From the daemon's descriptors it takes its own end only; nobody's children are waited for. */
_Noreturn static void zygote_begin(const struct spawn_role *roles, uint32_t count, int socket,
				   pid_t daemon)
{
	const int quiet[] = { SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGCHLD };
	const int low = STDERR_FILENO + 1; /* helpers may have few */
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	follow(daemon);
	prctl(PR_SET_NAME, NAME);
	for (size_t i = 0; i < ARRAY_SIZE(quiet); i++)
		signal(quiet[i], SIG_IGN);
	if (dup2(null, STDIN_FILENO) < 0 || dup2(socket, low) < 0 ||
	    fcntl(low, F_SETFD, FD_CLOEXEC) < 0)
		_exit(EXIT_FAILURE);
	spawn_keep(&low, 1);
	zygote_run(roles, count, low);
}

int spawn_start(const struct spawn_role *roles, uint32_t count, int *ret_zygote)
{
	pid_t self = getpid(), pid;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		zygote_begin(roles, count, pair[1], self);
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return -errno;
	}
	fcntl(pair[0], F_SETFL, O_NONBLOCK);
	*ret_zygote = pair[0];
	return 0;
}

int spawn_child(int zygote, uint32_t role, int *ret_socket)
{
	_cleanup_(closep) int ours = -1, theirs = -1;
	int pair[2];
	ssize_t n;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	ours = pair[0];
	theirs = pair[1];
	n = spawn_send(zygote, &role, sizeof(role), &theirs, 1);
	if (n < 0)
		return (int)n;
	*ret_socket = TAKE_FD(ours);
	return 0;
}

int spawn_take_pidfd(int socket, int *ret_pidfd)
{
	int fd[SPAWN_FDS];
	uint32_t fds;
	char byte;
	ssize_t n = spawn_receive(socket, &byte, 1, MSG_DONTWAIT, fd, &fds);

	if (n < 0)
		return (int)n;
	if (fds != 1) {
		while (fds)
			close(fd[--fds]);
		return -EPIPE;
	}
	*ret_pidfd = fd[0];
	return 0;
}

void spawn_kill(int pidfd)
{
	syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
}
