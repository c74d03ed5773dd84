/* Bench_call: what our callbacks cost a thread that launches, by its own time: alone, and while
 * CUPTI's thread hands kernel records over. A daemon's copy reads all the time. Each figure is the
 * median of several rounds; both reads of the clock are in it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "daemon/inject/ring.h"
#include "daemon/limits.h"
#include "inject/cupti_call.h"
#include "inject/launcher.h"
#include "inject/link.h"
#include "tests/bench/load.h"

#define ROUNDS	   9
#define PER_ROUND  400000
#define PER_BUFFER 1000
#define LAUNCH	   307 /* CUPTI's number of cuLaunchKernel */
#define TICK_NS	   100000000
#define PAUSE_NS   20000 /* a full ring of the other thread's, an empty one of the reader's */
#define COLD	   (1 << 20)
#define LINES	   64 /* of it that a program touches between two calls */

static cupti_callback_fn *call_back;
static struct inject_ring ring;
static int stop, working;
static uint32_t launched;
static uint64_t calls_read, kernels_read;

static int fake_subscribe(void **handle, cupti_callback_fn *callback, void *data)
{
	call_back = callback;
	*handle = &ring;
	return CUPTI_OK;
}

static int fake_enable(uint32_t enable, void *handle, uint32_t domain, uint32_t cbid)
{
	return CUPTI_OK;
}

static const struct cupti fake = { .subscribe = fake_subscribe, .enable_callback = fake_enable };

static void pause_ns(long ns)
{
	nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
}

static bool count(void *data, void *record, size_t size)
{
	calls_read += ((const struct ts_event *)record)->kind == TS_EVENT_CALL;
	kernels_read += ((const struct ts_event *)record)->kind == TS_EVENT_KERNEL;
	return true;
}

static void *read_records(void *unused)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		if (!inject_ring_read(&ring, LIMIT_EVENTS_PER_TURN, count, NULL))
			pause_ns(PAUSE_NS);
	return NULL;
}

/* CUPTI's thread: a kernel for each call, a buffer of them at a time. */
static void *put_kernels(void *unused)
{
	struct ts_event event = { .kind = TS_EVENT_KERNEL };
	uint32_t done = 0;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		if (done == __atomic_load_n(&launched, __ATOMIC_RELAXED) ||
		    link_put(&event, sizeof(event)) < 0)
			pause_ns(PAUSE_NS);
		else
			done++;
	}
	return NULL;
}

static double thread_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* What a program does between two calls, in short: other memory. */
static void work(void)
{
	static uint8_t cold[COLD];
	static uint32_t at;

	for (uint32_t i = 0; i < LINES; i++, at += 4160)
		cold[at % COLD]++;
}

static double launch(bool works)
{
	int32_t result = 0;
	struct cupti_call call = { .result = &result };
	double start = thread_ns(), worked = 0;

	for (uint32_t i = 0; works && i < PER_ROUND; i++)
		work();
	worked = thread_ns() - start;
	start = thread_ns();
	for (uint32_t i = 0; i < PER_ROUND; i++) {
		call.correlation++;
		call.site = CUPTI_SITE_ENTER;
		call_back(NULL, CUPTI_DOMAIN_DRIVER, LAUNCH, &call);
		call.site = CUPTI_SITE_EXIT;
		call_back(NULL, CUPTI_DOMAIN_DRIVER, LAUNCH, &call);
		if (works)
			work();
		if (working && i % PER_BUFFER == 0)
			__atomic_fetch_add(&launched, PER_BUFFER, __ATOMIC_RELAXED);
	}
	return (thread_ns() - start - (works ? worked : 0)) / PER_ROUND;
}

static double clocks(void)
{
	uint64_t sum = 0;
	double start = thread_ns();

	for (uint32_t i = 0; i < PER_ROUND; i++)
		sum += clock_ns(CLOCK_MONOTONIC) + clock_ns(CLOCK_MONOTONIC);
	return (thread_ns() - start) / PER_ROUND + (sum == 0);
}

static void print(const char *what, double *value)
{
	printf("%-40s %10.1f\n", what, median(value, ROUNDS));
	fflush(stdout);
}

int main(void)
{
	static const char *const name[] = { "our callbacks", "beside CUPTI's thread",
					    "between other work",
					    "between other work, beside CUPTI's" };
	double value[ROUNDS];
	pthread_t reader, worker;
	int fd;

	if (inject_ring_open(LIMIT_INJECT_SLOTS, &ring, &fd) < 0 ||
	    handover_open(fd, dup(ring.wake_fd), LIMIT_INJECT_SLOTS) < 0 ||
	    call_subscribe(&fake) != CUPTI_OK)
		return 1;
	call_enable(&fake, true);
	if (pthread_create(&reader, NULL, read_records, NULL) ||
	    pthread_create(&worker, NULL, put_kernels, NULL))
		abort();
	printf("%-40s %10s\n", "of the thread that launches", "ns/call");
	for (int i = 0; i < ROUNDS; i++)
		value[i] = clocks();
	print("two reads of the clock", value);
	for (int i = 0; i < 4; i++) {
		working = i & 1;
		for (int n = 0; n < ROUNDS; n++)
			value[n] = launch(i & 2);
		print(name[i], value);
	}
	pause_ns(TICK_NS);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(reader, NULL);
	pthread_join(worker, NULL);
	printf("calls read %llu and lost %llu, of %u; kernels read %llu\n",
	       (unsigned long long)calls_read, (unsigned long long)inject_ring_dropped(&ring),
	       4 * ROUNDS * PER_ROUND, (unsigned long long)kernels_read);
	return 0;
}
