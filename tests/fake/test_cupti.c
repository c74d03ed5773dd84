/* Test cupti: the client, and what CUPTI does with buffers. Built for both layouts. */
#include "test_cupti.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WAIT_NS 60000000000u

struct client client;
CUcontext context;
CUfunction kernel;
CUstream stream;

static pthread_mutex_t client_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool closed, reached;
} gate = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false };

uint64_t client_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void on_request(uint8_t **buffer, size_t *size, size_t *records_max)
{
	pthread_mutex_lock(&client_lock);
	*buffer = client.refuse ? NULL : aligned_alloc(8, client.buffer_bytes);
	*size = client.buffer_bytes;
	*records_max = client.records_max;
	client.requested += *buffer != NULL;
	pthread_mutex_unlock(&client_lock);
}

static void on_complete(void *unused, uint32_t stream_id, uint8_t *buffer, size_t size,
			size_t valid)
{
	struct cupti_record *record = NULL;

	(void)unused;
	(void)stream_id;
	(void)size;
	pthread_mutex_lock(&client_lock);
	while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_OK) {
		struct got *got = &client.got[client.count];
		size_t left = (size_t)(buffer + valid - (uint8_t *)record);

		if (client.count < ARRAY_SIZE(client.got) - 1)
			client.count++;
		got->kind = record->kind;
		got->buffer = client.completed + 1;
		got->thread = (uint32_t)syscall(SYS_gettid);
		memcpy(got->bytes, record, left < sizeof(got->bytes) ? left : sizeof(got->bytes));
	}
	client.completed++;
	pthread_mutex_unlock(&client_lock);
	free(buffer);
}

void client_register(void)
{
	OK(cuptiActivityRegisterCallbacks(on_request, on_complete));
}

size_t client_kind(uint32_t kind)
{
	size_t count = 0;

	pthread_mutex_lock(&client_lock);
	for (size_t i = 0; i < client.count; i++)
		count += client.got[i].kind == kind;
	pthread_mutex_unlock(&client_lock);
	return count;
}

const struct got *client_get(uint32_t kind, size_t number)
{
	const struct got *found = NULL;

	pthread_mutex_lock(&client_lock);
	for (size_t i = 0; i < client.count && !found; i++)
		if (client.got[i].kind == kind && number-- == 0)
			found = &client.got[i];
	pthread_mutex_unlock(&client_lock);
	assert_non_null(found);
	return found;
}

void client_clear(void)
{
	pthread_mutex_lock(&client_lock);
	client.count = 0;
	pthread_mutex_unlock(&client_lock);
}

void client_wait(uint32_t kind, size_t count)
{
	uint64_t deadline = client_clock() + WAIT_NS;

	while (client_kind(kind) < count) {
		assert_true(client_clock() < deadline);
		usleep(1000);
	}
}

static void gate_pass(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&gate.lock);
	gate.reached = true;
	pthread_cond_broadcast(&gate.changed);
	while (gate.closed)
		pthread_cond_wait(&gate.changed, &gate.lock);
	pthread_mutex_unlock(&gate.lock);
}

void gate_close(CUstream at)
{
	gate.closed = true;
	gate.reached = false;
	OK(cuLaunchHostFunc(at, gate_pass, NULL));
	pthread_mutex_lock(&gate.lock);
	while (!gate.reached)
		pthread_cond_wait(&gate.changed, &gate.lock);
	pthread_mutex_unlock(&gate.lock);
}

void gate_open(void)
{
	pthread_mutex_lock(&gate.lock);
	gate.closed = false;
	pthread_cond_broadcast(&gate.changed);
	pthread_mutex_unlock(&gate.lock);
}

void launch(CUstream to)
{
	OK(cuLaunchKernel(kernel, 4, 2, 1, 64, 1, 1, 128, to, NULL, NULL));
}

int cupti_up(void **state)
{
	CUmodule module;

	(void)state;
	memset(&client, 0, sizeof(client));
	client.buffer_bytes = 64 << 10;
	if (cuInit(0) || cuCtxCreate_v2(&context, 0, 0) || cuModuleLoadData(&module, "an image") ||
	    cuModuleGetFunction(&kernel, module, "some_kernel") ||
	    cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))
		return 1;
	if (cuptiActivityRegisterTimestampCallback(client_clock) != CUPTI_OK)
		return 1;
	client_register();
	return 0;
}

