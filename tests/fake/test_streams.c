/* Test streams: order in streams and between them, events, callbacks. */
#include "test_fake.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

static CUstream stream_new(unsigned int flags)
{
	CUstream stream;

	OK(cuStreamCreate(&stream, flags));
	return stream;
}

static void operations_run_in_order(void **state)
{
	CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
	CUdeviceptr a = filled(1), b = filled(2);

	(void)state;
	OK(cuStreamQuery(s));
	gate_close(s);
	OK(cuMemcpyDtoDAsync(b, a, BYTES, s));
	OK(cuMemsetD8Async(a, 9, BYTES, s));
	OK(launch(s));
	FAILS(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
	assert_int_equal(uniform(a), 1);
	assert_int_equal(uniform(b), 2);
	gate_open();
	OK(cuStreamSynchronize(s));
	OK(cuStreamQuery(s));
	assert_int_equal(uniform(a), 9);
	assert_int_equal(uniform(b), 1);
	OK(cuStreamDestroy(s));
}

static void an_event_orders_two_streams(void **state)
{
	CUstream first = stream_new(CU_STREAM_NON_BLOCKING);
	CUstream second = stream_new(CU_STREAM_NON_BLOCKING);
	CUdeviceptr a = filled(1);
	CUevent event;

	(void)state;
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	OK(cuStreamWaitEvent(second, event, 0));
	OK(cuStreamQuery(second));
	gate_close(first);
	OK(cuEventRecord(event, first));
	FAILS(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	OK(cuStreamWaitEvent(second, event, 0));
	OK(cuMemsetD8Async(a, 5, BYTES, second));
	FAILS(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
	assert_int_equal(uniform(a), 1);
	gate_open();
	OK(cuStreamSynchronize(second));
	assert_int_equal(uniform(a), 5);
	OK(cuEventSynchronize(event));
	OK(cuEventQuery(event));
	OK(cuEventDestroy(event));
}

static void a_wait_is_for_the_record_before_it(void **state)
{
	CUstream first = stream_new(CU_STREAM_NON_BLOCKING);
	CUstream second = stream_new(CU_STREAM_NON_BLOCKING);
	CUevent event;

	(void)state;
	OK(cuEventCreate(&event, 0));
	OK(cuEventRecord(event, first));
	OK(cuStreamWaitEvent(second, event, 0));
	OK(cuStreamSynchronize(second));
	gate_close(first);
	OK(cuEventRecord(event, first));
	OK(cuStreamQuery(second));
	/* Destroyed while it is queued, it still does its work. */
	OK(cuStreamWaitEvent(second, event, 0));
	OK(cuEventDestroy(event));
	FAILS(cuEventDestroy(event), CUDA_ERROR_INVALID_HANDLE);
	FAILS(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
	gate_open();
	OK(cuStreamSynchronize(second));
}

static void the_legacy_stream_waits_for_blocking_ones_only(void **state)
{
	CUstream blocking = stream_new(CU_STREAM_DEFAULT);
	CUstream other = stream_new(CU_STREAM_NON_BLOCKING);
	CUdeviceptr a = filled(1), b = filled(1);

	(void)state;
	gate_close(blocking);
	OK(cuMemsetD8Async(a, 2, BYTES, NULL));
	OK(cuMemsetD8Async(b, 2, BYTES, other));
	OK(cuStreamSynchronize(other));
	FAILS(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	FAILS(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
	assert_int_equal(uniform(a), 1);
	assert_int_equal(uniform(b), 2);
	gate_open();
	OK(cuStreamSynchronize(NULL));
	OK(cuStreamQuery(blocking));
	assert_int_equal(uniform(a), 2);
}

static void blocking_streams_wait_for_the_legacy_one(void **state)
{
	CUstream blocking = stream_new(CU_STREAM_DEFAULT);
	CUstream other = stream_new(CU_STREAM_NON_BLOCKING);
	CUdeviceptr a = filled(1), b = filled(1);

	(void)state;
	gate_close(NULL);
	OK(cuMemsetD8Async(a, 2, BYTES, blocking));
	OK(cuMemsetD8Async(b, 2, BYTES, other));
	OK(cuStreamSynchronize(other));
	FAILS(cuStreamQuery(blocking), CUDA_ERROR_NOT_READY);
	assert_int_equal(uniform(a), 1);
	gate_open();
	OK(cuStreamSynchronize(blocking));
	assert_int_equal(uniform(a), 2);
}

/* Symbols with _ptsz take the stream 0 to be the thread's own, which blocks like any other. */
static void per_thread_symbols_use_the_threads_stream(void **state)
{
	CUresult (*set)(CUdeviceptr, unsigned char, size_t, CUstream);
	CUstream blocking = stream_new(CU_STREAM_DEFAULT);
	CUdeviceptr a = filled(1);
	unsigned long long own, legacy;

	(void)state;
	OK(cuGetProcAddress("cuMemsetD8Async", (void **)&set, CUDA_VERSION,
			    CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL));
	OK(cuStreamGetId(CU_STREAM_PER_THREAD, &own));
	OK(cuStreamGetId(CU_STREAM_LEGACY, &legacy));
	assert_int_not_equal(own, legacy);
	gate_close(blocking);
	OK(set(a, 2, BYTES, NULL));
	OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	assert_int_equal(uniform(a), 2);
	OK(cuMemsetD8Async(a, 3, BYTES, NULL));
	OK(set(a, 4, BYTES, NULL));
	FAILS(cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY);
	gate_open();
	OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	assert_int_equal(uniform(a), 4);
}

static void events_tell_simulated_time(void **state)
{
	const char *scale = getenv("FAKE_CUDA_TIME_SCALE");
	CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
	CUevent start, end;
	CUfunction timed;
	float ms;

	(void)state;
	OK(cuModuleGetFunction(&timed, module, "spin_us500"));
	OK(cuEventCreate(&start, 0));
	OK(cuEventCreate(&end, 0));
	FAILS(cuEventElapsedTime(&ms, start, end), CUDA_ERROR_INVALID_HANDLE);
	/* All is queued before the first of it starts: no call can be late. */
	gate_close(s);
	OK(cuLaunchKernel(timed, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL));
	OK(cuEventRecord(start, s));
	for (int i = 0; i < 4; i++)
		OK(cuLaunchKernel(timed, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL));
	OK(cuEventRecord(end, s));
	gate_open();
	OK(cuEventSynchronize(end));
	OK(cuEventElapsedTime(&ms, start, end));
	if (scale && strcmp(scale, "0") == 0)
		assert_true(ms >= 0);
	else
		assert_true(ms >= 1.999f && ms < 2.5f);
	OK(cuEventDestroy(start));
	FAILS(cuEventElapsedTime(&ms, start, end), CUDA_ERROR_INVALID_HANDLE);
	OK(cuEventCreate(&start, CU_EVENT_DISABLE_TIMING));
	OK(cuEventRecord(start, s));
	FAILS(cuEventElapsedTime(&ms, start, end), CUDA_ERROR_INVALID_HANDLE);
}

static void a_destroyed_stream_finishes_its_work(void **state)
{
	CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
	CUdeviceptr a = filled(1);

	(void)state;
	gate_close(s);
	OK(cuMemsetD8Async(a, 7, BYTES, s));
	OK(cuStreamDestroy(s));
	FAILS(cuStreamDestroy(s), CUDA_ERROR_INVALID_HANDLE);
	FAILS(launch(s), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(uniform(a), 1);
	gate_open();
	OK(cuCtxSynchronize());
	assert_int_equal(uniform(a), 7);
}

static _Atomic int launched;

static void *launch_many(void *stream)
{
	OK(cuCtxSetCurrent(context));
	for (int i = 0; i < 3000; i++) {
		OK(launch(stream));
		launched++;
	}
	return NULL;
}

static void a_full_stream_holds_up_the_launcher(void **state)
{
	const int room = 1024 - 2; /* the gate and the set are in it */
	CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
	CUdeviceptr a = filled(1);
	pthread_t thread;

	(void)state;
	launched = 0;
	gate_close(s);
	OK(cuMemsetD8Async(a, 2, BYTES, s));
	pthread_create(&thread, NULL, launch_many, s);
	while (launched < room)
		sched_yield();
	assert_int_equal(launched, room);
	gate_open();
	pthread_join(thread, NULL);
	OK(cuStreamSynchronize(s));
	assert_int_equal(uniform(a), 2);
}

struct told {
	CUstream stream;
	CUresult status, inside;
	int order;
};

static int told_order;

static void tell_callback(CUstream stream, CUresult status, void *user)
{
	struct told *told = user;

	told->stream = stream;
	told->status = status;
	told->inside = cuStreamSynchronize(stream);
	told->order = ++told_order;
}

static void tell_function(void *user)
{
	((struct told *)user)->order = ++told_order;
}

static void host_functions_run_in_order_and_may_not_call_cuda(void **state)
{
	CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
	struct told first = { 0 }, second = { 0 };

	(void)state;
	OK(cuStreamAddCallback(s, tell_callback, &first, 0));
	OK(cuLaunchHostFunc(s, tell_function, &second));
	OK(cuStreamSynchronize(s));
	assert_ptr_equal(first.stream, s);
	assert_int_equal(first.status, CUDA_SUCCESS);
	assert_int_equal(first.inside, CUDA_ERROR_NOT_PERMITTED);
	assert_int_equal(first.order, 1);
	assert_int_equal(second.order, 2);
	FAILS(cuStreamAddCallback(s, NULL, NULL, 0), CUDA_ERROR_INVALID_VALUE);
	FAILS(cuLaunchHostFunc(s, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void *hammer(void *shared)
{
	CUstream own;
	CUevent event;

	OK(cuCtxSetCurrent(context));
	OK(cuStreamCreate(&own, 0));
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	for (int i = 0; i < 200; i++) {
		CUdeviceptr ptr;

		OK(cuMemAllocAsync(&ptr, 1000, own));
		OK(cuMemsetD8Async(ptr, 1, 1000, own));
		OK(launch(own));
		OK(cuEventRecord(event, own));
		OK(cuStreamWaitEvent(shared, event, 0));
		OK(launch(shared));
		OK(cuMemFreeAsync(ptr, own));
		if (i % 50 == 0)
			OK(launch(NULL));
		if (i % 20 == 0)
			OK(cuStreamSynchronize(own));
	}
	OK(cuEventDestroy(event));
	OK(cuStreamDestroy(own));
	return NULL;
}

static void threads_share_streams(void **state)
{
	CUstream shared = stream_new(CU_STREAM_NON_BLOCKING);
	pthread_t threads[4];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_create(&threads[i], NULL, hammer, shared);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_join(threads[i], NULL);
	OK(cuCtxSynchronize());
	OK(cuStreamQuery(shared));
}

static void launches_are_checked(void **state)
{
	CUlaunchConfig config = { 1, 1, 1, 32, 1, 1, 0, NULL, NULL, 0 };
	CUcontext other;
	CUstream foreign;

	(void)state;
	OK(cuLaunchKernelEx(&config, kernel, NULL, NULL));
	FAILS(cuLaunchKernelEx(NULL, kernel, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	config.numAttrs = 1;
	FAILS(cuLaunchKernelEx(&config, kernel, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	FAILS(cuLaunchKernel(kernel, 0, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
	      CUDA_ERROR_INVALID_VALUE);
	FAILS(cuLaunchKernel(kernel, 1, 1, 1, 1, 0, 1, 0, NULL, NULL, NULL),
	      CUDA_ERROR_INVALID_VALUE);
	FAILS(cuLaunchKernel(kernel, 1, 1, 1, 1024, 2, 1, 0, NULL, NULL, NULL),
	      CUDA_ERROR_INVALID_VALUE);
	FAILS(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
	      CUDA_ERROR_INVALID_HANDLE);
	FAILS(launch((CUstream)NONSENSE), CUDA_ERROR_INVALID_HANDLE);
	OK(cuCtxCreate(&other, NULL, 0, 1));
	foreign = stream_new(0);
	FAILS(launch(foreign), CUDA_ERROR_INVALID_HANDLE);
	OK(cuCtxDestroy(other));
	OK(cuCtxSetCurrent(context));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, with_context, without_context)

int run_stream_tests(void)
{
	const struct CMUnitTest tests[] = {
		TEST(operations_run_in_order),
		TEST(an_event_orders_two_streams),
		TEST(a_wait_is_for_the_record_before_it),
		TEST(the_legacy_stream_waits_for_blocking_ones_only),
		TEST(blocking_streams_wait_for_the_legacy_one),
		TEST(per_thread_symbols_use_the_threads_stream),
		TEST(events_tell_simulated_time),
		TEST(a_destroyed_stream_finishes_its_work),
		TEST(a_full_stream_holds_up_the_launcher),
		TEST(host_functions_run_in_order_and_may_not_call_cuda),
		TEST(threads_share_streams),
		TEST(launches_are_checked),
	};

	return cmocka_run_group_tests_name("streams", tests, NULL, NULL);
}
