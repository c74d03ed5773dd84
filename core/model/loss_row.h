/* loss_row.h: what is missing, and why. */
#ifndef TS_CORE_LOSS_ROW_H
#define TS_CORE_LOSS_ROW_H

#include <stdint.h>

/* number, identifier, counts, alarm, seen, noun of what it counts, name, text. Numbers are stored.
 * - MISSING: counts events, calls, ops, records or rows that are not there. Their sum is `lost` of
 *   `tsctl query ps`.
 * - PERIOD: counts times in which something was not seen; how long they were says more.
 * - NOTE: counts something else, mostly what is there with a part of it unknown.
 * ALARM: `tsctl status --check` warns of it for ten minutes, because answers are incomplete and
 * something is too slow, too small or broken. QUIET: on request, normal, or nothing to do about.
 * UNSEEN: in its time, calls or what a device did may not be there, so no answer may take it for
 * certain that there were none. SEEN: all are there, with less known of some. */
#define LOSS_REASONS(X)                                                                            \
	X(1, RING_FULL, MISSING, ALARM, UNSEEN, "event", "ring-full",                              \
	  "events lost because the BPF ring was full")                                             \
	X(2, RATE_LIMIT, MISSING, QUIET, UNSEEN, "event", "rate-limit",                            \
	  "events skipped by the rate limit")                                                      \
	X(3, CALL_STATE, MISSING, ALARM, UNSEEN, "call", "call-state",                             \
	  "calls lost because their thread had no state")                                          \
	X(4, STACK, NOTE, QUIET, SEEN, "stack", "stack", "stacks that could not be taken")         \
	X(5, STACK_SAMPLED, NOTE, QUIET, SEEN, "stack", "stack-sampled",                           \
	  "launches, copies, sets and waits whose stack was not sampled")                          \
	X(6, PROCESS, NOTE, ALARM, SEEN, "announcement", "process",                                \
	  "processes that could not be announced")                                                 \
	X(7, BAD_EVENT, MISSING, ALARM, UNSEEN, "event", "bad-event", "malformed events")          \
	X(8, STRAY, MISSING, QUIET, UNSEEN, "event", "stray", "events of unknown processes")       \
	X(9, UNKNOWN_FREE, NOTE, QUIET, SEEN, "free", "unknown-free",                              \
	  "frees of unknown addresses")                                                            \
	X(10, UNBOUND, NOTE, QUIET, SEEN, "op", "unbound",                                         \
	  "ops not synchronized in time: GPU end unknown")                                         \
	X(11, LIMIT, MISSING, QUIET, UNSEEN, "thing", "limit",                                     \
	  "objects not tracked because of a limit of the daemon")                                  \
	X(12, STORE, MISSING, ALARM, UNSEEN, "op", "store",                                        \
	  "ops dropped because the disk was behind or full")                                       \
	X(13, GAP, PERIOD, QUIET, UNSEEN, "gap", "gap",                                            \
	  "periods while the daemon was not tracing")                                              \
	X(14, UNREAD, NOTE, QUIET, UNSEEN, "call", "unread", "calls with an unreadable argument")  \
	X(15, MAPPING, NOTE, QUIET, SEEN, "mapping", "mapping",                                    \
	  "missed mappings: stacks may lack names")                                                \
	X(16, EXACT_RING, MISSING, ALARM, UNSEEN, "record", "exact-ring",                          \
	  "exact records lost because a process's ring was full")                                  \
	X(17, CUPTI, MISSING, ALARM, UNSEEN, "record", "cupti", "exact records dropped by CUPTI")  \
	X(18, BUFFERS, MISSING, ALARM, UNSEEN, "record", "buffers",                                \
	  "exact records lost because buffers ran out")                                            \
	X(19, UNTIMED, NOTE, QUIET, SEEN, "record", "untimed",                                     \
	  "exact records without usable times")                                                    \
	X(20, NO_CALL, NOTE, QUIET, SEEN, "record", "no-call",                                     \
	  "exact records without a matching call")                                                 \
	X(21, NO_RECORD, MISSING, QUIET, SEEN, "call", "no-record",                                \
	  "calls that submitted work but got no exact record in time")                             \
	X(22, DUPLICATE, NOTE, QUIET, SEEN, "record", "duplicate", "duplicate exact records")      \
	X(23, LATE, NOTE, QUIET, SEEN, "record", "late",                                           \
	  "exact records too late to count in stream states")                                      \
	X(24, BEFORE, NOTE, QUIET, SEEN, "record", "before",                                       \
	  "exact records of work submitted before recording started")                              \
	X(25, PAUSED, PERIOD, QUIET, UNSEEN, "pause", "paused",                                    \
	  "periods while another profiler used CUPTI")                                             \
	X(26, BUDGET, PERIOD, QUIET, UNSEEN, "time", "budget",                                     \
	  "periods with records skipped to stay within the budget")                                \
	X(27, RING_STUCK, MISSING, QUIET, UNSEEN, "record", "ring-stuck",                          \
	  "exact records lost because a thread died writing one")                                  \
	X(28, UNKNOWN_RECORD, MISSING, QUIET, UNSEEN, "record", "unknown-record",                  \
	  "exact records that this version cannot read")                                           \
	X(29, CUT_OFF, NOTE, QUIET, UNSEEN, "end", "cut-off",                                      \
	  "recordings that were cut off: the last data is missing")                                \
	X(30, BEHIND, MISSING, QUIET, UNSEEN, "op", "behind",                                      \
	  "ops and seconds of sums deleted before they were recorded")                             \
	X(31, DAMAGED, MISSING, QUIET, UNSEEN, "op", "damaged",                                    \
	  "ops, and pages of sums, in damaged parts of the database or of a recording")            \
	X(32, STORE_ROWS, MISSING, ALARM, UNSEEN, "row", "store-rows",                             \
	  "rows of sums and processes dropped because the disk was behind or full")                \
	X(33, DISCONNECTED, PERIOD, QUIET, UNSEEN, "time", "disconnected",                         \
	  "periods in which no daemon answered a process's library")                               \
	X(34, WINDOWS, PERIOD, QUIET, UNSEEN, "time", "windows",                                   \
	  "periods in which frequent calls were watched in windows only")                          \
	X(35, EXACT_WINDOWS, PERIOD, QUIET, UNSEEN, "time", "exact-windows",                       \
	  "periods in which what the GPU did was recorded in windows only")                        \
	X(36, LEFT_OUT, PERIOD, ALARM, UNSEEN, "time", "left-out",                                 \
	  "periods in which a process that called too often was not traced")                       \
	X(37, LEFT_OUT_HOT, PERIOD, ALARM, UNSEEN, "time", "left-out-frequent",                    \
	  "periods in which frequent calls were not traced, as there were too many")               \
	X(38, STACK_CUT, NOTE, QUIET, SEEN, "stack", "stack-cut",                                  \
	  "stacks that end early, as there were too many unknown addresses")                       \
	X(39, TENSORS, PERIOD, QUIET, UNSEEN, "time", "tensors",                                   \
	  "periods in which tensors were not followed one by one, to stay within the budget")      \
	X(40, TENSOR_MISMATCH, NOTE, QUIET, SEEN, "block", "tensor-mismatch",                      \
	  "tensors of which PyTorch's allocator and its own probes said different things")         \
	/* Of one library, beside the driver, whose calls no other answers need: */                \
	X(41, GAP_TORCH, PERIOD, QUIET, UNSEEN, "gap", "gap-torch",                                \
	  "periods while PyTorch's allocator had no probes yet")                                   \
	X(42, GAP_NCCL, PERIOD, QUIET, SEEN, "gap", "gap-nccl",                                    \
	  "periods while NCCL had no probes yet")                                                  \
	X(43, GAP_RANGE, PERIOD, QUIET, SEEN, "gap", "gap-range",                                  \
	  "periods while the library of ranges had no probes yet")                                 \
	X(44, NO_NAME, NOTE, QUIET, SEEN, "record", "no-name",                                     \
	  "exact records without a name, as there were too many different ones")                   \
	X(45, NO_RETURN, NOTE, QUIET, SEEN, "call", "no-return",                                   \
	  "calls seen at their start only: without result and duration")                           \
	X(46, NO_EFFECT, MISSING, QUIET, UNSEEN, "call", "no-effect",                              \
	  "calls of which it is not known what they made, as they were seen at their start only")  \
	X(47, SET_ASIDE, NOTE, ALARM, UNSEEN, "database", "set-aside",                             \
	  "databases too damaged to be used: what was before is in tracesmith.db.damaged")

enum loss_reason {
#define X(number, identifier, ...) LOSS_##identifier = number,
	LOSS_REASONS(X)
#undef X
		LOSS_REASON_MAX = 47,
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
