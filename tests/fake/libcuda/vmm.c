/* Vmm: reserved address ranges, physical allocations and what is mapped where.
 * All physical memory of the process is one sparse memory file, so two mappings of one
 * allocation show the same bytes. */
#include "fake.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define GRANULARITY (2ull << 20)

struct physical {
	struct physical *next;
	CUmemGenericAllocationHandle handle;
	uint64_t bytes;
	off_t offset;
	int device;
	unsigned int refs; /* held, and one for each mapping */
	unsigned int held; /* references of the program */
};

struct reservation {
	struct reservation *next;
	CUdeviceptr base;
	uint64_t bytes;
};

struct mapping {
	struct mapping *next;
	CUdeviceptr base;
	uint64_t bytes;
	struct physical *physical;
	CUmemAccess_flags access;
};

static struct {
	pthread_mutex_t lock;
	int fd;
	off_t end;
	uint64_t next_handle;
	struct physical *physicals;
	struct reservation *reservations;
	struct mapping *mappings;
} vmm = { .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1, .next_handle = 0x1000 };

static bool vmm_aligned(uint64_t value)
{
	return value != 0 && value % GRANULARITY == 0;
}

static struct mapping *vmm_mapping(CUdeviceptr ptr)
{
	struct mapping *m;

	for (m = vmm.mappings; m; m = m->next)
		if (ptr >= m->base && ptr < m->base + m->bytes)
			return m;
	return NULL;
}

static struct physical *vmm_physical(CUmemGenericAllocationHandle handle)
{
	struct physical *p;

	for (p = vmm.physicals; p; p = p->next)
		if (p->handle == handle && p->held)
			return p;
	return NULL;
}

