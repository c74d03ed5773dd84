/* replay.h: the state machines of a recording, played again: ops go in, changes of state come out,
 * in order of time.
 *
 * Op: pending (its call began), running (start on the device), waiting (its end), finished (a
 * synchronization that covers it returned, or where none was seen, its end). Where GPU times are
 * bounds, running cannot be told from pending, as in the probe tier; calls that submit nothing are
 * pending until they return. Ranges, overheads and stored intervals of state are no such ops.
 *
 * Streams and devices follow from their ops: idle, pending, running, and waiting for another stream
 * by an event. The rules are those by which the model finds the intervals that it stores (lane.c,
 * timeline.c), of devices without copying and syncing: so both tell the same.
 *
 * Of changes at one time, what begins comes before what ends, and an op before its stream and the
 * stream before its device. That order depends on nothing but the ops, however they were cut into
 * pieces. What is held grows with the ops that overlap, not with the recording.
 */
#ifndef TS_CORE_REPLAY_H
#define TS_CORE_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/cleanup.h"
#include "core/model/op.h"

/* Give ops of so long before a window, too: they may be under way where it begins. Whatever the
 * pieces of a recording, these are those that end their call, or with exact times on the device, no
 * earlier. Bounds are within that. */
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
	uint64_t begin_ns, end_ns; /* on the device; of what does not run, of the call; in order */
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
	uint64_t number; /* of an op: counted from 1 as they are told first; 0: of others */
	uint32_t process, stream;
	int16_t device;
	uint8_t machine;	    /* enum replay_machine */
	uint8_t from, to;	    /* enum replay_state */
	bool bounds;		    /* of an op that is finished: when it ran before is not known */
	const struct replay_op *op; /* of an op, only during the call; NULL: of others */
};

struct replay;
/* Not 0: stop; replay_ops() and replay_end() return it. */
typedef int replay_fn(void *data, const struct replay_change *change);

/* `effect` of a function (enum effect) by its number; it has to live as long as the replay. */
int replay_new(const uint8_t *effect, uint32_t effect_count, replay_fn *change, void *data,
	       struct replay **ret);
struct replay *replay_free(struct replay *replay);
/* Before the first ops: tells changes from `since_ns` on, before `until_ns`. What is under way at
 * `since_ns` is told then, as changes from idle. */
void replay_window(struct replay *replay, uint64_t since_ns, uint64_t until_ns);
/* Ops; none that comes later starts before `from_ns`. What happened before it is told. After an
 * error nothing but replay_free() may follow. -E2BIG: too many ops at one time. */
int replay_ops(struct replay *replay, const struct op *op, size_t count, uint64_t from_ns);
int replay_end(struct replay *replay);

const char *replay_machine_name(uint8_t machine);
const char *replay_state_name(uint8_t state);
const char *replay_kind_name(const struct replay_op *op);
/* The direction of a copy. NULL: it is called by its name, or else by its function. */
const char *replay_copy_name(const struct replay_op *op);

CLEANUP_DEFINE(struct replay, replay_free)

#endif
