/* counting_sink.h: a sink that keeps nothing, so that the model alone is measured. */
#ifndef TS_BENCH_COUNTING_SINK_H
#define TS_BENCH_COUNTING_SINK_H

#include "core/model/core.h"

static uint64_t told;

static inline void tell_op(void *data, const struct op *op)
{
	told += op->start_ns;
}

static inline void tell_row(void *data, enum core_row type, const void *row)
{
	told++;
}

#define COUNTING_SINK                                                                              \
	{                                                                                          \
		tell_op, tell_row                                                                  \
	}

#endif
