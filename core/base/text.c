/* Text: a buffer behind a stream. The stream has an error from the first allocation that fails on,
 * which glibc's own open_memstream() does not keep. The buffer always ends with a NUL. */
#include "core/base/text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"

#define FIRST_ROOM 256

struct text {
	char **data;
	size_t *size, room;
};

static ssize_t text_write(void *cookie, const char *bytes, size_t size)
{
	struct text *text = cookie;
	size_t room = text->room, needed = *text->size + size + 1;
	char *data;

	while (room < needed)
		room *= 2;
	if (room > text->room) {
		data = realloc(*text->data, room);
		if (!data)
			return 0;
		*text->data = data;
		text->room = room;
	}
	memcpy(*text->data + *text->size, bytes, size);
	*text->size += size;
	(*text->data)[*text->size] = '\0';
	return (ssize_t)size;
}

static int text_free(void *cookie)
{
	free(cookie);
	return 0;
}

FILE *text_open(char **ret, size_t *ret_size)
{
	static const cookie_io_functions_t functions = { .write = text_write, .close = text_free };
	_cleanup_(freep) struct text *text = malloc(sizeof(*text));
	_cleanup_(freep) char *data = calloc(1, FIRST_ROOM);
	FILE *out;

	if (!text || !data)
		return NULL;
	out = fopencookie(text, "w", functions);
	if (!out)
		return NULL;
	*text = (struct text){ .data = ret, .size = ret_size, .room = FIRST_ROOM };
	TAKE(text);
	*ret = TAKE(data);
	*ret_size = 0;
	return out;
}

int text_close(FILE *out)
{
	bool failed = ferror(out);

	return fclose(out) == 0 && !failed ? 0 : -ENOMEM;
}
