/* Name: sets of texts, known by their hash alone; the number of a text is its place.
 *
 * Kernels have a set of their own: a program that makes up texts for NVTX must not take their
 * places. A place is a word that says which text it is for, in which session, and whether the text
 * was sent in it. It is taken with an exchange, so no lock is needed; what is of an earlier session
 * is free. Two threads that meet the same new text at once may both send it, which is harmless.
 */
#include "inject/name.h"

#include <stdbool.h>
#include <string.h>

#include "core/base/array.h"
#include "inject/internal.h"

#define KERNELS	     16384
#define TEXTS	     8192
#define PROBES_MAX   64
#define MULTIPLIER   0x9e3779b97f4a7c15 /* 2^64 over the golden ratio: spreads the bits */
#define SESSION_BITS 16
#define SESSION_MASK ((1u << SESSION_BITS) - 1)
#define SENT	     (1u << SESSION_BITS)
#define HASH_MASK    (~(uint64_t)(SENT | SESSION_MASK))

static uint64_t kernel_place[2 * KERNELS], text_place[2 * TEXTS];
static struct set {
	uint64_t *place; /* hash, SENT, session; 0: free */
	uint32_t places, most;
	uint32_t first; /* number of its first place */
	uint32_t taken; /* in this session */
} sets[] = {
	[NAME_KERNEL] = { kernel_place, ARRAY_SIZE(kernel_place), KERNELS, 1, 0 },
	[NAME_TEXT] = { text_place, ARRAY_SIZE(text_place), TEXTS, 1 + 2 * KERNELS, 0 },
};
static uint32_t session = 1;

static uint64_t text_hash(const char *text, size_t length)
{
	uint64_t hash = length * MULTIPLIER, word;

	for (; length >= sizeof(word); text += sizeof(word), length -= sizeof(word)) {
		memcpy(&word, text, sizeof(word));
		hash = (hash ^ word) * MULTIPLIER;
		hash ^= hash >> 32;
	}
	word = 0;
	memcpy(&word, text, length);
	hash = (hash ^ word) * MULTIPLIER;
	return hash ^ hash >> 29;
}

/* At most `length` bytes, without splitting a UTF-8 character. */
static size_t text_cut(const char *text, size_t length)
{
	if (length <= TS_NAME_MAX)
		return length;
	length = TS_NAME_MAX;
	while (length > TS_NAME_MAX - 4 && ((uint8_t)text[length] & 0xc0) == 0x80)
		length--;
	return length;
}

static bool name_send(uint32_t id, const char *text, size_t length)
{
	union {
		struct ts_name name;
		uint8_t bytes[sizeof(struct ts_name) + TS_NAME_MAX];
	} record;

	record.name = (struct ts_name){ .kind = TS_EVENT_NAME, .id = id };
	record.name.length = (uint16_t)length;
	memcpy(record.bytes + sizeof(struct ts_name), text, length);
	return !link_put(&record, sizeof(struct ts_name) + length);
}

/* A thread that knows of no newer session yet must not take the places of that one. */
static bool is_free(uint64_t word, uint32_t now)
{
	return !word || (int16_t)(now - (word & SESSION_MASK)) > 0;
}

/* Where a text is, or is from now on; its word in `ret`. NULL: there is no room. */
static uint64_t *place_of(struct set *set, uint64_t hash, uint32_t now, uint64_t *ret)
{
	for (uint32_t i = 0; i < PROBES_MAX; i++) {
		uint64_t *place = &set->place[(uint32_t)((hash >> 32) + i) % set->places];
		uint64_t is = __atomic_load_n(place, __ATOMIC_ACQUIRE), wanted = hash | now;

		if (is_free(is, now)) {
			if (__atomic_load_n(&set->taken, __ATOMIC_RELAXED) >= set->most)
				return NULL;
			if (__atomic_compare_exchange_n(place, &is, wanted, false, __ATOMIC_ACQ_REL,
							__ATOMIC_ACQUIRE)) {
				__atomic_fetch_add(&set->taken, 1, __ATOMIC_RELAXED);
				is = wanted;
			}
		}
		if ((is & ~(uint64_t)SENT) == wanted) {
			*ret = is;
			return place;
		}
	}
	return NULL;
}

uint32_t name_number(const char *text, enum name_of of)
{
	uint32_t now = __atomic_load_n(&session, __ATOMIC_RELAXED), number;
	struct set *set = &sets[of];
	uint64_t *place, is;
	size_t length;

	if (!text || !*text)
		return 0;
	length = strnlen(text, TS_NAME_MAX + 1);
	length = text_cut(text, length);
	place = place_of(set, text_hash(text, length) & HASH_MASK, now, &is);
	number = place ? set->first + (uint32_t)(place - set->place) : 0;
	if (place && !(is & SENT)) {
		if (name_send(number, text, length))
			__atomic_compare_exchange_n(place, &is, is | SENT, false, __ATOMIC_RELEASE,
						    __ATOMIC_RELAXED);
		else
			number = 0;
	}
	if (!number)
		link_lost(TS_LOST_NAMES, 1);
	return number;
}

/* A session that had this number long ago is forgotten. */
void name_reset(void)
{
	uint32_t next = (session + 1) & SESSION_MASK;

	if (!next) {
		memset(kernel_place, 0, sizeof(kernel_place));
		memset(text_place, 0, sizeof(text_place));
		next = 1;
	}
	for (size_t i = 0; i < ARRAY_SIZE(sets); i++)
		__atomic_store_n(&sets[i].taken, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&session, next, __ATOMIC_RELAXED);
}
