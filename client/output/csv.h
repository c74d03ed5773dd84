/* csv.h: fields of CSV (RFC 4180), on a stdio stream or into an out, where they take no more than
 * the room that was asked for. */
#ifndef TS_CLIENT_CSV_H
#define TS_CLIENT_CSV_H

#include <stddef.h>
#include <stdio.h>

#include "client/output/out.h"

/* Quoted where necessary; invalid UTF-8 becomes U+FFFD. */
void csv_print(FILE *out, const char *text);
/* The same, of text that is valid UTF-8, as all of a trace's metadata is. */
void csv_text(struct out *out, const char *text);
/* Several texts in one field, with `between` them. */
void csv_print_list(FILE *out, char *const *text, size_t count, char between);

#endif
