/* probed.h: what the workloads call of the simulated libc10_cuda, by dlopen. */
#ifndef FAKE_C10_PROBED_H
#define FAKE_C10_PROBED_H

#include <stddef.h>

/* A size that the library knows while it is built. */
#define C10_USUAL_BYTES 12345

/* As c10_malloc() and c10_free(). */
void *c10_cuda_malloc(size_t bytes);
void c10_cuda_free(void *address);
/* What c10_cuda_malloc() does with a block, beside taking it. */
void c10_cuda_tell(void *address, size_t bytes);

#endif
