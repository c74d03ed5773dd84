/* json.h: JSON values (RFC 8259), to a stdio stream or an out, where they stay within the reserved
 * room. */
#ifndef TS_CLIENT_JSON_H
#define TS_CLIENT_JSON_H

#include <stdint.h>
#include <stdio.h>

#include "client/output/out.h"

/* Quoted and escaped; invalid UTF-8 becomes U+FFFD. */
void json_string(FILE *out, const char *text);
void json_quoted(struct out *out, const char *text); /* of at most JSON_TEXT_MAX bytes */
#define JSON_TEXT_MAX 4096

/* NaN and infinities become null. */
void json_real(FILE *out, double value);
/* Hexadecimal text: a JSON number is read as a double, which holds only 53 bits. */
void json_address(struct out *out, uint64_t value);
void json_microseconds(struct out *out, uint64_t ns);
/* Writes `name`, including its quotes and colon, then the number. */
void json_member(struct out *out, const char *name, uint64_t value);

#endif
