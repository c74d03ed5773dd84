/* Rowbinary: appends values to a buffer. */
#include "client/ship/rowbinary.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"

#define ROOM_FIRST (64u << 10)

static const struct {
	const char *name;
	size_t bytes;
} types[] = {
#define X(identifier, name, bytes) { name, bytes },
	ROWBINARY_TYPES(X)
#undef X
};

/* Of those that a number can be out of. */
static const struct {
	int64_t min, max;
} ranges[] = {
	[ROWBINARY_U8] = { 0, UINT8_MAX },	    [ROWBINARY_U16] = { 0, UINT16_MAX },
	[ROWBINARY_U32] = { 0, UINT32_MAX },	    [ROWBINARY_U64] = { INT64_MIN, INT64_MAX },
	[ROWBINARY_I16] = { INT16_MIN, INT16_MAX }, [ROWBINARY_I32] = { INT32_MIN, INT32_MAX },
	[ROWBINARY_I64] = { INT64_MIN, INT64_MAX }, [ROWBINARY_TIME] = { 0, UINT32_MAX },
};

const char *rowbinary_name(enum rowbinary_type type)
{
	return types[type].name;
}

void rowbinary_done(struct rowbinary *rows)
{
	free(rows->data);
	*rows = (struct rowbinary){ 0 };
}

int rowbinary_room(struct rowbinary *rows, size_t size)
{
	size_t room = rows->room ? rows->room : ROOM_FIRST;
	uint8_t *data;

	while (room - rows->size < size)
		room *= 2;
	if (room == rows->room)
		return 0;
	data = realloc(rows->data, room);
	if (!data)
		return -ENOMEM;
	rows->data = data;
	rows->room = room;
	return 0;
}

int rowbinary_bytes(struct rowbinary *rows, const void *bytes, size_t size)
{
	int r = rowbinary_room(rows, size);

	if (r == 0 && size) {
		memcpy(rows->data + rows->size, bytes, size);
		rows->size += size;
	}
	return r;
}

int rowbinary_integer(struct rowbinary *rows, enum rowbinary_type type, int64_t value)
{
	int64_t min = ranges[type].min, max = ranges[type].max;
	uint64_t bytes = htole64((uint64_t)(value < min ? min : value > max ? max : value));

	return rowbinary_bytes(rows, &bytes, types[type].bytes);
}

static int put_length(struct rowbinary *rows, size_t length)
{
	uint8_t bytes[10];
	size_t count = 0;

	do {
		bytes[count] = (uint8_t)((length & 0x7f) | (length > 0x7f ? 0x80 : 0));
		count++;
		length >>= 7;
	} while (length);
	return rowbinary_bytes(rows, bytes, count);
}

static int put_text(struct rowbinary *rows, const char *text, size_t size)
{
	int r = put_length(rows, size);

	return r < 0 ? r : rowbinary_bytes(rows, text, size);
}

int rowbinary_text(struct rowbinary *rows, const char *text)
{
	return put_text(rows, text, text ? strlen(text) : 0);
}

int rowbinary_lines(struct rowbinary *rows, const char *text)
{
	size_t count = text && *text ? 1 : 0;
	int r;

	for (const char *c = text; c && *c; c++)
		count += *c == '\n';
	r = put_length(rows, count);
	for (size_t i = 0; r == 0 && i < count; i++) {
		size_t size = strcspn(text, "\n");

		r = put_text(rows, text, size);
		text += size + 1;
	}
	return r;
}
