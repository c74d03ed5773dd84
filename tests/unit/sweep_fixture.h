/* sweep_fixture.h: work in a recorded process, and the exact states that it must have. */
#ifndef TS_SWEEP_FIXTURE_H
#define TS_SWEEP_FIXTURE_H

#include "core/base/array.h"
#include "exact_fixture.h"

struct expected {
	uint8_t state;
	uint64_t start_ms, end_ms;
};

/* The exact intervals of one stream (by id; 0: of the device), in order; pieces are put together.
 */
static inline void expect(uint32_t stream, int16_t device, const struct expected *expected,
			  size_t count)
{
	size_t n = 0;

	for (size_t i = 0; i < seen.states; i++) {
		const struct op *op = &seen.state[i];

		if (op->stream != stream || !(op->flags & OP_EXACT) ||
		    (!stream && op->device != device))
			continue;
		if (n && expected[n - 1].state == op->detail &&
		    expected[n - 1].end_ms * MS > op->start_ns)
			continue;
		assert_true(n < count);
		assert_int_equal(op->detail, expected[n].state);
		assert_int_equal(op->start_ns, expected[n].start_ms * MS);
		n++;
	}
	assert_int_equal(n, count);
}

#define EXPECT(stream, ...)                                                                        \
	do {                                                                                       \
		const struct expected list[] = { __VA_ARGS__ };                                    \
		expect(stream, DEVICE_UNKNOWN, list, ARRAY_SIZE(list));                            \
	} while (0)

static inline struct ts_event work_on(uint16_t kind, uint32_t correlation, uint64_t start_ms,
				      uint64_t end_ms, uint32_t stream)
{
	struct ts_event event = work_event(kind, correlation, start_ms * MS, end_ms * MS, stream);

	event.work.device = UINT32_MAX;
	return event;
}

static inline void run(enum fn fn, uint32_t correlation, uint64_t stream, uint64_t call_ms,
		       uint64_t start_ms, uint64_t end_ms)
{
	uint32_t number = stream == S1 ? N1 : N2;
	struct ts_event event = work_on(fn == FN_COPY ? TS_EVENT_COPY : TS_EVENT_KERNEL,
					correlation, start_ms, end_ms, number);

	on_stream(fn, call_ms * MS, 0, stream);
	call_record(correlation, fn, call_ms * MS + 1, call_ms * MS + 2);
	tell(&event);
}

#endif
