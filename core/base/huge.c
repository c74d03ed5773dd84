/* Huge: malloc() with advice to the kernel. It is harmless if the kernel ignores it. */
#include "core/base/huge.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE_BYTES     ((uintptr_t)4096)
#define HUGE_BYTES_MIN ((size_t)2 << 20)

/* For every page that it touches, so that the mapping stays in one piece and can grow. */
static void *huge_advise(void *array, size_t bytes)
{
	uintptr_t first = (uintptr_t)array & -PAGE_BYTES;
	uintptr_t end = ((uintptr_t)array + bytes + PAGE_BYTES - 1) & -PAGE_BYTES;

	if (array && bytes >= HUGE_BYTES_MIN)
		(void)madvise((void *)first, end - first, MADV_HUGEPAGE);
	return array;
}

void *huge_malloc(size_t count, size_t size)
{
	return huge_advise(reallocarray(NULL, count, size), count * size);
}

void *huge_calloc(size_t count, size_t size)
{
	return huge_advise(calloc(count, size), count * size);
}

void *huge_realloc(void *array, size_t count, size_t size)
{
	return huge_advise(reallocarray(array, count, size), count * size);
}
