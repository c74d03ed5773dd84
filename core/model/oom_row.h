/* oom_row.h: what an autopsy of an allocation that failed for lack of memory says (oom.c). */
#ifndef TS_CORE_OOM_ROW_H
#define TS_CORE_OOM_ROW_H

#include <stdbool.h>
#include <stdint.h>

/* What a driver said of a device's free memory. */
struct oom_room {
	uint64_t told_ns; /* 0: never */
	uint64_t free_bytes, total_bytes;
	int16_t device;
};

/* A thread asked for memory, and there was none: see oom.c. What it held is in rows of their own
 * with the same `take`; those of former takes do not count any more. */
struct core_oom {
	uint32_t id, process, tid;
	int16_t device; /* DEVICE_UNKNOWN also for memory of the host */
	uint16_t fn;	/* of the first failure */
	uint8_t kind;	/* enum memory_kind; 0: the driver was not asked for any, as far as known */
	bool news;	/* said once, when it is known that it has not recovered */
	uint32_t take, stacks, left_out, processes_left_out;
	uint64_t time_ns, last_ns; /* of its failures */
	uint64_t failures, reports,
		skipped;		    /* of the driver, of a framework, and not looked into */
	uint64_t reported_ns, recovered_ns; /* 0: not */
	uint64_t stack_id;
	uint64_t bytes;	       /* asked of the driver; 0: unknown */
	uint64_t wanted_bytes; /* asked of a framework; 0: unknown */
	uint64_t held_bytes;   /* by all processes that are known */
	/* Of the framework: given out, and held for that. */
	uint64_t live_bytes, reserved_bytes;
	/* Free in segments of the framework, its largest piece, and the index of fragment.h; no
	 * pieces: unknown, or none. */
	uint64_t pieces, pieces_bytes, piece_bytes, fragment_ppm;
	uint64_t room_ns, free_bytes, total_bytes; /* of the device, at that time; 0: unknown */
};

struct core_oom_memory {
	uint32_t oom, take, process;
	uint8_t kind;	       /* enum memory_kind */
	uint64_t bytes, count; /* count: of known blocks */
	uint64_t recent_bytes; /* of it, allocated in the last minute */
	uint64_t reserved_bytes;
};

struct core_oom_stack {
	uint32_t oom, rank, take, process;
	uint8_t kind;
	uint16_t fn;
	uint64_t stack_id, bytes, count, recent_bytes;
};

#endif
