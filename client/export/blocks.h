/* blocks.h: the blocks of a framework's allocator, the memory of the driver that they lie in, and
 * how both came about.
 *
 * At the end it is known what is live. A segment is live driver memory that such blocks lie in, or
 * whose stack leads through the allocator's library. Backwards from there, an event is kept if it
 * fits: blocks lie inside segments, and none is taken back that nobody has. */
#ifndef TS_CLIENT_BLOCKS_H
#define TS_CLIENT_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/trace/meta.h"
#include "core/model/op.h"

/* A block, or memory of the driver: as it was given out or taken back, or, without `freed`, as it
 * is held. */
struct block {
	uint64_t at_ns, address, bytes, stack_id;
	uint64_t requested_bytes; /* of one that is held; 0: unknown */
	uint32_t process;
	int16_t device;
	uint8_t kind; /* enum memory_kind */
	bool freed, kept;
};

struct blocks_segment {
	uint64_t address, bytes, stack_id;
	int16_t device;
	bool mapped;  /* it can grow */
	bool made_up; /* of a block whose segment is not known */
};

struct blocks {
	const struct meta *meta;
	struct block *event, *held;
	struct blocks_segment *segment;
	size_t event_count, event_room, held_count, held_room, segment_count, segment_room;
	uint64_t earlier; /* events that found no room: the earliest */
	uint64_t unfit;	  /* which contradict others, or whose segment is not known */
};

/* Of those, the latest are kept. */
#define BLOCKS_EVENTS_MAX 1000000

/* Zeroed but for `meta` is empty. 0 or -ENOMEM. */
int blocks_hold(struct blocks *blocks, const struct meta_held *held);
int blocks_add(struct blocks *blocks, const struct op *op);
/* Of the process alone: afterwards `held` has its blocks and `segment` their segments, both by
 * address, and `event` what happened, in order of time. Once. */
int blocks_finish(struct blocks *blocks, uint32_t process);
void blocks_clear(struct blocks *blocks);

/* The process with such blocks. 0: none; -E2BIG: there are several. */
int blocks_process(const struct blocks *blocks, uint32_t *ret);

#endif
