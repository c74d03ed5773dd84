/* csv.h: CSV fields (RFC 4180), to a stdio stream or an out, where they stay within the reserved
 * room.
 *
 * Spreadsheets take a field that starts with = + - or @ for a formula, quoted or not: for them it
 * gets an apostrophe in front, which they do not show. */
#ifndef TS_CLIENT_CSV_H
#define TS_CLIENT_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "client/output/out.h"

/* Quoted where necessary; invalid UTF-8 and control characters but tabs and newlines become
 * U+FFFD. */
void csv_print(FILE *out, const char *text, bool spreadsheet);
/* The same for valid UTF-8, such as a trace's metadata. */
void csv_text(struct out *out, const char *text, bool spreadsheet);
/* Several texts in one field, with `between` them. */
void csv_print_list(FILE *out, char *const *text, size_t count, char between, bool spreadsheet);

#endif
