/* Harm, borrowed: the thread that loads the library is one of the program's, and may be an odd one.
 * The first one stands in a write, and a second waits in nanosleep() at all places; it is odd
 * before MIDDLE and must be as odd, and unharmed, to the end. */
#include "harm.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define ROUNDS	    50
#define SMALL_STACK (16 << 10)
#define NOBODY	    65534
#define FILL	    0x5a
#define FILES	    8

static char *stack; /* of ours, with a page below it that nobody may touch */
static size_t stack_bytes;

static char *stack_make(size_t bytes)
{
	char *base = mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

	if (base == MAP_FAILED || mprotect(base, 4096, PROT_NONE))
		harm_skip("no stack");
	stack = base + 4096;
	stack_bytes = bytes;
	memset(stack, FILL, bytes);
	return stack;
}

static void places(void)
{
	for (enum harm_place place = HARM_MIDDLE; place <= HARM_LAST; place++) {
		harm_light(ROUNDS);
		harm_hold(place);
	}
}

static void end(void)
{
	if (harm_page->failures)
		harm_say("%u calls failed", harm_page->failures);
	_exit(0);
}

static void *plain_main(void *data)
{
	void (*odd)(void) = data;

	if (harm_enter())
		odd();
	end();
	return NULL;
}

/* Starts the odd thread, and stands in the way. */
static void run(void (*odd)(void), const pthread_attr_t *attributes)
{
	static char much[1 << 20];
	pthread_t thread;
	int ends[2];

	harm_begin();
	harm_work(ROUNDS);
	if (pipe2(ends, O_CLOEXEC) < 0 ||
	    pthread_create(&thread, attributes, plain_main, (void *)odd) != 0)
		harm_skip("no thread");
	while (write(ends[1], much, sizeof(much)) > 0)
		;
}

/* The smallest stack that a thread may have. */
static void small_stack(void)
{
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	pthread_attr_setstack(&attributes, stack_make(PTHREAD_STACK_MIN), PTHREAD_STACK_MIN);
	run(places, &attributes);
}

static ucontext_t back, coroutine;

static void on_a_coroutine(void)
{
	getcontext(&coroutine);
	coroutine.uc_stack.ss_sp = stack_make(SMALL_STACK);
	coroutine.uc_stack.ss_size = SMALL_STACK;
	coroutine.uc_link = &back;
	makecontext(&coroutine, places, 0);
	swapcontext(&back, &coroutine);
}

static void on_coroutine(void)
{
	run(on_a_coroutine, NULL);
}

static void handler(int number)
{
	(void)number;
	places();
}

/* In a handler, on a stack of its own. */
static void in_a_handler(void)
{
	const struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK };
	stack_t own = { .ss_sp = stack_make(SMALL_STACK), .ss_size = SMALL_STACK };

	sigaltstack(&own, NULL);
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
}

static void in_handler(void)
{
	run(in_a_handler, NULL);
}

/* Descriptors that are not those of the process. */
static void with_own_files(void)
{
	int fd[FILES], wrong = 0;

	if (unshare(CLONE_FILES) < 0)
		harm_skip("unshare: %s", strerror(errno));
	for (int i = 0; i < FILES; i++) {
		fd[i] = (int)syscall(SYS_memfd_create, "harm", MFD_CLOEXEC);
		if (fd[i] < 0 || write(fd[i], &i, sizeof(i)) != sizeof(i))
			harm_say("no file");
	}
	places();
	for (int i = 0; i < FILES; i++) {
		int found = -1;

		wrong += pread(fd[i], &found, sizeof(found), 0) != sizeof(found) || found != i ||
			 lseek(fd[i], 0, SEEK_END) != sizeof(found);
	}
	harm_say("files that are not as they were: %d", wrong);
}

static void own_files(void)
{
	run(with_own_files, NULL);
}

/* A root directory of its own, without /proc. */
static void with_own_root(void)
{
	char folder[] = "/tmp/harm-root-XXXXXX";

	if (unshare(CLONE_FS) < 0 || !mkdtemp(folder) || chroot(folder) < 0 || chdir("/") < 0)
		harm_skip("chroot: %s", strerror(errno));
	places();
	harm_say("etc: %s", access("/etc", F_OK) < 0 ? "not there" : "there");
}

static void own_root(void)
{
	run(with_own_root, NULL);
}

/* The kernel has users of threads; libc hides that. */
static void as_nobody(void)
{
	syscall(SYS_setresgid, NOBODY, NOBODY, NOBODY);
	syscall(SYS_setresuid, NOBODY, NOBODY, NOBODY);
	places();
	harm_say("user of the thread: %ld", syscall(SYS_getuid));
}

static void own_user(void)
{
	run(as_nobody, NULL);
}

struct attributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

/* From such a thread no thread can be started. */
static void with_a_deadline(void)
{
	const struct attributes wanted = {
		sizeof(wanted), SCHED_DEADLINE, 0, 0, 0, 10000000, 30000000, 30000000,
	};

	if (syscall(SYS_sched_setattr, 0, &wanted, 0))
		harm_skip("no SCHED_DEADLINE: %s", strerror(errno));
	places();
	harm_say("policy: %d", sched_getscheduler(0));
}

static void deadline(void)
{
	run(with_a_deadline, NULL);
}

/* Nothing is blocked, and it never sleeps: it is stopped wherever it is. */
static void busy(void)
{
	for (enum harm_place place = HARM_MIDDLE; place <= HARM_LAST; place++) {
		harm_page->at = place;
		while (!harm_may_leave(place))
			harm_light(1);
	}
}

static void busy_alone(void)
{
	run(busy, NULL);
}

const struct harm_case harm_borrowed[] = {
	{ "borrowed-small-stack", small_stack },
	{ "borrowed-coroutine", on_coroutine },
	{ "borrowed-handler", in_handler },
	{ "borrowed-files", own_files },
	{ "borrowed-root", own_root },
	{ "borrowed-user", own_user },
	{ "borrowed-deadline", deadline },
	{ "borrowed-busy", busy_alone },
	{ NULL, NULL },
};
