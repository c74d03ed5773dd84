/* cycles.h: takes CUPTI out of the process, which has an end. On our thread. */
#ifndef TS_INJECT_CYCLES_H
#define TS_INJECT_CYCLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inject/cupti_find.h"

/* A session begins, before which it was taken out so often. */
void cycles_begin(uint32_t before);
/* How often it was, in all. */
uint32_t cycles_count(void);
/* Whether it may be taken out again. */
bool cycles_are_left(void);
/* Unloads CUPTI where that is safe; false: `why` says why not. With the lock of yield.c held. */
bool cycles_take_out(const struct cupti *cupti, char *why, size_t size);

#endif
