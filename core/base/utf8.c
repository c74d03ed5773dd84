/* Utf8: reads and writes UTF-8 (RFC 3629) and trusts nothing in it. */
#include "core/base/utf8.h"

#include "core/base/array.h"

/* By the number of bytes: the marker bits of the first, and the least code that needs so many. */
static const struct {
	uint8_t mask, lead;
	uint32_t least;
} form[] = {
	{ 0 },
	{ 0x80, 0x00, 0 },
	{ 0xe0, 0xc0, 0x80 },
	{ 0xf0, 0xe0, 0x800 },
	{ 0xf8, 0xf0, 0x10000 },
};

static size_t decode(const uint8_t *text, size_t size, uint32_t *ret_code)
{
	uint32_t code;
	size_t length = 1;

	while (length <= UTF8_LENGTH_MAX && (text[0] & form[length].mask) != form[length].lead)
		length++;
	if (length > UTF8_LENGTH_MAX || length > size)
		return 0;
	code = text[0] & (uint8_t)~form[length].mask;
	for (size_t i = 1; i < length; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (text[i] & 0x3f);
	}
	if (code < form[length].least || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
		return 0;
	*ret_code = code;
	return length;
}

size_t utf8_read(const char *text, size_t size, uint32_t *ret_code)
{
	size_t length = decode((const uint8_t *)text, size, ret_code);

	if (length)
		return length;
	*ret_code = UTF8_REPLACEMENT;
	return 1;
}

size_t utf8_write(char text[UTF8_LENGTH_MAX], uint32_t code)
{
	size_t length = 1;

	while (length < UTF8_LENGTH_MAX && code >= form[length + 1].least)
		length++;
	for (size_t i = length; i-- > 1; code >>= 6)
		text[i] = 0x80 | (code & 0x3f);
	text[0] = (char)(form[length].lead | code);
	return length;
}

static bool all_of(const char *text, size_t size, bool controls)
{
	uint32_t code;
	size_t length;

	for (size_t i = 0; i < size; i += length) {
		length = decode((const uint8_t *)text + i, size - i, &code);
		if (!length || (!controls && utf8_is_control(code)))
			return false;
	}
	return true;
}

bool utf8_valid(const char *text, size_t size)
{
	return all_of(text, size, true);
}

bool utf8_is_visible(const char *text, size_t size)
{
	return all_of(text, size, false);
}

size_t utf8_clean(char *out, const char *text, size_t size)
{
	size_t length = 0;
	uint32_t code;

	for (size_t i = 0; i < size;) {
		i += utf8_read(text + i, size - i, &code);
		length += utf8_write(out + length, code);
	}
	out[length] = '\0';
	return length;
}

bool utf8_is_control(uint32_t code)
{
	static const uint32_t ranges[][2] = {
		{ 0, 0x1f },	    { 0x7f, 0x9f },	{ 0x61c, 0x61c },
		{ 0x200e, 0x200f }, { 0x2028, 0x202e }, { 0x2066, 0x2069 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
		if (code <= ranges[i][1])
			return code >= ranges[i][0];
	return false;
}

size_t utf8_visible(char *out, const char *text, size_t size)
{
	size_t length = 0;
	uint32_t code;

	for (size_t i = 0; i < size;) {
		i += utf8_read(text + i, size - i, &code);
		length += utf8_write(out + length, utf8_is_control(code) ? UTF8_REPLACEMENT : code);
	}
	out[length] = '\0';
	return length;
}
