/* intake.h: one stream of records, in order of time, from all the rings that the daemon reads.
 *
 * An input is a row of a table: a source (the libraries, the probes, ...). Whoever has it attaches
 * a function that reads it, and opens a lane for each of its rings. Lanes of one input belong to
 * different processes and do not wait for each other; an input waits for all others.
 *
 * What always holds:
 * - The records of a lane leave in the order in which they were put. One whose time is less than
 * that of the record before it, or 0, has that record's time.
 * - A record leaves when no other input can still bring an earlier one. What an input can still
 *   bring is known from its lanes: nothing that is earlier than the record a lane holds, or than
 * the turn in which the lane was last read to its end, less LIMIT_INTAKE_SLACK_NS for a record that
 * was stamped and is not in its ring yet. At the same time the input of the first row goes first.
 * - A lane holds one record at most. From then on it is not read: the rest stays in its ring, whose
 *   size is the bound, and which counts what finds no room.
 * - No record waits longer than its input's `hold_ns` for one that does not get on, nor
 * INTAKE_HOLDS times as long for one that does, as where the daemon is late itself. What leaves
 * then is counted as `unordered`; a record that comes when a later one of another input has left,
 * as `late`. Neither is lost.
 *
 * So collection starts before the calls that are collected and ends after them, the last words of a
 * process come before its EXIT, and its connection is over after both. Work of the device and calls
 * that CUPTI hands over 100 ms later are put without a time: the model puts those in order
 * (docs/internals.md, exact states), and everybody else would have to wait for them.
 *
 * Needs no loop and no clock.
 */
#ifndef TS_INTAKE_H
#define TS_INTAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/list.h"

struct intake;

/* How an input was found, the most urgent last. */
enum intake_state {
	INTAKE_ASLEEP, /* empty: it wakes us (intake_wake) when something comes */
	INTAKE_CALM,   /* the same where much comes; otherwise to be read again before long */
	INTAKE_AWAKE,  /* to be read again in some milliseconds */
	INTAKE_MORE,   /* to be read again now */
};

/* A row of the table of inputs, in the order in which they are read. The table outlives the intake.
 */
struct intake_input {
	const char *name;
	uint64_t hold_ns; /* its records wait no longer than this, if their ring has little room */
};

/* The daemon's table. */
enum intake_source { INTAKE_LIBRARIES, INTAKE_PROBES, INTAKE_SOURCES };
extern const struct intake_input intake_sources[INTAKE_SOURCES];

/* Reads an input: puts the records that have come, about `budget` of them at most, and says of each
 * lane when it was read to its end (intake_lane_done). A lane that holds a record is left alone. */
typedef enum intake_state intake_drain(void *data, uint64_t now_ns, uint32_t budget);

/* Belongs to its input, which sets `give` and `data`, and no more. */
struct intake_lane {
	void (*give)(void *data, const void *record, size_t size);
	void *data;
	/* intake's own: */
	struct list link;
	struct intake *intake;
	uint32_t input;
	uint64_t last_ns;  /* of the last record put */
	uint64_t done_ns;  /* what was handed over before is put */
	uint64_t held_ns;  /* the turn in which it was held */
	uint64_t put_turn; /* the last one with a record */
	size_t size;	   /* of the record held, or 0 */
	uint8_t *record;
	size_t room;
	bool straight; /* waits for nobody */
	bool stalled;  /* intake_lane_stall(); for others to read only */
	bool roomy;    /* intake_lane_roomy() */
};

struct intake_stats {
	uint64_t given, held; /* held: of the given, those that had to wait */
	uint64_t unordered, late;
	uint64_t longest_hold_ns;
	uint32_t holding; /* lanes that hold one now */
};

#define INTAKE_INPUTS_MAX 8
#define INTAKE_HOLDS	  3

struct intake_config {
	const struct intake_input *input;
	uint32_t inputs;
	/* An input has something to read; it must not turn from within. */
	void (*wake)(void *data);
	void *data;
};

int intake_new(const struct intake_config *config, struct intake **ret);
/* After its lanes are closed. */
struct intake *intake_free(struct intake *intake);

/* Who reads the input from now on; NULL: nobody. */
void intake_attach(struct intake *intake, uint32_t input, intake_drain *drain, void *data);
void intake_wake(const struct intake *intake);

/* A ring that has nothing from before `now_ns`. */
void intake_lane_open(struct intake_lane *lane, struct intake *intake, uint32_t input,
		      uint64_t now_ns);
/* What it holds is given. Takes one that was never opened, too. */
void intake_lane_close(struct intake_lane *lane);
/* A record with its time, or 0. False: it is held, as is all that follows. */
bool intake_put(struct intake_lane *lane, uint64_t time_ns, const void *record, size_t size);
/* In a drain: all that was handed over before this turn is put. */
void intake_lane_done(struct intake_lane *lane);
/* There are records that its input may not read yet, which is bounded: nothing is taken to be read
 * up to now, and the others wait as for a lane that gets on. */
void intake_lane_stall(struct intake_lane *lane, bool stalled);
/* Its ring has much room, so that its records can wait for a lane that does not get on. */
void intake_lane_roomy(struct intake_lane *lane, bool roomy);
/* From here on its records are given as they come, as at the end of the daemon. */
void intake_lane_straight(struct intake_lane *lane);
/* Whether all other inputs have come to that time: what happened before it is given. */
bool intake_lane_passed(const struct intake_lane *lane, uint64_t time_ns);

static inline bool intake_lane_holds(const struct intake_lane *lane)
{
	return lane->size > 0;
}

/* Reads each input once or more; the most urgent of what they say. */
enum intake_state intake_turn(struct intake *intake, uint64_t now_ns);
/* All that was handed over before the time that it returns is given: `now_ns`, or an earlier one,
 * as it reads a turn's worth of records at most, and a full ring takes seconds on a slow host. Not
 * from within a turn: does nothing then, and returns 0. */
uint64_t intake_reach(struct intake *intake, uint64_t now_ns);
bool intake_is_turning(const struct intake *intake);

void intake_stats(const struct intake *intake, struct intake_stats *ret);

#endif
