/* huge.h: arrays of megabytes that are filled from front to back, in huge pages if the kernel has
 * them: otherwise page faults are most of the cost of filling one. free() frees them.
 */
#ifndef TS_HUGE_H
#define TS_HUGE_H

#include <stddef.h>

void *huge_malloc(size_t count, size_t size);
void *huge_calloc(size_t count, size_t size);
void *huge_realloc(void *array, size_t count, size_t size);

#endif
