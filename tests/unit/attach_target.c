/* Programs to attach to, each checks that nothing happened to it: `attach_target LIBCUDA MODE`.
 * Maps LIBCUDA, so that it looks like a user of CUDA, says "ready" and does what MODE says. Ends
 * with 0 where all came out as it should; what did not is on stderr. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <link.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "tests/uring_of.h"

#define WAIT_MS	       400
#define FAILURES_SHOWN 10

static atomic_int failures, stopping, handled;

static void fail(const char *what, long value)
{
	int error = errno;

	if (atomic_fetch_add(&failures, 1) >= FAILURES_SHOWN)
		return;
	fprintf(stderr, "attach_target: %s: %ld (%s)\n", what, value, strerror(error));
}

#define CHECK(condition, value)                                                                    \
	do {                                                                                       \
		if (!(condition))                                                                  \
			fail(#condition, (long)(value));                                           \
	} while (0)

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void ready(void)
{
	printf("ready\n");
	fflush(stdout);
}

/* A byte of the standard input. Who asks whether we are there is answered. */
static ssize_t next_byte(char *ret)
{
	ssize_t r;

	while ((r = read(0, ret, 1)) == 1 && *ret == '?')
		CHECK(write(1, "!", 1) == 1, 0);
	return r;
}

static void on_signal(int signal)
{
	atomic_fetch_add(&handled, 1);
}

static void handle(int signal, int flags)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = flags };

	sigaction(signal, &action, NULL);
}

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
		CHECK(next_byte(&c) == 1 && c == 'x', c);
		while ((r = read(fd[0], block, sizeof(block))) > 0)
			before -= r;
		_exit(before + (long)size == 0 && !failures ? 7 : 8);
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

static bool run_wait(const char *name)
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

/* All vector registers, the red zone and the general registers, unchanged in a loop that makes no
 * call. This file is compiled without a red zone of its own. */
static void vectors_once(unsigned int seed)
{
	uint32_t in[16][8] __attribute__((aligned(32))), out[16][8] __attribute__((aligned(32)));
	uint64_t zone = 0x1122334455667788ull * (seed | 1), general = ~zone, zone_out, general_out;
	uint64_t loops = 20000 + seed % 1000;

	for (int i = 0; i < 16; i++)
		for (int k = 0; k < 8; k++)
			in[i][k] = seed * 2654435761u + (uint32_t)(i * 8 + k);
#define LOAD(n)	 "vmovdqa " #n "*32(%[in]), %%ymm" #n "\n\t"
#define STORE(n) "vmovdqa %%ymm" #n ", " #n "*32(%[out])\n\t"
#define ALL(X)                                                                                     \
	X(0)                                                                                       \
	X(1)                                                                                       \
	X(2)                                                                                       \
	X(3)                                                                                       \
	X(4)                                                                                       \
	X(5)                                                                                       \
	X(6)                                                                                       \
	X(7)                                                                                       \
	X(8)                                                                                       \
	X(9)                                                                                       \
	X(10)                                                                                      \
	X(11)                                                                                      \
	X(12)                                                                                      \
	X(13)                                                                                      \
	X(14)                                                                                      \
	X(15)
	__asm__ volatile(
		ALL(LOAD) "mov %[zone], -8(%%rsp)\n\t"
			  "mov %[zone], -120(%%rsp)\n\t"
			  "mov %[general], %%r15\n\t"
			  "mov %[general], %%r11\n\t"
			  "fldpi\n\t"
			  "1: dec %[loops]\n\t"
			  "jnz 1b\n\t"
			  "fldpi\n\t"
			  "fcompp\n\t"
			  "fnstsw %%ax\n\t"
			  "and $0x4500, %%eax\n\t"
			  "xor $0x4000, %%eax\n\t"
			  "or %%rax, %%r11\n\t"
			  "mov -8(%%rsp), %[zone_out]\n\t"
			  "xor -120(%%rsp), %[zone_out]\n\t"
			  "xor %%r11, %%r15\n\t"
			  "mov %%r15, %[general_out]\n\t" ALL(STORE) "vzeroupper"
		: [loops] "+r"(loops), [zone_out] "=&r"(zone_out), [general_out] "=&r"(general_out)
		: [in] "r"(in), [out] "r"(out), [zone] "r"(zone), [general] "r"(general)
		: "memory", "cc", "rax", "r11", "r15", "st", "st(1)", "st(2)", "xmm0", "xmm1",
		  "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
		  "xmm12", "xmm13", "xmm14", "xmm15");
	CHECK(!memcmp(in, out, sizeof(in)), seed);
	CHECK(zone_out == 0, zone_out);
	CHECK((general_out & general) == 0, general_out);
}

static bool avx;

static void vectors_run(void)
{
	static _Thread_local unsigned int seed;

	if (avx)
		vectors_once(++seed);
}