int cupti_down(void **state)
{
	(void)state;
	gate_open();
	if (cuCtxSynchronize() || cuptiFinalize() || cuCtxDestroy_v2(context))
		return 1;
	/* Whatever was lent has come back. */
	return client.requested != client.completed;
}

static void buffers_come_when_they_are_full(void **state)
{
	(void)state;
	client.buffer_bytes = 4 * sizeof(struct cupti_kernel) + 8;
	OK(cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL));
	for (int i = 0; i < 9; i++)
		launch(stream);
	OK(cuStreamSynchronize(stream));
	client_wait(CUPTI_KIND_CONCURRENT_KERNEL, 8);
	assert_int_equal(client_kind(CUPTI_KIND_CONCURRENT_KERNEL), 8);
	/* CUPTI's own thread brought them, a flush brings the rest on ours. */
	assert_int_not_equal(client_get(CUPTI_KIND_CONCURRENT_KERNEL, 0)->thread,
			     (uint32_t)syscall(SYS_gettid));
	OK(cuptiActivityFlushAll(0));
	assert_int_equal(client_kind(CUPTI_KIND_CONCURRENT_KERNEL), 9);
	assert_int_equal(client_get(CUPTI_KIND_CONCURRENT_KERNEL, 8)->thread,
			 (uint32_t)syscall(SYS_gettid));
}

static void a_buffer_takes_no_more_records_than_it_may(void **state)
{
	(void)state;
	client.records_max = 2;
	OK(cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL));
	for (int i = 0; i < 4; i++)
		launch(stream);
	OK(cuStreamSynchronize(stream));
	OK(cuptiActivityFlushAll(0));
	client_wait(CUPTI_KIND_CONCURRENT_KERNEL, 4);
	assert_int_equal(client.completed, 2);
}

static void a_plain_flush_keeps_back_what_is_unfinished(void **state)
{
	(void)state;
	OK(cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL));
	launch(stream);
	OK(cuStreamSynchronize(stream));
	gate_close(stream);
	launch(stream);
	OK(cuptiActivityFlushAll(0));
	/* The finished one is in the same buffer. */
	assert_int_equal(client_kind(CUPTI_KIND_CONCURRENT_KERNEL), 0);
	gate_open();
	OK(cuStreamSynchronize(stream));
	OK(cuptiActivityFlushAll(0));
	assert_int_equal(client_kind(CUPTI_KIND_CONCURRENT_KERNEL), 2);
	assert_int_not_equal(client_get(CUPTI_KIND_CONCURRENT_KERNEL, 1)->kernel.end, 0);
}

static void a_full_buffer_is_kept_back_as_well(void **state)
{
	(void)state;
	client.buffer_bytes = 2 * sizeof(struct cupti_kernel);
	OK(cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL));
	gate_close(stream);
	for (int i = 0; i < 3; i++)
		launch(stream);
	OK(cuptiActivityFlushAll(0));
	assert_int_equal(client_kind(CUPTI_KIND_CONCURRENT_KERNEL), 0);
	gate_open();
	OK(cuStreamSynchronize(stream));
	OK(cuptiActivityFlushAll(0));
	assert_int_equal(client_kind(CUPTI_KIND_CONCURRENT_KERNEL), 3);
}

static void a_forced_flush_spoils_what_is_unfinished(void **state)
{
	(void)state;
	OK(cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL));
	gate_close(stream);
	launch(stream);
	OK(cuptiActivityFlushAll(CUPTI_FLAG_FLUSH_FORCED));
	assert_int_equal(client_kind(CUPTI_KIND_CONCURRENT_KERNEL), 1);
	assert_int_equal(client_get(CUPTI_KIND_CONCURRENT_KERNEL, 0)->kernel.end, 0);
	gate_open();
	OK(cuStreamSynchronize(stream));
	OK(cuptiActivityFlushAll(CUPTI_FLAG_FLUSH_FORCED));
	assert_int_equal(client_kind(CUPTI_KIND_CONCURRENT_KERNEL), 1);
}

static void *launch_and_leave(void *unused)
{
	(void)unused;
	OK(cuCtxSetCurrent(context));
	for (int i = 0; i < 3; i++)
		launch(stream);
	return NULL;
}

