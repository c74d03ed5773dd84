/* Host: pinned host memory, ours and the program's own that it registered. */
#include "fake.h"

#include <stdlib.h>

#define REGISTRATIONS_MAX 4096

struct registration {
	uintptr_t base;
	size_t bytes;
	unsigned int flags;
	uint64_t context_id;
};

static struct {
	pthread_mutex_t lock;
	struct registration items[REGISTRATIONS_MAX];
	_Atomic size_t count;
} registry = { .lock = PTHREAD_MUTEX_INITIALIZER };

CUresult host_alloc(void **ret, size_t bytes, unsigned int flags)
{
	const unsigned int known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |
				   CU_MEMHOSTALLOC_WRITECOMBINED;
	CUdeviceptr ptr;
	CUresult r = capture_forbids();

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret || bytes == 0 || (flags & ~known))
		return CUDA_ERROR_INVALID_VALUE;
	r = memory_take(&ptr, BLOCK_HOST, bytes, NULL);
	if (r != CUDA_SUCCESS)
		return r;
	region_lock();
	region_find(ptr)->flags = (uint8_t)flags;
	/* The program writes it without telling us. */
	atomic_store(&region_find(ptr)->touched, 1);
	region_unlock();
	*ret = (void *)(uintptr_t)ptr;
	return CUDA_SUCCESS;
}

CUresult host_free(void *ptr)
{
	CUresult r = capture_forbids();

	if (r != CUDA_SUCCESS)
		return r;
	if (!ptr)
		return CUDA_SUCCESS;
	if (!region_find((CUdeviceptr)(uintptr_t)ptr))
		return CUDA_ERROR_INVALID_VALUE;
	context_drain(context_current());
	return memory_release((CUdeviceptr)(uintptr_t)ptr, 1u << BLOCK_HOST);
}

/* With the lock held. */
static struct registration *host_registered(uintptr_t ptr, size_t bytes)
{
	for (size_t i = 0; i < registry.count; i++) {
		struct registration *item = &registry.items[i];

		if (ptr < item->base + item->bytes && item->base < ptr + bytes)
			return item;
	}
	return NULL;
}

CUresult host_register(void *ptr, size_t bytes, unsigned int flags)
{
	const unsigned int known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
				   CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
	CUresult r = CUDA_SUCCESS;

	if (!ptr || bytes == 0 || (flags & ~known))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&registry.lock);
	if (host_registered((uintptr_t)ptr, bytes))
		r = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	else if (registry.count == REGISTRATIONS_MAX)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	else
		registry.items[registry.count++] =
			(struct registration){ (uintptr_t)ptr, bytes, flags,
					       context_current()->object.id };
	pthread_mutex_unlock(&registry.lock);
	return r;
}

void host_release_context(const struct context *context)
{
	pthread_mutex_lock(&registry.lock);
	for (size_t i = registry.count; i > 0; i--)
		if (registry.items[i - 1].context_id == context->object.id)
			registry.items[i - 1] = registry.items[--registry.count];
	pthread_mutex_unlock(&registry.lock);
}

void host_tell_books(struct fake_books *books)
{
	pthread_mutex_lock(&registry.lock);
	for (size_t i = 0; i < registry.count; i++)
		books_add(books, FAKE_BOOK_REGISTERED, -1, registry.items[i].bytes);
	pthread_mutex_unlock(&registry.lock);
}

CUresult host_unregister(void *ptr)
{
	struct registration *item;
	CUresult r = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;

	if (!ptr)
		return CUDA_ERROR_INVALID_VALUE;
	context_drain(context_current());
	pthread_mutex_lock(&registry.lock);
	item = host_registered((uintptr_t)ptr, 1);
	if (item && item->base == (uintptr_t)ptr) {
		*item = registry.items[--registry.count];
		r = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&registry.lock);
	return r;
}

bool host_is_pinned(const void *ptr, size_t bytes)
{
	struct registration *item = NULL;

	if (region_holds((CUdeviceptr)(uintptr_t)ptr, bytes))
		return true;
	if (atomic_load_explicit(&registry.count, memory_order_relaxed) == 0)
		return false;
	pthread_mutex_lock(&registry.lock);
	item = host_registered((uintptr_t)ptr, bytes);
	pthread_mutex_unlock(&registry.lock);
	return item && item->base <= (uintptr_t)ptr &&
	       (uintptr_t)ptr + bytes <= item->base + item->bytes;
}

CUresult host_get_device_pointer(CUdeviceptr *ret, void *ptr, unsigned int flags)
{
	if (!ret || !ptr || flags != 0 || !host_is_pinned(ptr, 1))
		return CUDA_ERROR_INVALID_VALUE;
	*ret = (CUdeviceptr)(uintptr_t)ptr;
	return CUDA_SUCCESS;
}

CUresult host_get_flags(unsigned int *flags, void *ptr)
{
	struct block *block;
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	if (!flags || !ptr)
		return CUDA_ERROR_INVALID_VALUE;
	region_lock();
	block = region_find((CUdeviceptr)(uintptr_t)ptr);
	if (block && block->kind == BLOCK_HOST) {
		*flags = block->flags | CU_MEMHOSTALLOC_DEVICEMAP;
		r = CUDA_SUCCESS;
	}
	region_unlock();
	return r;
}
