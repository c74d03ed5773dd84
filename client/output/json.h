/* json.h: JSON values on a stdio stream. */
#ifndef TS_CLIENT_JSON_H
#define TS_CLIENT_JSON_H

#include <stdio.h>

/* Quoted and escaped; bytes that are no UTF-8 become U+FFFD. */
void json_string(FILE *out, const char *text);
/* What JSON has no number for becomes null. */
void json_real(FILE *out, double value);

#endif
