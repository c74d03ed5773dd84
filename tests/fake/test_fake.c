/* Test fake: the tests of the simulated GPU's own behaviour. Run at time scale 0 and 1. */
#include "test_fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

CUcontext context;
CUmodule module;
CUfunction kernel;

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool closed, reached;
} gate = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false };

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

void gate_close(CUstream stream)
{
	gate.closed = true;
	gate.reached = false;
	OK(cuLaunchHostFunc(stream, gate_pass, NULL));
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

int with_context(void **state)
{
	(void)state;
	return cuCtxCreate(&context, NULL, 0, 0) || cuModuleLoadData(&module, "an image") ||
	       cuModuleGetFunction(&kernel, module, "some_kernel");
}

int without_context(void **state)
{
	(void)state;
	/* A test that failed may have left it closed. */
	gate_open();
	return cuCtxDestroy(context);
}

CUdeviceptr filled(unsigned char value)
{
	CUdeviceptr ptr;

	OK(cuMemAlloc(&ptr, BYTES));
	OK(cuMemsetD8(ptr, value, BYTES));
	return ptr;
}

int uniform(CUdeviceptr ptr)
{
	unsigned char bytes[BYTES];
	CUstream stream;

	/* A stream of its own, so that no gate holds up the look */
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemcpyDtoHAsync(bytes, ptr, BYTES, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuStreamDestroy(stream));
	for (size_t i = 1; i < BYTES; i++)
		if (bytes[i] != bytes[0])
			return -1;
	return bytes[0];
}

CUresult launch(CUstream stream)
{
	return cuLaunchKernel(kernel, 4, 1, 1, 64, 1, 1, 0, stream, NULL, NULL);
}

static void nothing_works_before_init(void **state)
{
	CUdeviceptr ptr;
	CUcontext made;
	int number;

	(void)state;
	FAILS(cuDeviceGetCount(&number), CUDA_ERROR_NOT_INITIALIZED);
	FAILS(cuCtxCreate(&made, NULL, 0, 0), CUDA_ERROR_NOT_INITIALIZED);
	FAILS(cuMemAlloc(&ptr, 16), CUDA_ERROR_NOT_INITIALIZED);
	FAILS(launch(NULL), CUDA_ERROR_NOT_INITIALIZED);
	OK(cuDriverGetVersion(&number));
	assert_int_equal(number, CUDA_VERSION);
	FAILS(cuInit(1), CUDA_ERROR_INVALID_VALUE);
}

static void init_loads_the_injection_library(void **state)
{
	(void)state;
	setenv("CUDA_INJECTION64_PATH", getenv("FAKE_TEST_INJECTION"), 1);
	assert_null(getenv("FAKE_TEST_INJECTED"));
	OK(cuInit(0));
	assert_string_equal(getenv("FAKE_TEST_INJECTED"), "0");
	OK(cuInit(0));
}

static void most_need_a_context(void **state)
{
	CUdeviceptr ptr;
	CUstream stream;

	(void)state;
	FAILS(cuMemAlloc(&ptr, 16), CUDA_ERROR_INVALID_CONTEXT);
	FAILS(cuStreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
	FAILS(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
	FAILS(launch(NULL), CUDA_ERROR_INVALID_CONTEXT);
}

int main(void)
{
	const struct CMUnitTest before[] = {
		cmocka_unit_test(nothing_works_before_init),
		cmocka_unit_test(init_loads_the_injection_library),
		cmocka_unit_test(most_need_a_context),
	};

	if (!getenv("FAKE_TEST_INJECTION")) {
		fprintf(stderr, "FAKE_TEST_INJECTION has to name the library to inject\n");
		return 1;
	}
	return cmocka_run_group_tests_name("before", before, NULL, NULL) + run_stream_tests() +
	       run_memory_tests() + run_graph_tests() + run_api_tests() + run_hook_tests();
}
