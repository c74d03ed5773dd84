/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* ring.h: the shared memory through which a library in someone else's process hands over records.
 *
 * Many writers, one reader, fixed slots of TS_EVENT_SIZE bytes; a record longer than a slot takes
 * several in a row. The daemon makes the memory (a sealed memfd: it can neither grow nor shrink),
 * one ring per process. A writer claims slots, fills them and publishes them; it never waits;
 * if there is no room the record is lost and counted. The reader trusts nothing in the
 * memory: it keeps its own position and number of slots, and copies before it reads.
 *
 *   page 0                struct ts_ring_head
 *   from TS_RING_HEAD     a word per slot
 *   then                  the slots
 *
 * A word says up to which position its slot is done. The claimer of position p (slot p % slots)
 * publishes p + 1, in all slots of its record, the first one last. With TS_RING_PASS no
 * record starts here; the slot belongs to the record before it, or to none.
 *
 * A slot that was claimed and never published (its thread was killed, or sleeps) stops the reader
 * only until ts_ring_skip(), which publishes it for its writer. That writer may still be about to
 * write, so the word counts it as late, and until it has left, nobody else uses the slot: others
 * pass it over. So no record is ever torn; a killed thread costs its slots for good.
 */
#ifndef TS_RING_H
#define TS_RING_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "proto/event.h"

#define TS_RING_MAGIC	  0x676e6952 /* "Ring" */
#define TS_RING_VERSION	  1
#define TS_RING_HEAD	  4096
#define TS_RING_SLOTS_MIN 64
#define TS_RING_SLOTS_MAX (1u << 20)
/* Size of the longest record, and of the slots that it takes: the room a reader needs. */
#define TS_RING_RECORD_MAX   (sizeof(struct ts_name) + TS_NAME_MAX)
#define TS_RING_RECORD_SLOTS ((TS_RING_RECORD_MAX + TS_EVENT_SIZE - 1) / TS_EVENT_SIZE)
#define TS_RING_COPY_MAX     (TS_RING_RECORD_SLOTS * TS_EVENT_SIZE)

/* A word: position + 1, a flag, and how many late writers the slot has; that number saturates. */
#define TS_RING_DONE	 ((1ull << 55) - 1)
#define TS_RING_PASS	 (1ull << 55)
#define TS_RING_LATE_ONE (1ull << 56)
#define TS_RING_LATE	 (0xffull << 56)

/* Slots passed over in one ts_ring_get: an honest writer leaves at most a record's worth. */
#define TS_RING_PASS_MAX 256

struct ts_ring_head {
	uint32_t magic, version;
	uint32_t slots; /* a power of two */
	uint32_t reserved;
	_Alignas(64) uint64_t claimed;	   /* position, by writers */
	_Alignas(64) uint64_t taken;	   /* position, by the reader, to show writers the room */
	_Alignas(64) uint32_t reader_idle; /* the reader sleeps: whoever clears this wakes it */
	_Alignas(64) uint64_t dropped;	   /* records that found no room, by writers */
};

/* One side's view of the memory. */
struct ts_ring {
	struct ts_ring_head *head;
	uint64_t *word;
	uint8_t *slot;
	uint32_t mask; /* slots - 1, our own copy */
};

static inline size_t ts_ring_bytes(uint32_t slots)
{
	return TS_RING_HEAD + (size_t)slots * (sizeof(uint64_t) + TS_EVENT_SIZE);
}

static inline bool ts_ring_slots_ok(uint32_t slots)
{
	return slots >= TS_RING_SLOTS_MIN && slots <= TS_RING_SLOTS_MAX && !(slots & (slots - 1));
}

/* The memory of ts_ring_bytes(slots) bytes at `at`, page-aligned. */
static inline struct ts_ring ts_ring_at(void *at, uint32_t slots)
{
	return (struct ts_ring){
		.head = at,
		.word = (uint64_t *)((uint8_t *)at + TS_RING_HEAD),
		.slot = (uint8_t *)at + TS_RING_HEAD + (size_t)slots * sizeof(uint64_t),
		.mask = slots - 1,
	};
}

/* Initializes the memory, all zero, as a ring. */
static inline struct ts_ring ts_ring_init(void *at, uint32_t slots)
{
	struct ts_ring_head *head = at;

	head->magic = TS_RING_MAGIC;
	head->version = TS_RING_VERSION;
	head->slots = slots;
	return ts_ring_at(at, slots);
}

static inline uint32_t ts_ring_slots_of(size_t size)
{
	return (uint32_t)((size + TS_EVENT_SIZE - 1) / TS_EVENT_SIZE);
}

static inline void *ts_ring_slot(const struct ts_ring *ring, uint64_t position)
{
	return ring->slot + (position & ring->mask) * TS_EVENT_SIZE;
}

