/* Region: address space, one region per device and one for pinned host memory.
 * A region is cut into zones by power-of-two slot size, each with room for all of the device's
 * memory, so an address tells its block by arithmetic and no allocation can fail for
 * fragmentation. Pages and the blocks' records are backed by the kernel only when touched. */
#include "fake.h"

#include <sys/mman.h>

#define SLOT_SHIFT  9 /* 512 bytes, the smallest slot */
#define ZONES_MAX   32
#define REGION_HOST DEVICES_MAX
#define SLOT_NONE   0 /* free lists count slots from 1 */

struct zone {
	struct block *blocks;
	uint32_t used, free_first;
};

struct region {
	CUdeviceptr base, end;
	unsigned int zone_shift; /* log2 of a zone's bytes */
	unsigned int zones_count;
	struct zone zones[ZONES_MAX];
};

static struct region regions[DEVICES_MAX + 1];
static pthread_mutex_t regions_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t regions_next_id;

static void *region_map(size_t bytes)
{
	void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (base == MAP_FAILED)
		return NULL;
	/* A core file would hold, and take as long to write as, terabytes of nothing. */
	madvise(base, bytes, MADV_DONTDUMP);
	return base;
}

static CUresult region_setup_one(struct region *region, uint64_t memory_bytes)
{
	unsigned int shift = SLOT_SHIFT;
	void *base;

	while ((1ull << shift) < memory_bytes)
		shift++;
	/* Blocks fill more than half their slot, so twice the memory is enough for a zone. */
	region->zone_shift = shift + 1;
	region->zones_count = shift - SLOT_SHIFT + 1;
	base = region_map((size_t)region->zones_count << region->zone_shift);
	if (!base)
		return CUDA_ERROR_OUT_OF_MEMORY;
	region->base = (CUdeviceptr)(uintptr_t)base;
	region->end = region->base + ((uint64_t)region->zones_count << region->zone_shift);
	for (unsigned int i = 0; i < region->zones_count; i++) {
		size_t slots = 1ull << (region->zone_shift - SLOT_SHIFT - i);

		region->zones[i].blocks = region_map(slots * sizeof(struct block));
		if (!region->zones[i].blocks)
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

CUresult region_setup(void)
{
	CUresult r = region_setup_one(&regions[REGION_HOST], driver.devices[0].memory_bytes);

	for (int i = 0; i < driver.devices_count && r == CUDA_SUCCESS; i++)
		r = region_setup_one(&regions[i], driver.devices[i].memory_bytes);
	return r;
}

void region_lock(void)
{
	pthread_mutex_lock(&regions_lock);
}

void region_unlock(void)
{
	pthread_mutex_unlock(&regions_lock);
}

/* With the lock held; a device of -1 is the host. The block has no kind yet. */
CUresult region_take(struct block **ret, int device, uint64_t bytes)
{
	struct region *region = &regions[device < 0 ? REGION_HOST : device];
	unsigned int class = 0;
	struct block *block;
	struct zone *zone;
	uint32_t slot;

	while (class < region->zones_count && (1ull << (SLOT_SHIFT + class)) < bytes)
		class ++;
	if (class == region->zones_count)
		return CUDA_ERROR_OUT_OF_MEMORY;
	zone = &region->zones[class];
	if (zone->free_first != SLOT_NONE) {
		slot = zone->free_first - 1;
		zone->free_first = zone->blocks[slot].next_free;
	} else if (zone->used < 1ull << (region->zone_shift - SLOT_SHIFT - class)) {
		slot = zone->used++;
	} else {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	block = &zone->blocks[slot];
	*block = (struct block){
		.device = device,
		.bytes = bytes,
		.id = ++regions_next_id,
		.base = region->base + ((uint64_t) class << region->zone_shift) +
			((uint64_t)slot << (SLOT_SHIFT + class)),
	};
	*ret = block;
	return CUDA_SUCCESS;
}

/* With the lock held. Last freed, first taken: addresses come back soon, as on a real device. */
void region_give(struct block *block)
{
	struct region *region = &regions[block->device < 0 ? REGION_HOST : block->device];
	uint64_t offset = block->base - region->base;
	unsigned int class = (unsigned int)(offset >> region->zone_shift);
	struct zone *zone = &region->zones[class];

	if (atomic_load_explicit(&block->touched, memory_order_relaxed))
		madvise((void *)(uintptr_t)block->base, block->bytes, MADV_DONTNEED);
	block->kind = BLOCK_NONE;
	block->next_free = zone->free_first;
	zone->free_first = (uint32_t)(block - zone->blocks) + 1;
}

struct block *region_find(CUdeviceptr ptr)
{
	for (int i = 0; i <= REGION_HOST; i++) {
		struct region *region = &regions[i];
		unsigned int class;
		struct block *block;
		uint64_t offset;

		if (ptr < region->base || ptr >= region->end)
			continue;
		offset = ptr - region->base;
		class = (unsigned int)(offset >> region->zone_shift);
		offset &= (1ull << region->zone_shift) - 1;
		block = &region->zones[class].blocks[offset >> (SLOT_SHIFT + class)];
		if (block->kind == BLOCK_NONE || ptr >= block->base + block->bytes)
			return NULL;
		return block;
	}
	return NULL;
}

/* Marks the block as backed, so that its pages go back when it is freed. */
bool region_holds(CUdeviceptr ptr, uint64_t bytes)
{
	struct block *block = region_find(ptr);

	if (!block || block->freeing || bytes > block->base + block->bytes - ptr)
		return false;
	atomic_store_explicit(&block->touched, 1, memory_order_relaxed);
	return true;
}

/* With the lock held. */
void region_each(void (*visit)(struct block *block, void *user), void *user)
{
	for (int i = 0; i <= REGION_HOST; i++) {
		for (unsigned int z = 0; z < regions[i].zones_count; z++) {
			struct zone *zone = &regions[i].zones[z];

			for (uint32_t slot = 0; slot < zone->used; slot++)
				if (zone->blocks[slot].kind != BLOCK_NONE)
					visit(&zone->blocks[slot], user);
		}
	}
}
