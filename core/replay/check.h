/* check.h: whether two plans do the same: the same operations with the same parameters in the same
 * order on each stream and thread, with the same dependencies.
 *
 * What a system renumbers each time is not compared: pids, ids, handles, addresses, times.
 * Processes are matched in the order of their start. A stream (or thread) is matched with one that
 * does the same, of several with the one that the works of matched streams depend on, otherwise
 * with the first; the remaining ones with one that starts the same way, and finally by first use.
 * So threads that start in another order are no difference, but works that threads put on one
 * stream in another order are.
 *
 * Compared are the calls that do something (not those that only ask), the works that they submit,
 * and as dependencies events; and within one thread the default stream and host waits, because what
 * other threads have submitted by then depends on timing.
 */
#ifndef TS_CORE_CHECK_H
#define TS_CORE_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/plan/plan.h"

/* Differences in duration to ignore whatever the tolerance, unless it is 0: the resolution of some
 * devices' clocks. */
#define CHECK_CLOCK_NS 1000
/* As a tolerance: durations are only measured. */
#define CHECK_ANY_DURATION UINT32_MAX

/* identifier, name, value of an operation (struct op *op) */
#define CHECK_FIELDS(X)                                                                            \
	X(KIND, "kind", op->kind)                                                                  \
	X(FUNCTION, "function", side->function(side->data, op->fn))                                \
	X(NAME, "name", op->name)                                                                  \
	X(DETAIL, "detail", op->detail)                                                            \
	X(BYTES, "bytes", op->bytes)                                                               \
	X(GRID_X, "grid x", op->grid[0])                                                           \
	X(GRID_Y, "grid y", op->grid[1])                                                           \
	X(GRID_Z, "grid z", op->grid[2])                                                           \
	X(BLOCK_X, "block x", op->block[0])                                                        \
	X(BLOCK_Y, "block y", op->block[1])                                                        \
	X(BLOCK_Z, "block z", op->block[2])                                                        \
	X(SHARED, "shared bytes", op->shared_bytes)                                                \
	X(STATIC, "static shared bytes", op->static_bytes)                                         \
	X(REGISTERS, "registers", op->registers)                                                   \
	X(DEVICE, "device", (uint64_t)op->device)                                                  \
	X(RESULT, "result", (uint64_t)op->result)                                                  \
	X(CAPTURED, "captured", op->flags &OP_CAPTURED)                                            \
	X(NODE, "node of a graph", op->flags &OP_NODE)

enum check_field {
#define X(id, ...) CHECK_FIELD_##id,
	CHECK_FIELDS(X)
#undef X
		CHECK_FIELD_COUNT
};

struct check_side {
	const struct plan *plan;
	/* A number for the function, equal for equal functions of both sides; 0: its calls are not
	 * compared. */
	uint64_t (*function)(void *data, uint16_t fn);
	void *data;
	uint32_t ignored; /* fields that are not compared: bits of enum check_field */
};

enum check_what {
	CHECK_SAME,
	CHECK_MISSING,	  /* one side has no such stream or thread */
	CHECK_FIELD,	  /* `field` differs */
	CHECK_DEPENDENCY, /* it waits for other works */
	CHECK_END,	  /* one side ends here */
	CHECK_DURATION,	  /* it took longer, or shorter, than the tolerance allows */
};

/* What one stream (works) or one thread (calls) did. */
struct check_lane {
	bool thread;
	uint32_t process, number; /* from 1, by first use; the number within the process and sort */
	uint32_t index[2];	  /* in plan->stream or plan->thread, or PLAN_NONE */
	const uint32_t *item[2];  /* in plan->work or plan->call */
	uint32_t count[2];
	enum check_what what; /* the first difference */
	uint32_t at;	      /* position of the difference; all items before are the same */
	enum check_field field;
	uint64_t durations; /* that differ, of what is the same */
};

struct check {
	struct check_lane *lane;
	uint32_t lane_count;
	uint32_t different; /* lanes */
	uint32_t process_count[2];
	uint64_t compared;	      /* works and calls that both have, and that are the same */
	uint64_t durations;	      /* of works that were compared */
	uint32_t p50_ppm, p99_ppm;    /* how far these are apart */
	struct check_lanes *lanes[2]; /* the check's own */
};

/* `tolerance_ppm` for durations of works; 0: they must be equal to the nanosecond. */
int check_run(const struct check_side side[2], uint32_t tolerance_ppm, struct check **ret);
struct check *check_free(struct check *check);

CLEANUP_DEFINE(struct check, check_free)

const char *check_field_name(enum check_field field);
uint64_t check_field_value(const struct check_side *side, const struct op *op,
			   enum check_field field);

#endif
