/* huge.h: arrays of megabytes that are filled from front to back, in huge pages where the kernel
 * has them: most of what it takes to fill one is page faults otherwise. They go back with free().
 */
#ifndef TS_HUGE_H
#define TS_HUGE_H

#include <stddef.h>

void *huge_malloc(size_t count, size_t size);
void *huge_calloc(size_t count, size_t size);
void *huge_realloc(void *array, size_t count, size_t size);

#endif
