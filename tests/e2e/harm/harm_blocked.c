/* Harm, blocked: a thread that waits in a system call that is not restarted, or cannot be stopped.
 * It must come back once, with what it waited for, and never with EINTR. */
#include "harm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 100

static int ends[2], extra;
static _Atomic pid_t waiter_tid;
static char much[1 << 20];
static char *held_page;
static pid_t child;

static void pipe_make(void)
{
	if (pipe2(ends, O_CLOEXEC) < 0)
		harm_skip("no pipe");
}

static void pair_make(void)
{
	const struct timeval limit = { 3600, 0 };

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		harm_skip("no socket");
	setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

static void pipe_write(void)
{
	if (write(ends[1], "x", 1) != 1)
		harm_say("no byte");
}

static long epoll_waits(void)
{
	struct epoll_event event = { .events = EPOLLIN };
	int fd = epoll_create1(EPOLL_CLOEXEC);
	long r;

	epoll_ctl(fd, EPOLL_CTL_ADD, ends[0], &event);
	r = epoll_wait(fd, &event, 1, -1);
	close(fd);
	return r;
}

static long poll_waits(void)
{
	struct pollfd one = { .fd = ends[0], .events = POLLIN };

	return poll(&one, 1, 3600000);
}

static long select_waits(void)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(ends[0], &set);
	return select(ends[0] + 1, &set, NULL, NULL, NULL);
}

static long reads(void)
{
	char byte;

	return read(ends[0], &byte, 1);
}

static long recv_waits(void)
{
	char byte;

	return recv(ends[0], &byte, 1, 0);
}

static long writes(void)
{
	return write(ends[1], much, sizeof(much));
}

static void drain(void)
{
	static char some[4096];

	for (size_t got = 0; got < sizeof(much);) {
		ssize_t n = read(ends[0], some, sizeof(some));

		if (n <= 0)
			return;
		got += (size_t)n;
	}
}

static void uring_make(void)
{
	struct io_uring_params params = { 0 };

	extra = (int)syscall(SYS_io_uring_setup, 4, &params);
	if (extra < 0)
		harm_skip("no io_uring: %s", strerror(errno));
	held_page =
		mmap(NULL, 4096 * 4, PROT_READ | PROT_WRITE, MAP_SHARED, extra, IORING_OFF_SQ_RING);
	struct io_uring_sqe *sqe =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, extra, IORING_OFF_SQES);
	if (held_page == MAP_FAILED || sqe == MAP_FAILED)
		harm_skip("no ring");
	pipe_make();
	*sqe = (struct io_uring_sqe){
		.opcode = IORING_OP_READ, .fd = ends[0], .addr = (uintptr_t)much, .len = 1
	};
	((uint32_t *)(held_page + params.sq_off.array))[0] = 0;
	__atomic_store_n((uint32_t *)(held_page + params.sq_off.tail), 1, __ATOMIC_RELEASE);
}

