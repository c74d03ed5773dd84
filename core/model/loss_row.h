/* loss_row.h: what is missing, and why. */
#ifndef TS_CORE_LOSS_ROW_H
#define TS_CORE_LOSS_ROW_H

#include <stdint.h>

/* number, identifier, counts, alarm, misses, noun of what it counts, name, text. Numbers are
 * stored.
 * - MISSING: counts events, calls, ops, records or rows that are not there. Their sum is `lost` of
 *   `tsctl query ps`.
 * - PERIOD: counts times in which something was not seen; how long they were says more.
 * - NOTE: counts something else, mostly what is there with a part of it unknown.
 * ALARM: `tsctl status --check` warns of it for ten minutes, because answers are incomplete and
 * something is too slow, too small or broken. QUIET: on request, normal, or nothing to do about.
 * MISSES: what may not be there of its time, so that no answer takes it for certain that there was
 * none. CALLS: of any kind. WORK: calls, but no allocation or free, as these are always watched,
 * have room of their own, and have nothing to read. DEVICE: what a device did. TENSORS: allocations
 * and frees of PyTorch's. NOTHING: all is there, with less known of some of it. */
#define LOSS_REASONS(X)                                                                            \
	X(1, RING_FULL, MISSING, ALARM, WORK, "event", "ring-full",                                \
	  "events lost because the BPF ring was full")                                             \
	X(2, RATE_LIMIT, MISSING, QUIET, WORK, "event", "rate-limit",                              \
	  "events skipped by the rate limit")                                                      \
	X(3, CALL_STATE, MISSING, ALARM, CALLS, "call", "call-state",                              \
	  "calls lost because their thread had no state")                                          \
	X(4, STACK, NOTE, QUIET, NOTHING, "stack", "stack", "stacks that could not be taken")      \
	X(5, STACK_SAMPLED, NOTE, QUIET, NOTHING, "stack", "stack-sampled",                        \
	  "launches, copies, sets and waits whose stack was not sampled")                          \
	X(6, PROCESS, NOTE, ALARM, NOTHING, "announcement", "process",                             \
	  "processes that could not be announced")                                                 \
	X(7, BAD_EVENT, MISSING, ALARM, CALLS, "event", "bad-event", "malformed events")           \
	X(8, STRAY, MISSING, QUIET, CALLS, "event", "stray", "events of unknown processes")        \
	X(9, UNKNOWN_FREE, NOTE, QUIET, NOTHING, "free", "unknown-free",                           \
	  "frees of unknown addresses")                                                            \
	X(10, UNBOUND, NOTE, QUIET, NOTHING, "op", "unbound",                                      \
	  "ops not synchronized in time: GPU end unknown")                                         \
	X(11, LIMIT, MISSING, QUIET, WORK, "thing", "limit",                                       \
	  "objects not tracked because of a limit of the daemon")                                  \
	X(12, STORE, MISSING, ALARM, CALLS, "op", "store",                                         \
	  "ops dropped because the disk was behind or full")                                       \
	X(13, GAP, PERIOD, QUIET, CALLS, "gap", "gap",                                             \
	  "periods while probes were not attached yet")                                            \
	X(14, UNREAD, NOTE, QUIET, WORK, "call", "unread", "calls with an unreadable argument")    \
	X(15, MAPPING, NOTE, QUIET, NOTHING, "mapping", "mapping",                                 \
	  "missed mappings: stacks may lack names")                                                \
	X(16, EXACT_RING, MISSING, ALARM, DEVICE, "record", "exact-ring",                          \
	  "exact records lost because a process's ring was full")                                  \
	X(17, CUPTI, MISSING, ALARM, DEVICE, "record", "cupti", "exact records dropped by CUPTI")  \
	X(18, BUFFERS, MISSING, ALARM, DEVICE, "record", "buffers",                                \
	  "exact records lost because buffers ran out")                                            \
	X(19, UNTIMED, NOTE, QUIET, NOTHING, "record", "untimed",                                  \
	  "exact records without usable times")                                                    \
	X(20, NO_CALL, NOTE, QUIET, NOTHING, "record", "no-call",                                  \
	  "exact records without a matching call")                                                 \
	X(21, NO_RECORD, MISSING, QUIET, NOTHING, "call", "no-record",                             \
	  "calls that submitted work but got no exact record in time")                             \
	X(22, DUPLICATE, NOTE, QUIET, NOTHING, "record", "duplicate", "duplicate exact records")   \
	X(23, LATE, NOTE, QUIET, NOTHING, "record", "late",                                        \
	  "exact records too late to count in stream states")                                      \
	X(24, BEFORE, NOTE, QUIET, NOTHING, "record", "before",                                    \
	  "exact records of work submitted before recording started")                              \
	X(25, PAUSED, PERIOD, QUIET, DEVICE, "pause", "paused",                                    \
	  "periods while another profiler used CUPTI")                                             \
	X(26, BUDGET, PERIOD, QUIET, DEVICE, "time", "budget",                                     \
	  "periods with records skipped to stay within the budget")                                \
	X(27, RING_STUCK, MISSING, QUIET, DEVICE, "record", "ring-stuck",                          \
	  "exact records lost because a thread died writing one")                                  \
	X(28, UNKNOWN_RECORD, MISSING, QUIET, DEVICE, "record", "unknown-record",                  \
	  "exact records that this version cannot read")                                           \
	X(29, CUT_OFF, NOTE, QUIET, CALLS, "end", "cut-off",                                       \
	  "recordings that were cut off: the last data is missing")                                \
	X(30, BEHIND, MISSING, QUIET, CALLS, "op", "behind",                                       \
	  "ops and seconds of sums deleted before they were recorded")                             \
	X(31, DAMAGED, MISSING, QUIET, CALLS, "op", "damaged",                                     \
	  "ops, and pages of sums, in damaged parts of the database or of a recording")            \
	X(32, STORE_ROWS, MISSING, ALARM, CALLS, "row", "store-rows",                              \
	  "rows of sums and processes dropped because the disk was behind or full")                \
	X(33, DISCONNECTED, PERIOD, QUIET, DEVICE, "time", "disconnected",                         \
	  "periods in which no daemon answered a process's library")                               \
	X(34, WINDOWS, PERIOD, QUIET, WORK, "time", "windows",                                     \
	  "periods in which frequent calls were watched in windows only")                          \
	X(35, EXACT_WINDOWS, PERIOD, QUIET, DEVICE, "time", "exact-windows",                       \
	  "periods in which what the GPU did was recorded in windows only")                        \
	X(36, LEFT_OUT, PERIOD, ALARM, CALLS, "time", "left-out",                                  \
	  "periods in which a process that called too often was not traced")                       \
	X(37, LEFT_OUT_HOT, PERIOD, ALARM, WORK, "time", "left-out-frequent",                      \
	  "periods in which frequent calls were not traced, as there were too many")               \
	X(38, STACK_CUT, NOTE, QUIET, NOTHING, "stack", "stack-cut",                               \
	  "stacks that end early, as there were too many unknown addresses")                       \
	X(39, TENSORS, PERIOD, QUIET, TENSORS, "time", "tensors",                                  \
	  "periods in which tensors were not followed one by one, to stay within the budget")      \
	X(40, TENSOR_MISMATCH, NOTE, QUIET, NOTHING, "block", "tensor-mismatch",                   \
	  "tensors of which PyTorch's allocator and its own probes said different things")         \
	/* Of one library, beside the driver, whose calls no other answers need: */                \
	X(41, GAP_TORCH, PERIOD, QUIET, TENSORS, "gap", "gap-torch",                               \
	  "periods while PyTorch's allocator had no probes yet")                                   \
	X(42, GAP_NCCL, PERIOD, QUIET, NOTHING, "gap", "gap-nccl",                                 \
	  "periods while NCCL had no probes yet")                                                  \
	X(43, GAP_RANGE, PERIOD, QUIET, NOTHING, "gap", "gap-range",                               \
	  "periods while the library of ranges had no probes yet")                                 \
	X(44, NO_NAME, NOTE, QUIET, NOTHING, "record", "no-name",                                  \
	  "exact records without a name, as there were too many different ones")                   \
	X(45, NO_RETURN, NOTE, QUIET, NOTHING, "call", "no-return",                                \
	  "calls seen at their start only: without result and duration")                           \
	X(46, NO_EFFECT, MISSING, QUIET, WORK, "call", "no-effect",                                \
	  "calls of which it is not known what they made, as they were seen at their start only")  \
	X(47, SET_ASIDE, NOTE, ALARM, CALLS, "database", "set-aside",                              \
	  "databases too damaged to be used: what was before is in tracesmith.db.damaged")         \
	X(48, NO_DAEMON, PERIOD, QUIET, CALLS, "gap", "no-daemon", "periods without a daemon")     \
	X(49, LAST_RECORDS, PERIOD, QUIET, DEVICE, "end", "last-records",                          \
	  "ends of processes that did not hand over their last exact records")                     \
	X(50, FILTER, PERIOD, QUIET, CALLS, "change", "filter",                                    \
	  "changes of the settings that say which processes are watched")

enum loss_reason {
#define X(number, identifier, ...) LOSS_##identifier = number,
	LOSS_REASONS(X)
#undef X
		LOSS_REASON_MAX = 50,
};

enum loss_misses {
	LOSS_MISSES_NOTHING,
	LOSS_MISSES_CALLS,
	LOSS_MISSES_WORK,
	LOSS_MISSES_DEVICE,
	LOSS_MISSES_TENSORS,
};

enum loss_counts { LOSS_COUNTS_MISSING, LOSS_COUNTS_PERIOD, LOSS_COUNTS_NOTE };

struct core_loss {
	uint64_t start_ns, end_ns; /* when it may have happened */
	uint32_t process;	   /* 0: unknown */
	uint8_t reason;
	uint64_t count; /* 1 for a gap; 0 if it is reported again, from its start, because it got
			   longer */
};

#endif
