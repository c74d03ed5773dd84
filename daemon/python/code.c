/* Code: reads a code object, what it points to, and then the object again: if it is still the same,
 * what it pointed to was its. */
#include "daemon/python/code.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"

#define UNIT	2 /* bytes of an instruction */
#define TYPE_AT 8
/* Immortal objects have 32 bits of ones; above 48 are flags since 3.14, and nothing in an address.
 */
#define REFERENCES_MAX	(1ull << 33)
#define REFERENCES_MASK ((1ull << 48) - 1)
#define FIELD_SIZE	8
#define CHECKED		1 /* in keys of the map, which is also by address alone */

static uint32_t max(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* What must be read: up to the last of its fields that are used. */
static size_t size_of(const struct layout *layout)
{
	uint32_t end = max(layout->code.file, layout->code.name);

	end = max(end, max(layout->code.qualname, layout->code.lines));
	end = max(end, max(layout->code.names, layout->code.first_traceable));
	end = max(end, max(layout->code.flags, layout->code.local_count));
	return max(end, max(layout->code.kwonly, layout->code.first_line)) + FIELD_SIZE;
}

static uint64_t word_at(const uint8_t *object, uint32_t offset)
{
	uint64_t word;

	memcpy(&word, object + offset, sizeof(word));
	return word;
}

static int32_t int_at(const uint8_t *object, uint32_t offset)
{
	int32_t number;

	memcpy(&number, object + offset, sizeof(number));
	return number;
}

/* By its number of references. It is 0 before anything that belongs to the object is freed; then a
 * free object has there the address of the next one. */
static bool is_alive(uint64_t references)
{
	references &= REFERENCES_MASK;
	return references > 0 && references < REFERENCES_MAX;
}

static int read_object(const struct text_source *source, uint64_t type, uint64_t address,
		       struct code *ret)
{
	const struct layout *layout = source->layout;
	uint8_t object[LAYOUT_CODE_SIZE + FIELD_SIZE];
	uint32_t name = layout->code.qualname ? layout->code.qualname : layout->code.name;
	int r = peek_bytes(source->peek, address, object, size_of(layout));

	if (r < 0)
		return r;
	if (word_at(object, TYPE_AT) != type || !is_alive(word_at(object, 0)))
		return -EBADMSG;
	*ret = (struct code){
		.address = address,
		.identity = { .file = word_at(object, layout->code.file),
			      .name = word_at(object, name),
			      .lines = word_at(object, layout->code.lines),
			      .names = word_at(object, layout->code.names),
			      .argcount = int_at(object, layout->code.argcount),
			      .kwonly = int_at(object, layout->code.kwonly),
			      .flags = int_at(object, layout->code.flags),
			      .first_line = int_at(object, layout->code.first_line) },
		.local_count = (uint32_t)int_at(object, layout->code.local_count),
		.first_traceable = layout->code.first_traceable
					   ? int_at(object, layout->code.first_traceable)
					   : 0,
	};
	return 0;
}

static bool is_same(const struct code *a, const struct code *b)
{
	return memcmp(&a->identity, &b->identity, sizeof(a->identity)) == 0;
}

static int read_text(struct codes *codes, const struct text_source *source, uint64_t address,
		     const char **ret)
{
	char text[TEXT_SIZE];
	int r = text_read(source, address, text);

	if (r < 0)
		return r;
	*ret = arena_text(&codes->arena, text, strlen(text));
	return *ret ? 0 : -ENOMEM;
}

/* A table that is too long is left out: then its function has no lines. */
static int read_lines(struct codes *codes, const struct text_source *source, struct code *code)
{
	const struct layout *layout = source->layout;
	uint64_t at = code->identity.lines, size;
	uint8_t *lines;
	int r = peek_word(source->peek, at + layout->bytes.size, &size);

	if (r < 0 || !size || size > LIMIT_PYTHON_LINES)
		return r;
	lines = arena_get(&codes->arena, size);
	if (!lines)
		return -ENOMEM;
	r = peek_bytes(source->peek, at + layout->bytes.data, lines, size);
	if (r < 0)
		return r;
	code->lines = lines;
	code->lines_size = size;
	return 0;
}

static int read_parts(struct codes *codes, const struct text_source *source, struct code *code)
{
	int r = read_text(codes, source, code->identity.name, &code->function);

	if (r == 0)
		r = read_text(codes, source, code->identity.file, &code->file);
	if (r == 0)
		r = read_lines(codes, source, code);
	return r;
}

static int add(struct codes *codes, struct map_key key, const struct code *code,
	       const struct code **ret)
{
	struct code *kept = arena_get(&codes->arena, sizeof(*kept));

	if (!kept)
		return -ENOMEM;
	*kept = *code;
	*ret = kept;
	return map_put(&codes->map, key, kept);
}

int codes_get(struct codes *codes, const struct text_source *source, uint64_t type,
	      uint64_t address, const struct code **ret)
{
	const struct map_key key = { .a = address };
	const struct code *known = map_get(&codes->map, key);
	struct code code, after;
	int r = read_object(source, type, address, &code);

	if (r < 0)
		return r;
	if (known && is_same(known, &code)) {
		*ret = known;
		return 0;
	}
	r = read_parts(codes, source, &code);
	if (r == 0)
		r = read_object(source, type, address, &after);
	if (r < 0)
		return r;
	return is_same(&code, &after) ? add(codes, key, &code, ret) : -EBADMSG;
}

uint32_t code_check_at(const struct layout *layout)
{
	const uint32_t size = TS_PYTHON_CHECK * sizeof(uint64_t);
	uint32_t end = layout->code.lines + sizeof(uint64_t);

	return end > size ? end - size : 0;
}

int codes_get_checked(struct codes *codes, const struct text_source *source, uint64_t type,
		      const struct ts_python_frame *frame, const struct code **ret)
{
	const struct map_key key = { frame->code, frame->check | CHECKED };
	__u64 word[TS_PYTHON_CHECK];
	int r;

	*ret = map_get(&codes->map, key);
	if (*ret)
		return 0;
	r = codes_get(codes, source, type, frame->code, ret);
	if (r == 0)
		r = peek_bytes(source->peek, frame->code + code_check_at(source->layout), word,
			       sizeof(word));
	if (r == 0 && stack_hash_code(word) != frame->check)
		r = -ESTALE;
	return r < 0 ? r : map_put(&codes->map, key, (void *)*ret);
}

/* In bytes of code, as the tables count. */
static int64_t bytes_in(const struct code *code, const struct layout *layout, uint64_t position)
{
	if (!layout->code.bytecode)
		return (int64_t)(int32_t)position * layout->position_unit;
	return (int64_t)(position - code->address - layout->code.bytecode);
}

int32_t code_line(const struct code *code, const struct layout *layout, uint64_t position)
{
	return lines_find(layout->lines, code->lines, code->lines_size, code->identity.first_line,
			  bytes_in(code, layout, position));
}

bool code_has_begun(const struct code *code, const struct layout *layout, uint64_t position)
{
	return !layout->code.bytecode ||
	       bytes_in(code, layout, position) >= (int64_t)code->first_traceable * UNIT;
}

void codes_clear(struct codes *codes)
{
	map_clear(&codes->map);
	arena_clear(&codes->arena);
}
