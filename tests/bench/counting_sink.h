/* counting_sink.h: a sink that keeps nothing, so that the model alone is measured. */
#ifndef TS_BENCH_COUNTING_SINK_H
#define TS_BENCH_COUNTING_SINK_H

#include "core/model/core.h"

static uint64_t told;

static inline void tell_op(void *data, const struct op *op)
{
	told += op->start_ns;
}

static inline void tell_process(void *data, const struct core_process *process)
{
	told++;
}

static inline void tell_stream(void *data, const struct core_stream *stream)
{
	told++;
}

static inline void tell_stack(void *data, const struct core_process *process,
			      const struct ts_stack *stack)
{
	told++;
}

static inline void tell_allocation(void *data, const struct core_allocation *allocation, bool live)
{
	told++;
}

static inline void tell_memory(void *data, const struct core_memory *memory)
{
	told++;
}

static inline void tell_rollup(void *data, const struct core_rollup *rollup)
{
	told++;
}

static inline void tell_loss(void *data, const struct core_loss *loss)
{
	told++;
}

static inline void tell_name(void *data, uint64_t id, const char *text, size_t length)
{
	told++;
}

static inline void tell_work(void *data, const struct core_work *work)
{
	told++;
}

static inline void tell_busy(void *data, const struct core_busy *busy)
{
	told++;
}

static inline void tell_device(void *data, const struct core_device *device)
{
	told++;
}

static inline void tell_collect(void *data, const struct core_collect *collect)
{
	told++;
}

static inline void tell_pool(void *data, const struct core_pool *pool, bool live)
{
	told++;
}

#define COUNTING_SINK                                                                              \
	{                                                                                          \
		tell_op, tell_process, tell_stream, tell_stack, tell_allocation, tell_memory,      \
			tell_rollup, tell_loss, tell_name, tell_work, tell_busy, tell_device,      \
			tell_collect, tell_pool                                                    \
	}

#endif
