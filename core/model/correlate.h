/* correlate.h: which call submitted what the device did. */
#ifndef TS_CORE_CORRELATE_H
#define TS_CORE_CORRELATE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/list.h"
#include "core/model/op.h"
#include "proto/event.h"

struct call;
struct caller;
struct core;
struct exact;
struct pending;
struct process;

/* What the parts of a submitted work inherit from its call. */
struct ticket_call {
	uint64_t start_ns, end_ns, seen_ns;
	uint64_t stack_id;
	uint64_t seq; /* in its stream */
	uint32_t stream;
	uint32_t tid;
	int32_t result;
	uint16_t fn;
	uint16_t flags; /* enum op_flag */
};

/* What is known of one correlation id of a process. */
struct ticket {
	struct list link;      /* in one of exact's lists */
	struct list in_caller; /* in the caller's, while it has no call */
	struct list answers;   /* struct answer waiting for the call */
	struct pending *pending;
	uint64_t since_ns; /* in its list, by our time */
	uint64_t start_ns, end_ns;
	uint64_t at_ns; /* its thread was in the call then, or had just made it */
	int32_t result;
	uint32_t correlation;
	uint32_t ns_tid;
	uint16_t activity; /* CUPTI's number of the function */
	bool called;	   /* the record of the call has come */
	bool around;	   /* it is of a runtime function, in which the call was made */
	bool joined;	   /* to match with the call: */
	struct ticket_call call;
	/* Parts that were recorded separately, 0: none. */
	uint64_t first_ns, last_ns; /* start of the first, end of the latest */
	uint32_t graph;
	int16_t device;
};

/* A record of the device that waits for its call. */
struct answer {
	struct list link;
	struct ts_event event;
	bool swept; /* already in the states */
};

void correlate_init(struct exact *exact);
/* A call has submitted work; whether its record is awaited. */
void correlate_submitted(struct call *call, struct pending *pending);
/* A call that submits nothing to wait for. */
void correlate_called(struct call *call);
/* The op leaves the model. */
void correlate_leave(struct core *core, struct pending *pending);

/* Recording started: work submitted since then is awaited too. */
void correlate_begin(struct core *core, struct exact *exact, uint64_t since_ns);
/* What is no longer recorded, from then on, is not awaited. */
void correlate_change(struct core *core, struct exact *exact, uint64_t since_ns);
/* No more records come; work submitted before `until_ns` should have been answered. Returns until
 * when it is known what the device did: at most `until_ns`. */
uint64_t correlate_end(struct core *core, struct exact *exact, uint64_t until_ns);
void correlate_tick(struct core *core, struct exact *exact, uint64_t now_ns);

/* Handlers of records, see core.c. */
int correlate_call(struct core *core, struct process *process, const struct ts_event *event);
int correlate_work(struct core *core, struct process *process, const struct ts_event *event);

#endif
