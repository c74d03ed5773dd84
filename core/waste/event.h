/* event.h: what is remembered of an allocation, free, copy or set, and what is found. */
#ifndef TS_WASTE_EVENT_H
#define TS_WASTE_EVENT_H

#include <stdint.h>

#include "core/base/bytes.h"
#include "core/model/op.h"
#include "core/waste/pattern.h"

struct event {
	uint64_t start_ns, end_ns, done_ns;
	uint64_t address, bytes, stack;
	union {
		uint64_t source;  /* of a copy */
		uint64_t used_ns; /* of an allocation: its last use, 0: none */
	};
	int16_t device;
	uint16_t fn, flags;
	uint8_t kind, detail;
};

static inline uint64_t event_took_ns(const struct event *event)
{
	return event->end_ns - event->start_ns;
}

static inline uint64_t add_bounded(uint64_t a, uint64_t b)
{
	return bytes_bounded(bytes_bounded(a) + bytes_bounded(b));
}

static inline uint64_t times_bounded(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : bytes_bounded(product);
}

#endif
