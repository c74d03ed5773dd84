/* Value: tells types by their names, and reads a few of them. A program that gives its own type
 * such a name is shown wrong values; it has only itself to blame. */
#include "daemon/python/value.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/utf8.h"

#define TYPE_AT	     8
#define TYPE_NAME    64
#define PIECE	     16 /* within a page, wherever it starts */
#define COUNT_AT     16 /* of what has items, or a cell's content */
#define DIGIT_BITS   30
#define DIGITS_SHOWN 2
#define SIGN_BITS    3 /* of lv_tag */
#define SIGN_MASK    3
#define PRECISE	     15
#define EXACT	     17

static int read_type(const struct text_source *source, uint64_t object, char name[TYPE_NAME])
{
	uint64_t type, at;
	size_t length = 0;
	int r = peek_word(source->peek, object + TYPE_AT, &type);

	if (r == 0)
		r = peek_word(source->peek, type + source->layout->type_name, &at);
	while (r == 0 && length < TYPE_NAME - PIECE) {
		size_t size = PIECE - at % PIECE;

		r = peek_bytes(source->peek, at, name + length, size);
		if (r == 0 && memchr(name + length, '\0', size))
			return 0;
		at += size;
		length += size;
	}
	name[length] = '\0';
	return r;
}

/* How many digits it has, and whether it is negative. */
static int read_digits(const struct text_source *source, uint64_t object, uint64_t *ret_count,
		       bool *ret_negative)
{
	const struct layout *layout = source->layout;
	uint64_t size;
	int r = peek_word(source->peek, object + COUNT_AT, &size);

	*ret_negative = layout->long_tag ? (size & SIGN_MASK) == 2 : (int64_t)size < 0;
	*ret_count = layout->long_tag ? size >> SIGN_BITS : *ret_negative ? -size : size;
	return r;
}

static int integer(const struct text_source *source, uint64_t object, char ret[VALUE_SIZE])
{
	uint64_t at = object + source->layout->long_digits, count, value = 0;
	uint32_t digit = 0;
	bool negative;
	int r = read_digits(source, object, &count, &negative);

	if (r < 0)
		return r;
	if (count > DIGITS_SHOWN) {
		snprintf(ret, VALUE_SIZE, "%sint of %" PRIu64 " bits", negative ? "negative " : "",
			 count * DIGIT_BITS);
		return 0;
	}
	for (uint64_t i = count; r == 0 && i-- > 0;) {
		r = peek_bytes(source->peek, at + i * sizeof(digit), &digit, sizeof(digit));
		value = value << DIGIT_BITS | (digit & ((1u << DIGIT_BITS) - 1));
	}
	snprintf(ret, VALUE_SIZE, "%s%" PRIu64, negative ? "-" : "", value);
	return r;
}

static int boolean(const struct text_source *source, uint64_t object, char ret[VALUE_SIZE])
{
	int r = integer(source, object, ret);

	if (r == 0)
		snprintf(ret, VALUE_SIZE, "%s", strcmp(ret, "0") == 0 ? "False" : "True");
	return r;
}

/* With as many digits as it takes to read the same number again. */
static int floating(const struct text_source *source, uint64_t object, char ret[VALUE_SIZE])
{
	double value;
	int r = peek_bytes(source->peek, object + source->layout->float_value, &value,
			   sizeof(value));

	for (int digits = PRECISE; r == 0 && digits <= EXACT; digits++) {
		snprintf(ret, VALUE_SIZE, "%.*g", digits, value);
		if (strtod(ret, NULL) == value)
			break;
	}
	return r;
}

static int string(const struct text_source *source, uint64_t object, char ret[VALUE_SIZE])
{
	char text[TEXT_SIZE];
	int r = text_read(source, object, text);

	if (r == 0)
		snprintf(ret, VALUE_SIZE, "\"%s\"", text);
	return r;
}

static int none(const struct text_source *source, uint64_t object, char ret[VALUE_SIZE])
{
	snprintf(ret, VALUE_SIZE, "None");
	return 0;
}

static const struct {
	const char *type;
	int (*text)(const struct text_source *source, uint64_t object, char ret[VALUE_SIZE]);
} writers[] = {
	{ "int", integer }, { "bool", boolean },  { "float", floating },
	{ "str", string },  { "NoneType", none },
};

/* Where how many items they have is. */
static const struct {
	const char *type;
	uint32_t count_at;
} containers[] = {
	{ "list", 16 },	 { "tuple", 16 },     { "dict", 16 },	   { "set", 24 },
	{ "bytes", 16 }, { "bytearray", 16 }, { "frozenset", 24 }, { "collections.deque", 16 },
};

static int others(const struct text_source *source, uint64_t object, const char *type,
		  char ret[VALUE_SIZE])
{
	char visible[3 * TYPE_NAME + 1];
	uint64_t count;

	for (size_t i = 0; i < ARRAY_SIZE(containers); i++) {
		if (strcmp(containers[i].type, type) != 0)
			continue;
		if (peek_word(source->peek, object + containers[i].count_at, &count) < 0)
			return -EFAULT;
		snprintf(ret, VALUE_SIZE, "%s of %" PRIu64, type, count);
		return 0;
	}
	utf8_visible(visible, type, strlen(type));
	snprintf(ret, VALUE_SIZE, "<%s>", visible);
	return 0;
}

static int write_value(const struct text_source *source, uint64_t object, const char *type,
		       char ret[VALUE_SIZE])
{
	for (size_t i = 0; i < ARRAY_SIZE(writers); i++)
		if (strcmp(writers[i].type, type) == 0)
			return writers[i].text(source, object, ret);
	return others(source, object, type, ret);
}

int value_text(const struct text_source *source, uint64_t object, char ret[VALUE_SIZE])
{
	char type[TYPE_NAME];
	int r = read_type(source, object, type);

	/* A variable that a nested function shares. */
	if (r == 0 && strcmp(type, "cell") == 0) {
		r = peek_word(source->peek, object + COUNT_AT, &object);
		if (r == 0)
			r = object ? read_type(source, object, type) : -ENOENT;
	}
	return r < 0 ? r : write_value(source, object, type, ret);
}
