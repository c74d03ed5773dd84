/* Harm, signals: profilers' timers, handlers on stacks of their own, EINTR, faults, sigwait, and
 * what a thread has in its registers. */
#include "harm.h"

#include <asm/prctl.h>
#include <errno.h>
#include <fenv.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS	  200
#define OWN_BYTES (64 << 10)
#define PROF_US	  1000
#define BURST	  2000
#define ODD_MXCSR 0x7fa0 /* rounds toward zero, masks all but denormals' flags */
#define WORKERS	  2

static _Atomic int handled, elsewhere, wrong_thread, started;
static char *own_stack;
static pid_t own_tid[WORKERS + 1];

static void count(int number)
{
	char here;

	(void)number;
	handled++;
	if (own_stack && !(&here >= own_stack && &here < own_stack + OWN_BYTES))
		elsewhere++;
}

static void on_signal(int number, void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_flags = flags };

	action.sa_handler = handler;
	sigaction(number, &action, NULL);
}

static void profile(int which, int number)
{
	const struct itimerval often = { { 0, PROF_US }, { 0, PROF_US } };
	const struct itimerval never = { { 0, 0 }, { 0, 0 } };

	on_signal(number, count, SA_RESTART | (own_stack ? SA_ONSTACK : 0));
	harm_begin();
	setitimer(which, &often, NULL);
	for (enum harm_place place = HARM_MIDDLE; place <= HARM_LAST; place++) {
		harm_work(ROUNDS);
		harm_light(ROUNDS);
		harm_hold(place);
	}
	setitimer(which, &never, NULL);
	while (handled == 0)
		raise(number);
	harm_say("handled: some; on another stack: %d", elsewhere);
}

static void profiled(void)
{
	profile(ITIMER_PROF, SIGPROF);
}

/* SIGPROF on a stack of its own. */
static void alternate_stack(void)
{
	stack_t own = { .ss_size = OWN_BYTES };

	own_stack = own.ss_sp = malloc(OWN_BYTES);
	sigaltstack(&own, NULL);
	profile(ITIMER_PROF, SIGPROF);
}

/* Without SA_RESTART: a call fails with EINTR if, and only if, a handler ran. And the time that is
 * left is less than what was asked for. */
static void interrupted(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	const struct itimerspec often = { { 0, 3000000 }, { 0, 3000000 } };
	int without = 0, more = 0, naps = 0;
	timer_t timer;

	on_signal(SIGUSR1, count, 0);
	harm_begin();
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	timer_settime(timer, 0, &often, NULL);
	for (enum harm_place place = HARM_MIDDLE; place <= HARM_LAST; place++) {
		harm_light(ROUNDS);
		harm_hold(place);
		for (int i = 0; i < 50; i++) {
			const struct timespec nap = { 0, 2000000 };
			struct timespec left = { 0, 0 };
			int before = handled;

			naps++;
			if (nanosleep(&nap, &left) == 0)
				continue;
			without += handled == before;
			more += left.tv_nsec > nap.tv_nsec + 1000000; /* slack */
		}
	}
	timer_delete(timer);
	harm_say("naps: %d; EINTR without a handler: %d; more left than asked for: %d", naps,
		 without, more);
}

static void *asleep(void *data)
{
	struct timespec nap = { 3600, 0 }, left = nap;
	int woken = 0;

	own_tid[1] = (pid_t)syscall(SYS_gettid);
	started = 1;
	while (!harm_may_leave(HARM_LAST)) {
		if (nanosleep(&nap, &left) == 0)
			break;
		woken++;
		if (left.tv_sec < 3000)
			harm_say("a nap lost its time");
		nap = left;
	}
	harm_say("woken: %d", woken);
	return data;
}

/* The time that is left of a long nap. */
static void long_nap(void)
{
	pthread_t thread;

	on_signal(SIGUSR1, count, 0);
	harm_begin();
	harm_start(&thread, asleep, NULL);
	while (!started)
		harm_nap(1000);
	harm_run();
	pthread_kill(thread, SIGUSR1);
	pthread_join(thread, NULL);
}

static char *guard;

static void unguard(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	if (info->si_addr < (void *)guard || info->si_addr >= (void *)(guard + 4096))
		_exit(99);
	mprotect(guard, 4096, PROT_READ | PROT_WRITE);
	handled++;
}

