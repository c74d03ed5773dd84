/* test_queue_threads: threads that launch, CUPTI's thread and ours hand over into one real ring at
 * the same time; all comes out, each thread's in its order. */
#include <pthread.h>
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
#define LAUNCH	307

static cupti_callback_fn *call_back;
static struct inject_ring ring;
static int done;
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

static void *launch(void *data)
{
	uint32_t *tid = data;
	struct cupti_call call = { 0 };

	__atomic_store_n(tid, thread_id(), __ATOMIC_RELAXED);
	while (call.correlation++ < CALLS) {
		call.site = CUPTI_SITE_ENTER;
		call_back(NULL, CUPTI_DOMAIN_DRIVER, LAUNCH, &call);
		call.site = CUPTI_SITE_EXIT;
		call_back(NULL, CUPTI_DOMAIN_DRIVER, LAUNCH, &call);
	}
	__atomic_fetch_add(&done, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void *put_kernels(void *data)
{
	const struct ts_event event = { .kind = TS_EVENT_KERNEL };
	uint64_t *put = data;

	while (__atomic_load_n(&done, __ATOMIC_RELAXED) < THREADS)
		*put += link_put(&event, sizeof(event)) == 0;
	return NULL;
}

static void *tick(void *unused)
{
	while (__atomic_load_n(&done, __ATOMIC_RELAXED) < THREADS)
		queue_take_all();
	return NULL;
}

static void all_calls_come_once_and_in_order_or_are_counted(void **state)
{
	static const struct cupti fake = { .subscribe = fake_subscribe };
	pthread_t thread[THREADS], worker, ticker;
	uint64_t put = 0, sum = 0;
	int fd;

	assert_int_equal(inject_ring_open(SLOTS, &ring, &fd), 0);
	assert_int_equal(handover_open(fd, dup(ring.wake_fd), SLOTS), 0);
	assert_int_equal(call_subscribe(&fake), CUPTI_OK);
	assert_int_equal(pthread_create(&worker, NULL, put_kernels, &put), 0);
	assert_int_equal(pthread_create(&ticker, NULL, tick, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, launch, &tids[i]), 0);
	while (__atomic_load_n(&done, __ATOMIC_ACQUIRE) < THREADS)
		inject_ring_read(&ring, SLOTS, take, NULL);
	pthread_join(worker, NULL);
	pthread_join(ticker, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < 2; i++) {
		inject_ring_read(&ring, SLOTS, take, NULL);
		queue_take_all();
	}
	inject_ring_read(&ring, SLOTS, take, NULL);
	for (int i = 0; i < THREADS; i++)
		sum += got[i];
	assert_int_equal(disorder, 0);
	assert_int_equal(kernels, put);
	assert_int_equal(sum + inject_ring_dropped(&ring), THREADS * CALLS);
	assert_true(sum > CALLS / 10);
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
