/* spawn.h: children of the daemon that can be killed at any moment, because nobody else needs what
 * they hold.
 *
 * A process of its own forks them, the zygote, which starts before the daemon has threads or data.
 * So a child costs little memory, may use any function of libc, and has none of the daemon's
 * descriptors. Zygote and children end with the daemon, however it ends.
 */
#ifndef TS_SPAWN_H
#define TS_SPAWN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What a child may be. It runs until `run` returns, with a SOCK_SEQPACKET socket to whoever asked
 * for it, and should return when that reports its end. SIGTERM, SIGINT and SIGHUP are ignored. */
struct spawn_role {
	const char *name; /* its comm: at most 15 characters */
	void (*run)(int socket);
};

/* Before any thread. The roles are static. */
int spawn_start(const struct spawn_role *roles, uint32_t count, int *ret_zygote);

/* On any thread; does not wait. The child's first message on the socket is for
 * spawn_take_pidfd(). -EAGAIN: the zygote is busy; -EPIPE: it is gone. */
int spawn_child(int zygote, uint32_t role, int *ret_socket);
/* Reads that message: the child's pidfd. -EAGAIN: not yet; -EPIPE: it has ended. */
int spawn_take_pidfd(int socket, int *ret_pidfd);
/* The kernel cannot refuse, but may take its time: the end of the socket tells. */
void spawn_kill(int pidfd);

/* In a child: of what it has got of its parent's descriptors only the standard ones stay open, and
 * these; those below 0 are none. */
void spawn_keep(const int *fd, size_t count);

/* One message with descriptors (at most SPAWN_FDS). The bytes sent, or read: 0 is the socket's end.
 * The descriptors that come are the caller's, also those of a message that was too long. */
#define SPAWN_FDS 64
ssize_t spawn_send(int socket, const void *data, size_t size, const int *fd, uint32_t fds);
ssize_t spawn_receive(int socket, void *data, size_t size, int flags, int fd[SPAWN_FDS],
		      uint32_t *ret_fds);

#endif
