/* call.h: one driver call on its way to becoming an op. */
#ifndef TS_CORE_CALL_H
#define TS_CORE_CALL_H

#include "core/model/model.h"

struct call {
	struct core *core;
	struct process *process;
	const struct ts_event *event;
	struct context *context; /* the named or current one, never NULL */
	struct stream *stream;	 /* NULL: none, or not tracked */
	struct op *op;
	bool noted; /* remembered for the exact tier, which adds it to the rollups later */
	bool held;  /* the timeline has the op now */
	bool bad;   /* its effect is invalid */
};

/* When its effect has happened at the latest, as far as known. */
static inline uint64_t call_end_ns(const struct call *call)
{
	return call->op->end_ns ? call->op->end_ns : call->op->start_ns;
}

/* The thread as its own PID namespace counts it. */
static inline uint32_t call_ns_tid(const struct ts_event *event)
{
	return event->ns_tid ? event->ns_tid : event->tid;
}

/* Of a report by a framework: the device's number, above its type. */
static inline int16_t call_framework_device(const struct ts_event *event)
{
	return context_device((uint8_t)(event->api.device >> 8));
}

/* A call whose return is not probed, against what its function says: by the settings, or as the
 * kernel would harm the program. */
static inline bool call_is_at_entry(const struct ts_event *event, const struct function *function)
{
	return function->returns && !(event->flags & (TS_EVENT_RETURNED | TS_EVENT_UNFINISHED));
}

/* A copy or set of zero bytes: no work for the device. */
bool call_does_nothing(const struct op *op, const struct function *function);

/* oom.c: looks at the result of a call, whatever it is. */
void oom_look(struct call *call);
/* A framework reports that it has no memory to give out. */
void oom_reported(struct call *call);
/* The driver says how much is free. */
void oom_room(struct call *call);

/* The call shows that its device has that much memory. */
void call_shows_size(struct call *call, uint64_t bytes);

/* Whether every row of the function table is valid. */
bool call_table_ok(const struct function_table *table);
/* Handler of API records, see core.c. */
int call_ingest(struct core *core, struct process *process, const struct ts_event *event);

#endif
