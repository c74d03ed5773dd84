/* pickle.h: writes Python's pickles: numbers, texts, lists and dictionaries, by protocol 2.
 * https://github.com/python/cpython/blob/main/Lib/pickletools.py
 *
 * What comes again is written once and referred to. The caller makes room in `out`. */
#ifndef TS_CLIENT_PICKLE_H
#define TS_CLIENT_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/output/out.h"
#include "core/base/map.h"

/* Room that a number, a reference, an opening or a closing takes at most. */
#define PICKLE_ROOM 16

struct pickle {
	struct out *out;
	struct map memo; /* what, by its address or number: its place + 1 */
	uint32_t count;
};

void pickle_begin(struct pickle *pickle, struct out *out);
void pickle_end(struct pickle *pickle);
void pickle_clear(struct pickle *pickle);

void pickle_number(struct pickle *pickle, uint64_t value);
void pickle_bool(struct pickle *pickle, bool value);
/* Valid UTF-8; its length and PICKLE_ROOM have room. */
void pickle_text(struct pickle *pickle, const char *text);
/* The same, of a text that lives on: written once. -ENOMEM, or 0. */
int pickle_word(struct pickle *pickle, const char *text);

/* Keys and values follow in turn, then the close. */
void pickle_dict(struct pickle *pickle);
void pickle_dict_close(struct pickle *pickle);

/* Each item is announced. Readers put those between two marks on their stack, so they come in
 * batches. */
struct pickle_list {
	struct pickle *pickle;
	uint64_t count;
};
struct pickle_list pickle_list(struct pickle *pickle);
void pickle_item(struct pickle_list *list);
void pickle_list_close(struct pickle_list *list);

/* 1: it was written before, and is now referred to; 0: write it, then pickle_keep(). */
int pickle_again(struct pickle *pickle, struct map_key what);
int pickle_keep(struct pickle *pickle, struct map_key what);

#endif
