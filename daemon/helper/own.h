/* own.h: our own program's file.
 */
#ifndef TS_HELPER_OWN_H
#define TS_HELPER_OWN_H

#include <stdint.h>

/* Offset in it of a function of ours; 0: it has none. */
uint64_t own_offset(const void *function);

#endif
