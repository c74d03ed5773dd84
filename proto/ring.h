/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* ring.h: the shared memory in which a library in someone else's process hands records over.
 *
 * Many writers, one reader, fixed slots of TS_EVENT_SIZE bytes; a record longer than a slot takes
 * several in a row. The daemon makes the memory (a sealed memfd: it can neither grow nor shrink),
 * one ring for each process. A writer claims slots, fills them and publishes them; it never waits,
 * and where there is no room the record is lost and counted. The reader trusts nothing that the
 * memory says: its place and the number of slots are its own, what it takes it copies first.
 *
 * A slot that was claimed and never published (its thread was killed) stops the reader only until
 * ts_ring_skip(): then what was claimed there is passed over, and a late writer's record with it.
 *
 *   page 0                struct ts_ring_head
 *   from TS_RING_HEAD     a sequence number (8 bytes) for each slot
 *   then                  the slots
 *
 * The sequence number of slot i is the position up to which it is done: a writer that claimed
 * position p (slot p % slots) publishes p + 1, in all slots of its record, the first one last.
 */
#ifndef TS_RING_H
#define TS_RING_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "proto/event.h"

#define TS_RING_MAGIC	   0x676e6952 /* "Ring" */
#define TS_RING_VERSION	   1
#define TS_RING_HEAD	   4096
#define TS_RING_SLOTS_MIN  64
#define TS_RING_SLOTS_MAX  (1u << 20)
#define TS_RING_RECORD_MAX (sizeof(struct ts_name) + TS_NAME_MAX)

struct ts_ring_head {
	uint32_t magic, version;
	uint32_t slots; /* a power of two */
	uint32_t reserved;
	_Alignas(64) uint64_t claimed; /* position, by writers */
	_Alignas(64) uint64_t taken;   /* position, by the reader, for the writers to see room */
	uint32_t reader_idle;	       /* the reader sleeps: who clears this wakes it */
	_Alignas(64) uint64_t dropped; /* records without room, by writers */
};

/* One side's view of the memory. */
struct ts_ring {
	struct ts_ring_head *head;
	uint64_t *sequence;
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
		.sequence = (uint64_t *)((uint8_t *)at + TS_RING_HEAD),
		.slot = (uint8_t *)at + TS_RING_HEAD + (size_t)slots * sizeof(uint64_t),
		.mask = slots - 1,
	};
}

static inline uint32_t ts_ring_slots_of(size_t size)
{
	return (uint32_t)((size + TS_EVENT_SIZE - 1) / TS_EVENT_SIZE);
}

static inline void *ts_ring_slot(const struct ts_ring *ring, uint64_t position)
{
	return ring->slot + (position & ring->mask) * TS_EVENT_SIZE;
}

/* Hands over a record of up to TS_RING_RECORD_MAX bytes, from any thread. -ENOSPC: no room; the
 * caller counts it, or comes again. */
static inline int ts_ring_put(const struct ts_ring *ring, const void *record, size_t size)
{
	struct ts_ring_head *head = ring->head;
	uint64_t at = __atomic_load_n(&head->claimed, __ATOMIC_RELAXED);
	uint32_t count = ts_ring_slots_of(size);

	do {
		uint64_t taken = __atomic_load_n(&head->taken, __ATOMIC_ACQUIRE);

		if (at + count - taken > (uint64_t)ring->mask + 1)
			return -ENOSPC;
	} while (!__atomic_compare_exchange_n(&head->claimed, &at, at + count, true,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	for (uint32_t i = 0; i < count; i++) {
		size_t piece = size < TS_EVENT_SIZE ? size : TS_EVENT_SIZE;

		memcpy(ts_ring_slot(ring, at + i), record, piece);
		record = (const uint8_t *)record + piece;
		size -= piece;
	}
	for (uint32_t i = count; i-- > 0;)
		__atomic_store_n(&ring->sequence[(at + i) & ring->mask], at + i + 1,
				 __ATOMIC_RELEASE);
	return 0;
}

/* After one or more puts: whether the reader sleeps, and it is up to the caller to wake it. */
static inline bool ts_ring_wake(const struct ts_ring *ring)
{
	/* The fence orders what was published before the look at the flag; ts_ring_sleep has the
	 * other half. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&ring->head->reader_idle, __ATOMIC_RELAXED) &&
	       __atomic_exchange_n(&ring->head->reader_idle, 0, __ATOMIC_RELAXED);
}

struct ts_ring_reader {
	struct ts_ring ring;
	uint64_t position;
};

static inline bool ts_ring_is_published(const struct ts_ring_reader *reader, uint64_t position)
{
	const struct ts_ring *ring = &reader->ring;

	return __atomic_load_n(&ring->sequence[position & ring->mask], __ATOMIC_ACQUIRE) ==
	       position + 1;
}

/* Copies the next record to `record`, which has room for TS_RING_RECORD_MAX bytes rounded up to
 * slots, and returns its size; 0: there is none now. */
static inline size_t ts_ring_get(struct ts_ring_reader *reader, void *record)
{
	const struct ts_name *name = record;
	uint64_t at = reader->position;
	uint32_t count = 1;

	if (!ts_ring_is_published(reader, at))
		return 0;
	memcpy(record, ts_ring_slot(&reader->ring, at), TS_EVENT_SIZE);
	if (name->kind == TS_EVENT_NAME && name->length <= TS_NAME_MAX)
		count = ts_ring_slots_of(sizeof(*name) + name->length);
	for (uint32_t i = 1; i < count; i++) {
		if (!ts_ring_is_published(reader, at + i)) {
			count = i;
			break;
		}
		memcpy((uint8_t *)record + i * TS_EVENT_SIZE, ts_ring_slot(&reader->ring, at + i),
		       TS_EVENT_SIZE);
	}
	reader->position += count;
	return count * TS_EVENT_SIZE;
}

/* Gives the slots of all records taken so far back to the writers. */
static inline void ts_ring_release(const struct ts_ring_reader *reader)
{
	__atomic_store_n(&reader->ring.head->taken, reader->position, __ATOMIC_RELEASE);
}

/* How many slots were claimed and not yet taken; as the writers say. */
static inline uint64_t ts_ring_waiting(const struct ts_ring_reader *reader)
{
	uint64_t claimed = __atomic_load_n(&reader->ring.head->claimed, __ATOMIC_ACQUIRE);
	uint64_t waiting = claimed - reader->position;

	return waiting <= (uint64_t)reader->ring.mask + 1 ? waiting : 0;
}

/* Passes over what is claimed and not published, up to the next that is; returns how many slots.
 * For when that has lasted so long that its writer must be gone. */
static inline uint64_t ts_ring_skip(struct ts_ring_reader *reader)
{
	uint64_t waiting = ts_ring_waiting(reader), skipped = 0;

	while (skipped < waiting && !ts_ring_is_published(reader, reader->position)) {
		reader->position++;
		skipped++;
	}
	return skipped;
}

/* Before the reader sleeps: from now on a writer wakes it. False: something has come meanwhile, do
 * not sleep. */
static inline bool ts_ring_sleep(const struct ts_ring_reader *reader)
{
	__atomic_store_n(&reader->ring.head->reader_idle, 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!ts_ring_is_published(reader, reader->position))
		return true;
	__atomic_store_n(&reader->ring.head->reader_idle, 0, __ATOMIC_RELAXED);
	return false;
}

#endif
