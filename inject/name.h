/* name.h: texts that records refer to by number. */
#ifndef TS_INJECT_NAME_H
#define TS_INJECT_NAME_H

#include <stdint.h>

enum name_of {
	NAME_KERNEL,
	NAME_TEXT, /* ranges, their domains, devices */
};

/* The number of a text, sent as a NAME before its first use in this session; 0: NULL or empty, or,
 * with the loss counted, there are too many of its kind, or it could not be sent. From any
 * thread. */
uint32_t name_number(const char *text, enum name_of of);
/* There is a daemon that knows no names yet. On our thread. */
void name_reset(void);

#endif
