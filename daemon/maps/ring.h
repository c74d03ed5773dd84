/* ring.h: the kernel's perf rings, one per CPU, read as one stream in the order of time. */
#ifndef TS_MAPS_RING_H
#define TS_MAPS_RING_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/maps/record.h"

struct perf_event_mmap_page;

/* Who opens the kernel's events of one CPU (event_mapped()), if not we ourselves. */
struct maps_events {
	int (*open)(void *data, int cpu);
	void *data;
};

struct maps_ring {
	int fd;
	struct perf_event_mmap_page *page;
	const uint8_t *data;
	size_t size;
	uint64_t head, tail;
	uint64_t time_ns; /* of the record at the tail, UINT64_MAX: empty */
};

struct maps_rings {
	struct maps_ring *ring;
	uint32_t count;
	int epoll_fd; /* readable when any ring has something */
	/* A copy of one record. */
	uint8_t raw[PATH_MAX + 256] __attribute__((aligned(8)));
};

/* Makes a ring of `size` bytes on every CPU, or smaller if less may be locked. */
int maps_rings_open(size_t size, const struct maps_events *events, struct maps_rings **ret);
struct maps_rings *maps_rings_free(struct maps_rings *rings);

/* Looks for new records; true: there are some. */
bool maps_rings_refresh(struct maps_rings *rings);
/* Of what refresh saw, something was later than the horizon. */
bool maps_rings_waiting(const struct maps_rings *rings);
/* The oldest record not later than `horizon_ns`. 1: here it is; 0: none. */
int maps_rings_next(struct maps_rings *rings, uint64_t horizon_ns, struct maps_record *ret);

#endif
