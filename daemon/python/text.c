/* Text: a str has its characters in 1, 2 or 4 bytes each, right behind it. (Those of before 3.12
 * that have them elsewhere are never names or files of code.) */
#include "daemon/python/text.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "core/base/utf8.h"

#define KIND(state)	  ((state) >> 2 & 7)
#define IS_COMPACT(state) ((state) >> 5 & 1)
#define IS_ASCII(state)	  ((state) >> 6 & 1)
#define CODE_MAX	  0x10ffff
#define SURROGATE_MIN	  0xd800
#define SURROGATE_MAX	  0xdfff
#define CUT		  "…"

static bool is_valid(uint32_t code)
{
	return code <= CODE_MAX && (code < SURROGATE_MIN || code > SURROGATE_MAX);
}

static uint32_t code_at(const uint8_t *units, unsigned int kind, size_t i)
{
	uint32_t code = 0;

	memcpy(&code, units + i * kind, kind);
	return is_valid(code) ? code : UTF8_REPLACEMENT;
}

/* Of each character utf8_visible() makes three bytes at most, or leaves it as it is. */
static void convert(const uint8_t *units, unsigned int kind, size_t count, bool cut,
		    char ret[TEXT_SIZE])
{
	char text[LIMIT_PYTHON_TEXT * UTF8_LENGTH_MAX];
	size_t length = 0;

	for (size_t i = 0; i < count; i++)
		length += utf8_write(text + length, code_at(units, kind, i));
	length = utf8_visible(ret, text, length);
	memcpy(ret + length, cut ? CUT : "", cut ? sizeof(CUT) : 1);
}

int text_read(const struct text_source *source, uint64_t address, char ret[TEXT_SIZE])
{
	const struct layout *layout = source->layout;
	uint8_t object[LAYOUT_OBJECT_SIZE] = { 0 }, units[LIMIT_PYTHON_TEXT * 4];
	size_t head = layout->unicode.state + sizeof(uint32_t);
	uint64_t type, length;
	uint32_t state, kind;
	bool cut;
	int r;

	r = peek_bytes(source->peek, address, object, head);
	if (r < 0)
		return r;
	memcpy(&type, object + sizeof(uint64_t), sizeof(type));
	memcpy(&length, object + layout->unicode.length, sizeof(length));
	memcpy(&state, object + layout->unicode.state, sizeof(state));
	kind = KIND(state);
	if ((source->type && type != source->type) || !IS_COMPACT(state) ||
	    (kind != 1 && kind != 2 && kind != 4))
		return -EBADMSG;
	cut = length > LIMIT_PYTHON_TEXT;
	if (cut)
		length = LIMIT_PYTHON_TEXT;
	address += IS_ASCII(state) ? layout->unicode.ascii : layout->unicode.compact;
	r = length ? peek_bytes(source->peek, address, units, length * kind) : 0;
	if (r == 0)
		convert(units, kind, length, cut, ret);
	return r;
}
