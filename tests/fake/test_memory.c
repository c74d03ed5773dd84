/* Test memory: allocations of all families, accounts, addresses and the data of copies. */
#include "test_fake.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK ((size_t)2 << 20)

static size_t free_bytes(void)
{
	size_t left, total;

	OK(cuMemGetInfo(&left, &total));
	return left;
}

static void allocations_are_charged_and_refunded(void **state)
{
	size_t before = free_bytes(), pitch;
	CUdeviceptr ptr[4];
	void *host;

	(void)state;
	OK(cuMemAlloc(&ptr[0], 1));
	assert_int_equal(before - free_bytes(), 512);
	OK(cuMemAllocManaged(&ptr[1], 1000, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemAllocPitch(&ptr[2], &pitch, 100, 10, 4));
	assert_int_equal(pitch, 512);
	assert_int_equal(before - free_bytes(), 512 + 1024 + 5120);
	OK(cuMemHostAlloc(&host, 1 << 20, 0));
	assert_int_equal(before - free_bytes(), 512 + 1024 + 5120);
	for (int i = 0; i < 3; i++)
		OK(cuMemFree(ptr[i]));
	OK(cuMemFreeHost(host));
	assert_int_equal(before, free_bytes());
}

static void bad_frees_fail(void **state)
{
	CUdeviceptr ptr;
	void *host;

	(void)state;
	OK(cuMemFree(0));
	OK(cuMemFreeHost(NULL));
	OK(cuMemAlloc(&ptr, 10000));
	OK(cuMemHostAlloc(&host, 10000, 0));
	FAILS(cuMemFree(NONSENSE), CUDA_ERROR_INVALID_VALUE);
	FAILS(cuMemFree(ptr + 512), CUDA_ERROR_INVALID_VALUE);
	FAILS(cuMemFree((CUdeviceptr)(uintptr_t)host), CUDA_ERROR_INVALID_VALUE);
	FAILS(cuMemFreeHost((void *)(uintptr_t)ptr), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree(ptr));
	FAILS(cuMemFree(ptr), CUDA_ERROR_INVALID_VALUE);
	FAILS(cuMemFreeAsync(ptr, NULL), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFreeHost(host));
	FAILS(cuMemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
	FAILS(cuMemAlloc(&ptr, 0), CUDA_ERROR_INVALID_VALUE);
	FAILS(cuMemAlloc(NULL, 16), CUDA_ERROR_INVALID_VALUE);
}

static void memory_runs_out(void **state)
{
	size_t before = free_bytes();
	CUdeviceptr all, one;

	(void)state;
	FAILS(cuMemAlloc(&all, before + 1), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemAlloc(&all, before));
	assert_int_equal(free_bytes(), 0);
	FAILS(cuMemAlloc(&one, 1), CUDA_ERROR_OUT_OF_MEMORY);
	FAILS(cuMemAllocAsync(&one, 1, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemFree(all));
	OK(cuMemAlloc(&one, 1));
	OK(cuMemFree(one));
}

static void devices_have_their_own_addresses(void **state)
{
	CUdeviceptr here = filled(1), there, base;
	CUcontext other;
	int device;
	size_t size;

	(void)state;
	OK(cuCtxCreate(&other, NULL, 0, 1));
	there = filled(2);
	assert_true(there + BYTES <= here || here + BYTES <= there);
	OK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, here));
	assert_int_equal(device, 0);
	OK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, there));
	assert_int_equal(device, 1);
	OK(cuMemGetAddressRange(&base, &size, there + 100));
	assert_int_equal(base, there);
	assert_int_equal(size, BYTES);
	FAILS(cuMemGetAddressRange(&base, &size, there + BYTES), CUDA_ERROR_NOT_FOUND);
	OK(cuMemcpyPeer(here, context, there, other, BYTES));
	assert_int_equal(uniform(here), 2);
	OK(cuCtxDestroy(other));
	/* What it allocated is gone with it. */
	FAILS(cuMemFree(there), CUDA_ERROR_INVALID_VALUE);
}

static void an_address_comes_back(void **state)
{
	CUdeviceptr first, again;

	(void)state;
	OK(cuMemAlloc(&first, 5000));
	OK(cuMemFree(first));
	OK(cuMemAlloc(&again, 5000));
	assert_int_equal(first, again);
	assert_int_equal(uniform(again), 0);
	OK(cuMemFree(again));
}