static inline uint64_t *ts_ring_word(const struct ts_ring *ring, uint64_t position)
{
	return &ring->word[position & ring->mask];
}

static inline uint64_t ts_ring_done(uint64_t position)
{
	return (position + 1) & TS_RING_DONE;
}

/* Less than an eighth is free. */
static inline bool ts_ring_is_crowded(const struct ts_ring *ring)
{
	uint64_t taken = __atomic_load_n(&ring->head->taken, __ATOMIC_RELAXED);
	uint64_t claimed = __atomic_load_n(&ring->head->claimed, __ATOMIC_RELAXED);

	return claimed - taken > ring->mask - ring->mask / 8;
}

/* Claims `count` slots in a row; -ENOSPC. */
static inline int ts_ring_claim(const struct ts_ring *ring, uint32_t count, uint64_t *ret_at)
{
	struct ts_ring_head *head = ring->head;
	uint64_t at = __atomic_load_n(&head->claimed, __ATOMIC_RELAXED);

	for (;;) {
		/* Acquire: the reader has copied what it frees. */
		uint64_t taken = __atomic_load_n(&head->taken, __ATOMIC_ACQUIRE), now;

		if (at + count - taken > (uint64_t)ring->mask + 1) {
			/* The ring is full, or `at` is so old that `taken` has passed it. */
			now = __atomic_load_n(&head->claimed, __ATOMIC_RELAXED);
			if (now == at)
				return -ENOSPC;
			at = now;
		} else if (__atomic_compare_exchange_n(&head->claimed, &at, at + count, true,
						       __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
			*ret_at = at;
			return 0;
		}
	}
}

/* A late writer has left the slot. */
static inline void ts_ring_leave(uint64_t *word)
{
	uint64_t before = __atomic_load_n(word, __ATOMIC_RELAXED);

	do {
		if (!(before & TS_RING_LATE) || (before & TS_RING_LATE) == TS_RING_LATE)
			return;
	} while (!__atomic_compare_exchange_n(word, &before, before - TS_RING_LATE_ONE, true,
					      __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

/* Before a writer writes a slot. False: it may not, and is done with the slot: the reader has
 * passed it over (and others may have since), or a late writer is in it. */
static inline bool ts_ring_enter(const struct ts_ring *ring, uint64_t position)
{
	uint64_t *word = ts_ring_word(ring, position), done = ts_ring_done(position);
	uint64_t before = __atomic_load_n(word, __ATOMIC_ACQUIRE);

	do {
		if (((before - done) & TS_RING_DONE) <= TS_RING_DONE / 2) {
			ts_ring_leave(word);
			return false;
		}
		if (!(before & TS_RING_LATE))
			return true;
	} while (!__atomic_compare_exchange_n(word, &before,
					      (before & TS_RING_LATE) | TS_RING_PASS | done, true,
					      __ATOMIC_RELEASE, __ATOMIC_ACQUIRE));
	return false;
}

/* After writing. False: too late, the reader has passed it over. */
static inline bool ts_ring_publish(const struct ts_ring *ring, uint64_t position, uint64_t flag)
{
	uint64_t *word = ts_ring_word(ring, position);
	uint64_t before = __atomic_load_n(word, __ATOMIC_RELAXED);

	if (!(before & TS_RING_LATE) &&
	    __atomic_compare_exchange_n(word, &before, ts_ring_done(position) | flag, false,
					__ATOMIC_RELEASE, __ATOMIC_RELAXED))
		return true;
	ts_ring_leave(word);
	return false;
}

/* Claims slots that can all be written. */
static inline int ts_ring_begin(const struct ts_ring *ring, uint32_t count, uint64_t *ret_at)
{
	for (;;) {
		uint32_t entered = 0;
		int r = ts_ring_claim(ring, count, ret_at);

		if (r < 0)
			return r;
		while (entered < count && ts_ring_enter(ring, *ret_at + entered))
			entered++;
		if (entered == count)
			return 0;
		for (uint32_t i = 0; i < count; i++)
			if (i < entered || (i > entered && ts_ring_enter(ring, *ret_at + i)))
				ts_ring_publish(ring, *ret_at + i, TS_RING_PASS);
	}
}

/* Hands over a record of 1 to TS_RING_RECORD_MAX bytes, from any thread. -ENOSPC: no room; the
 * caller counts it with ts_ring_drop, or tries again. A record that is passed over for being late
 * is counted by the reader. */
static inline int ts_ring_put(const struct ts_ring *ring, const void *record, size_t size)
{
	uint32_t count = ts_ring_slots_of(size);
	uint64_t at;
	int r;

	r = ts_ring_begin(ring, count, &at);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < count; i++) {
		size_t piece = size < TS_EVENT_SIZE ? size : TS_EVENT_SIZE;

		memcpy(ts_ring_slot(ring, at + i), record, piece);
		record = (const uint8_t *)record + piece;
		size -= piece;
	}
	/* The reader passes slots over in order, so if any was refused, the first one was. */
	for (uint32_t i = count; i-- > 0;)
		ts_ring_publish(ring, at + i, i ? TS_RING_PASS : 0);
	return 0;
}

static inline void ts_ring_drop(const struct ts_ring *ring, uint64_t records)
{
	__atomic_fetch_add(&ring->head->dropped, records, __ATOMIC_RELAXED);
}

/* After one or more puts: whether the reader sleeps; if so, the caller must wake it. */
static inline bool ts_ring_wake(const struct ts_ring *ring)
{
	/* Both this and ts_ring_sleep change the word, so one sees the other: either we see that
	 * the reader sleeps, or it sees what we published. */
	return __atomic_fetch_and(&ring->head->reader_idle, 0, __ATOMIC_ACQ_REL) != 0;
}

struct ts_ring_reader {
	struct ts_ring ring;
	uint64_t position;
};

/* How many slots are claimed and not yet taken, according to the writers; 0 if that number is
 * impossible. */
static inline uint64_t ts_ring_waiting(const struct ts_ring_reader *reader)
{
	uint64_t claimed = __atomic_load_n(&reader->ring.head->claimed, __ATOMIC_ACQUIRE);
	uint64_t waiting = claimed - reader->position;

	return waiting <= (uint64_t)reader->ring.mask + 1 ? waiting : 0;
}

/* The word of a slot without its late writers, as the reader sees it. */
static inline uint64_t ts_ring_peek(const struct ts_ring_reader *reader, uint64_t position)
{
	return __atomic_load_n(ts_ring_word(&reader->ring, position), __ATOMIC_ACQUIRE) &
	       ~TS_RING_LATE;
}

/* Copies the next record to `record`, which has room for TS_RING_COPY_MAX bytes, and returns the
 * number of bytes copied: whole slots. 0: there is none now. */
static inline size_t ts_ring_get(struct ts_ring_reader *reader, void *record)
{
	const struct ts_name *name = record;
	uint32_t count = 1, passed = 0;
	uint64_t word;

	while ((word = ts_ring_peek(reader, reader->position)) != ts_ring_done(reader->position)) {
		if (word != (ts_ring_done(reader->position) | TS_RING_PASS) ||
		    passed++ == TS_RING_PASS_MAX)
			return 0;
		reader->position++;
	}
	memcpy(record, ts_ring_slot(&reader->ring, reader->position++), TS_EVENT_SIZE);
	if (name->kind == TS_EVENT_NAME && name->length <= TS_NAME_MAX)
		count = ts_ring_slots_of(sizeof(*name) + name->length);
	for (uint32_t i = 1; i < count; i++) {
		uint64_t at = reader->position;

		if (ts_ring_peek(reader, at) != (ts_ring_done(at) | TS_RING_PASS))
			return (size_t)i * TS_EVENT_SIZE; /* never from an honest writer */
		memcpy((uint8_t *)record + (size_t)i * TS_EVENT_SIZE,
		       ts_ring_slot(&reader->ring, at), TS_EVENT_SIZE);
		reader->position++;
	}
	return (size_t)count * TS_EVENT_SIZE;
}

/* Frees the slots of all records taken so far. */
static inline void ts_ring_release(const struct ts_ring_reader *reader)
{
	__atomic_store_n(&reader->ring.head->taken, reader->position, __ATOMIC_RELEASE);
}

/* Passes over what is claimed and not published, up to the next published slot; returns how many
 * slots. For use when that has lasted long enough that the writer must be gone. */
static inline uint64_t ts_ring_skip(struct ts_ring_reader *reader)
{
	uint64_t waiting = ts_ring_waiting(reader), skipped = 0;

	for (; skipped < waiting; skipped++, reader->position++) {
		uint64_t *word = ts_ring_word(&reader->ring, reader->position);
		uint64_t before = __atomic_load_n(word, __ATOMIC_RELAXED);
		uint64_t done = ts_ring_done(reader->position), late = before & TS_RING_LATE;

		if ((before & TS_RING_DONE) == done)
			break;
		if (late != TS_RING_LATE)
			late += TS_RING_LATE_ONE;
		if (!__atomic_compare_exchange_n(word, &before, late | TS_RING_PASS | done, false,
						 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			break; /* it has just been published */
	}
	return skipped;
}

/* Before the reader sleeps: from now on a writer wakes it. False: something has come in the
 * meantime, or is about to; do not sleep. */
static inline bool ts_ring_sleep(const struct ts_ring_reader *reader)
{
	uint32_t *idle = &reader->ring.head->reader_idle;

	__atomic_exchange_n(idle, 1, __ATOMIC_ACQ_REL);
	if (!ts_ring_waiting(reader))
		return true;
	__atomic_store_n(idle, 0, __ATOMIC_RELAXED);
	return false;
}

#endif
