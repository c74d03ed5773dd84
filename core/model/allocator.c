/* Allocator: its sums are its own, so they are right where blocks are unknown: those from before
 * the process was watched, or whose report was lost. */
#include "core/model/allocator.h"

#include <stdlib.h>

#include "core/base/bytes.h"

struct allocator *allocator_find(const struct list *allocators, int16_t device, uint64_t copy)
{
	struct allocator *allocator;

	list_for_each(allocator, allocators, link)
		if (allocator->device == device &&
		    (allocator->copy == copy || allocator->number == ALLOCATOR_COPIES_MAX - 1))
			return allocator;
	return NULL;
}

struct allocator *allocator_get(struct list *allocators, uint32_t process, int16_t device,
				uint64_t copy)
{
	struct allocator *allocator = allocator_find(allocators, device, copy), *other;

	if (allocator)
		return allocator;
	allocator = calloc(1, sizeof(*allocator));
	if (!allocator)
		return NULL;
	list_for_each(other, allocators, link)
		allocator->number += other->device == device;
	allocator->copy = copy;
	allocator->process = process;
	allocator->device = device;
	list_init(&allocator->changed);
	list_append(allocators, &allocator->link);
	return allocator;
}

static bool lift(uint64_t *peak, uint64_t bytes)
{
	if (bytes_bounded(bytes) <= *peak)
		return false;
	*peak = bytes_bounded(bytes);
	return true;
}

bool allocator_peaked(struct allocator *allocator, uint64_t used_bytes, uint64_t bytes)
{
	bool higher = lift(&allocator->peak_used_bytes, used_bytes);

	return lift(&allocator->peak_bytes, bytes) || higher;
}

bool allocator_told(struct allocator *allocator, uint64_t time_ns, uint64_t used_bytes,
		    uint64_t bytes)
{
	if (time_ns < allocator->told_ns)
		return false;
	allocator->told_ns = time_ns;
	allocator->used_bytes = bytes_bounded(used_bytes);
	allocator->bytes = bytes_bounded(bytes);
	allocator_peaked(allocator, used_bytes, bytes);
	return true;
}

void allocator_free(struct allocator *allocator)
{
	list_remove(&allocator->changed);
	list_remove(&allocator->link);
	free(allocator);
}
