/* json.h: JSON into an out. Texts are valid UTF-8 and need no check. */
#ifndef TS_CLIENT_EXPORT_JSON_H
#define TS_CLIENT_EXPORT_JSON_H

#include <stdint.h>

#include "client/output/out.h"

void json_text(struct out *out, const char *plain); /* as it is */
void json_number(struct out *out, uint64_t value);
void json_signed(struct out *out, int64_t value);
/* As text: a double, which readers make of a JSON number, holds 53 bits. */
void json_address(struct out *out, uint64_t value);
void json_microseconds(struct out *out, uint64_t ns);
void json_quoted(struct out *out, const char *value);
/* `name` as it is, with quotes and colon, then the number. */
void json_member(struct out *out, const char *name, uint64_t value);

#endif