static void copies_carry_data(void **state)
{
	unsigned char out[BYTES], in[BYTES];
	CUdeviceptr a, b;

	(void)state;
	for (size_t i = 0; i < BYTES; i++)
		out[i] = (unsigned char)(i * 7);
	a = filled(0);
	b = filled(0);
	OK(cuMemcpyHtoD(a, out, BYTES));
	OK(cuMemcpyDtoD(b, a, BYTES));
	OK(cuMemcpyDtoH(in, b, BYTES));
	assert_memory_equal(in, out, BYTES);
	OK(cuMemcpy(a + 10, b, 100));
	OK(cuMemcpyDtoH(in, a + 10, 100));
	assert_memory_equal(in, out, 100);
	OK(cuMemcpyHtoD(a, out, 0));
	FAILS(cuMemcpyHtoD(a, out, BYTES + 1), CUDA_ERROR_INVALID_VALUE);
	FAILS(cuMemcpyHtoD(NONSENSE, out, 1), CUDA_ERROR_INVALID_VALUE);
	FAILS(cuMemcpyHtoD(a, NULL, 1), CUDA_ERROR_INVALID_VALUE);
	FAILS(cuMemcpyDtoH(in, NONSENSE, 1), CUDA_ERROR_INVALID_VALUE);
	FAILS(cuMemcpyHtoDAsync(a, out, 1, (CUstream)NONSENSE), CUDA_ERROR_INVALID_HANDLE);
}

static void copies_have_two_and_three_dimensions(void **state)
{
	unsigned char host[4][8], box[2][3][4];
	CUdeviceptr a = filled(0);
	CUDA_MEMCPY2D flat = {
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = host,
		.srcPitch = 8,
		.srcY = 1,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = a,
		.dstPitch = 64,
		.dstXInBytes = 4,
		.WidthInBytes = 8,
		.Height = 3,
	};
	CUDA_MEMCPY3D deep = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = a,
		.srcPitch = 64,
		.srcHeight = 2,
		.srcXInBytes = 4,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = box,
		.dstPitch = 4,
		.dstHeight = 3,
		.WidthInBytes = 4,
		.Height = 1,
		.Depth = 2,
	};

	(void)state;
	for (int y = 0; y < 4; y++)
		memset(host[y], 10 * y, 8);
	memset(box, 0xff, sizeof(box));
	OK(cuMemcpy2D(&flat));
	OK(cuMemcpy3D(&deep));
	assert_int_equal(box[0][0][0], 10);
	assert_int_equal(box[1][0][3], 30);
	assert_int_equal(box[0][1][0], 0xff);
	flat.dstPitch = 4;
	FAILS(cuMemcpy2D(&flat), CUDA_ERROR_INVALID_VALUE);
	deep.Depth = 100;
	FAILS(cuMemcpy3D(&deep), CUDA_ERROR_INVALID_VALUE);
	FAILS(cuMemcpy2D(NULL), CUDA_ERROR_INVALID_VALUE);
}

static void sets_have_three_widths(void **state)
{
	CUdeviceptr a = filled(0);
	uint32_t words[4];
	uint16_t halves[4];

	(void)state;
	OK(cuMemsetD32(a, 0x12345678, 4));
	OK(cuMemcpyDtoH(words, a, sizeof(words)));
	assert_int_equal(words[3], 0x12345678);
	OK(cuMemsetD2D16(a, 4, 0xabcd, 1, 2));
	OK(cuMemcpyDtoH(halves, a, sizeof(halves)));
	assert_int_equal(halves[0], 0xabcd);
	assert_int_equal(halves[1], 0x1234);
	assert_int_equal(halves[2], 0xabcd);
	FAILS(cuMemsetD32(a + 1, 0, 1), CUDA_ERROR_INVALID_VALUE);
	FAILS(cuMemsetD32(a, 0, BYTES), CUDA_ERROR_INVALID_VALUE);
}

