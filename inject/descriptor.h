/* descriptor.h: our descriptors that stay open while the program runs. It may close any, and open
 * another file under the number. */
#ifndef TS_INJECT_DESCRIPTOR_H
#define TS_INJECT_DESCRIPTOR_H

#include <stdbool.h>

/* Moves it to a number that the program is unlikely to use, and notes what it is; closes the old
 * one. */
int descriptor_keep(int fd);
/* Whether that number is still what was kept. Any thread. */
bool descriptor_is_ours(int fd);
/* Closes it if it is. */
void descriptor_close(int fd);

#endif
