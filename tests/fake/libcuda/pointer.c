/* Pointer: questions and hints about an address. */
#include "fake.h"

struct pointer_facts {
	CUdeviceptr base;
	uint64_t bytes, id;
	int device;
	bool host, managed;
	struct context *context;
	struct pool *pool;
};

static bool pointer_look(struct pointer_facts *facts, CUdeviceptr ptr)
{
	struct block *block;

	*facts = (struct pointer_facts){ 0 };
	region_lock();
	block = region_find(ptr);
	if (block)
		*facts = (struct pointer_facts){
			.base = block->base,
			.bytes = block->bytes,
			.id = block->id,
			.device = MAX(block->device, 0),
			.host = block->kind == BLOCK_HOST,
			.managed = block->kind == BLOCK_MANAGED,
			.context = block->context,
			.pool = block->pool,
		};
	region_unlock();
	if (block)
		return true;
	if (vmm_find(ptr, &facts->base, &facts->bytes, &facts->device))
		return true;
	facts->base = ptr;
	facts->host = true;
	return host_is_pinned((void *)(uintptr_t)ptr, 1);
}

CUresult pointer_get_attribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	struct pointer_facts facts;

	if (!data || !pointer_look(&facts, ptr))
		return CUDA_ERROR_INVALID_VALUE;
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(CUcontext *)data = (CUcontext)facts.context;
		break;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned int *)data = facts.host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(CUdeviceptr *)data = ptr;
		break;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		if (!facts.host && !facts.managed)
			return CUDA_ERROR_INVALID_VALUE;
		*(void **)data = (void *)(uintptr_t)ptr;
		break;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*(unsigned long long *)data = facts.id;
		break;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*(unsigned int *)data = facts.managed;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = facts.device;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(CUdeviceptr *)data = facts.base;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)data = facts.bytes;
		break;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*(unsigned int *)data = 1;
		break;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*(CUmemoryPool *)data = (CUmemoryPool)facts.pool;
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

/* Unlike the single question, this one answers zero where there is no answer. */
CUresult pointer_get_attributes(unsigned int count, CUpointer_attribute *attributes, void **data,
				CUdeviceptr ptr)
{
	if (!attributes || !data)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < count; i++) {
		if (!data[i])
			return CUDA_ERROR_INVALID_VALUE;
		if (pointer_get_attribute(data[i], attributes[i], ptr) != CUDA_SUCCESS)
			*(unsigned int *)data[i] = 0;
	}
	return CUDA_SUCCESS;
}

static bool pointer_is_managed(CUdeviceptr ptr, size_t bytes)
{
	struct pointer_facts facts;

	return pointer_look(&facts, ptr) && facts.managed &&
	       bytes <= facts.base + facts.bytes - ptr;
}

CUresult managed_advise(CUdeviceptr ptr, size_t bytes, int device)
{
	if (bytes == 0 || !pointer_is_managed(ptr, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (device >= driver.devices_count)
		return CUDA_ERROR_INVALID_DEVICE;
	return CUDA_SUCCESS;
}

static CUresult managed_mark(CUstream handle)
{
	struct stream *stream = stream_resolve(handle);
	struct op op = { .kind = FAKE_OP_MARK };

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	return stream_submit(stream, &op, false);
}

CUresult managed_prefetch(CUdeviceptr ptr, size_t bytes, int device, CUstream stream)
{
	CUresult r = managed_advise(ptr, bytes, device);

	return r == CUDA_SUCCESS ? managed_mark(stream) : r;
}

CUresult managed_attach(CUdeviceptr ptr, size_t bytes, CUstream stream)
{
	if (!pointer_is_managed(ptr, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	return managed_mark(stream);
}
