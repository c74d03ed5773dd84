/* memfd.h: memory with a descriptor, to be shared.
 */
#ifndef TS_MEMFD_H
#define TS_MEMFD_H

#include <stddef.h>

/* Of that size, empty, not executable where the kernel can say so (6.3), and not sealed yet.
 * Returns a descriptor, or a negative errno. */
int memfd_make(const char *name, size_t size);

#endif