static void faults_some(int times)
{
	for (int i = 0; i < times; i++) {
		mprotect(guard, 4096, PROT_NONE);
		*(volatile char *)guard = 1;
		harm_light(1);
	}
}

/* Faults on purpose, as garbage collectors do, and one handler for all: others end it. */
static void faults(void)
{
	struct sigaction action = { .sa_flags = SA_SIGINFO };

	action.sa_sigaction = unguard;
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	guard = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	harm_begin();
	for (enum harm_place place = HARM_MIDDLE; place <= HARM_LAST; place++) {
		faults_some(ROUNDS);
		harm_hold(place);
	}
	harm_say("faults: %d", handled);
}

/* Breakpoints of its own, as debuggers within have them: it sees those, and no others. */
static void traps(void)
{
	on_signal(SIGTRAP, count, SA_RESTART);
	on_signal(SIGILL, count, SA_RESTART);
	harm_begin();
	for (enum harm_place place = HARM_MIDDLE; place <= HARM_LAST; place++) {
		for (int i = 0; i < ROUNDS; i++) {
			harm_light(1);
			__asm__ volatile("int3");
		}
		harm_hold(place);
	}
	harm_say("breakpoints: %d", handled);
}

static void *waits_for_signals(void *data)
{
	sigset_t set;
	int number = 0;

	sigfillset(&set);
	started++;
	while (sigwait(&set, &number) == 0 && number != SIGTERM)
		handled++;
	harm_say("signals taken: %d, then %d", handled, number);
	return data;
}

/* All signals are blocked but where one thread waits for them: a thread that does not block them
 * would end the process. */
static void waited_for(void)
{
	pthread_t thread;
	sigset_t set;

	sigfillset(&set);
	sigdelset(&set, SIGALRM);
	pthread_sigmask(SIG_SETMASK, &set, NULL);
	harm_begin();
	harm_start(&thread, waits_for_signals, NULL);
	while (!started)
		harm_nap(1000);
	for (enum harm_place place = HARM_MIDDLE; place <= HARM_LAST; place++) {
		harm_work(ROUNDS);
		for (int i = SIGRTMIN; i < SIGRTMIN + 8; i++)
			kill(getpid(), i);
		while (handled < 8 * (int)place)
			harm_nap(1000);
		harm_hold(place);
	}
	kill(getpid(), SIGTERM);
	pthread_join(thread, NULL);
}

static void whose(int number)
{
	pid_t tid = (pid_t)syscall(SYS_gettid);

	(void)number;
	handled++;
	for (int i = 0; i <= WORKERS; i++)
		if (own_tid[i] == tid)
			return;
	wrong_thread++;
}

static void *calls(void *data)
{
	own_tid[(long)data] = (pid_t)syscall(SYS_gettid);
	started++;
	if (harm_enter())
		while (!harm_may_leave(HARM_LAST))
			harm_light(1), harm_nap(200);
	return NULL;
}

/* Signals to the process: a handler runs on threads of the program only. */
static void any_thread(void)
{
	pthread_t thread[WORKERS];

	own_tid[0] = (pid_t)syscall(SYS_gettid);
	on_signal(SIGUSR2, whose, SA_RESTART);
	harm_begin();
	for (long i = 0; i < WORKERS; i++)
		harm_start(&thread[i], calls, (void *)(i + 1));
	while (started < WORKERS)
		harm_nap(1000);
	for (enum harm_place place = HARM_MIDDLE; place <= HARM_LAST; place++) {
		sigset_t set;

		sigemptyset(&set);
		sigaddset(&set, SIGUSR2);
		/* Not here: somebody else must take it. The driver's threads block it. */
		pthread_sigmask(SIG_BLOCK, &set, NULL);
		for (int i = 0; i < BURST; i++)
			kill(getpid(), SIGUSR2);
		pthread_sigmask(SIG_UNBLOCK, &set, NULL);
		harm_hold(place);
	}
	for (int i = 0; i < WORKERS; i++)
		pthread_join(thread[i], NULL);
	harm_say("handled: %s; on threads of others: %d", handled ? "some" : "none", wrong_thread);
}

/* Returns what has changed. No call, no branch that the compiler knows: the values stay where they
 * are while the loop runs. */
