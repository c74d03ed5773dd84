/* Harm, threads: small and big stacks, many threads and short ones, cancellation, coroutines,
 * locks, real-time. */
#include "harm.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define ROUNDS	      200
#define SMALL	      8
#define CROWD	      4000
#define CROWD_STACK   (16 << 10)
#define CHURN	      4
#define COROUTINES    4
#define CO_STACK      (64 << 10)
#define JUMPS	      200
#define BLOCKING_SYNC 4
#define BIG_STACK     (512ul << 20)
#define DEEP_BYTES    (6 << 20)

static pthread_mutex_t guarded = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int started, ended;

/* What a C++ lock_guard does; compiled with -fexceptions, so that a cancelled thread unlocks. */
static void unlock(pthread_mutex_t **lock)
{
	pthread_mutex_unlock(*lock);
}

static void plain(void)
{
	harm_begin();
	harm_run();
}

static void *calls_until_last(void *data)
{
	if (!harm_enter())
		return NULL;
	started++;
	while (!harm_may_leave(HARM_LATE)) {
		harm_light(20);
		harm_nap(500);
	}
	harm_light(20);
	ended++;
	return data;
}

/* With stacks of 16 KiB that make the calls that are made most. */
static void small_stacks(void)
{
	pthread_t thread[SMALL];
	pthread_attr_t attributes;

	harm_begin();
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
	for (int i = 0; i < SMALL; i++)
		if (pthread_create(&thread[i], &attributes, calls_until_last, NULL))
			harm_say("no small stack");
	while (started < SMALL)
		harm_nap(1000);
	harm_work(ROUNDS);
	harm_hold(HARM_MIDDLE);
	harm_work(ROUNDS);
	harm_hold(HARM_LATE);
	for (int i = 0; i < SMALL; i++)
		pthread_join(thread[i], NULL);
	harm_say("small stacks: %d", ended);
	harm_hold(HARM_LAST);
}

static size_t deep(size_t bytes)
{
	volatile char room[4096];

	room[0] = (char)bytes;
	return bytes < sizeof(room) ? (size_t)room[0] : deep(bytes - sizeof(room)) + 1;
}

static void *big_main(void *data)
{
	harm_enter();
	harm_run();
	return data;
}

static void big_stacks(void)
{
	pthread_attr_t attributes;
	pthread_t thread;

	harm_begin();
	harm_say("deep: %d", deep(DEEP_BYTES) > 1000);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, BIG_STACK);
	if (pthread_create(&thread, &attributes, big_main, NULL))
		harm_say("no big stack");
	pthread_join(thread, NULL);
}

static void *waits(void *data)
{
	started++;
	while (!harm_may_leave(HARM_LAST))
		pause();
	return data;
}

/* All but one asleep; they stay to the end. */
static void crowd(void)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int made = 0;

	harm_begin();
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, CROWD_STACK);
	while (made < CROWD && pthread_create(&thread, &attributes, waits, NULL) == 0)
		made++;
	while (started < made)
		harm_nap(1000);
	harm_say("threads: %d", made);
	harm_run();
}

static void *short_life(void *data)
{
	harm_nap(1000);
	if (harm_enter())
		harm_light(1);
	return data;
}

static void *makes_short_ones(void *data)
{
	pthread_t thread;

	while (!harm_may_leave(HARM_LATE)) {
		if (pthread_create(&thread, NULL, short_life, NULL) == 0)
			pthread_join(thread, NULL);
		started++;
	}
	return data;
}

static void short_threads(void)
{
	pthread_t thread[CHURN];

	harm_begin();
	for (int i = 0; i < CHURN; i++)
		harm_start(&thread[i], makes_short_ones, NULL);
	while (started < 20)
		harm_nap(1000);
	harm_work(ROUNDS);
	harm_hold(HARM_MIDDLE);
	harm_work(ROUNDS);
	harm_hold(HARM_LATE);
	for (int i = 0; i < CHURN; i++)
		pthread_join(thread[i], NULL);
	harm_say("short threads lived");
	harm_hold(HARM_LAST);
}

static _Atomic pid_t cancelled_tid;

static void *holds_a_guard(void *data)
{
	pthread_mutex_t *lock __attribute__((cleanup(unlock))) = &guarded;
	handle own;

	pthread_mutex_lock(lock);
	if (!harm_enter())
		return NULL;
	own = harm_spin();
	cancelled_tid = (pid_t)syscall(SYS_gettid);
	if (own)
		cuda.cuStreamSynchronize(own);
	harm_nap(1);
	pthread_testcancel();
	return data;
}

