/* Pickle: only what PyTorch's viewer in a browser understands, too: whole numbers
 * of up to eight bytes, texts with four bytes of length, no protocol above 4. */
#include "client/export/pickle.h"

#include <errno.h>
#include <string.h>

enum {
	PROTO = 0x80,
	VERSION = 2,
	STOP = '.',
	BININT = 'J',
	BININT1 = 'K',
	LONG1 = 0x8a,
	NEWTRUE = 0x88,
	NEWFALSE = 0x89,
	BINUNICODE = 'X',
	EMPTY_DICT = '}',
	EMPTY_LIST = ']',
	MARK = '(',
	SETITEMS = 'u',
	APPENDS = 'e',
	BINGET = 'h',
	LONG_BINGET = 'j',
	BINPUT = 'q',
	LONG_BINPUT = 'r',
};

#define LONG_BYTES 8
#define BATCH	   1000

static void put(struct pickle *pickle, uint8_t code)
{
	*pickle->out->at++ = code;
}

static void put_little(struct pickle *pickle, uint64_t value, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++, value >>= 8)
		put(pickle, (uint8_t)value);
}

void pickle_begin(struct pickle *pickle, struct out *out)
{
	*pickle = (struct pickle){ .out = out };
	put(pickle, PROTO);
	put(pickle, VERSION);
}

void pickle_end(struct pickle *pickle)
{
	put(pickle, STOP);
}

void pickle_clear(struct pickle *pickle)
{
	map_clear(&pickle->memo);
}

/* A long one is signed. */
void pickle_number(struct pickle *pickle, uint64_t value)
{
	if (value <= UINT8_MAX) {
		put(pickle, BININT1);
		put_little(pickle, value, 1);
	} else if (value <= INT32_MAX) {
		put(pickle, BININT);
		put_little(pickle, value, 4);
	} else {
		put(pickle, LONG1);
		put(pickle, LONG_BYTES + (value > INT64_MAX));
		put_little(pickle, value, LONG_BYTES + (value > INT64_MAX));
	}
}

void pickle_bool(struct pickle *pickle, bool value)
{
	put(pickle, value ? NEWTRUE : NEWFALSE);
}

void pickle_text(struct pickle *pickle, const char *text)
{
	size_t length = strlen(text);

	put(pickle, BINUNICODE);
	put_little(pickle, length, 4);
	out_bytes(pickle->out, text, length);
}

int pickle_word(struct pickle *pickle, const char *text)
{
	struct map_key what = { (uintptr_t)text, 0 };

	if (pickle_again(pickle, what))
		return 0;
	pickle_text(pickle, text);
	return pickle_keep(pickle, what);
}

void pickle_dict(struct pickle *pickle)
{
	put(pickle, EMPTY_DICT);
	put(pickle, MARK);
}

void pickle_dict_close(struct pickle *pickle)
{
	put(pickle, SETITEMS);
}

struct pickle_list pickle_list(struct pickle *pickle)
{
	put(pickle, EMPTY_LIST);
	return (struct pickle_list){ pickle, 0 };
}

void pickle_item(struct pickle_list *list)
{
	if (list->count > 0 && list->count % BATCH == 0)
		put(list->pickle, APPENDS);
	if (list->count % BATCH == 0)
		put(list->pickle, MARK);
	list->count++;
}

void pickle_list_close(struct pickle_list *list)
{
	if (list->count > 0)
		put(list->pickle, APPENDS);
}

int pickle_again(struct pickle *pickle, struct map_key what)
{
	uint64_t place = (uintptr_t)map_get(&pickle->memo, what);

	if (place == 0)
		return 0;
	place--;
	put(pickle, place <= UINT8_MAX ? BINGET : LONG_BINGET);
	put_little(pickle, place, place <= UINT8_MAX ? 1 : 4);
	return 1;
}

int pickle_keep(struct pickle *pickle, struct map_key what)
{
	uint64_t place = pickle->count;

	if (map_put(&pickle->memo, what, (void *)(uintptr_t)(place + 1)) < 0)
		return -ENOMEM;
	pickle->count++;
	put(pickle, place <= UINT8_MAX ? BINPUT : LONG_BINPUT);
	put_little(pickle, place, place <= UINT8_MAX ? 1 : 4);
	return 0;
}
