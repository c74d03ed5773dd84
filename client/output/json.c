/* Json: writes strings and numbers as in RFC 8259. */
#include "client/output/json.h"

#include <math.h>
#include <string.h>

#include "core/base/utf8.h"

#define PIECE	   256 /* bytes of text escaped at a time */
#define ESCAPE_MAX 6   /* bytes that one becomes */

static const char hex[] = "0123456789abcdef";

/* What needs no escape. */
static const bool plain[256] = { [' '] = 1, ['!'] = 1, ['#' ... '['] = 1, [']' ... '~'] = 1 };

/* Length of the prefix that needs no escape, usually all of it. */
static size_t plain_length(const char *text, size_t size)
{
	size_t length = 0;

	while (length < size && plain[(uint8_t)text[length]])
		length++;
	return length;
}

static size_t write_code(char *to, uint32_t code)
{
	static const char codes[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
	const char *found = code && code < 0x80 ? strchr(codes, code) : NULL;

	if (found) {
		memcpy(to, (char[]){ '\\', letters[found - codes] }, 2);
		return 2;
	}
	if (!utf8_is_control(code))
		return utf8_write(to, code);
	memcpy(to,
	       (char[]){ '\\', 'u', hex[code >> 12], hex[code >> 8 & 15], hex[code >> 4 & 15],
			 hex[code & 15] },
	       ESCAPE_MAX);
	return ESCAPE_MAX;
}

/* The inside of a string: of `text` at least `most` bytes, up to the end of a code point, or all of
 * its `size`. Returns the length; *ret_taken is how much of the text it stands for. */
static size_t escape(char *to, const char *text, size_t size, size_t most, size_t *ret_taken)
{
	size_t i = 0, length = 0;
	uint32_t code;

	if (most > size)
		most = size;
	while (i < most) {
		size_t as_it_is = plain_length(text + i, most - i);

		memcpy(to + length, text + i, as_it_is);
		length += as_it_is;
		i += as_it_is;
		if (i < most) {
			i += utf8_read(text + i, size - i, &code);
			length += write_code(to + length, code);
		}
	}
	*ret_taken = i;
	return length;
}

void json_string(FILE *out, const char *text)
{
	char piece[(PIECE + UTF8_LENGTH_MAX) * ESCAPE_MAX];
	size_t size = strlen(text), taken;

	fputc('"', out);
	for (size_t i = 0; i < size; i += taken) {
		size_t length = escape(piece, text + i, size - i, PIECE, &taken);

		fwrite(piece, 1, length, out);
	}
	fputc('"', out);
}

void json_quoted(struct out *out, const char *text)
{
	size_t size = strnlen(text, JSON_TEXT_MAX), taken;

	*out->at++ = '"';
	out->at += escape((char *)out->at, text, size, size, &taken);
	*out->at++ = '"';
}

void json_real(FILE *out, double value)
{
	if (isfinite(value))
		fprintf(out, "%.17g", value);
	else
		fputs("null", out);
}

void json_address(struct out *out, uint64_t value)
{
	char digits[16], *at = digits + sizeof(digits);

	do
		*--at = hex[value & 15];
	while (value >>= 4);
	out_text(out, "\"0x");
	out_bytes(out, at, digits + sizeof(digits) - at);
	*out->at++ = '"';
}

void json_microseconds(struct out *out, uint64_t ns)
{
	uint32_t rest = (uint32_t)(ns % 1000);
	char fraction[4] = { '.', (char)('0' + rest / 100), (char)('0' + rest / 10 % 10),
			     (char)('0' + rest % 10) };

	out_number(out, ns / 1000);
	out_bytes(out, fraction, sizeof(fraction));
}

void json_member(struct out *out, const char *name, uint64_t value)
{
	out_text(out, name);
	out_number(out, value);
}