static void cancel_one(void)
{
	pthread_t thread;
	void *result = NULL;

	cancelled_tid = 0;
	harm_start(&thread, holds_a_guard, &started);
	while (!cancelled_tid)
		harm_nap(100);
	harm_wait_in(cancelled_tid, -1);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	harm_say("cancelled: %s; the guard's lock is %s", result == PTHREAD_CANCELED ? "yes" : "no",
		 pthread_mutex_trylock(&guarded) ? "held for ever" : "free");
	pthread_mutex_unlock(&guarded);
}

/* In a call that waits in the kernel, where a thread may be cancelled. */
static void cancel(void)
{
	harm_load();
	cuda.cuInit(0);
	cuda.cuDevicePrimaryCtxSetFlags_v2(0, BLOCKING_SYNC);
	harm_begin();
	cancel_one();
	harm_work(ROUNDS);
	harm_hold(HARM_MIDDLE);
	cancel_one();
	harm_hold(HARM_LATE);
	cancel_one();
	harm_work(ROUNDS);
	harm_hold(HARM_LAST);
}

/* Between calls: what most programs that cancel do. */
static void *naps_and_calls(void *data)
{
	pthread_mutex_t *lock __attribute__((cleanup(unlock))) = &guarded;

	pthread_mutex_lock(lock);
	if (!harm_enter())
		return NULL;
	started++;
	for (;;) {
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
		harm_light(10);
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
		harm_nap(1000);
	}
	return data;
}

static void cancel_between_one(void)
{
	pthread_t thread;
	int before = started;

	harm_start(&thread, naps_and_calls, NULL);
	while (started == before)
		harm_nap(100);
	pthread_cancel(thread);
	pthread_join(thread, NULL);
	harm_say("the guard's lock is %s", pthread_mutex_trylock(&guarded) ? "held" : "free");
	pthread_mutex_unlock(&guarded);
}

static void cancel_between(void)
{
	harm_begin();
	cancel_between_one();
	harm_hold(HARM_MIDDLE);
	cancel_between_one();
	harm_hold(HARM_LATE);
	cancel_between_one();
	harm_work(ROUNDS);
	harm_hold(HARM_LAST);
}

static pthread_key_t at_end;

static void calls_at_end(void *data)
{
	harm_light(3);
	ended++;
	(void)data;
}

static void *ends_with_calls(void *data)
{
	pthread_setspecific(at_end, &ended);
	if (harm_enter())
		harm_work(3);
	pthread_exit(data);
}

static void end_some(void)
{
	pthread_t thread[4];

	for (int i = 0; i < 4; i++)
		harm_start(&thread[i], ends_with_calls, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	harm_say("ended with calls: %d", ended);
}

/* A destructor of thread-local data calls CUDA, in pthread_exit(). */
static void thread_exit(void)
{
	harm_begin();
	pthread_key_create(&at_end, calls_at_end);
	end_some();
	harm_hold(HARM_MIDDLE);
	end_some();
	harm_hold(HARM_LATE);
	end_some();
	harm_hold(HARM_LAST);
}

static void *goes_on(void *data)
{
	pthread_join(*(pthread_t *)data, NULL);
	harm_enter();
	harm_run();
	if (harm_page->failures)
		harm_say("%u calls failed", harm_page->failures);
	exit(0); /* the driver's threads would go on */
	return NULL;
}

/* The first thread ends, the process goes on. */
static void first_thread_ends(void)
{
	static pthread_t self;
	pthread_t thread;

	harm_begin();
	self = pthread_self();
	harm_start(&thread, goes_on, &self);
	pthread_exit(NULL);
}

static ucontext_t back, coroutine[COROUTINES];

static void co_main(int number)
{
	for (;;) {
		harm_light(5);
		swapcontext(&coroutine[number], &back);
	}
}

static void co_turns(int turns)
{
	for (int i = 0; i < turns; i++)
		swapcontext(&back, &coroutine[i % COROUTINES]);
}

static void coroutines(void)
{
	harm_begin();
	for (int i = 0; i < COROUTINES; i++) {
		getcontext(&coroutine[i]);
		coroutine[i].uc_stack.ss_sp = malloc(CO_STACK);
		coroutine[i].uc_stack.ss_size = CO_STACK;
		coroutine[i].uc_link = &back;
		makecontext(&coroutine[i], (void (*)(void))(void *)co_main, 1, i);
	}
	co_turns(ROUNDS);
	harm_hold(HARM_MIDDLE);
	co_turns(ROUNDS);
	harm_hold(HARM_LATE);
	co_turns(ROUNDS);
	harm_say("turns: %d", 3 * ROUNDS);
	harm_hold(HARM_LAST);
}

static sigjmp_buf out;

static void jump(int number)
{
	siglongjmp(out, number);
}

/* Out of calls that return elsewhere, more often than the kernel keeps return addresses: each
 * faults where it stores its result. */
static void jump_out(uint64_t *nowhere)
{
	volatile int jumped = 0;

	for (volatile int i = 0; i < JUMPS; i++)
		if (sigsetjmp(out, 1) == 0)
			cuda.cuEventCreate((handle *)nowhere, 0);
		else
			jumped++;
	harm_say("jumped out of a call: %d", jumped);
}

static void longjmps(void)
{
	const struct sigaction action = { .sa_handler = jump };
	void *nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	sigaction(SIGSEGV, &action, NULL);
	harm_begin();
	for (enum harm_place place = HARM_MIDDLE; place <= HARM_LAST; place++) {
		jump_out(nowhere);
		harm_work(ROUNDS);
		harm_hold(place);
	}
}

static jmp_buf across;

static __attribute__((noinline)) void leaves(int n)
{
	harm_light(1);
	longjmp(across, n);
}

static void setjmps_some(void)
{
	volatile int n = 0;

	setjmp(across);
	if (n++ < JUMPS)
		leaves(n);
	harm_say("jumped: %d", n - 1);
}

static void setjmps(void)
{
	harm_begin();
	setjmps_some();
	harm_hold(HARM_MIDDLE);
	setjmps_some();
	harm_hold(HARM_LATE);
	setjmps_some();
	harm_hold(HARM_LAST);
}

static pthread_mutex_t robust;

static void *dies_with_it(void *data)
{
	pthread_mutex_lock(&robust);
	if (harm_enter())
		harm_light(3);
	return data;
}

static void robust_one(void)
{
	pthread_t thread;
	int r;

	harm_start(&thread, dies_with_it, NULL);
	pthread_join(thread, NULL);
	r = pthread_mutex_lock(&robust);
	harm_say("owner %s", r == EOWNERDEAD ? "died" : strerror(r));
	pthread_mutex_consistent(&robust);
	pthread_mutex_unlock(&robust);
}

static void robust_mutexes(void)
{
	pthread_mutexattr_t attributes;

	harm_begin();
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&robust, &attributes);
	robust_one();
	harm_hold(HARM_MIDDLE);
	robust_one();
	harm_hold(HARM_LATE);
	robust_one();
	harm_hold(HARM_LAST);
}