static void pageable_memory_may_change_after_the_call(void **state)
{
	CUdeviceptr a = filled(1);
	unsigned char out[BYTES];
	CUstream s;

	(void)state;
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	memset(out, 2, sizeof(out));
	gate_close(s);
	OK(cuMemcpyHtoDAsync(a, out, BYTES, s));
	memset(out, 3, sizeof(out));
	gate_open();
	OK(cuStreamSynchronize(s));
	assert_int_equal(uniform(a), 2);
	/* With pinned memory it is the bytes of the time of the copy. */
	OK(cuMemHostRegister(out, sizeof(out), 0));
	gate_close(s);
	OK(cuMemcpyHtoDAsync(a, out, BYTES, s));
	memset(out, 4, sizeof(out));
	gate_open();
	OK(cuStreamSynchronize(s));
	assert_int_equal(uniform(a), 4);
	FAILS(cuMemHostRegister(out, 16, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	OK(cuMemHostUnregister(out));
	FAILS(cuMemHostUnregister(out), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

static uint64_t pool_number(CUmemoryPool pool, CUmemPool_attribute attribute)
{
	cuuint64_t value;

	OK(cuMemPoolGetAttribute(pool, attribute, &value));
	return value;
}

static void pools_keep_memory_until_a_synchronization(void **state)
{
	CUdeviceptr ptr, other;
	CUmemoryPool pool;
	cuuint64_t keep = 1 << 20, zero = 0;
	size_t before = free_bytes();

	(void)state;
	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
	OK(cuMemAllocAsync(&ptr, 4096, NULL));
	OK(cuMemAllocAsync(&other, 8192, NULL));
	assert_int_equal(pool_number(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 12288);
	OK(cuMemFreeAsync(ptr, NULL));
	/* cuMemFree takes them too. */
	OK(cuMemFree(other));
	OK(cuStreamSynchronize(NULL));
	assert_int_equal(pool_number(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
	assert_int_equal(pool_number(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
	assert_int_equal(pool_number(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 12288);
	assert_int_equal(before, free_bytes());
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	OK(cuMemAllocAsync(&ptr, 4096, NULL));
	OK(cuMemFreeAsync(ptr, NULL));
	OK(cuCtxSynchronize());
	assert_int_equal(pool_number(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 4096);
	OK(cuMemPoolTrimTo(pool, 0));
	assert_int_equal(pool_number(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &zero));
}

static void a_queued_free_frees_when_the_stream_gets_there(void **state)
{
	CUdeviceptr ptr, same, plain;
	CUstream s;

	(void)state;
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuMemAllocAsync(&ptr, 70000, s));
	OK(cuMemAlloc(&plain, 70000));
	gate_close(s);
	OK(cuMemsetD8Async(ptr, 1, 70000, s));
	OK(cuMemFreeAsync(ptr, s));
	FAILS(cuMemFreeAsync(ptr, s), CUDA_ERROR_INVALID_VALUE);
	FAILS(cuMemFree(ptr), CUDA_ERROR_INVALID_VALUE);
	/* Memory of the other family is freed in stream order too. */
	OK(cuMemFreeAsync(plain, s));
	OK(cuMemAllocAsync(&same, 70000, s));
	assert_true(same != ptr && same != plain);
	gate_open();
	OK(cuStreamSynchronize(s));
	OK(cuMemFreeAsync(same, s));
	FAILS(cuMemFree(ptr), CUDA_ERROR_INVALID_VALUE);
	FAILS(cuMemFree(plain), CUDA_ERROR_INVALID_VALUE);
}

static void a_pool_of_ones_own_has_a_limit(void **state)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
		.maxSize = 8192,
	};
	CUmemoryPool pool, standard;
	CUdeviceptr ptr, more;

	(void)state;
	OK(cuMemPoolCreate(&pool, &props));
	OK(cuMemAllocFromPoolAsync(&ptr, 8192, pool, NULL));
	FAILS(cuMemAllocFromPoolAsync(&more, 1, pool, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuDeviceSetMemPool(0, pool));
	FAILS(cuMemAllocAsync(&more, 1, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	/* Destroyed with memory in use, it goes when that is freed. */
	OK(cuMemPoolDestroy(pool));
	FAILS(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
	OK(cuDeviceGetMemPool(&standard, 0));
	assert_ptr_not_equal(standard, pool);
	FAILS(cuMemPoolDestroy(standard), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFreeAsync(ptr, NULL));
	OK(cuCtxSynchronize());
}

static void virtual_memory_shows_one_allocation_twice(void **state)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
	};
	CUmemAccessDesc access = { prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle handle;
	size_t before = free_bytes();
	CUdeviceptr va;

	(void)state;
	OK(cuMemAddressReserve(&va, 2 * CHUNK, 0, 0, 0));
	OK(cuMemCreate(&handle, CHUNK, &prop, 0));
	assert_int_equal(before - free_bytes(), CHUNK);
	OK(cuMemMap(va, CHUNK, 0, handle, 0));
	FAILS(cuMemMap(va, CHUNK, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemMap(va + CHUNK, CHUNK, 0, handle, 0));
	FAILS(cuMemsetD8(va, 1, BYTES), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemSetAccess(va, 2 * CHUNK, &access, 1));
	OK(cuMemsetD8(va, 42, BYTES));
	assert_int_equal(uniform(va + CHUNK), 42);
	OK(cuMemsetD8(va, 1, 2 * CHUNK));
	OK(cuMemRelease(handle));
	FAILS(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
	FAILS(cuMemAddressFree(va, 2 * CHUNK), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(before - free_bytes(), CHUNK);
	OK(cuMemUnmap(va, 2 * CHUNK));
	assert_int_equal(before, free_bytes());
	OK(cuMemAddressFree(va, 2 * CHUNK));
	FAILS(cuMemAddressFree(va, 2 * CHUNK), CUDA_ERROR_INVALID_VALUE);
	FAILS(cuMemCreate(&handle, 1000, &prop, 0), CUDA_ERROR_INVALID_VALUE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, with_context, without_context)

int run_memory_tests(void)
{
	const struct CMUnitTest tests[] = {
		TEST(allocations_are_charged_and_refunded),
		TEST(bad_frees_fail),
		TEST(memory_runs_out),
		TEST(devices_have_their_own_addresses),
		TEST(an_address_comes_back),
		TEST(copies_carry_data),
		TEST(copies_have_two_and_three_dimensions),
		TEST(sets_have_three_widths),
		TEST(pageable_memory_may_change_after_the_call),
		TEST(pools_keep_memory_until_a_synchronization),
		TEST(a_queued_free_frees_when_the_stream_gets_there),
		TEST(a_pool_of_ones_own_has_a_limit),
		TEST(virtual_memory_shows_one_allocation_twice),
	};

	return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
