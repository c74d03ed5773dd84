/* demangle: a symbol in readable form. Names come from anywhere: a short one can expand to an
 * endless text, so demangling stops as soon as there is more than we keep.
 */
#include "core/base/demangle.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/utf8.h"
#include "core/limits.h"

/* From libsupc++: like __cxa_demangle, but hands the text over piece by piece, and allocates
 * nothing that a jump out of the callback would leak. */
int __gcclibcxx_demangle_callback(const char *mangled,
				  void (*callback)(const char *text, size_t size, void *data),
				  void *data);

struct output {
	char text[LIMIT_STORE_NAME];
	size_t size, limit; /* of the text with its NUL */
	jmp_buf full;
};

static void output_add(const char *text, size_t size, void *data)
{
	struct output *output = data;
	size_t room = output->limit - 1 - output->size;

	memcpy(output->text + output->size, text, size < room ? size : room);
	output->size += size < room ? size : room;
	if (size > room)
		longjmp(output->full, 1);
}

_Static_assert(LIMIT_SYMBOL_NAME <= LIMIT_STORE_NAME, "both fit");

static bool output_demangle(struct output *output, const char *symbol)
{
	if (setjmp(output->full))
		return true;
	return __gcclibcxx_demangle_callback(symbol, output_add, output) == 0;
}

/* Rust ends its names with ::h and 16 hexadecimal digits. */
static size_t length_without_hash(const char *text, size_t length)
{
	const size_t hash = 19;

	if (length <= hash || memcmp(text + length - hash, "::h", 3) != 0 ||
	    strspn(text + length - 16, "0123456789abcdef") != 16)
		return length;
	return length - hash;
}

/* In place: what is no character that can be seen becomes '?', which is never longer. */
static void clean(char *text)
{
	size_t size = strlen(text), length = 0;
	uint32_t code;

	for (size_t i = 0; i < size;) {
		i += utf8_read(text + i, size - i, &code);
		if (code == UTF8_REPLACEMENT || utf8_is_control(code))
			text[length++] = '?';
		else
			length += utf8_write(text + length, code);
	}
	text[length] = '\0';
}

static char *demangle_up_to(const char *symbol, size_t limit)
{
	struct output output;

	output.size = 0;
	output.limit = limit;
	if (strncmp(symbol, "_Z", 2) != 0 || !output_demangle(&output, symbol)) {
		output.size = strnlen(symbol, limit - 1);
		memcpy(output.text, symbol, output.size);
	}
	output.size = length_without_hash(output.text, output.size);
	output.text[output.size] = '\0';
	clean(output.text);
	return strdup(output.text);
}

char *demangle(const char *symbol)
{
	size_t length = strcspn(symbol, "@");
	_cleanup_(freep) char *bare = strndup(symbol, length ? length : strlen(symbol));

	return bare ? demangle_up_to(bare, LIMIT_SYMBOL_NAME) : NULL;
}

char *demangle_long(const char *symbol)
{
	return demangle_up_to(symbol, LIMIT_STORE_NAME);
}
