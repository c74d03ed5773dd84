/* csv.h: CSV fields (RFC 4180), to a stdio stream or an out, where they stay within the reserved
 * room. */
#ifndef TS_CLIENT_CSV_H
#define TS_CLIENT_CSV_H

#include <stddef.h>
#include <stdio.h>

#include "client/output/out.h"

/* Quoted where necessary; invalid UTF-8 becomes U+FFFD. */
void csv_print(FILE *out, const char *text);
/* The same for valid UTF-8, such as a trace's metadata. */
void csv_text(struct out *out, const char *text);
/* Several texts in one field, with `between` them. */
void csv_print_list(FILE *out, char *const *text, size_t count, char between);

#endif
