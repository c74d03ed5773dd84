/* Reads a ring whose memory is the input, and goes on after the reader has stopped, as the daemon
 * does. Whatever is in it, each turn ends and no byte beside the memory is touched. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/ring.h"

#define SLOTS TS_RING_SLOTS_MIN
#define TURNS 8

/* Words and heads of records that are likely to be read: small numbers around the position. */
static void fill(const struct ts_ring *ring, const uint8_t *data, size_t size)
{
	size_t words = SLOTS;

	ring->head->claimed = size > 0 ? data[0] : 0;
	ring->head->taken = size > 1 ? data[1] : 0;
	ring->head->dropped = size > 2 ? data[2] : 0;
	for (size_t i = 0; i < words && i + 4 < size; i++)
		ring->word[i] = (data[i + 4] & 3 ? ts_ring_done(i + (data[i + 4] >> 7) * SLOTS)
						 : (uint64_t)data[i + 4] << 50) |
				(data[i + 4] & 4 ? TS_RING_PASS : 0) |
				(data[i + 4] & 8 ? TS_RING_LATE_ONE : 0);
	if (size > words + 4) {
		size_t bytes = size - words - 4;

		memcpy(ring->slot, data + words + 4,
		       bytes < SLOTS * TS_EVENT_SIZE ? bytes : SLOTS * TS_EVENT_SIZE);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Of these sizes exactly, so that reading or writing beyond shows. */
	void *memory = aligned_alloc(64, ts_ring_bytes(SLOTS));
	uint8_t *record = malloc(TS_RING_COPY_MAX);
	struct ts_ring_reader reader = { 0 };
	uint64_t steps = 0;

	if (!memory || !record)
		abort();
	memset(memory, 0, ts_ring_bytes(SLOTS));
	reader.ring = ts_ring_init(memory, SLOTS);
	fill(&reader.ring, data, size);
	for (int turn = 0; turn < TURNS; turn++) {
		size_t taken;

		while ((taken = ts_ring_get(&reader, record))) {
			if (taken > TS_RING_COPY_MAX || taken % TS_EVENT_SIZE)
				abort();
			if (++steps > TURNS * SLOTS)
				abort();
		}
		ts_ring_release(&reader);
		if (ts_ring_skip(&reader) > SLOTS)
			abort();
		(void)ts_ring_sleep(&reader);
		/* A writer among all this. */
		if (ts_ring_put(&reader.ring, record, 1 + (data && size ? data[0] : 0)) == 0)
			(void)ts_ring_wake(&reader.ring);
	}
	free(record);
	free(memory);
	return 0;
}
