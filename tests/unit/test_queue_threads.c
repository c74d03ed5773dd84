/* test_queue_threads: threads that launch, CUPTI's thread and ours hand over into one real ring at
 * the same time; all comes out, each thread's in its order. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/inject/ring.h"
#include "inject/cupti_call.h"
#include "inject/link.h"
#include "inject/queue.h"

#define THREADS 3
#define CALLS	200000
#define SLOTS	4096
/* There is room for those of all threads, even if nothing is read in the meantime. */
#define CALLS_LAST (SLOTS / THREADS / 2)
#define LAUNCH	   307

static cupti_callback_fn *call_back;
static struct inject_ring ring;
static int stormed, calm, done;
static uint32_t tids[THREADS];
static uint64_t got[THREADS], last[THREADS], disorder, kernels;

static int fake_subscribe(void **handle, cupti_callback_fn *callback, void *data)
{
	call_back = callback;
	*handle = &ring;
	return CUPTI_OK;
}

static bool take(void *data, void *record, size_t size)
{
	const struct ts_event *event = record;

	kernels += event->kind == TS_EVENT_KERNEL;
	for (int i = 0; event->kind == TS_EVENT_CALL && i < THREADS; i++) {
		if (event->tid != __atomic_load_n(&tids[i], __ATOMIC_RELAXED))
			continue;
		got[i]++;
		disorder += event->call.correlation <= last[i] || event->start_ns > event->end_ns;
		last[i] = event->call.correlation;
	}
	return true;
}

static void launch_until(struct cupti_call *call, uint64_t last_correlation)
{
	while (call->correlation < last_correlation) {
		call->correlation++;
		call->site = CUPTI_SITE_ENTER;
		call_back(NULL, CUPTI_DOMAIN_DRIVER, LAUNCH, call);
		call->site = CUPTI_SITE_EXIT;
		call_back(NULL, CUPTI_DOMAIN_DRIVER, LAUNCH, call);
	}
}

/* As fast as it can at first; then, when nobody else writes any more, as much as there is room
 * for. */
static void *launch(void *data)
{
	uint32_t *tid = data;
	struct cupti_call call = { 0 };

	__atomic_store_n(tid, thread_id(), __ATOMIC_RELAXED);
	launch_until(&call, CALLS - CALLS_LAST);
	__atomic_fetch_add(&stormed, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&calm, __ATOMIC_ACQUIRE))
		sched_yield();
	launch_until(&call, CALLS);
	__atomic_fetch_add(&done, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void *put_kernels(void *data)
{
	const struct ts_event event = { .kind = TS_EVENT_KERNEL };
	uint64_t *put = data;

	while (__atomic_load_n(&stormed, __ATOMIC_RELAXED) < THREADS)
		*put += link_put(&event, sizeof(event)) == 0;
	return NULL;
}

static void *tick(void *unused)
{
	while (__atomic_load_n(&stormed, __ATOMIC_RELAXED) < THREADS)
		queue_take_all();
	return NULL;
}

/* Full ones as well: what a queue keeps then comes in the second turn. */
static void read_all(void)
{
	for (int i = 0; i < 3; i++) {
		inject_ring_read(&ring, SLOTS, take, NULL);
		queue_take_all();
	}
	inject_ring_read(&ring, SLOTS, take, NULL);
}

static void all_calls_come_once_and_in_order_or_are_counted(void **state)
{
	static const struct cupti fake = { .subscribe = fake_subscribe };
	pthread_t thread[THREADS], worker, ticker;
	uint64_t put = 0, sum = 0, dropped;
	int fd;

	assert_int_equal(inject_ring_open(SLOTS, &ring, &fd), 0);
	assert_int_equal(handover_open(fd, dup(ring.wake_fd), SLOTS), 0);
	assert_int_equal(call_subscribe(&fake), CUPTI_OK);
	assert_int_equal(pthread_create(&worker, NULL, put_kernels, &put), 0);
	assert_int_equal(pthread_create(&ticker, NULL, tick, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, launch, &tids[i]), 0);
	while (__atomic_load_n(&stormed, __ATOMIC_ACQUIRE) < THREADS)
		inject_ring_read(&ring, SLOTS, take, NULL);
	pthread_join(worker, NULL);
	pthread_join(ticker, NULL);
	read_all();
	dropped = inject_ring_dropped(&ring);
	__atomic_store_n(&calm, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(&done, __ATOMIC_ACQUIRE) < THREADS)
		inject_ring_read(&ring, SLOTS, take, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	read_all();
	for (int i = 0; i < THREADS; i++)
		sum += got[i];
	assert_int_equal(disorder, 0);
	assert_int_equal(kernels, put);
	assert_int_equal(sum + dropped, THREADS * CALLS);
	assert_int_equal(inject_ring_dropped(&ring), 0); /* no more since */
	assert_true(sum >= THREADS * CALLS_LAST);
	assert_true(handover_close());
	inject_ring_close(&ring);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_calls_come_once_and_in_order_or_are_counted),
	};

	return cmocka_run_group_tests_name("queue_threads", tests, NULL, NULL);
}
