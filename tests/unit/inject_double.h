/* inject_double.h: what the library of the test shows beside its own symbols: how often its CUPTI,
 * which collects nothing, was called, and the way records go. */
#ifndef INJECT_DOUBLE_H
#define INJECT_DOUBLE_H

#include "inject/internal.h"

struct double_counts {
	uint32_t starts, settings, windows, ticks, suspends, stops, exits, forks;
	uint32_t records; /* settings.records of the last start or settings */
	uint32_t open;	  /* of the last window */
	uint32_t clings;  /* set: cupti_stop() says that something still refers to us */
};

struct inject_double {
	struct double_counts *counts;
	int (*put)(const void *record, size_t size);
	void (*lost)(enum ts_lost_reason reason, uint64_t count);
	void (*wake)(void);
};

const struct inject_double *inject_double(void);

#endif
