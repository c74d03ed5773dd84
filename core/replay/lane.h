/* lane.h: the states of streams and devices in a replay, as their work starts and ends. Times never
 * go back. */
#ifndef TS_CORE_REPLAY_LANE_H
#define TS_CORE_REPLAY_LANE_H

#include "core/base/list.h"
#include "core/base/map.h"
#include "core/base/pool.h"
#include "core/replay/replay.h"

/* A device as one process uses it. */
struct replay_device {
	struct list link;
	uint32_t process;
	int16_t ordinal;
	uint8_t now;			    /* enum replay_state */
	bool exact;			    /* the work submitted last has exact times */
	uint32_t lanes[REPLAY_WAITING + 1]; /* how many are in which state */
};

/* A stream. Its work has increasing numbers. */
struct replay_lane {
	struct list link;
	struct list marks;   /* struct replay_mark that it must pass, in order */
	struct list waiters; /* struct replay_mark of others that wait for it, by number */
	struct list work;    /* while others are notified that it has finished something */
	struct replay_device *device;
	uint64_t submitted, finished; /* up to this number */
	uint64_t marked;	      /* how many marks there were */
	uint64_t capture;	      /* that it takes part in, 0: none */
	uint32_t process, stream;
	uint32_t runs; /* how many */
	uint8_t now;   /* enum replay_state */
};

/* `lane` is NULL where a device changed. */
typedef void replay_lane_fn(void *data, const struct replay_lane *lane,
			    const struct replay_device *device, uint8_t from, uint8_t to,
			    uint64_t time_ns);

struct replay_lanes {
	struct map lane, device, event;
	struct list order, device_order; /* in the order they were first seen */
	struct list work;		 /* lanes that have finished something */
	struct pool lane_pool, device_pool, mark_pool, event_pool;
	uint64_t captures;
	replay_lane_fn *tell;
	void *data;
};

void replay_lanes_init(struct replay_lanes *lanes, replay_lane_fn *tell, void *data);
void replay_lanes_clear(struct replay_lanes *lanes);

/* The stream of an op, created on first use, on the device that the op names. NULL: no memory. */
struct replay_lane *replay_lane_of(struct replay_lanes *lanes, const struct replay_op *op);

/* Submits work to it; returns its number. */
uint64_t replay_lane_submit(struct replay_lanes *lanes, struct replay_lane *lane, bool exact,
			    uint64_t time_ns);
/* Something runs; everything with a number below `seq` is over. */
void replay_lane_begin(struct replay_lanes *lanes, struct replay_lane *lane, uint64_t seq,
		       uint64_t time_ns);
/* It no longer runs; everything with a number up to `seq` is over. */
void replay_lane_end(struct replay_lanes *lanes, struct replay_lane *lane, uint64_t seq,
		     uint64_t time_ns);
/* Everything with a number up to `seq` is over. */
void replay_lane_finish(struct replay_lanes *lanes, struct replay_lane *lane, uint64_t seq,
			uint64_t time_ns);

/* What a call does to its stream besides submitting work. -ENOMEM */
int replay_lane_apply(struct replay_lanes *lanes, struct replay_lane *lane,
		      const struct replay_op *op, uint8_t effect);

#endif
