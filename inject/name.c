/* Name: a set of texts, known by their hash alone; the number of a text is its slot.
 *
 * A slot is taken once, with an exchange, and never freed, so no lock is needed. Two threads that
 * meet the same new text at once may both send it, which is harmless.
 */
#include "inject/name.h"

#include <stdbool.h>
#include <string.h>

#include "inject/internal.h"

#define NAMES_MAX   16384
#define PLACES	    (2 * NAMES_MAX)
#define PROBES_MAX  64
#define MULTIPLIER  0x9e3779b97f4a7c15 /* 2^64 over the golden ratio: spreads the bits */
#define SESSION_NEW 1

static struct {
	uint64_t hash; /* 0: free */
	uint32_t sent; /* session in which it was last sent */
} place[PLACES];
static uint32_t taken, session = SESSION_NEW;

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
	hash ^= hash >> 29;
	return hash ? hash : 1;
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

/* The slot of a hash, or PLACES. */
static uint32_t place_of(uint64_t hash)
{
	for (uint32_t i = 0; i < PROBES_MAX; i++) {
		uint32_t at = (uint32_t)(hash + i) % PLACES;
		uint64_t is = __atomic_load_n(&place[at].hash, __ATOMIC_RELAXED);

		if (is == hash)
			return at;
		if (is)
			continue;
		if (__atomic_load_n(&taken, __ATOMIC_RELAXED) >= NAMES_MAX)
			break;
		if (__atomic_compare_exchange_n(&place[at].hash, &is, hash, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED)) {
			__atomic_fetch_add(&taken, 1, __ATOMIC_RELAXED);
			return at;
		}
		if (is == hash)
			return at;
	}
	return PLACES;
}

uint32_t name_number(const char *text)
{
	uint32_t now = __atomic_load_n(&session, __ATOMIC_RELAXED), at;
	size_t length;

	if (!text || !*text)
		return 0;
	length = strnlen(text, TS_NAME_MAX + 1);
	length = text_cut(text, length);
	at = place_of(text_hash(text, length));
	if (at == PLACES)
		return 0;
	if (__atomic_load_n(&place[at].sent, __ATOMIC_RELAXED) != now) {
		if (!name_send(at + 1, text, length))
			return 0;
		__atomic_store_n(&place[at].sent, now, __ATOMIC_RELAXED);
	}
	return at + 1;
}

void name_reset(void)
{
	__atomic_fetch_add(&session, 1, __ATOMIC_RELAXED);
}
