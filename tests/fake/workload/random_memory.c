/* Random, memory: allocations of every kind, pools, and physical memory that is mapped. */
#include "random.h"

static size_t some_bytes(void)
{
	return random_below(30) ? 1 + random_below(100000) : (size_t)1 << 60;
}

static void *pointer(uint64_t value)
{
	return (void *)(uintptr_t)value;
}

static CUstream some_stream(void)
{
	return random_below(4) ? pointer(slots_any(&w.streams)) : NULL;
}

static void alloc(void)
{
	CUdeviceptr at = 0;
	size_t pitch;
	CUresult r;

	switch (random_below(4)) {
	case 0:
		r = T(cuMemAllocManaged, (&at, some_bytes(), CU_MEM_ATTACH_GLOBAL));
		break;
	case 1:
		r = T(cuMemAllocPitch_v2, (&at, &pitch, 1 + random_below(2000), random_below(20),
					   random_below(4) ? 4 : 3));
		break;
	default:
		r = T(cuMemAlloc_v2, (&at, some_bytes()));
	}
	if (r == CUDA_SUCCESS)
		slots_add(&w.blocks, at, 0);
}

static void alloc_from_pool(void)
{
	CUdeviceptr at = 0;
	CUresult r;

	if (random_below(2))
		r = T(cuMemAllocAsync, (&at, some_bytes(), some_stream()));
	else
		r = T(cuMemAllocFromPoolAsync,
		      (&at, some_bytes(), pointer(slots_any(&w.pools)), some_stream()));
	if (r == CUDA_SUCCESS)
		slots_add(&w.blocks, at, 0);
}

static void free_block(void)
{
	uint64_t at = slots_take(random_below(30) ? &w.blocks : &w.host, NULL);

	if (random_below(3))
		T(cuMemFree_v2, (at));
	else
		T(cuMemFreeAsync, (at, some_stream()));
}

static void alloc_host(void)
{
	void *at = NULL;

	if ((random_below(2) ? T(cuMemHostAlloc, (&at, some_bytes(), random_below(8)))
			     : T(cuMemAllocHost_v2, (&at, some_bytes()))) == CUDA_SUCCESS)
		slots_add(&w.host, (uint64_t)(uintptr_t)at, 0);
}

static void free_host(void)
{
	T(cuMemFreeHost, (pointer(slots_take(random_below(30) ? &w.host : &w.blocks, NULL))));
}

static void host_register(void)
{
	static char pages[32][4096] __attribute__((aligned(4096)));
	char *page = pages[random_below(32)];

	if (T(cuMemHostRegister_v2, (page, 1 + random_below(4096), 0)) == CUDA_SUCCESS)
		slots_add(&w.registered, (uint64_t)(uintptr_t)page, 0);
}

static void host_unregister(void)
{
	T(cuMemHostUnregister, (pointer(slots_take(&w.registered, NULL))));
}

static void pool_get(void)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { random_below(20) ? CU_MEM_LOCATION_TYPE_DEVICE : 3,
			      (int)random_below(3) },
	};
	CUdevice device = (CUdevice)random_below(3);
	CUmemoryPool pool = NULL;
	CUresult r;

	/* Few are made: the model keeps those that are gone for two seconds, and 256 of them. */
	if (random_below(8) == 0)
		r = T(cuMemPoolCreate, (&pool, &props));
	else if (random_below(2))
		r = T(cuDeviceGetDefaultMemPool, (&pool, device));
	else
		r = T(cuDeviceGetMemPool, (&pool, device));
	if (r == CUDA_SUCCESS)
		slots_add(&w.pools, (uint64_t)(uintptr_t)pool, 0);
}

static void pool_set(void)
{
	T(cuDeviceSetMemPool, ((CUdevice)random_below(3), pointer(slots_any(&w.pools))));
}

static void pool_destroy(void)
{
	T(cuMemPoolDestroy, (pointer(slots_take(&w.pools, NULL))));
}

static void physical_create(void)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, (int)random_below(3) },
	};
	size_t bytes = CHUNK * (random_below(20) ? 1 + random_below(3) : 0);
	CUmemGenericAllocationHandle handle;

	if (T(cuMemCreate, (&handle, bytes, &prop, 0)) == CUDA_SUCCESS)
		slots_add(&w.physical, handle, bytes);
}

static void physical_release(void)
{
	T(cuMemRelease, (slots_take(&w.physical, NULL)));
}

static void physical_retain(void)
{
	uint64_t at = slots_any(&w.mapped) + (random_below(2) ? 4096 : 0);
	CUmemGenericAllocationHandle handle;

	if (T(cuMemRetainAllocationHandle, (&handle, pointer(at))) == CUDA_SUCCESS)
		slots_add(&w.physical, handle, CHUNK);
}

static void reserve(void)
{
	size_t bytes = CHUNK * (random_below(20) ? 2 + random_below(14) : 0);
	CUdeviceptr at;

	if (T(cuMemAddressReserve, (&at, bytes, 0, 0, 0)) == CUDA_SUCCESS)
		slots_add(&w.reserved, at, bytes);
}

/* Most still have something mapped and stay. */
static void unreserve(void)
{
	uint64_t bytes = 0, at = slots_take(&w.reserved, &bytes);

	if (T(cuMemAddressFree, (at, bytes)) != CUDA_SUCCESS && at && random_below(4))
		slots_add(&w.reserved, at, bytes);
}

static void map(void)
{
	uint64_t bytes = CHUNK, range = CHUNK;
	uint64_t handle = slots_pick(&w.physical, &bytes), base = slots_pick(&w.reserved, &range);
	CUdeviceptr to = base + CHUNK * random_below((uint32_t)(range / CHUNK) + 1);

	if (T(cuMemMap, (to, bytes, 0, handle, 0)) == CUDA_SUCCESS)
		slots_add(&w.mapped, to, bytes);
	else if (random_below(8) == 0)
		slots_failed(&w.physical, handle);
}

/* As it was mapped, or a whole range with what is in it, or too little. */
static void unmap(void)
{
	uint64_t bytes = 0, at = slots_take(&w.mapped, &bytes);

	if (random_below(4) == 0) {
		at = slots_pick(&w.reserved, &bytes);
	}
	T(cuMemUnmap, (at, random_below(10) ? bytes : CHUNK));
}

const struct step memory_steps[] = {
	{ alloc, 60 },		 { free_block, 90 },
	{ alloc_from_pool, 40 }, { alloc_host, 15 },
	{ free_host, 15 },	 { host_register, 10 },
	{ host_unregister, 10 }, { pool_get, 6 },
	{ pool_set, 4 },	 { pool_destroy, 4 },
	{ physical_create, 15 }, { physical_release, 20 },
	{ physical_retain, 8 },	 { reserve, 8 },
	{ unreserve, 8 },	 { map, 60 },
	{ unmap, 15 },		 { NULL, 0 },
};
