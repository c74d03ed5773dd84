/* Test api: devices, contexts, modules, names and handles. */
#include "test_fake.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void devices_describe_themselves(void **state)
{
	CUuuid first, second;
	char name[64];
	int count, value;
	CUdevice device;
	size_t bytes;

	(void)state;
	OK(cuDeviceGetCount(&count));
	assert_int_equal(count, 2);
	OK(cuDeviceGet(&device, 1));
	FAILS(cuDeviceGet(&device, 2), CUDA_ERROR_INVALID_DEVICE);
	FAILS(cuDeviceGet(NULL, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuDeviceGetName(name, sizeof(name), 1));
	assert_string_equal(name, "Simulated GPU 1");
	OK(cuDeviceGetUuid(&first, 0));
	OK(cuDeviceGetUuid(&second, 1));
	assert_memory_not_equal(&first, &second, sizeof(first));
	OK(cuDeviceTotalMem(&bytes, 0));
	assert_true(bytes >= 1 << 20);
	OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
	assert_int_equal(value, 32);
	FAILS(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, -1),
	      CUDA_ERROR_INVALID_DEVICE);
}

static void contexts_stack_up(void **state)
{
	CUcontext second, got;
	CUdeviceptr ptr;
	CUdevice device;

	(void)state;
	OK(cuCtxCreate(&second, NULL, 0, 1));
	OK(cuCtxGetCurrent(&got));
	assert_ptr_equal(got, second);
	OK(cuCtxGetDevice(&device));
	assert_int_equal(device, 1);
	OK(cuCtxPopCurrent(&got));
	assert_ptr_equal(got, second);
	OK(cuCtxGetDevice(&device));
	assert_int_equal(device, 0);
	OK(cuCtxPushCurrent(second));
	OK(cuCtxSetCurrent(context));
	OK(cuCtxPopCurrent(&got));
	OK(cuCtxGetCurrent(&got));
	assert_ptr_equal(got, context);
	OK(cuCtxPushCurrent(second));
	OK(cuCtxPushCurrent(context));
	OK(cuCtxDestroy(second));
	FAILS(cuCtxDestroy(second), CUDA_ERROR_INVALID_CONTEXT);
	FAILS(cuCtxPushCurrent(second), CUDA_ERROR_INVALID_CONTEXT);
	OK(cuCtxPopCurrent(&got));
	/* A context that was destroyed while another was on top of it */
	FAILS(cuMemAlloc(&ptr, 16), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	OK(cuCtxPopCurrent(&got));
	OK(cuMemAlloc(&ptr, 16));
}

static void the_primary_context_is_counted(void **state)
{
	CUcontext first, again;
	unsigned int flags;
	int active;

	(void)state;
	FAILS(cuDevicePrimaryCtxRelease(1), CUDA_ERROR_INVALID_CONTEXT);
	OK(cuDevicePrimaryCtxRetain(&first, 1));
	OK(cuDevicePrimaryCtxRetain(&again, 1));
	assert_ptr_equal(first, again);
	FAILS(cuCtxDestroy(first), CUDA_ERROR_INVALID_CONTEXT);
	OK(cuDevicePrimaryCtxRelease(1));
	OK(cuDevicePrimaryCtxGetState(1, &flags, &active));
	assert_int_equal(active, 1);
	OK(cuDevicePrimaryCtxRelease(1));
	OK(cuDevicePrimaryCtxGetState(1, &flags, &active));
	assert_int_equal(active, 0);
	FAILS(cuDevicePrimaryCtxRetain(&first, 2), CUDA_ERROR_INVALID_DEVICE);
}

static void a_name_has_one_function(void **state)
{
	CUfunction again, other;
	CUmodule second;
	const char *name;

	(void)state;
	OK(cuModuleGetFunction(&again, module, "some_kernel"));
	assert_ptr_equal(again, kernel);
	OK(cuModuleGetFunction(&other, module, "_Z6kernelPfi"));
	assert_ptr_not_equal(other, kernel);
	OK(cuFuncGetName(&name, other));
	assert_string_equal(name, "_Z6kernelPfi");
	FAILS(cuModuleGetFunction(&other, module, "no identifier"), CUDA_ERROR_NOT_FOUND);
	FAILS(cuModuleGetFunction(&other, module, ""), CUDA_ERROR_NOT_FOUND);
	FAILS(cuModuleGetFunction(&other, NULL, "x"), CUDA_ERROR_INVALID_HANDLE);
	OK(cuModuleLoadData(&second, "another image"));
	OK(cuModuleGetFunction(&other, second, "some_kernel"));
	assert_ptr_not_equal(other, kernel);
	OK(cuModuleUnload(second));
	FAILS(cuModuleUnload(second), CUDA_ERROR_INVALID_HANDLE);
	FAILS(cuLaunchKernel(other, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
	      CUDA_ERROR_INVALID_HANDLE);
	FAILS(cuModuleLoadData(&second, NULL), CUDA_ERROR_INVALID_VALUE);
	FAILS(cuModuleLoad(&second, "/nonexistent"), CUDA_ERROR_FILE_NOT_FOUND);
}

static void a_librarys_kernel_is_launched_as_it_is(void **state)
{
	CUfunction function;
	CUlibrary library;
	CUmodule made;
	CUkernel k;
	const char *name;

	(void)state;
	OK(cuLibraryLoadData(&library, "code", NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetKernel(&k, library, "library_kernel"));
	OK(cuKernelGetName(&name, k));
	assert_string_equal(name, "library_kernel");
	FAILS(cuFuncGetName(&name, (CUfunction)k), CUDA_ERROR_INVALID_HANDLE);
	OK(cuLaunchKernel((CUfunction)k, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	OK(cuKernelGetFunction(&function, k));
	OK(cuFuncGetName(&name, function));
	assert_string_equal(name, "library_kernel");
	OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	OK(cuLibraryGetModule(&made, library));
	OK(cuCtxSynchronize());
	OK(cuLibraryUnload(library));
	FAILS(cuLibraryUnload(library), CUDA_ERROR_INVALID_HANDLE);
}

static void functions_are_found_by_name_and_version(void **state)
{
	CUdriverProcAddressQueryResult found;
	void *fn, *other;

	(void)state;
	OK(cuGetProcAddress("cuMemAlloc", &fn, 12000, 0, &found));
	assert_ptr_equal(fn, (void *)cuMemAlloc);
	OK(cuGetProcAddress("cuCtxCreate", &fn, 3020, 0, NULL));
	OK(cuGetProcAddress("cuCtxCreate", &other, 13000, 0, NULL));
	assert_ptr_equal(other, (void *)cuCtxCreate);
	assert_ptr_not_equal(fn, other);
	OK(cuGetProcAddress("cuLaunchKernel", &fn, 12000, 0, NULL));
	assert_ptr_equal(fn, (void *)cuLaunchKernel);
	OK(cuGetProcAddress("cuLaunchKernel", &other, 12000,
			    CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL));
	assert_ptr_not_equal(fn, other);
	OK(cuGetProcAddress("cuMemAllocAsync", &fn, 11000, 0, &found));
	assert_null(fn);
	assert_int_equal(found, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	OK(cuGetProcAddress("cuNoSuchThing", &fn, 13000, 0, &found));
	assert_int_equal(found, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	FAILS(cuGetProcAddress("cuNoSuchThing", &fn, 13000, 0, NULL), CUDA_ERROR_NOT_FOUND);
	FAILS(cuGetProcAddress(NULL, &fn, 13000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void errors_have_names(void **state)
{
	const char *text;

	(void)state;
	OK(cuGetErrorName(CUDA_ERROR_NOT_READY, &text));
	assert_string_equal(text, "CUDA_ERROR_NOT_READY");
	OK(cuGetErrorString(CUDA_SUCCESS, &text));
	assert_non_null(text);
	FAILS(cuGetErrorName((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
	assert_null(text);
}

static void garbage_handles_are_refused(void **state)
{
	static char zeros[4096];
	CUstream stream = (CUstream)zeros;

	(void)state;
	FAILS(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
	FAILS(cuStreamSynchronize((CUstream)context), CUDA_ERROR_INVALID_HANDLE);
	FAILS(cuStreamSynchronize((CUstream)3), CUDA_ERROR_INVALID_HANDLE);
	FAILS(cuEventRecord((CUevent)zeros, NULL), CUDA_ERROR_INVALID_HANDLE);
	FAILS(cuEventDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
	FAILS(cuCtxSetCurrent((CUcontext)zeros), CUDA_ERROR_INVALID_CONTEXT);
	FAILS(cuModuleUnload((CUmodule)zeros), CUDA_ERROR_INVALID_HANDLE);
	FAILS(cuGraphDestroy((CUgraph)zeros), CUDA_ERROR_INVALID_VALUE);
	FAILS(cuMemPoolDestroy((CUmemoryPool)zeros), CUDA_ERROR_INVALID_VALUE);
}

static void a_forked_child_has_lost_cuda(void **state)
{
	pid_t pid = fork();
	CUdeviceptr ptr;
	int status;

	(void)state;
	if (pid == 0)
		_exit(cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
				      cuMemAlloc(&ptr, 16) == CUDA_ERROR_NOT_INITIALIZED
			      ? 0
			      : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	OK(cuMemAlloc(&ptr, 16));
}

static void *use_own_stream(void *unused)
{
	(void)unused;
	OK(cuCtxSetCurrent(context));
	OK(launch(CU_STREAM_PER_THREAD));
	return NULL;
}

static void a_threads_stream_goes_with_it(void **state)
{
	pthread_t thread;

	(void)state;
	for (int i = 0; i < 50; i++) {
		pthread_create(&thread, NULL, use_own_stream, NULL);
		pthread_join(thread, NULL);
	}
	OK(cuCtxSynchronize());
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, with_context, without_context)

int run_api_tests(void)
{
	const struct CMUnitTest tests[] = {
		TEST(devices_describe_themselves),
		TEST(contexts_stack_up),
		TEST(the_primary_context_is_counted),
		TEST(a_name_has_one_function),
		TEST(a_librarys_kernel_is_launched_as_it_is),
		TEST(functions_are_found_by_name_and_version),
		TEST(errors_have_names),
		TEST(garbage_handles_are_refused),
		TEST(a_forked_child_has_lost_cuda),
		TEST(a_threads_stream_goes_with_it),
	};

	return cmocka_run_group_tests_name("api", tests, NULL, NULL);
}
