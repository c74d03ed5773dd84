/* Calls that wait, of the program that the tests attach to: each checks that it got what it waited
 * for, and no sooner. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/attach_target.h"
#include "tests/uring_of.h"

/* Calls that wait. Those with a time wait WAIT_MS and check that it was that; others wait for a
 * byte on standard input, or for a signal, which the test sends. */
static void wait_nanosleep(void)
{
	struct timespec left = { 0 }, time = { .tv_nsec = WAIT_MS * 1000000l };
	int r = nanosleep(&time, &left);

	CHECK(r == 0, r);
}

static void wait_clock(void)
{
	struct timespec time;
	int r;

	clock_gettime(CLOCK_MONOTONIC, &time);
	time.tv_nsec += WAIT_MS * 1000000l;
	time.tv_sec += time.tv_nsec / 1000000000l;
	time.tv_nsec %= 1000000000l;
	r = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
	CHECK(r == 0, r);
}

static void wait_poll(void)
{
	int r = poll(NULL, 0, WAIT_MS);

	CHECK(r == 0, r);
}

static void wait_ppoll(void)
{
	sigset_t mask;
	int r;

	sigemptyset(&mask);
	r = ppoll(NULL, 0, &(struct timespec){ .tv_nsec = WAIT_MS * 1000000l }, &mask);
	CHECK(r == 0, r);
}

static void wait_select(void)
{
	struct timeval time = { .tv_usec = WAIT_MS * 1000 };
	int r = select(0, NULL, NULL, NULL, &time);

	CHECK(r == 0, r);
}

static void wait_futex(void)
{
	struct timespec time = { .tv_nsec = WAIT_MS * 1000000l };
	uint32_t word = 1;
	long r = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, &time, NULL, 0);

	CHECK(r == -1 && errno == ETIMEDOUT, r);
}

static void wait_condition(void)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
	struct timespec time;
	int r;

	clock_gettime(CLOCK_REALTIME, &time);
	time.tv_nsec += WAIT_MS * 1000000l;
	time.tv_sec += time.tv_nsec / 1000000000l;
	time.tv_nsec %= 1000000000l;
	pthread_mutex_lock(&mutex);
	r = pthread_cond_timedwait(&condition, &mutex, &time);
	CHECK(r == ETIMEDOUT, r);
	pthread_mutex_unlock(&mutex);
}

static void wait_epoll_time(void)
{
	struct epoll_event event;
	int r = epoll_wait(epoll_create1(0), &event, 1, WAIT_MS);

	CHECK(r == 0, r);
}

static void wait_recv_time(void)
{
	struct timeval time = { .tv_usec = WAIT_MS * 1000 };
	int fd[2];
	char c;
	long r;

	socketpair(AF_UNIX, SOCK_STREAM, 0, fd);
	setsockopt(fd[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
	r = recv(fd[0], &c, 1, 0);
	CHECK(r == -1 && errno == EAGAIN, r);
}

static void wait_sigtimedwait(void)
{
	struct timespec time = { .tv_nsec = WAIT_MS * 1000000l };
	sigset_t mask;
	int r;

	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR2);
	r = sigtimedwait(&mask, NULL, &time);
	CHECK(r == -1 && errno == EAGAIN, r);
}

static void wait_child(void)
{
	int status = 1;
	pid_t r, child = fork();

	if (!child) {
		usleep(WAIT_MS * 1000);
		_exit(7);
	}
	r = waitpid(child, &status, 0);
	CHECK(r == child && WEXITSTATUS(status) == 7, r);
}

static void wait_read(void)
{
	char c = 0;
	long r = next_byte(&c);

	CHECK(r == 1 && c == 'x', r);
}

static void wait_recv(void)
{
	char c = 0;
	long r = recv(0, &c, 1, 0);

	CHECK(r == 1 && c == 'x', r);
}

static void wait_epoll(void)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = 77 };
	int epoll = epoll_create1(0), r;

	epoll_ctl(epoll, EPOLL_CTL_ADD, 0, &event);
	event.data.u32 = 0;
	r = epoll_wait(epoll, &event, 1, -1);
	CHECK(r == 1 && event.data.u32 == 77, r);
}

static void wait_pause(void)
{
	int r = pause();

	CHECK(r == -1 && errno == EINTR && handled == 1, handled);
}

static void wait_sigsuspend(void)
{
	sigset_t mask;
	int r;

	sigemptyset(&mask);
	r = sigsuspend(&mask);
	CHECK(r == -1 && errno == EINTR && handled == 1, handled);
}

static void wait_epoll_signal(void)
{
	struct epoll_event event;
	int r = epoll_wait(epoll_create1(0), &event, 1, -1);

	CHECK(r == -1 && errno == EINTR && handled == 1, handled);
}

static struct uring uring;

static void ring_open(void)
{
	CHECK(uring_open(&uring), errno);
}

static void ring_check(void)
{
	int32_t result = 0;

	CHECK(uring_is_done(&uring, &result) && result == 1 && uring.byte == 'x', result);
}

