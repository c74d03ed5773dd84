/* Range: our library of ranges (inject/range/), whose functions do nothing but carry a probe. */
#include "core/base/array.h"
#include "daemon/library/library.h"

#define TO(field) (uint8_t) offsetof(struct ts_api, field)
#define PIECE(offset, field)                                                                       \
	{                                                                                          \
		PROBE_FIELD, 1, 8, TO(field), offset                                               \
	}
#define ROW(row, symbol, what, ...)                                                                \
	{                                                                                          \
		.number = row, .model.name = symbol, .model.kind = OP_RANGE, .model.detail = what, \
		.flags = PROBE_ALWAYS, .slot = {                                                   \
			{ PROBE_ARG, 0, 8, TO(handle), 0 },                                        \
			__VA_ARGS__                                                                \
		}                                                                                  \
	}

/* The name goes into all fields but `handle`, as core/model/range.c takes it out of them. */
_Static_assert(TS_RANGE_NAME_SIZE == sizeof(struct ts_api) - sizeof(__u64), "it fits");

static const struct library_function range_function[] = {
	ROW(300, "tracesmith_probe_begin", TS_RANGE_BEGIN, PIECE(0, context), PIECE(8, stream),
	    PIECE(16, address), PIECE(24, source), PIECE(32, bytes), PIECE(40, word[0]),
	    PIECE(48, word[2]), PIECE(56, word[4]), PIECE(64, word[6])),
	ROW(301, "tracesmith_probe_end", TS_RANGE_END),
	ROW(302, "tracesmith_probe_cut", TS_RANGE_CUT),
};

const struct library_row library_range = {
	.name = "range",
	.files = "libtracesmith-range.so*",
	.places = "/usr/lib/x86_64-linux-gnu/libtracesmith-range.so.1 "
		  "/usr/lib64/libtracesmith-range.so.1 /usr/lib/libtracesmith-range.so.1 "
		  "/usr/local/lib/libtracesmith-range.so.1 "
		  "/usr/local/lib/x86_64-linux-gnu/libtracesmith-range.so.1",
	.gap = LOSS_GAP_RANGE,
	.function = range_function,
	.count = ARRAY_SIZE(range_function),
};
