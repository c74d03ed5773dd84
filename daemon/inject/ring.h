/* ring.h: our side of the ring of one process. Needs no loop. */
#ifndef TS_INJECT_RING_H
#define TS_INJECT_RING_H

#include "proto/ring.h"

struct inject_ring {
	struct ts_ring_reader reader;
	int wake_fd;	  /* an eventfd, readable when the library has woken us */
	uint64_t dropped; /* of the library's count, already reported */
};

/* Creates the memory and our wake-up; `ret_fd` is the sealed memory, for the library. */
int inject_ring_open(uint32_t slots, struct inject_ring *ret, int *ret_fd);
void inject_ring_close(struct inject_ring *ring);

/* Takes records out, of `budget` slots and a record more, or until `take` has enough (false);
 * returns how many slots. */
uint32_t inject_ring_read(struct inject_ring *ring, uint32_t budget,
			  bool (*take)(void *data, void *record, size_t size), void *data);
/* Records that found no room since the last time. */
uint64_t inject_ring_dropped(struct inject_ring *ring);
/* See ts_ring_sleep; while asleep, the ring takes none of our memory. */
bool inject_ring_sleep(struct inject_ring *ring);
/* Resets our wake-up. */
void inject_ring_woken(const struct inject_ring *ring);

#endif
