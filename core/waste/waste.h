/* waste.h: device memory and copies that one process could have done without. Pure: it gets the
 * process's allocations, frees, copies and sets, and when what else ran.
 *
 * What a kernel touches is unknown, so that memory was not used is certain only while nothing ran.
 * docs/queries.md has the rules.
 */
#ifndef TS_WASTE_WASTE_H
#define TS_WASTE_WASTE_H

#include "core/base/sums.h"
#include "core/model/op.h"
#include "core/waste/meanwhile.h"

/* number, identifier, name, what to do about it */
#define WASTE_PATTERNS(X)                                                                          \
	X(1, UNTOUCHED, "never used",                                                              \
	  "nothing was copied to, from or set in it: allocate it where it is needed")              \
	X(2, LATE, "freed late", "free it after its last use")                                     \
	X(3, REPEATED, "allocated again",                                                          \
	  "keep it, or allocate from a pool (cuMemAllocAsync), instead of freeing it each time")   \
	X(4, COPIED, "copied again",                                                               \
	  "the same host memory each time: if it does not change, keep what is on the device")     \
	X(5, PAGEABLE, "pageable copy",                                                            \
	  "copy from and to page-locked memory (cuMemHostAlloc, pin_memory)")

enum waste_pattern {
#define X(number, identifier, name, advice) WASTE_##identifier = number,
	WASTE_PATTERNS(X)
#undef X
		WASTE_MAX = WASTE_PAGEABLE,
};

/* Memory lies idle for long from this time on, if that is half of its life as well. */
#define WASTE_LATE_NS 1000000000ull
/* Allocated or copied again: so many times, and for allocations so often on average. */
#define WASTE_AGAIN	    8
#define WASTE_AGAIN_MEAN_NS 60000000000ull

/* Without padding, to be compared bytewise. */
struct waste_key {
	uint64_t stack;
	uint32_t process;
	uint16_t fn;
	int16_t device;
	uint8_t pattern;   /* enum waste_pattern */
	uint8_t certainty; /* enum certainty */
	uint8_t kind;	   /* OP_ALLOC or OP_COPY */
	uint8_t detail;	   /* memory_kind, copy_kind */
	uint32_t zero;
};

struct waste_row {
	struct waste_key key;
	uint64_t count, bytes;
	uint64_t lost_ns; /* in calls */
	uint64_t held_ns; /* of all blocks together */
};

/* Empty, for all processes. */
#define WASTE_ROWS SUMS_OF(struct waste_row, count)

struct waste;

/* For one process; `max` operations are remembered at most. -ENOMEM */
int waste_new(uint32_t process, uint64_t since_ns, uint64_t until_ns, uint32_t max,
	      struct waste **ret);
struct waste *waste_free(struct waste *waste);
CLEANUP_DEFINE(struct waste, waste_free)

/* Allocations, frees, copies, sets and memory operations, in any order; others are left out.
 * -E2BIG: there are too many; -ENOMEM. */
int waste_add(struct waste *waste, const struct op *op);
/* What was not seen, or touches memory unseen. -ENOMEM */
int waste_ran(struct waste *waste, int16_t device, uint64_t start_ns, uint64_t end_ns);
/* Adds what was found to rows, once. Operations before `from_ns` are not looked at: some of them
 * are missing. -ENOMEM */
int waste_find(struct waste *waste, uint64_t from_ns, struct sums *rows);

const char *waste_pattern_name(uint8_t pattern);
const char *waste_pattern_advice(uint8_t pattern);
const char *certainty_name(uint8_t certainty);

#endif