static void malloc_run(void)
{
	static _Thread_local unsigned char *kept[64];
	static _Thread_local unsigned int seed = 1;

	for (int i = 0; i < 200; i++) {
		unsigned int at = (seed = seed * 1103515245 + 12345) >> 16 & 63;
		size_t size = 16 + (seed >> 8) % (seed & 15 ? 3000 : 300000);

		if (kept[at])
			CHECK(kept[at][0] == at && kept[at][8] == (at ^ 0x5a), at);
		free(kept[at]);
		kept[at] = malloc(size);
		kept[at][0] = (unsigned char)at;
		kept[at][8] = (unsigned char)(at ^ 0x5a);
	}
}

static void dlopen_run(void)
{
#ifndef WITHOUT_DLOPEN
	static const char *const names[] = { "libresolv.so.2", "libnss_dns.so.2", "libutil.so.1",
					     "libanl.so.1" };
	static _Thread_local unsigned int turn;
	void *library = dlopen(names[turn++ % 4], RTLD_NOW);

	CHECK(library, turn);
	if (library)
		dlclose(library);
#endif
}

/* As a program would at the most: without the rest, the loader is never free. */
static void dlopen_often_run(void)
{
	dlopen_run();
	usleep(1000);
}

static void fork_run(void)
{
	pid_t child = fork(), r;
	int status = 0;

	if (!child)
		_exit(malloc(100) ? 3 : 4);
	while ((r = waitpid(child, &status, 0)) < 0 && errno == EINTR)
		;
	CHECK(r == child && WIFEXITED(status) && WEXITSTATUS(status) == 3, status);
}

static void calls_run(void)
{
	static _Thread_local int fd[2];
	char c = 'y';

	if (!fd[1])
		CHECK(pipe2(fd, O_CLOEXEC) == 0, 0);
	CHECK(write(fd[1], &c, 1) == 1, 0);
	CHECK(read(fd[0], &c, 1) == 1 && c == 'y', c);
	CHECK(poll(NULL, 0, 1) == 0 || errno == EINTR, 0);
	usleep(200);
	getppid();
}

static void thread_run(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, (void *(*)(void *))(uintptr_t)now_ms, NULL))
		fail("pthread_create", 0);
	else
		pthread_join(thread, NULL);
}

/* Signals wait for their count: one that is lost is seen. */
static atomic_int sent;

static void signal_run(void)
{
	static const union sigval none;

	if (sigqueue(getpid(), SIGRTMIN + 1, none) == 0)
		atomic_fetch_add(&sent, 1);
	usleep(300);
}

static void *worker(void *data)
{
	void (*run)(void) = (void (*)(void))(uintptr_t)data;

	while (!stopping)
		run();
	return NULL;
}

struct job {
	const char *mode;
	void (*run)(void);
	int threads;
};

static const struct job jobs[] = {
	{ "vectors", vectors_run, 3 },	  { "chaos", vectors_run, 1 }, { "chaos", malloc_run, 2 },
	{ "chaos", dlopen_often_run, 1 }, { "chaos", fork_run, 1 },    { "chaos", calls_run, 2 },
	{ "chaos", signal_run, 1 },	  { "chaos", thread_run, 1 },  { "signals", signal_run, 1 },
	{ "malloc", malloc_run, 2 },	  { "dlopen", dlopen_run, 2 }, { "fork", fork_run, 2 },
};

/* Until a byte or the end of standard input. The main thread does a job too, where there is one of
 * its own: in a program of one thread it is the only one there. */
static bool run_jobs(const char *mode, bool alone)
{
	pthread_t thread[32];
	int count = 0, r;
	char c;

	handle(SIGRTMIN + 1, SA_RESTART);
	for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++)
		for (int k = 0; k < jobs[i].threads && !strcmp(jobs[i].mode, mode); k++) {
			if (alone) {
				fcntl(0, F_SETFL, O_NONBLOCK);
				ready();
				while (next_byte(&c) < 0)
					jobs[i].run();
				return true;
			}
			pthread_create(&thread[count++], NULL, worker,
				       (void *)(uintptr_t)jobs[i].run);
		}
	if (!count)
		return false;
	ready();
	while ((r = (int)read(0, &c, 1)) < 0 && errno == EINTR)
		fail("read ended with EINTR", r);
	stopping = 1;
	while (count)
		pthread_join(thread[--count], NULL);
	CHECK(handled == sent, handled - sent);
	return true;
}

/* Beside the main thread, which waits for a byte: threads that nobody must borrow. */
static atomic_int beside_is_up;
static int beside_end[2]; /* a pipe: it ends when this is closed */

static void beside_name(const char *name)
{
	prctl(PR_SET_NAME, name);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* Sleeps, which is what attaching looks for first, and dies of all else. */
static void *filtered_main(void *data)
{
	static struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_nanosleep, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	beside_name("filtered");
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, errno);
	beside_is_up = 1;
	while (!stopping)
		usleep(1000);
	syscall(SYS_exit, 0);
	return NULL;
}

