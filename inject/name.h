/* name.h: texts that records refer to by number. */
#ifndef TS_INJECT_NAME_H
#define TS_INJECT_NAME_H

#include <stdint.h>

/* The number of a text, sent as a NAME before its first use in this session; 0: NULL or empty, the
 * table is full, or it could not be sent. From any thread. */
uint32_t name_number(const char *text);
/* There is a daemon that knows no names yet. */
void name_reset(void);

#endif