static void threads_have_buffers_of_their_own(void **state)
{
	uint8_t per_thread = 1;
	size_t size = sizeof(per_thread);
	pthread_t id;

	(void)state;
	OK(cuptiActivitySetAttribute(CUPTI_ATTR_PER_THREAD, &size, &per_thread));
	/* The handle of a thread that has ended may be that of the next. */
	OK(cuptiSetThreadIdType(CUPTI_THREAD_SYSTEM));
	OK(cuptiActivityEnable(CUPTI_KIND_DRIVER));
	for (int i = 0; i < 2; i++) {
		OK(pthread_create(&id, NULL, launch_and_leave, NULL));
		OK(pthread_join(id, NULL));
	}
	launch(stream);
	OK(cuptiActivityFlushAll(0));
	assert_int_equal(client.completed, 3);
	assert_int_equal(client_kind(CUPTI_KIND_DRIVER), 9);
	for (size_t i = 1; i < client.count; i++)
		assert_int_equal(client.got[i].buffer == client.got[i - 1].buffer,
				 client.got[i].api.thread == client.got[i - 1].api.thread);
	per_thread = FAKE_CUPTI_MAJOR >= 13;
	OK(cuptiActivitySetAttribute(CUPTI_ATTR_PER_THREAD, &size, &per_thread));
}

static void what_has_no_room_is_counted(void **state)
{
	size_t dropped;

	(void)state;
	client.buffer_bytes = 64;
	OK(cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL));
	launch(stream);
	launch(stream);
	OK(cuStreamSynchronize(stream));
	OK(cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped));
	assert_int_equal(dropped, 2);
	OK(cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped));
	assert_int_equal(dropped, 0);
	if (FAKE_CUPTI_MAJOR < 13)
		return;
	client.refuse = true;
	OK(cuptiActivityFlushAll(CUPTI_FLAG_FLUSH_FORCED));
	launch(stream);
	OK(cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped));
	assert_int_equal(dropped, 1);
}

static void buffers_come_late_after_a_disable(void **state)
{
	(void)state;
	OK(cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL));
	launch(stream);
	OK(cuStreamSynchronize(stream));
	OK(cuptiActivityDisable(CUPTI_KIND_CONCURRENT_KERNEL));
	client_wait(CUPTI_KIND_CONCURRENT_KERNEL, 1);
	assert_int_not_equal(client_get(CUPTI_KIND_CONCURRENT_KERNEL, 0)->thread,
			     (uint32_t)syscall(SYS_gettid));
	launch(stream);
	OK(cuStreamSynchronize(stream));
	OK(cuptiActivityFlushAll(CUPTI_FLAG_FLUSH_FORCED));
	assert_int_equal(client_kind(CUPTI_KIND_CONCURRENT_KERNEL), 1);
}

static uint32_t others;

static void on_complete_other(void *unused, uint32_t stream_id, uint8_t *buffer, size_t size,
			      size_t valid)
{
	others++;
	on_complete(unused, stream_id, buffer, size, valid);
}

static void a_second_registration_takes_over(void **state)
{
	(void)state;
	others = 0;
	OK(cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL));
	launch(stream);
	OK(cuStreamSynchronize(stream));
	OK(cuptiActivityRegisterCallbacks(on_request, on_complete_other));
	OK(cuptiActivityFlushAll(0));
	/* It gets the buffer that the first one lent. */
	assert_int_equal(others, 1);
	FAILS(cuptiActivityRegisterCallbacks(NULL, on_complete), CUPTI_E_INVALID_PARAMETER);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, cupti_up, cupti_down)
		TEST(buffers_come_when_they_are_full),
		TEST(a_buffer_takes_no_more_records_than_it_may),
		TEST(a_plain_flush_keeps_back_what_is_unfinished),
		TEST(a_full_buffer_is_kept_back_as_well),
		TEST(a_forced_flush_spoils_what_is_unfinished),
		TEST(threads_have_buffers_of_their_own),
		TEST(what_has_no_room_is_counted),
		TEST(buffers_come_late_after_a_disable),
		TEST(a_second_registration_takes_over),
	};

	if (argc == 2)
		return run_scenario(argv[1]);
	return cmocka_run_group_tests_name("buffers", tests, NULL, NULL) + run_record_tests() +
	       run_hazard_tests(argv[0]);
}