static void *strict_main(void *data)
{
	char c;

	beside_name("strict");
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0, errno);
	beside_is_up = 1;
	CHECK(read(beside_end[0], &c, 1) == 0, 0);
	syscall(SYS_exit, 0);
	return NULL;
}

static const struct {
	const char *mode;
	void *(*run)(void *data);
} besides[] = { { "filtered", filtered_main }, { "strict", strict_main } };

static bool run_beside(const char *mode)
{
	pthread_t thread;
	char c;

	for (size_t i = 0; i < sizeof(besides) / sizeof(besides[0]); i++) {
		if (strcmp(besides[i].mode, mode))
			continue;
		CHECK(pipe2(beside_end, O_CLOEXEC) == 0, 0);
		pthread_create(&thread, NULL, besides[i].run, NULL);
		while (!beside_is_up)
			usleep(1000);
		ready();
		while (next_byte(&c) > 0 && c != 'x')
			;
		stopping = 1;
		close(beside_end[1]);
		pthread_join(thread, NULL);
		return true;
	}
	return false;
}

#ifndef WITHOUT_DLOPEN
/* A thread that holds a lock which loading takes, until it is told to go on, or for a while after
 * that. The main thread does its work meanwhile, byte by byte:
 *   ? answers !        g has the other thread go on         l the same, after WAIT_MS
 *   d loads a library itself, answers D    o has another thread do so, which answers O
 *   e ends the thread that waits in poll(), if there is one
 *   x ends */
static atomic_int loader_goes, loader_is_held;
static void *break_at;

static void hold_lock(void)
{
	loader_is_held = 1;
	while (!loader_goes)
		usleep(1000);
	if (loader_goes > 1)
		usleep(WAIT_MS * 1000);
}

static int in_the_loader(struct dl_phdr_info *info, size_t size, void *data)
{
	hold_lock();
	return 1;
}

static void *holds_loader(void *data)
{
	dl_iterate_phdr(in_the_loader, NULL);
	return NULL;
}

/* In the middle of malloc(), which finds no memory then. */
static void on_filtered(int signal, siginfo_t *info, void *data)
{
	ucontext_t *context = data;

	hold_lock();
	context->uc_mcontext.gregs[REG_RAX] = (greg_t)(uintptr_t)break_at;
}

static void *holds_arena(void *data)
{
	static struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_brk, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };
	struct sigaction action = { .sa_sigaction = on_filtered, .sa_flags = SA_SIGINFO };

	sigaction(SIGSYS, &action, NULL);
	break_at = sbrk(0);
	beside_name("holder");
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, errno);
	while (!loader_is_held)
		CHECK(malloc(64 << 10), 0);
	return NULL;
}

static void *polls(void *data)
{
	struct pollfd wait = { .fd = beside_end[0], .events = POLLIN };

	CHECK(poll(&wait, 1, -1) == 1, 0);
	return NULL;
}

static void *loads(void *data)
{
	const char *answer = data;
	void *library = dlopen("libresolv.so.2", RTLD_NOW);

	CHECK(library, 0);
	if (library)
		dlclose(library);
	CHECK(write(1, answer, 1) == 1, 0);
	return NULL;
}

static void loader_do(char what)
{
	pthread_t loader;

	CHECK(errno == 0, errno);
	if (what == 'g' || what == 'l')
		loader_goes = what == 'g' ? 1 : 2;
	else if (what == 'd')
		loads((void *)(uintptr_t) "D");
	else if (what == 'o')
		pthread_create(&loader, NULL, loads, (void *)(uintptr_t) "O");
	else if (what == 'e')
		close(beside_end[1]);
	errno = 0;
}

static bool run_loader(const char *mode)
{
	bool arena = !strcmp(mode, "arena"), other = !strcmp(mode, "loader_other");
	pthread_t holder, poller;
	char c;

	if (!arena && !other && strcmp(mode, "loader"))
		return false;
	mallopt(M_ARENA_MAX, 1);
	CHECK(pipe2(beside_end, O_CLOEXEC) == 0, 0);
	if (other)
		pthread_create(&poller, NULL, polls, NULL);
	pthread_create(&holder, NULL, arena ? holds_arena : holds_loader, NULL);
	while (!loader_is_held)
		usleep(1000);
	CHECK(write(1, "ready\n", 6) == 6, 0); /* without memory for a buffer */
	errno = 0;
	while (next_byte(&c) == 1 && c != 'x')
		loader_do(c);
	pthread_join(holder, NULL);
	if (other)
		pthread_join(poller, NULL);
	return true;
}
#else
static bool run_loader(const char *mode)
{
	return false;
}
#endif

static void map_cuda(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
		abort();
	close(fd);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	__builtin_cpu_init();
	avx = __builtin_cpu_supports("avx");
	map_cuda(argv[1]);
	if (!run_wait(argv[2]) && !run_beside(argv[2]) && !run_loader(argv[2]) &&
	    !run_jobs(argv[2], argc > 3))
		return 2;
	return failures ? 1 : 0;
}
