/* text.h: a text that is written like a file. */
#ifndef TS_TEXT_H
#define TS_TEXT_H

#include <stddef.h>
#include <stdio.h>

/* The text is valid after fflush() and text_close(), ends with a NUL, and is the caller's; both
 * variables must stay where they are. NULL: no memory, and the variables are unchanged. */
FILE *text_open(char **ret, size_t *ret_size);

/* -ENOMEM: the text is incomplete. */
int text_close(FILE *out);

#endif
