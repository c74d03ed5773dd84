/* collective_row.h: rows about NCCL's communicators (communicator.c) and the calls on them
 * (collective.c). */
#ifndef TS_CORE_COLLECTIVE_ROW_H
#define TS_CORE_COLLECTIVE_ROW_H

#include <stdint.h>

/* A communicator of NCCL in a process that has one of its ranks. */
struct core_communicator {
	uint32_t process;
	uint32_t number; /* counts up in the process */
	uint64_t id;	 /* the same in all of its ranks, on all hosts; 0: unknown */
	uint64_t handle;
	uint64_t parent; /* the id of what it was split off, 0: of none, or unknown */
	int32_t rank;	 /* -1: unknown */
	uint32_t size;	 /* ranks; 0: unknown */
	/* Of a part: those with the same color are in it, in order of the key. */
	int32_t color, split_key;
	uint32_t splits; /* parts that were split off it */
	int16_t device;
	uint64_t created_ns; /* 0: before tracing started */
	uint64_t ended_ns;   /* 0: not yet */
};

/* Sums over calls of a second on a communicator that differ only in the rest. A run is what went to
 * the device at once: a call, or those of a group. */
struct core_collective {
	uint64_t second; /* in which the kernel ended or, where that is unknown, the call */
	uint32_t process;
	uint32_t communicator;	     /* its number in the process, 0: it was one of too many */
	int32_t peer;		     /* or root; -1: none, or several in a run */
	uint8_t operation;	     /* enum collective */
	uint8_t type;		     /* ncclDataType_t + 1, 0: several in a run, or unknown */
	uint8_t reduction;	     /* ncclRedOp_t + 1, 0: none, or several in a run */
	uint8_t size;		     /* of the bytes of a run: it is less than 2^size */
	uint64_t calls, bytes, runs; /* bytes: as the call counts, of all ranks or of each */
	uint64_t shared;	     /* of the runs: of several calls */
	/* Of those runs whose time on the device is known: */
	uint64_t timed, timed_bytes, total_ns, min_ns, max_ns;
};

#endif
