/* exact_fixture.h: what the library of a process says, for stories of the exact tier. */
#ifndef TS_EXACT_FIXTURE_H
#define TS_EXACT_FIXTURE_H

#include "core_fixture.h"

#define MS 1000000ull
#define S1 0x1000
#define S2 0x2000
/* CUPTI's numbers of them. */
#define N1 11
#define N2 12

/* When the model last was told the time. */
static uint64_t clock_ns;

static inline int tell(const struct ts_event *event)
{
	const struct core_origin origin = { .pid = pid };

	return core_ingest(core, &origin, event, sizeof(*event));
}

static inline struct ts_event library_event(uint16_t kind, uint64_t start_ns, uint64_t end_ns)
{
	return (struct ts_event){
		.kind = kind,
		.tgid = pid,
		.tid = tid,
		.ns_tid = tid,
		.start_ns = start_ns,
		.end_ns = end_ns,
	};
}

static inline int collect(enum ts_collect_state state, uint64_t time_ns, uint32_t records)
{
	struct ts_event event = library_event(TS_EVENT_COLLECT, time_ns, 0);

	event.collect.state = state;
	event.collect.records = records;
	return tell(&event);
}

/* The model's clock goes on to then, in the steps of the daemon. */
static inline void pass_until(uint64_t time_ns)
{
	while (clock_ns < time_ns) {
		clock_ns = time_ns - clock_ns > 125 * MS ? clock_ns + 125 * MS : time_ns;
		core_tick(core, clock_ns);
		core_checkpoint(core, clock_ns);
	}
}

/* A process that has been recorded since 1 s. */
static inline void begin_exact(void)
{
	clock_ns = 1000 * MS;
	announce();
	core_tick(core, clock_ns);
	assert_int_equal(collect(TS_COLLECT_STARTED, clock_ns, TS_RECORDS_DEFAULT), INGEST_OK);
}

static inline int range(enum ts_range_part part, uint32_t number, uint64_t time_ns)
{
	struct ts_event event = library_event(TS_EVENT_RANGE, time_ns, 0);

	event.range.part = part;
	event.range.number = number;
	return tell(&event);
}

static inline int call_failed(uint32_t correlation, enum fn fn, uint64_t start_ns, uint64_t end_ns,
			      int32_t result)
{
	struct ts_event event = library_event(TS_EVENT_CALL, start_ns, end_ns);

	event.fn = fixture_functions[fn].activity[0];
	event.flags = TS_EVENT_RETURNED;
	event.result = result;
	event.call.correlation = correlation;
	return tell(&event);
}

static inline int call_record(uint32_t correlation, enum fn fn, uint64_t start_ns, uint64_t end_ns)
{
	return call_failed(correlation, fn, start_ns, end_ns, 0);
}

static inline struct ts_event work_event(uint16_t kind, uint32_t correlation, uint64_t start_ns,
					 uint64_t end_ns, uint32_t stream)
{
	struct ts_event event = library_event(kind, start_ns, end_ns);

	event.work.correlation = correlation;
	event.work.context = 1;
	event.work.stream = stream;
	return event;
}

static inline int kernel(uint32_t correlation, uint64_t start_ns, uint64_t end_ns, uint32_t stream)
{
	struct ts_event event = work_event(TS_EVENT_KERNEL, correlation, start_ns, end_ns, stream);

	event.work.grid[0] = event.work.block[0] = 1;
	return tell(&event);
}

static inline int node(uint32_t correlation, uint64_t start_ns, uint64_t end_ns, uint32_t stream,
		       uint64_t number)
{
	struct ts_event event = work_event(TS_EVENT_KERNEL, correlation, start_ns, end_ns, stream);

	event.work.graph = 7;
	event.work.node = number;
	return tell(&event);
}

static inline size_t ops_with(uint16_t flags)
{
	size_t count = 0;

	for (size_t i = 0; i < seen.ops; i++)
		count += (seen.op[i].flags & flags) == flags;
	return count;
}

/* The op whose work started then on the device; there must be exactly one. */
static inline const struct op *op_that_ran_at(uint64_t gpu_start_ns)
{
	const struct op *found = NULL;

	for (size_t i = 0; i < seen.ops; i++) {
		if (!(seen.op[i].flags & OP_EXACT) || seen.op[i].gpu_start_ns != gpu_start_ns)
			continue;
		assert_null(found);
		found = &seen.op[i];
	}
	assert_non_null(found);
	return found;
}

#endif
