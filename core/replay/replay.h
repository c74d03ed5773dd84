/* replay.h: plays back the state machines of a recording: ops go in, changes of state come out, in
 * order of time.
 *
 * Op: pending (its call started), running (start on the device), waiting (its end), finished (a
 * synchronization that covers it returned or, if none was seen, its end). If GPU times are bounds,
 * running cannot be told from pending, as in the probe tier; calls that submit nothing are pending
 * until they return. Ranges, overheads and stored intervals of state are not played.
 *
 * Streams and devices follow from their ops: idle, pending, running, and waiting for another stream
 * by an event. The rules are those by which the model computes the intervals that it stores
 * (lane.c, timeline.c), for devices without copying and syncing: so both agree.
 *
 * Of changes at the same time, starts come before ends, and an op before its stream and the stream
 * before its device. That order depends only on the ops, however they were cut into pieces. Memory
 * grows with the ops that overlap, not with the recording.
 */
#ifndef TS_CORE_REPLAY_H
#define TS_CORE_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/cleanup.h"
#include "core/model/op.h"

/* Pass ops of this long before a window too: they may be in progress where it starts. Whatever the
 * pieces of a recording, these are the ops that end their call or, with exact times, end on the
 * device, no earlier. Bounds are within that. */
#define REPLAY_BEFORE_NS 2500000000ull
/* Ops, marks and events that are held at one time, each. */
#define REPLAY_HELD_MAX (1u << 24)

enum replay_machine { REPLAY_OP = 1, REPLAY_STREAM, REPLAY_DEVICE };

/* Numbers are those of control.proto. */
enum replay_state {
	REPLAY_IDLE = 1,
	REPLAY_PENDING,
	REPLAY_RUNNING,
	REPLAY_WAITING,
	REPLAY_FINISHED, /* of ops only */
};

/* What is known of an op that changes; fields are those of struct op. */
struct replay_op {
	uint64_t start_ns;
	uint64_t begin_ns, end_ns; /* on the device; otherwise of the call; in order */
	uint64_t seen_ns;	   /* not before the end; 0: not seen */
	uint64_t name;
	uint64_t handle;
	uint32_t process, stream, tid;
	int32_t result;
	uint16_t fn, flags;
	uint8_t kind, detail;
	int16_t device;
};

struct replay_change {
	uint64_t time_ns;
	uint64_t number; /* of an op: counted from 1 in the order of first report; 0: others */
	uint32_t process, stream;
	int16_t device;
	uint8_t machine;	    /* enum replay_machine */
	uint8_t from, to;	    /* enum replay_state */
	bool bounds;		    /* of a finished op: when it ran before is unknown */
	const struct replay_op *op; /* of an op, only during the call; NULL: of others */
};

struct replay;
/* Nonzero: stop; replay_ops() and replay_end() return it. */
typedef int replay_fn(void *data, const struct replay_change *change);

/* `effect` of a function (enum effect) by its number; it must live as long as the replay. */
int replay_new(const uint8_t *effect, uint32_t effect_count, replay_fn *change, void *data,
	       struct replay **ret);
struct replay *replay_free(struct replay *replay);
/* Before the first ops: reports changes from `since_ns` on, before `until_ns`. What is in progress
 * at `since_ns` is reported then, as changes from idle. */
void replay_window(struct replay *replay, uint64_t since_ns, uint64_t until_ns);
/* Ops; none that comes later starts before `from_ns`. Reports what happened before it. After an
 * error only replay_free() may follow. -E2BIG: too many ops at one time. */
int replay_ops(struct replay *replay, const struct op *op, size_t count, uint64_t from_ns);
int replay_end(struct replay *replay);

const char *replay_machine_name(uint8_t machine);
const char *replay_state_name(uint8_t state);
const char *replay_kind_name(const struct replay_op *op);
/* The direction of a copy. NULL: it goes by its name or its function. */
const char *replay_copy_name(const struct replay_op *op);

CLEANUP_DEFINE(struct replay, replay_free)

#endif
