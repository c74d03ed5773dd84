/* Programs to attach to, each checks that nothing happened to it: `attach_target LIBCUDA MODE`.
 * Maps LIBCUDA, so that it looks like a user of CUDA, says "ready" and does what MODE says. Ends
 * with 0 where all came out as it should; what did not is on stderr. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/attach_target.h"

#define FAILURES_SHOWN 10

static atomic_int failures;
atomic_int stopping, handled;

void fail(const char *what, long value)
{
	int error = errno;

	if (atomic_fetch_add(&failures, 1) >= FAILURES_SHOWN)
		return;
	fprintf(stderr, "attach_target: %s: %ld (%s)\n", what, value, strerror(error));
}

int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void ready(void)
{
	printf("ready\n");
	fflush(stdout);
}

ssize_t next_byte(char *ret)
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

void handle(int signal, int flags)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = flags };

	sigaction(signal, &action, NULL);
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