/* A real-time thread on one CPU; the test looks whether threads of ours inherit that. */
static void schedule(int policy, int priority)
{
	const struct sched_param param = { .sched_priority = priority };
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	if (sched_setscheduler(0, policy, &param) || sched_setaffinity(0, sizeof(one), &one))
		harm_skip("no real-time here: %s", strerror(errno));
}

static void *real_time_main(void *data)
{
	schedule(SCHED_FIFO, 1);
	started++;
	if (harm_enter())
		while (!harm_may_leave(HARM_LAST)) {
			harm_light(1);
			harm_nap(2000);
		}
	return data;
}

/* The first thread stands in a call that cannot be borrowed. */
static void *writes_main(void *data)
{
	harm_begin();
	harm_work(1); /* the driver's threads are of the usual kind */
	harm_start(data, real_time_main, NULL);
	while (!started)
		harm_nap(1000);
	harm_run();
	if (harm_page->failures)
		harm_say("%u calls failed", harm_page->failures);
	_exit(0);
	return NULL;
}

static void real_time(void)
{
	pthread_t thread, other;
	int ends[2];
	static char much[1 << 20];

	if (pipe(ends) < 0)
		return;
	harm_start(&thread, writes_main, &other);
	while (write(ends[1], much, sizeof(much)) > 0)
		;
}

static void real_time_all(void)
{
	schedule(SCHED_FIFO, 1);
	harm_begin();
	harm_run();
}

static void idle_class(void)
{
	const struct sched_param param = { 0 };

	harm_begin();
	sched_setscheduler(0, SCHED_IDLE, &param);
	harm_run();
	harm_say("policy: %d", sched_getscheduler(0));
}

const struct harm_case harm_threads[] = {
	{ "plain", plain },
	{ "small-stacks", small_stacks },
	{ "big-stacks", big_stacks },
	{ "crowd", crowd },
	{ "short-threads", short_threads },
	{ "cancel", cancel },
	{ "cancel-between", cancel_between },
	{ "thread-exit", thread_exit },
	{ "first-thread-ends", first_thread_ends },
	{ "coroutines", coroutines },
	{ "longjmp", longjmps },
	{ "setjmp", setjmps },
	{ "robust", robust_mutexes },
	{ "real-time", real_time },
	{ "real-time-all", real_time_all },
	{ "idle-class", idle_class },
	{ NULL, NULL },
};