static long uring_waits(void)
{
	return syscall(SYS_io_uring_enter, extra, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
}

static void sem_make(void)
{
	extra = semget(IPC_PRIVATE, 1, 0600);
	if (extra < 0)
		harm_skip("no semaphore");
}

static long sem_waits(void)
{
	struct sembuf take = { 0, -1, 0 };

	return semop(extra, &take, 1);
}

static void sem_give(void)
{
	struct sembuf give = { 0, 1, 0 };

	semop(extra, &give, 1);
}

static void sem_free(void)
{
	semctl(extra, 0, IPC_RMID);
}

static void message_make(void)
{
	extra = msgget(IPC_PRIVATE, 0600);
	if (extra < 0)
		harm_skip("no queue");
}

static long message_waits(void)
{
	struct {
		long type;
		char text[8];
	} message;

	return msgrcv(extra, &message, sizeof(message.text), 0, 0);
}

static void message_send(void)
{
	const struct {
		long type;
		char text[8];
	} message = { 1, "x" };

	msgsnd(extra, &message, 1, 0);
}

static void message_free(void)
{
	msgctl(extra, IPC_RMID, NULL);
}

static void inotify_make(void)
{
	extra = inotify_init1(IN_CLOEXEC);
	inotify_add_watch(extra, "/tmp", IN_ATTRIB); /* of the directory, and what is in it */
	pipe_make();
}

static long inotify_waits(void)
{
	/* Others touch /tmp, too: any event will do. */
	return read(extra, much, sizeof(much)) > 0;
}

static void touch(void)
{
	utimensat(AT_FDCWD, harm_arguments[2], NULL, 0);
}

static void signals_make(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static long signal_waits(void)
{
	const struct timespec limit = { 3600, 0 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	return sigtimedwait(&set, NULL, &limit) == SIGRTMIN ? 1 : -1;
}

static void signal_send(void)
{
	syscall(SYS_tgkill, getpid(), waiter_tid, SIGRTMIN);
}

static void aio_make(void)
{
	if (syscall(SYS_io_setup, 4, &held_page) < 0)
		harm_skip("no aio");
	pipe_make();
}

static long aio_waits(void)
{
	const struct timespec limit = { 3600, 0 };
	struct iocb poll = { .aio_lio_opcode = IOCB_CMD_POLL,
			     .aio_fildes = (uint32_t)ends[0],
			     .aio_buf = POLLIN };
	struct iocb *list = &poll;
	struct io_event event;

	if (syscall(SYS_io_submit, held_page, 1, &list) != 1)
		return -1;
	return syscall(SYS_io_getevents, held_page, 1, 1, &event, &limit);
}

static void listen_make(void)
{
	struct sockaddr_un any = { .sun_family = AF_UNIX };

	extra = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bind(extra, (struct sockaddr *)&any, sizeof(any.sun_family));
	listen(extra, 1);
}

static long accepts(void)
{
	int fd = accept4(extra, NULL, NULL, SOCK_CLOEXEC);

	return fd < 0 ? fd : (close(fd), 1);
}

static void connects(void)
{
	struct sockaddr_un own;
	socklen_t size = sizeof(own);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	getsockname(extra, (struct sockaddr *)&own, &size);
	connect(fd, (struct sockaddr *)&own, size);
	close(fd);
}

static void lock_make(void)
{
	extra = open(harm_arguments[2], O_RDWR | O_CLOEXEC);
	flock(extra, LOCK_EX);
}

static long lock_waits(void)
{
	int fd = open(harm_arguments[2], O_RDWR | O_CLOEXEC);
	long r = flock(fd, LOCK_EX);

	close(fd);
	return r;
}

static void lock_give(void)
{
	flock(extra, LOCK_UN);
}

static void fault_make(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };

	extra = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	held_page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	range.range.start = (uintptr_t)held_page;
	range.range.len = 4096;
	if (extra < 0 || ioctl(extra, UFFDIO_API, &api) < 0 ||
	    ioctl(extra, UFFDIO_REGISTER, &range) < 0)
		harm_skip("no userfaultfd: %s", strerror(errno));
}

static long fault_waits(void)
{
	return *(volatile char *)held_page;
}

static void fault_answer(void)
{
	struct uffdio_zeropage zero = { .range = { (uintptr_t)held_page, 4096 } };

	ioctl(extra, UFFDIO_ZEROPAGE, &zero);
}

/* The parent of vfork() waits where nothing can stop it. */
static void vfork_make(void)
{
	pipe_make();
}

static long vforks(void)
{
	static char byte;
	static int status;

	child = vfork();
	if (child == 0) {
		while (read(ends[0], &byte, 1) < 0)
			;
		_exit(3);
	}
	waitpid(child, &status, 0);
	return WEXITSTATUS(status);
}

static const struct blocked {
	const char *name;
	void (*make)(void);
	long (*wait)(void);
	void (*end)(void);
	void (*free)(void);
	long call; /* where it waits, -1: not in a call */
} blocked[] = {
	{ "epoll_wait", pipe_make, epoll_waits, pipe_write, NULL, SYS_epoll_wait },
	{ "poll", pipe_make, poll_waits, pipe_write, NULL, SYS_poll },
	{ "select", pipe_make, select_waits, pipe_write, NULL, SYS_pselect6 },
	{ "read", pipe_make, reads, pipe_write, NULL, SYS_read },
	{ "recv", pair_make, recv_waits, pipe_write, NULL, SYS_recvfrom },
	{ "write", pipe_make, writes, drain, NULL, SYS_write },
	{ "io_uring", uring_make, uring_waits, pipe_write, NULL, SYS_io_uring_enter },
	{ "semop", sem_make, sem_waits, sem_give, sem_free, SYS_semtimedop },
	{ "msgrcv", message_make, message_waits, message_send, message_free, SYS_msgrcv },
	{ "inotify", inotify_make, inotify_waits, touch, NULL, SYS_read },
	{ "sigtimedwait", signals_make, signal_waits, signal_send, NULL, SYS_rt_sigtimedwait },
	{ "io_getevents", aio_make, aio_waits, pipe_write, NULL, SYS_io_getevents },
	{ "accept", listen_make, accepts, connects, NULL, SYS_accept4 },
	{ "flock", lock_make, lock_waits, lock_give, NULL, SYS_flock },
	{ "userfault", fault_make, fault_waits, fault_answer, NULL, -1 },
	{ "vfork", vfork_make, vforks, pipe_write, NULL, -1 },
};

static void *waiter(void *data)
{
	const struct blocked *b = data;
	long r;

	waiter_tid = (pid_t)syscall(SYS_gettid);
	errno = 0;
	r = b->wait();
	harm_say("%s: %ld, %s", b->name, r, r < 0 ? strerror(errno) : "no error");
	return NULL;
}

/* Waits from before MIDDLE until LATE has been left. */
static void run(const struct blocked *b)
{
	pthread_t thread;

	harm_begin();
	b->make();
	harm_start(&thread, waiter, (void *)b);
	while (!waiter_tid)
		harm_nap(1000);
	if (b->call >= 0)
		harm_wait_in(waiter_tid, b->call);
	else
		harm_nap(20000);
	harm_work(ROUNDS);
	harm_hold(HARM_MIDDLE);
	harm_work(ROUNDS);
	harm_hold(HARM_LATE);
	b->end();
	pthread_join(thread, NULL);
	if (b->free)
		b->free();
	harm_work(ROUNDS);
	harm_hold(HARM_LAST);
}

#define CASE(number, name)                                                                         \
	static void run_##name(void)                                                               \
	{                                                                                          \
		run(&blocked[number]);                                                             \
	}
CASE(0, epoll)
CASE(1, poll)
CASE(2, select)
CASE(3, read)
CASE(4, recv)
CASE(5, write)
CASE(6, io_uring)
CASE(7, semop)
CASE(8, msgrcv)
CASE(9, inotify)
CASE(10, sigtimedwait)
CASE(11, io_getevents)
CASE(12, accept)
CASE(13, flock)
CASE(14, userfault)
CASE(15, vfork)

const struct harm_case harm_blocked[] = {
	{ "in-epoll", run_epoll },
	{ "in-poll", run_poll },
	{ "in-select", run_select },
	{ "in-read", run_read },
	{ "in-recv", run_recv },
	{ "in-write", run_write },
	{ "in-io-uring", run_io_uring },
	{ "in-semop", run_semop },
	{ "in-msgrcv", run_msgrcv },
	{ "in-inotify", run_inotify },
	{ "in-sigtimedwait", run_sigtimedwait },
	{ "in-io-getevents", run_io_getevents },
	{ "in-accept", run_accept },
	{ "in-flock", run_flock },
	{ "in-userfault", run_userfault },
	{ "in-vfork", run_vfork },
	{ NULL, NULL },
};
