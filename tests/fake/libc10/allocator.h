/* allocator.h: what the workloads call of the simulated libc10. */
#ifndef FAKE_C10_H
#define FAKE_C10_H

#include <stddef.h>

/* NULL: neither the device nor the cache has room. */
void *c10_malloc(size_t bytes);
void c10_free(void *address);
/* Freed now, but another stream works on it until c10_synchronize(). */
void c10_free_later(void *address);
void c10_synchronize(void);
void c10_empty_cache(void);
/* As torch.cuda.memory_stats() has them. */
size_t c10_allocated(void);
size_t c10_reserved(void);

/* What lies free between the blocks that are taken, of segments of small blocks or of others. */
struct c10_free {
	size_t segments, held, bytes, pieces, largest;
	double index; /* docs/queries.md */
};

void c10_measure(int small, struct c10_free *ret);

#endif
