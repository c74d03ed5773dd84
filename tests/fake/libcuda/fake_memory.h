/* Fake memory: allocations, pools, virtual memory. Part of fake.h. */
#pragma once

/* --- region.c: address space ------------------------------------------------------------ */

enum block_kind {
	BLOCK_NONE,
	BLOCK_DEVICE,  /* cuMemAlloc and its kind */
	BLOCK_MANAGED, /* cuMemAllocManaged */
	BLOCK_POOL,    /* cuMemAllocAsync and its kind */
	BLOCK_HOST,    /* cuMemHostAlloc and its kind */
	BLOCK_MODULE,  /* a global variable, not the program's to free */
};

struct block {
	uint8_t kind;		 /* enum block_kind */
	_Atomic uint8_t touched; /* has backing pages to give back */
	uint8_t freeing;	 /* a stream-ordered free is queued */
	uint8_t flags;
	int device;
	uint32_t next_free;
	uint64_t bytes;
	uint64_t id; /* never reused */
	CUdeviceptr base;
	struct context *context;
	uint64_t context_id;
	struct pool *pool;
};

CUresult region_setup(void);
CUresult region_take(struct block **ret, int device, uint64_t bytes);
void region_give(struct block *block);
/* The block that holds the address, or NULL. Host memory is a region like a device's. */
struct block *region_find(CUdeviceptr ptr);
bool region_holds(CUdeviceptr ptr, uint64_t bytes);
void region_each(void (*visit)(struct block *block, void *user), void *user);
void region_lock(void);
void region_unlock(void);

/* --- memory.c --------------------------------------------------------------------------- */

CUresult memory_take(CUdeviceptr *ret, enum block_kind kind, uint64_t bytes, struct pool *pool);
CUresult memory_release(CUdeviceptr ptr, unsigned int kinds);
void memory_release_context(struct context *context);
CUresult memory_get_info(size_t *free_bytes, size_t *total_bytes);
CUresult memory_alloc(CUdeviceptr *ret, size_t bytes);
CUresult memory_alloc_pitch(CUdeviceptr *ret, size_t *pitch, size_t width, size_t height,
			    unsigned int element_bytes);
CUresult memory_alloc_managed(CUdeviceptr *ret, size_t bytes, unsigned int flags);
CUresult memory_free(CUdeviceptr ptr);
CUresult memory_get_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr ptr);

/* --- host.c ----------------------------------------------------------------------------- */

CUresult host_alloc(void **ret, size_t bytes, unsigned int flags);
CUresult host_free(void *ptr);
CUresult host_register(void *ptr, size_t bytes, unsigned int flags);
CUresult host_unregister(void *ptr);
bool host_is_pinned(const void *ptr, size_t bytes);
CUresult host_get_device_pointer(CUdeviceptr *ret, void *ptr, unsigned int flags);
void host_release_context(const struct context *context);
void host_tell_books(struct fake_books *books);
CUresult host_get_flags(unsigned int *flags, void *ptr);

/* --- pointer.c -------------------------------------------------------------------------- */

CUresult pointer_get_attribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr);
CUresult pointer_get_attributes(unsigned int count, CUpointer_attribute *attributes, void **data,
				CUdeviceptr ptr);
CUresult managed_advise(CUdeviceptr ptr, size_t bytes, int device);
CUresult managed_prefetch(CUdeviceptr ptr, size_t bytes, int device, CUstream stream);
CUresult managed_attach(CUdeviceptr ptr, size_t bytes, CUstream stream);

/* --- pool.c ----------------------------------------------------------------------------- */

CUresult pool_setup(struct device *device);
CUresult pool_charge(struct pool *pool, uint64_t bytes);
void pool_refund(struct pool *pool, uint64_t bytes);
void pool_settle(struct device *device);
struct device *pool_device(const struct pool *pool);
CUresult pool_alloc(CUdeviceptr *ret, size_t bytes, CUstream stream);
CUresult pool_alloc_from(CUdeviceptr *ret, size_t bytes, CUmemoryPool handle, CUstream stream);
CUresult pool_free(CUdeviceptr ptr, CUstream stream);
CUresult pool_create(CUmemoryPool *ret, const CUmemPoolProps *props);
CUresult pool_destroy(CUmemoryPool handle);
CUresult pool_trim(CUmemoryPool handle, size_t keep_bytes);
CUresult pool_set_attribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value);
CUresult pool_get_attribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value);
CUresult pool_set_access(CUmemoryPool handle, const CUmemAccessDesc *map, size_t count);
CUresult pool_get_default(CUmemoryPool *ret, CUdevice dev);
CUresult pool_get_current(CUmemoryPool *ret, CUdevice dev);
CUresult pool_set_current(CUdevice dev, CUmemoryPool handle);

/* --- vmm.c ------------------------------------------------------------------------------ */

bool vmm_holds(CUdeviceptr ptr, uint64_t bytes);
bool vmm_find(CUdeviceptr ptr, CUdeviceptr *base, uint64_t *bytes, int *device);
CUresult vmm_reserve(CUdeviceptr *ret, size_t bytes, size_t alignment, CUdeviceptr hint,
		     unsigned long long flags);
CUresult vmm_unreserve(CUdeviceptr ptr, size_t bytes);
CUresult vmm_create(CUmemGenericAllocationHandle *ret, size_t bytes,
		    const CUmemAllocationProp *prop, unsigned long long flags);
CUresult vmm_release(CUmemGenericAllocationHandle handle);
CUresult vmm_retain(CUmemGenericAllocationHandle *ret, void *ptr);
CUresult vmm_map(CUdeviceptr ptr, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
		 unsigned long long flags);
CUresult vmm_unmap(CUdeviceptr ptr, size_t bytes);
CUresult vmm_set_access(CUdeviceptr ptr, size_t bytes, const CUmemAccessDesc *desc, size_t count);
CUresult vmm_get_access(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr);
void vmm_tell_books(struct fake_books *books);
CUresult vmm_get_granularity(size_t *granularity, const CUmemAllocationProp *prop,
			     CUmemAllocationGranularity_flags option);
