/* Threads of the program that the tests attach to, beside its main thread: some that nobody must
 * borrow, and some that hold a lock which loading takes. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "tests/unit/attach_target.h"

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

/* Sleeps as well, and has descriptors of its own. */
static void *own_files_main(void *data)
{
	CHECK(unshare(CLONE_FILES) == 0, errno);
	beside_is_up = 1;
	while (!stopping)
		usleep(1000);
	return NULL;
}

static const struct {
	const char *mode;
	void *(*run)(void *data);
} besides[] = { { "filtered", filtered_main },
		{ "strict", strict_main },
		{ "own_files", own_files_main } };

bool run_beside(const char *mode)
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

bool run_loader(const char *mode)
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
bool run_loader(const char *mode)
{
	return false;
}
#endif
