/* replay.h: the state machines of a recording, played again: ops go in, changes of state come out,
 * in order of time.
 *
 * Op: pending (its call began), running (start on the device), waiting (its end), finished (a
 * synchronization that covers it returned, or where none did, its end). Streams and devices follow
 * from their ops: idle, pending, running, waiting. What is held grows with the ops that are open at
 * one time, not with the recording.
 */
#ifndef TS_CORE_REPLAY_H
#define TS_CORE_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/cleanup.h"
#include "core/op.h"

enum replay_machine { REPLAY_OP = 1, REPLAY_STREAM, REPLAY_DEVICE };

enum replay_state {
	REPLAY_IDLE = 1,
	REPLAY_PENDING,
	REPLAY_RUNNING,
	REPLAY_WAITING,
	REPLAY_FINISHED, /* of ops only */
};

struct replay_change {
	uint64_t time_ns;
	uint64_t number; /* of the op, counted from 1 in order of start; 0: of a stream or device */
	uint32_t process, stream;
	int16_t device;
	uint8_t machine;     /* enum replay_machine */
	uint8_t from, to;    /* enum replay_state */
	const struct op *op; /* that makes it; only during the call */
};

struct replay;
/* Not 0: stop; replay_ops() returns it. */
typedef int replay_fn(void *data, const struct replay_change *change);

int replay_new(replay_fn *change, void *data, struct replay **ret);
struct replay *replay_free(struct replay *replay);
/* Ops, none of which starts before `from_ns`, and none that comes later does either: what happened
 * before it is told. */
int replay_ops(struct replay *replay, const struct op *op, size_t count, uint64_t from_ns);
int replay_end(struct replay *replay);

CLEANUP_DEFINE(struct replay, replay_free)

#endif