bool vmm_holds(CUdeviceptr ptr, uint64_t bytes)
{
	CUdeviceptr end = ptr + bytes;
	struct mapping *m;

	pthread_mutex_lock(&vmm.lock);
	while (ptr < end && (m = vmm_mapping(ptr)) &&
	       m->access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		ptr = m->base + m->bytes;
	pthread_mutex_unlock(&vmm.lock);
	return bytes && ptr >= end;
}

bool vmm_find(CUdeviceptr ptr, CUdeviceptr *base, uint64_t *bytes, int *device)
{
	struct mapping *m;

	pthread_mutex_lock(&vmm.lock);
	m = vmm_mapping(ptr);
	if (m) {
		*base = m->base;
		*bytes = m->bytes;
		*device = m->physical->device;
	}
	pthread_mutex_unlock(&vmm.lock);
	return m != NULL;
}

CUresult vmm_reserve(CUdeviceptr *ret, size_t bytes, size_t alignment, CUdeviceptr hint,
		     unsigned long long flags)
{
	size_t align = MAX(alignment, GRANULARITY);
	struct reservation *r;
	char *base;

	if (!ret || !vmm_aligned(bytes) || flags != 0 || (align & (align - 1)))
		return CUDA_ERROR_INVALID_VALUE;
	r = malloc(sizeof(*r));
	if (!r)
		return CUDA_ERROR_OUT_OF_MEMORY;
	base = mmap((void *)(uintptr_t)hint, bytes + align, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED) {
		free(r);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	r->base = ((CUdeviceptr)(uintptr_t)base + align - 1) & ~(CUdeviceptr)(align - 1);
	r->bytes = bytes;
	if (r->base > (CUdeviceptr)(uintptr_t)base)
		munmap(base, r->base - (CUdeviceptr)(uintptr_t)base);
	if ((uintptr_t)base + bytes + align > r->base + bytes)
		munmap((void *)(uintptr_t)(r->base + bytes), (uintptr_t)base + align - r->base);
	pthread_mutex_lock(&vmm.lock);
	r->next = vmm.reservations;
	vmm.reservations = r;
	pthread_mutex_unlock(&vmm.lock);
	*ret = r->base;
	return CUDA_SUCCESS;
}

static bool vmm_any_mapped(CUdeviceptr ptr, uint64_t bytes)
{
	for (struct mapping *m = vmm.mappings; m; m = m->next)
		if (m->base < ptr + bytes && ptr < m->base + m->bytes)
			return true;
	return false;
}

CUresult vmm_unreserve(CUdeviceptr ptr, size_t bytes)
{
	struct reservation **link, *r;

	pthread_mutex_lock(&vmm.lock);
	for (link = &vmm.reservations; *link; link = &(*link)->next)
		if ((*link)->base == ptr && (*link)->bytes == bytes)
			break;
	r = vmm_any_mapped(ptr, bytes) ? NULL : *link;
	if (r) {
		*link = r->next;
		munmap((void *)(uintptr_t)ptr, bytes);
		free(r);
	}
	pthread_mutex_unlock(&vmm.lock);
	return r ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult vmm_create(CUmemGenericAllocationHandle *ret, size_t bytes,
		    const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct physical *p;
	struct device *device;
	CUresult r;

	if (!ret || !prop || flags != 0 || !vmm_aligned(bytes) ||
	    prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	device = device_check(prop->location.id);
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	r = device_charge(device, bytes);
	if (r != CUDA_SUCCESS)
		return r;
	p = calloc(1, sizeof(*p));
	pthread_mutex_lock(&vmm.lock);
	if (vmm.fd < 0)
		vmm.fd = memfd_create("simulated-gpu", MFD_CLOEXEC);
	if (!p || vmm.fd < 0 || ftruncate(vmm.fd, vmm.end + (off_t)bytes) != 0) {
		pthread_mutex_unlock(&vmm.lock);
		device_refund(device, bytes);
		free(p);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*p = (struct physical){ .next = vmm.physicals,
				.handle = vmm.next_handle++,
				.bytes = bytes,
				.offset = vmm.end,
				.device = device->ordinal,
				.refs = 1,
				.held = 1 };
	vmm.end += (off_t)bytes;
	vmm.physicals = p;
	*ret = p->handle;
	pthread_mutex_unlock(&vmm.lock);
	return CUDA_SUCCESS;
}

/* With the lock held. */
static void vmm_put(struct physical *p)
{
	struct physical **link;

	if (--p->refs > 0)
		return;
	for (link = &vmm.physicals; *link != p; link = &(*link)->next)
		;
	*link = p->next;
	fallocate(vmm.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, p->offset, (off_t)p->bytes);
	device_refund(&driver.devices[p->device], p->bytes);
	free(p);
}

CUresult vmm_release(CUmemGenericAllocationHandle handle)
{
	struct physical *p;

	pthread_mutex_lock(&vmm.lock);
	p = vmm_physical(handle);
	if (p) {
		p->held--;
		vmm_put(p);
	}
	pthread_mutex_unlock(&vmm.lock);
	return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult vmm_retain(CUmemGenericAllocationHandle *ret, void *ptr)
{
	struct mapping *m;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&vmm.lock);
	m = vmm_mapping((CUdeviceptr)(uintptr_t)ptr);
	if (m) {
		m->physical->held++;
		m->physical->refs++;
		*ret = m->physical->handle;
	}
	pthread_mutex_unlock(&vmm.lock);
	return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* With the lock held. */
static bool vmm_reserved(CUdeviceptr ptr, uint64_t bytes)
{
	for (struct reservation *r = vmm.reservations; r; r = r->next)
		if (ptr >= r->base && ptr + bytes <= r->base + r->bytes)
			return true;
	return false;
}

/* Puts something else behind a part of a reservation. */
static bool vmm_place(CUdeviceptr ptr, uint64_t bytes, int flags, int fd, off_t offset)
{
	void *want = (void *)(uintptr_t)ptr;
	void *placed = mmap(want, bytes, PROT_NONE, flags | MAP_FIXED, fd, offset);

	/* cppcheck-suppress memleak ; it is the reservation's */
	return placed == want;
}

CUresult vmm_map(CUdeviceptr ptr, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
		 unsigned long long flags)
{
	struct mapping *m = NULL;
	struct physical *p;
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	if (flags != 0 || offset != 0 || !vmm_aligned(bytes) || !vmm_aligned(ptr))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&vmm.lock);
	p = vmm_physical(handle);
	if (!p || bytes != p->bytes || !vmm_reserved(ptr, bytes) || vmm_any_mapped(ptr, bytes))
		goto out;
	m = malloc(sizeof(*m));
	r = CUDA_ERROR_OUT_OF_MEMORY;
	if (!m)
		goto out;
	*m = (struct mapping){ .next = vmm.mappings, .base = ptr, .bytes = bytes, .physical = p };
	if (!vmm_place(ptr, bytes, MAP_SHARED, vmm.fd, p->offset)) {
		free(m);
		goto out;
	}
	p->refs++;
	vmm.mappings = m;
	r = CUDA_SUCCESS;
out:
	pthread_mutex_unlock(&vmm.lock);
	return r;
}

CUresult vmm_unmap(CUdeviceptr ptr, size_t bytes)
{
	CUdeviceptr end = ptr + bytes;
	struct mapping **link = &vmm.mappings;
	size_t gone = 0;

	pthread_mutex_lock(&vmm.lock);
	while (*link) {
		struct mapping *m = *link;

		if (m->base < ptr || m->base + m->bytes > end) {
			link = &m->next;
			continue;
		}
		vmm_place(m->base, m->bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		gone += m->bytes;
		*link = m->next;
		vmm_put(m->physical);
		free(m);
	}
	pthread_mutex_unlock(&vmm.lock);
	return gone ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult vmm_set_access(CUdeviceptr ptr, size_t bytes, const CUmemAccessDesc *desc, size_t count)
{
	size_t done = 0;

	if (!desc || count == 0 || !vmm_aligned(bytes))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++)
		if (!device_check(desc[i].location.id))
			return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&vmm.lock);
	for (struct mapping *m = vmm.mappings; m; m = m->next) {
		int prot = desc[0].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ? PROT_NONE
									  : PROT_READ | PROT_WRITE;

		if (m->base < ptr || m->base + m->bytes > ptr + bytes)
			continue;
		m->access = desc[0].flags;
		mprotect((void *)(uintptr_t)m->base, m->bytes, prot);
		done += m->bytes;
	}
	pthread_mutex_unlock(&vmm.lock);
	return done == bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult vmm_get_access(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
	struct mapping *m;

	if (!flags || !location)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&vmm.lock);
	m = vmm_mapping(ptr);
	if (m)
		*flags = m->access;
	pthread_mutex_unlock(&vmm.lock);
	return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult vmm_get_granularity(size_t *granularity, const CUmemAllocationProp *prop,
			     CUmemAllocationGranularity_flags option)
{
	if (!granularity || !prop || (unsigned int)option > 1)
		return CUDA_ERROR_INVALID_VALUE;
	*granularity = GRANULARITY;
	return CUDA_SUCCESS;
}

void vmm_tell_books(struct fake_books *books)
{
	pthread_mutex_lock(&vmm.lock);
	for (struct physical *p = vmm.physicals; p; p = p->next)
		books_add(books, FAKE_BOOK_PHYSICAL, p->device, p->bytes);
	for (struct reservation *r = vmm.reservations; r; r = r->next)
		books_add(books, FAKE_BOOK_RESERVED, -1, r->bytes);
	for (struct mapping *m = vmm.mappings; m; m = m->next)
		books_add(books, FAKE_BOOK_MAPPED, m->physical->device, m->bytes);
	pthread_mutex_unlock(&vmm.lock);
}
