/* Probed: PyTorch's libc10_cuda, as far as its own probes go: where a program asks for a block of
 * the allocator, which has reported it by then, and where it gives one back. As in real builds,
 * arguments are wherever the compiler has them: here in registers, in memory, or a constant. Built
 * with FAKE_NO_PLACES it is a library without probes. */
#include "probed.h"

#include <stdint.h>

#include "allocator.h"
#include "place.h"

#define EXPORT	    __attribute__((visibility("default"), noinline))
#define LARGE_BYTES (1ul << 20)
#define DEVICE	    0
#define STREAM	    0L

#ifdef FAKE_NO_PLACES

EXPORT void c10_cuda_tell(void *address, size_t bytes)
{
	(void)address, (void)bytes;
}

EXPORT void *c10_cuda_malloc(size_t bytes)
{
	return c10_malloc(bytes);
}

EXPORT void c10_cuda_free(void *address)
{
	c10_free(address);
}

#else

PLACE_SEMAPHORE(pytorch, malloc);
PLACE_SEMAPHORE(pytorch, free);

static void tell_large(void *volatile address, volatile int device, volatile size_t bytes)
{
	PLACE(pytorch, malloc, "8@%0 -4@%1 8@%2 8@%3", "m"(address), "m"(device), "m"(bytes),
	      "i"(STREAM));
}

/* Behind the address, as some code has its arguments in a table. */
static void tell_indexed(void *address, size_t bytes)
{
	size_t table[16] = { [5] = bytes };
	size_t index = 5;

	__asm__ volatile("" : "+r"(index) : "r"(table) : "memory");
	PLACE(pytorch, malloc, "8@%0 -4@%1 8@(%2,%3,8) 8@%4", "r"(address), "i"(DEVICE), "r"(table),
	      "r"(index), "i"(STREAM));
}

static void tell(void *address, size_t bytes)
{
	if (bytes == C10_USUAL_BYTES)
		PLACE(pytorch, malloc, "8@%0 -4@%1 8@%2 8@%3", "r"(address), "i"(DEVICE),
		      "i"(C10_USUAL_BYTES), "i"(STREAM));
	else if (bytes > LARGE_BYTES)
		tell_large(address, DEVICE, bytes);
	else if (bytes % 2)
		tell_indexed(address, bytes);
	else
		PLACE(pytorch, malloc, "8@%0 -4@%1 8@%2 8@%3", "r"(address), "r"(DEVICE),
		      "r"(bytes), "r"(STREAM));
}

EXPORT void c10_cuda_tell(void *address, size_t bytes)
{
	if (address && pytorch_malloc_semaphore)
		tell(address, bytes);
}

EXPORT void *c10_cuda_malloc(size_t bytes)
{
	void *address = c10_malloc(bytes);

	c10_cuda_tell(address, bytes);
	return address;
}

EXPORT void c10_cuda_free(void *address)
{
	if (pytorch_free_semaphore)
		PLACE(pytorch, free, "8@%0", "r"(address));
	c10_free(address);
}

#endif
