/* Pool: stream-ordered memory. A pool holds memory of its device (reserved) and hands it out
 * (used); what is not used goes back to the device at a synchronization, above a threshold. */
#include "fake.h"

struct pool {
	struct object object;
	struct device *device;
	uint64_t max_bytes, threshold_bytes;
	uint64_t used_bytes, used_high, reserved_bytes, reserved_high;
	uint64_t flags[4]; /* the three reuse settings, kept and not used */
};

_Static_assert(sizeof(struct pool) <= 128, "slot of a pool");

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;

static CUresult pool_new(struct pool **ret, struct device *device, uint64_t max_bytes)
{
	struct pool *pool = arena_take(&arena_pools);

	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pool->device = device;
	pool->max_bytes = max_bytes ? max_bytes : device->memory_bytes;
	for (size_t i = 1; i < ARRAY_SIZE(pool->flags); i++)
		pool->flags[i] = 1;
	*ret = pool;
	return CUDA_SUCCESS;
}

CUresult pool_setup(struct device *device)
{
	CUresult r = pool_new(&device->pool_default, device, 0);

	atomic_store(&device->pool_current, device->pool_default);
	return r;
}

struct device *pool_device(const struct pool *pool)
{
	return pool->device;
}

CUresult pool_charge(struct pool *pool, uint64_t bytes)
{
	CUresult r = CUDA_SUCCESS;
	uint64_t need;

	pthread_mutex_lock(&pool_lock);
	if (bytes > pool->max_bytes - pool->used_bytes) {
		r = CUDA_ERROR_OUT_OF_MEMORY;
	} else if (pool->used_bytes + bytes > pool->reserved_bytes) {
		need = pool->used_bytes + bytes - pool->reserved_bytes;
		r = device_charge(pool->device, need);
		if (r == CUDA_SUCCESS)
			pool->reserved_bytes += need;
	}
	if (r == CUDA_SUCCESS)
		pool->used_bytes += bytes;
	pool->used_high = MAX(pool->used_high, pool->used_bytes);
	pool->reserved_high = MAX(pool->reserved_high, pool->reserved_bytes);
	pthread_mutex_unlock(&pool_lock);
	return r;
}

/* With the lock held. */
static void pool_shrink(struct pool *pool, uint64_t keep_bytes)
{
	uint64_t keep = MAX(pool->used_bytes, keep_bytes);

	if (pool->reserved_bytes <= keep)
		return;
	device_refund(pool->device, pool->reserved_bytes - keep);
	pool->reserved_bytes = keep;
}

void pool_refund(struct pool *pool, uint64_t bytes)
{
	pthread_mutex_lock(&pool_lock);
	pool->used_bytes -= bytes;
	if (atomic_load(&pool->object.state) == OBJECT_DYING) {
		pool_shrink(pool, 0);
		if (pool->used_bytes == 0)
			arena_give(&arena_pools, pool);
	}
	pthread_mutex_unlock(&pool_lock);
}

/* A synchronization has happened: the current and the default pool give back what they can. */
void pool_settle(struct device *device)
{
	struct pool *current = atomic_load(&device->pool_current);

	pthread_mutex_lock(&pool_lock);
	pool_shrink(device->pool_default, device->pool_default->threshold_bytes);
	if (object_live(&current->object))
		pool_shrink(current, current->threshold_bytes);
	pthread_mutex_unlock(&pool_lock);
}

static CUresult pool_alloc_in(CUdeviceptr *ret, size_t bytes, struct pool *pool, CUstream handle)
{
	struct stream *stream = stream_resolve(handle);

	if (!ret || bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!pool)
		pool = atomic_load(&stream->context->device->pool_current);
	pthread_mutex_lock(&stream->lock);
	if (stream->capture) {
		/* An allocation node would belong to the graph; we have none. */
		CUresult r = capture_invalidate(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);

		pthread_mutex_unlock(&stream->lock);
		return r;
	}
	pthread_mutex_unlock(&stream->lock);
	return memory_take(ret, BLOCK_POOL, bytes, pool);
}

CUresult pool_alloc(CUdeviceptr *ret, size_t bytes, CUstream stream)
{
	return pool_alloc_in(ret, bytes, NULL, stream);
}

CUresult pool_alloc_from(CUdeviceptr *ret, size_t bytes, CUmemoryPool handle, CUstream stream)
{
	struct pool *pool = arena_check(&arena_pools, handle);

	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	return pool_alloc_in(ret, bytes, pool, stream);
}

