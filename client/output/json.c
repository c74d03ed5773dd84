/* Json: writes strings and numbers as in RFC 8259. */
#include "client/output/json.h"

#include <math.h>
#include <string.h>

#include "core/base/utf8.h"

static const char *escape_of(uint32_t code)
{
	static const char codes[] = "\"\\\b\f\n\r\t";
	static const char *const escapes[] = { "\\\"", "\\\\", "\\b", "\\f", "\\n", "\\r", "\\t" };
	const char *found = code && code < 0x80 ? strchr(codes, code) : NULL;

	return found ? escapes[found - codes] : NULL;
}

/* Length of the prefix that needs no escape, usually all of it. */
static size_t plain_length(const char *text)
{
	size_t length = 0;

	while (text[length] >= ' ' && text[length] < 0x7f && text[length] != '"' &&
	       text[length] != '\\')
		length++;
	return length;
}

void json_string(FILE *out, const char *text)
{
	size_t size = strlen(text);
	char bytes[UTF8_LENGTH_MAX];
	const char *escape;
	uint32_t code;

	fputc('"', out);
	for (size_t i = 0; i < size;) {
		size_t plain = plain_length(text + i);

		fwrite(text + i, 1, plain, out);
		i += plain;
		if (i == size)
			break;
		i += utf8_read(text + i, size - i, &code);
		escape = escape_of(code);
		if (escape)
			fputs(escape, out);
		else if (code < 0x20 || (code >= 0x7f && code < 0xa0))
			fprintf(out, "\\u%04x", code);
		else
			fwrite(bytes, 1, utf8_write(bytes, code), out);
	}
	fputc('"', out);
}

void json_real(FILE *out, double value)
{
	if (isfinite(value))
		fprintf(out, "%.17g", value);
	else
		fputs("null", out);
}
