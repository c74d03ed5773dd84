/* family.h: the families of metrics: one table of what there is, and what it is called. */
#ifndef TS_CLIENT_FAMILY_H
#define TS_CLIENT_FAMILY_H

#include <stdbool.h>
#include <stdint.h>

enum family_type {
	FAMILY_COUNTER,
	FAMILY_GAUGE,
	FAMILY_HISTOGRAM, /* of durations: the sum of these is the next family */
	FAMILY_SUM,	  /* of the histogram before it */
};

/* What its cells are in: nanoseconds and millionths are shown as seconds and ratios. */
enum family_unit { FAMILY_COUNT, FAMILY_BYTES, FAMILY_NS, FAMILY_PPM };

/* Identifier, type, unit, name without its unit, label of the part or "", help. */
#define FAMILIES(X)                                                                                \
	X(CALLS, COUNTER, COUNT, "calls", "kind", "Driver calls, by what they do")                 \
	X(LAUNCHES, COUNTER, COUNT, "launches", "", "Calls that launch kernels or graphs")         \
	X(COPIES, COUNTER, COUNT, "copies", "direction", "Calls that copy memory")                 \
	X(COPIED, COUNTER, BYTES, "copied", "direction", "Memory copied, of these calls")          \
	X(SYNC_WAIT, COUNTER, NS, "sync_wait", "", "Time that threads waited for a device")        \
	X(ALLOC_FAILURES, COUNTER, COUNT, "allocation_failures", "", "Allocations that failed")    \
	X(SHORTAGES, COUNTER, COUNT, "out_of_memory", "",                                          \
	  "Allocations that failed for lack of memory, also when tried again")                     \
	X(ERRORS, COUNTER, COUNT, "errors", "code", "Failed driver calls")                         \
	X(BUSY, COUNTER, NS, "busy", "",                                                           \
	  "Time in which a device ran kernels or copied for the process (exact tier)")             \
	X(STATE, COUNTER, NS, "state", "state", "Time of a device in each state (exact tier)")     \
	X(KERNELS, HISTOGRAM, NS, "kernel", "", "Duration of kernels (exact tier)")                \
	X(KERNEL_TIME, SUM, NS, "kernel", "", "")                                                  \
	X(DELAYS, HISTOGRAM, NS, "launch_delay", "",                                               \
	  "Time from launch calls to the start of their kernels and graphs (exact tier)")          \
	X(DELAY_TIME, SUM, NS, "launch_delay", "", "")                                             \
	X(DEVICE_COPY, COUNTER, NS, "device_copy", "direction",                                    \
	  "Time that a device copied memory (exact tier)")                                         \
	X(LOST, COUNTER, COUNT, "lost", "reason", "What is missing from the other metrics")        \
	X(MISSED, COUNTER, COUNT, "missed_calls", "part",                                          \
	  "Frequent calls while nobody watched, estimated")                                        \
	X(LIVE, GAUGE, BYTES, "memory_live", "kind", "Memory that is allocated now")               \
	X(LIVE_COUNT, GAUGE, COUNT, "memory_allocations", "kind", "Live allocations")              \
	X(PEAK, GAUGE, BYTES, "memory_peak", "kind", "The most that was allocated at a time")      \
	X(LEAKS, GAUGE, COUNT, "leaks_suspected", "", "Stacks with the verdict that they leak")    \
	X(POOL, GAUGE, BYTES, "pool_reserved", "",                                                 \
	  "Device memory that memory pools hold (exact tier)")                                     \
	X(POOL_USED, GAUGE, BYTES, "pool_used", "", "The part of it that is allocated")            \
	X(ALLOCATOR, GAUGE, BYTES, "allocator_reserved", "",                                       \
	  "Device memory that PyTorch holds (with tensors)")                                       \
	X(ALLOCATOR_USED, GAUGE, BYTES, "allocator_used", "", "The part of it that tensors have")  \
	X(FRAGMENTED, GAUGE, PPM, "fragmentation", "pool",                                         \
	  "How fragmented free memory is, from 0 (one piece) to 1")                                \
	X(UNUSABLE, GAUGE, BYTES, "fragmentation_unusable", "pool",                                \
	  "Free memory in pieces too small for what was asked for lately")                         \
	X(PRICE, GAUGE, PPM, "price", "part", "More time that the process needs as it is traced")  \
	X(PRICE_HIGH, GAUGE, PPM, "price_upper", "part",                                           \
	  "Upper end of its interval, where it was measured in place")                             \
	X(BUDGET, GAUGE, PPM, "budget", "part", "What the process may pay")                        \
	X(WATCHED, GAUGE, PPM, "watched", "part", "Time in which frequent calls are watched")

enum family_number {
#define X(identifier, ...) FAMILY_OF_##identifier,
	FAMILIES(X)
#undef X
		FAMILY_NUMBERS
};

struct family {
	enum family_type type;
	enum family_unit unit;
	const char *name, *part, *help;
};

extern const struct family families[FAMILY_NUMBERS];

#endif