static unsigned int registers_keep(_Atomic uint32_t *go)
{
	/* Nothing of the compiler's in the red zone: that is what pushfq writes to. */
	static unsigned int mxcsr = ODD_MXCSR, before, after;
	unsigned int changed = 0;
	uint64_t red = 0x5eed5eed5eed5eed, low = 0;

	__asm__ volatile("stmxcsr %0" : "=m"(before));
	__asm__ volatile("ldmxcsr %[mxcsr]\n"
			 "movq %[red], %%xmm9\n"
			 "movq %%xmm9, %%xmm15\n"
			 "mov %[red], %%r12\n"
			 "mov %[red], %%r11\n"
			 "mov %[red], %%rcx\n"
			 "mov %[red], -120(%%rsp)\n" /* of the red zone */
			 "std\n"
			 "1: pause\n"
			 "cmpl $2, (%[go])\n"
			 "jb 1b\n"
			 "pushfq\n"
			 "cld\n"
			 "pop %[low]\n"
			 "and $0x400, %[low]\n"
			 "xor $0x400, %[low]\n"
			 "xor %[red], %%r12\n"
			 "or %%r12, %[low]\n"
			 "xor %[red], %%r11\n"
			 "or %%r11, %[low]\n"
			 "xor %[red], %%rcx\n"
			 "or %%rcx, %[low]\n"
			 "movq %%xmm15, %%r12\n"
			 "xor %[red], %%r12\n"
			 "or %%r12, %[low]\n"
			 "mov -120(%%rsp), %%r12\n"
			 "xor %[red], %%r12\n"
			 "or %%r12, %[low]\n"
			 "stmxcsr %[after]\n"
			 : [low] "=&r"(low), [after] "=m"(after)
			 : [red] "r"(red), [mxcsr] "m"(mxcsr), [go] "r"(go)
			 : "xmm9", "xmm15", "r12", "r11", "rcx", "memory", "cc");
	changed |= low != 0;
	changed |= (after != mxcsr) * 2u;
	__asm__ volatile("ldmxcsr %0" : : "m"(before));
	return changed;
}

static void *computes(void *data)
{
	unsigned long gs = 0x7000, found = 0;

	syscall(SYS_arch_prctl, ARCH_SET_GS, gs);
	started++;
	harm_say("registers changed: %u", registers_keep(&harm_page->go));
	syscall(SYS_arch_prctl, ARCH_GET_GS, &found);
	harm_say("gs: %lx", found);
	return data;
}

/* A thread that computes, with odd values wherever it can have them, from before MIDDLE to LATE;
 * the first one stands in a write, so that the other is borrowed. */
static void *computes_and_holds(void *data)
{
	pthread_t thread;

	harm_begin();
	harm_start(&thread, computes, NULL);
	while (!started)
		harm_nap(1000);
	harm_work(ROUNDS);
	harm_hold(HARM_MIDDLE);
	harm_work(ROUNDS);
	harm_hold(HARM_LATE);
	pthread_join(thread, NULL);
	harm_hold(HARM_LAST);
	(void)data;
	_exit(0);
}

static void registers(void)
{
	static char much[1 << 20];
	pthread_t thread;
	int ends[2];

	if (pipe(ends) < 0)
		return;
	harm_start(&thread, computes_and_holds, NULL);
	while (write(ends[1], much, sizeof(much)) > 0)
		;
}

/* The rounding that a program has chosen holds across calls, and errno does. */
static void rounding(void)
{
	harm_begin();
	fesetround(FE_DOWNWARD);
	for (enum harm_place place = HARM_MIDDLE; place <= HARM_LAST; place++) {
		errno = 77;
		harm_light(ROUNDS);
		harm_say("rounding %s, errno %d", fegetround() == FE_DOWNWARD ? "kept" : "lost",
			 errno);
		harm_hold(place);
	}
}

const struct harm_case harm_signals[] = {
	{ "profiled", profiled },
	{ "alternate-stack", alternate_stack },
	{ "interrupted", interrupted },
	{ "long-nap", long_nap },
	{ "faults", faults },
	{ "traps", traps },
	{ "sigwait", waited_for },
	{ "any-thread", any_thread },
	{ "registers", registers },
	{ "rounding", rounding },
	{ NULL, NULL },
};
