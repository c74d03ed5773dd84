/* Memory: device and managed memory that the program asks for and gives back. */
#include "fake.h"

#define GRAIN	 512 /* a device hands out memory in such pieces */
#define PITCH	 512

#define FREEABLE ((1u << BLOCK_DEVICE) | (1u << BLOCK_MANAGED) | (1u << BLOCK_POOL))

static uint64_t memory_round(uint64_t bytes)
{
	return (bytes + GRAIN - 1) / GRAIN * GRAIN;
}

static CUresult memory_charge(struct block *block, struct device *device, struct pool *pool)
{
	if (block->kind == BLOCK_HOST)
		return CUDA_SUCCESS;
	if (block->kind == BLOCK_POOL)
		return pool_charge(pool, memory_round(block->bytes));
	return device_charge(device, memory_round(block->bytes));
}

static void memory_refund(struct block *block)
{
	if (block->kind == BLOCK_POOL)
		pool_refund(block->pool, memory_round(block->bytes));
	else if (block->kind != BLOCK_HOST)
		device_refund(&driver.devices[block->device], memory_round(block->bytes));
}

CUresult memory_take(CUdeviceptr *ret, enum block_kind kind, uint64_t bytes, struct pool *pool)
{
	struct context *context = context_current();
	struct device *device = pool ? pool_device(pool) : context->device;
	struct block *block;
	CUresult r;

	if (bytes > device->memory_bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	region_lock();
	r = region_take(&block, kind == BLOCK_HOST ? -1 : device->ordinal, bytes);
	if (r == CUDA_SUCCESS) {
		block->kind = (uint8_t)kind;
		r = memory_charge(block, device, pool);
		if (r != CUDA_SUCCESS)
			region_give(block);
	}
	if (r == CUDA_SUCCESS) {
		block->context = context;
		block->context_id = context->object.id;
		block->pool = pool;
		*ret = block->base;
	}
	region_unlock();
	return r;
}

/* Frees the block that starts at ptr if it is of one of the kinds (a bit each). */
CUresult memory_release(CUdeviceptr ptr, unsigned int kinds)
{
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	struct block *block;

	region_lock();
	block = region_find(ptr);
	if (block && block->base == ptr && (kinds & 1u << block->kind)) {
		memory_refund(block);
		region_give(block);
		r = CUDA_SUCCESS;
	}
	region_unlock();
	return r;
}

static void memory_release_one(struct block *block, void *user)
{
	struct context *context = user;

	/* Pools belong to the device. */
	if (block->context_id != context->object.id || block->kind == BLOCK_POOL)
		return;
	memory_refund(block);
	region_give(block);
}

void memory_release_context(struct context *context)
{
	region_lock();
	region_each(memory_release_one, context);
	region_unlock();
}

CUresult memory_get_info(size_t *free_bytes, size_t *total_bytes)
{
	struct device *device = context_current()->device;

	if (!free_bytes && !total_bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (free_bytes)
		*free_bytes = device->memory_bytes - atomic_load(&device->used_bytes);
	if (total_bytes)
		*total_bytes = device->memory_bytes;
	return CUDA_SUCCESS;
}

CUresult memory_alloc(CUdeviceptr *ret, size_t bytes)
{
	CUresult r = capture_forbids();

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret || bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	return memory_take(ret, BLOCK_DEVICE, bytes, NULL);
}

CUresult memory_alloc_pitch(CUdeviceptr *ret, size_t *pitch, size_t width, size_t height,
			    unsigned int element_bytes)
{
	size_t row = (width + PITCH - 1) / PITCH * PITCH;
	CUresult r = capture_forbids();

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret || !pitch || width == 0 || height == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (element_bytes != 4 && element_bytes != 8 && element_bytes != 16)
		return CUDA_ERROR_INVALID_VALUE;
	if (row < width || height > SIZE_MAX / row)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = memory_take(ret, BLOCK_DEVICE, row * height, NULL);
	if (r == CUDA_SUCCESS)
		*pitch = row;
	return r;
}

CUresult memory_alloc_managed(CUdeviceptr *ret, size_t bytes, unsigned int flags)
{
	CUresult r = capture_forbids();

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret || bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	return memory_take(ret, BLOCK_MANAGED, bytes, NULL);
}

CUresult memory_free(CUdeviceptr ptr)
{
	struct block *block;
	struct context *owner = NULL;
	CUresult r = capture_forbids();

	if (r != CUDA_SUCCESS)
		return r;
	if (!ptr)
		return CUDA_SUCCESS;
	region_lock();
	block = region_find(ptr);
	if (block && block->base == ptr && !block->freeing && (FREEABLE & 1u << block->kind))
		owner = block->context;
	region_unlock();
	if (!owner)
		return CUDA_ERROR_INVALID_VALUE;
	/* Queued work may still use it: the call waits, as the real one does. */
	if (object_live(&owner->object))
		context_drain(owner);
	return memory_release(ptr, FREEABLE);
}

CUresult memory_get_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr ptr)
{
	struct block *block;
	CUresult r = CUDA_ERROR_NOT_FOUND;

	if (!base && !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	region_lock();
	block = region_find(ptr);
	if (block) {
		if (base)
			*base = block->base;
		if (bytes)
			*bytes = block->bytes;
		r = CUDA_SUCCESS;
	}
	region_unlock();
	return r;
}
