/* Export JSON: values, each within the room that the caller has asked for. */
#include "client/export/json.h"

#include <string.h>

void json_text(struct out *out, const char *plain)
{
	out_bytes(out, plain, strlen(plain));
}

void json_number(struct out *out, uint64_t value)
{
	char digits[20], *at = digits + sizeof(digits);

	do
		*--at = (char)('0' + value % 10);
	while (value /= 10);
	out_bytes(out, at, digits + sizeof(digits) - at);
}

void json_signed(struct out *out, int64_t value)
{
	if (value < 0)
		*out->at++ = '-';
	json_number(out, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void json_address(struct out *out, uint64_t value)
{
	char hex[16], *at = hex + sizeof(hex);

	do
		*--at = "0123456789abcdef"[value & 15];
	while (value >>= 4);
	json_text(out, "\"0x");
	out_bytes(out, at, hex + sizeof(hex) - at);
	*out->at++ = '"';
}

void json_microseconds(struct out *out, uint64_t ns)
{
	uint32_t rest = ns % 1000;
	char fraction[4] = { '.', (char)('0' + rest / 100), (char)('0' + rest / 10 % 10),
			     (char)('0' + rest % 10) };

	json_number(out, ns / 1000);
	out_bytes(out, fraction, sizeof(fraction));
}

void json_quoted(struct out *out, const char *value)
{
	*out->at++ = '"';
	for (; *value; value++) {
		unsigned char c = *value;

		if (c < 0x20) {
			char escape[6] = { '\\', 'u',	       '0',
					   '0',	 "01"[c >> 4], "0123456789abcdef"[c & 15] };

			out_bytes(out, escape, sizeof(escape));
			continue;
		}
		if (c == '"' || c == '\\')
			*out->at++ = '\\';
		*out->at++ = c;
	}
	*out->at++ = '"';
}

void json_member(struct out *out, const char *name, uint64_t value)
{
	json_text(out, name);
	json_number(out, value);
}