CUresult pool_free(CUdeviceptr ptr, CUstream handle)
{
	const unsigned int kinds = 1u << BLOCK_POOL | 1u << BLOCK_DEVICE;
	struct stream *stream = stream_resolve(handle);
	struct op op = { .kind = FAKE_OP_FREE, .release.ptr = ptr };
	struct block *block;
	bool ours = false;
	CUresult r;

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!ptr)
		return CUDA_SUCCESS;
	region_lock();
	block = region_find(ptr);
	if (block && block->base == ptr && !block->freeing && (kinds & 1u << block->kind)) {
		block->freeing = 1;
		ours = true;
	}
	region_unlock();
	if (!ours)
		return CUDA_ERROR_INVALID_VALUE;
	r = stream_submit(stream, &op, false);
	if (r != CUDA_SUCCESS) {
		region_lock();
		block->freeing = 0;
		region_unlock();
	}
	return r;
}

CUresult pool_create(CUmemoryPool *ret, const CUmemPoolProps *props)
{
	struct device *device;
	struct pool *pool;
	CUresult r;

	if (!ret || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	device = device_check(props->location.id);
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	r = pool_new(&pool, device, props->maxSize);
	if (r == CUDA_SUCCESS)
		*ret = (CUmemoryPool)pool;
	return r;
}

CUresult pool_destroy(CUmemoryPool handle)
{
	struct pool *pool = arena_check(&arena_pools, handle);
	struct pool *expected = pool;

	if (!pool || pool == pool->device->pool_default)
		return CUDA_ERROR_INVALID_VALUE;
	atomic_compare_exchange_strong(&pool->device->pool_current, &expected,
				       pool->device->pool_default);
	pthread_mutex_lock(&pool_lock);
	atomic_store(&pool->object.state, OBJECT_DYING);
	pool_shrink(pool, 0);
	if (pool->used_bytes == 0)
		arena_give(&arena_pools, pool);
	pthread_mutex_unlock(&pool_lock);
	return CUDA_SUCCESS;
}

CUresult pool_trim(CUmemoryPool handle, size_t keep_bytes)
{
	struct pool *pool = arena_check(&arena_pools, handle);

	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&pool_lock);
	pool_shrink(pool, keep_bytes);
	pthread_mutex_unlock(&pool_lock);
	return CUDA_SUCCESS;
}

CUresult pool_set_attribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
	struct pool *pool = arena_check(&arena_pools, handle);
	CUresult r = CUDA_SUCCESS;

	if (!pool || !value)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&pool_lock);
	if (attribute >= 1 && attribute <= 3)
		pool->flags[attribute] = *(uint32_t *)value != 0;
	else if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		pool->threshold_bytes = *(cuuint64_t *)value;
	else if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH && *(cuuint64_t *)value == 0)
		pool->reserved_high = pool->reserved_bytes;
	else if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH && *(cuuint64_t *)value == 0)
		pool->used_high = pool->used_bytes;
	else
		r = CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_unlock(&pool_lock);
	return r;
}

CUresult pool_get_attribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
	struct pool *pool = arena_check(&arena_pools, handle);

	if (!pool || !value || attribute < 1 || attribute > CU_MEMPOOL_ATTR_USED_MEM_HIGH)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&pool_lock);
	if (attribute <= 3) {
		*(uint32_t *)value = (uint32_t)pool->flags[attribute];
	} else {
		const uint64_t values[] = {
			[CU_MEMPOOL_ATTR_RELEASE_THRESHOLD] = pool->threshold_bytes,
			[CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT] = pool->reserved_bytes,
			[CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH] = pool->reserved_high,
			[CU_MEMPOOL_ATTR_USED_MEM_CURRENT] = pool->used_bytes,
			[CU_MEMPOOL_ATTR_USED_MEM_HIGH] = pool->used_high,
		};

		*(cuuint64_t *)value = values[attribute];
	}
	pthread_mutex_unlock(&pool_lock);
	return CUDA_SUCCESS;
}

CUresult pool_set_access(CUmemoryPool handle, const CUmemAccessDesc *map, size_t count)
{
	if (!arena_check(&arena_pools, handle) || (!map && count))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++)
		if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
		    !device_check(map[i].location.id))
			return CUDA_ERROR_INVALID_DEVICE;
	return CUDA_SUCCESS;
}

CUresult pool_get_default(CUmemoryPool *ret, CUdevice dev)
{
	struct device *device = device_check(dev);

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	*ret = (CUmemoryPool)device->pool_default;
	return CUDA_SUCCESS;
}

CUresult pool_get_current(CUmemoryPool *ret, CUdevice dev)
{
	struct device *device = device_check(dev);

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	*ret = (CUmemoryPool)atomic_load(&device->pool_current);
	return CUDA_SUCCESS;
}

CUresult pool_set_current(CUdevice dev, CUmemoryPool handle)
{
	struct device *device = device_check(dev);
	struct pool *pool = arena_check(&arena_pools, handle);

	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!pool || pool->device != device)
		return CUDA_ERROR_INVALID_VALUE;
	atomic_store(&device->pool_current, pool);
	return CUDA_SUCCESS;
}