static void wait_uring(void)
{
	long r;

	ring_open();
	uring_put_read(&uring, 0);
	r = uring_enter(&uring, 1, 0);
	CHECK(r == 1, r);
	r = uring_enter(&uring, 0, 1);
	CHECK(r == 0, r);
	ring_check();
}

static void wait_uring_worker(void)
{
	long r;

	ring_open();
	uring_put_read(&uring, IOSQE_ASYNC);
	r = uring_enter(&uring, 1, 0);
	CHECK(r == 1, r);
	r = uring_enter(&uring, 0, 1);
	CHECK(r == 0, r);
	ring_check();
}

/* Would return at once with what it has submitted, and nothing done. */
static void wait_uring_submit(void)
{
	long r;

	ring_open();
	uring_put_read(&uring, 0);
	r = uring_enter(&uring, 1, 1);
	CHECK(r == 1, r);
	ring_check();
}

static void wait_uring_time(void)
{
	struct __kernel_timespec time = { .tv_nsec = WAIT_MS * 1000000l };
	struct io_uring_getevents_arg more = { .ts = (uintptr_t)&time };
	long r;

	ring_open();
	r = syscall(SYS_io_uring_enter, uring.fd, 0, 1,
		    IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &more, sizeof(more));
	CHECK(r == -1 && errno == ETIME, r);
}

static void wait_uring_signal(void)
{
	long r;

	ring_open();
	r = uring_enter(&uring, 0, 1);
	CHECK(r == -1 && errno == EINTR && handled == 1, handled);
}

/* A pipe that a child empties when a byte comes. */
static void pipe_wait(size_t size, bool full)
{
	static char block[256 << 10];
	pid_t child;
	int fd[2], status = 1;
	long r, before = 0;

	CHECK(pipe2(fd, O_CLOEXEC) == 0, 0);
	fcntl(fd[1], F_SETFL, O_NONBLOCK);
	while (full && (r = write(fd[1], block, 4096)) > 0)
		before += r;
	fcntl(fd[1], F_SETFL, 0);
	child = fork();
	if (!child) {
		char c = 0;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fd[1]);
		next_byte(&c);
		while ((r = read(fd[0], block, sizeof(block))) > 0)
			before -= r;
		_exit(c == 'x' && before + (long)size == 0 ? 7 : 8);
	}
	r = write(fd[1], block, size);
	CHECK(r == (long)size, r);
	close(fd[1]);
	waitpid(child, &status, 0);
	CHECK(WEXITSTATUS(status) == 7, status);
}

static void wait_pipe(void)
{
	pipe_wait(4096, true);
}

/* Waits after a part. */
static void wait_pipe_large(void)
{
	pipe_wait(256 << 10, false);
}

static const struct {
	const char *name;
	void (*wait)(void);
	bool timed;
	bool blocked; /* SIGUSR1, but for the wait */
} waits[] = {
	{ "nanosleep", wait_nanosleep, true, false },
	{ "clock_nanosleep", wait_clock, true, false },
	{ "poll", wait_poll, true, false },
	{ "ppoll", wait_ppoll, true, false },
	{ "select", wait_select, true, false },
	{ "futex", wait_futex, true, false },
	{ "condition", wait_condition, true, false },
	{ "epoll_time", wait_epoll_time, true, false },
	{ "recv_time", wait_recv_time, true, false },
	{ "sigtimedwait", wait_sigtimedwait, true, false },
	{ "wait4", wait_child, true, false },
	{ "read", wait_read, false, false },
	{ "recv", wait_recv, false, false },
	{ "epoll", wait_epoll, false, false },
	{ "pause", wait_pause, false, false },
	{ "sigsuspend", wait_sigsuspend, false, true },
	{ "epoll_signal", wait_epoll_signal, false, false },
	{ "uring", wait_uring, false, false },
	{ "uring_worker", wait_uring_worker, false, false },
	{ "uring_submit", wait_uring_submit, false, false },
	{ "uring_time", wait_uring_time, true, false },
	{ "uring_signal", wait_uring_signal, false, false },
	{ "pipe", wait_pipe, false, false },
	{ "pipe_large", wait_pipe_large, false, false },
};

bool run_wait(const char *name)
{
	sigset_t mask;

	handle(SIGUSR1, 0);
	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		int64_t begin = now_ms(), took;
		char c;

		if (strcmp(waits[i].name, name))
			continue;
		sigemptyset(&mask);
		sigaddset(&mask, SIGUSR1);
		sigprocmask(waits[i].blocked ? SIG_BLOCK : SIG_UNBLOCK, &mask, NULL);
		ready();
		waits[i].wait();
		took = now_ms() - begin;
		if (waits[i].timed)
			CHECK(took >= WAIT_MS - 1, took);
		/* It may be attached to later as well. */
		while (read(0, &c, 1) > 0)
			;
		return true;
	}
	return false;
}
