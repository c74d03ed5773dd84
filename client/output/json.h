/* json.h: JSON values on a stdio stream. */
#ifndef TS_CLIENT_JSON_H
#define TS_CLIENT_JSON_H

#include <stdio.h>

/* Quoted and escaped; invalid UTF-8 becomes U+FFFD. */
void json_string(FILE *out, const char *text);
/* NaN and infinities become null. */
void json_real(FILE *out, double value);

#endif
