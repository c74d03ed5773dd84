/* pattern.h: the kinds of waste, and the row that a find becomes. Pure. */
#ifndef TS_WASTE_PATTERN_H
#define TS_WASTE_PATTERN_H

#include "core/base/sums.h"
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

/* NULL: there is no such. */
const char *waste_pattern_name(uint8_t pattern);
const char *waste_pattern_advice(uint8_t pattern);
const char *certainty_name(uint8_t certainty);

#endif
