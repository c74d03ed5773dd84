/* exact.h: what the library in a process has told, and how it collects. */
#ifndef TS_CORE_EXACT_H
#define TS_CORE_EXACT_H

#include "core/base/list.h"
#include "core/base/map.h"
#include "core/model/core.h"
#include "core/model/sweep.h"

struct caller;
struct process;

/* A time in which something is left out. */
struct exact_gap {
	uint64_t since_ns; /* 0: there is none */
	uint64_t told_ns;  /* it was told up to then, 0: not yet */
};

/* Calls of before a change, which may still come. */
struct exact_former {
	uint64_t until_ns; /* made before then; 0: they have come */
	uint64_t told_ns;  /* of the change, by our time */
	uint32_t records;  /* that were handed over of them */
};

/* Of a process from its library's first record on. */
struct exact {
	struct list link; /* in core's exacts */
	struct process *process;
	struct core_collect row;
	bool untold;	  /* the row has changed */
	uint32_t changes; /* since the last checkpoint */
	bool on;	  /* records come: started or resumed */
	struct exact_former former;
	uint64_t ended_ns; /* the process has, 0: not; the rest of its records is awaited */
	int32_t exit_code; /* then */
	uint64_t heard_ns; /* the latest record came, by our time */
	uint64_t on_ns;	   /* when we knew that they come */
	uint64_t off_ns;   /* when they ended, 0: they come */
	struct exact_gap pause, economy; /* another has CUPTI; a budget leaves records out */
	struct exact_gap away;		 /* a former daemon collected, we do not yet */
	uint64_t away_until_ns;		 /* after which its library will not come */
	struct list devices;		 /* struct exact_device */
	struct list pools;		 /* struct gpu_pool */
	struct map name_by_id;		 /* name.c */

	struct map caller_by_tid; /* caller.c */
	struct list callers;
	struct caller *caller; /* the latest */

	struct map ticket_by_correlation; /* correlate.c; its lists oldest first */
	struct list fresh;		  /* struct ticket: CALLs whose call may still come */
	struct list waiting;		  /* for their call, or their CALL */
	struct list joined;		  /* their call's op is here */
	struct list done;		  /* it has left */
	struct list awaiting;		  /* struct pending */
	struct list resting;		  /* likewise: their parts came, and no more for long */
	uint32_t held;			  /* tickets and answers */
	uint32_t first_correlation;	  /* of the calls of this collection, 0: none yet */
	uint64_t *fingerprint;		  /* answer.c: of the latest records */

	struct map track_by_number; /* track.c */
	struct list tracks, contexts;
	uint32_t numbered; /* streams that were made for them */

	struct map range_by_number; /* range.c */
	struct list ranges;

	struct sweep sweep;
};

/* Made on first sight. NULL: no memory, counted. */
struct exact *exact_get(struct core *core, struct process *process);
/* Whether the states of its streams and devices are exact now. */
bool exact_is_swept(const struct process *process);

/* The process has ended. Whether the rest of its records is still to come: then it ends later. */
bool exact_lingers(struct process *process, uint64_t time_ns, int32_t exit_code);
/* The library is gone. */
/* Of a process that a former daemon collected from. */
int exact_restore(struct core *core, struct process *process, uint64_t since_ns);
void exact_gone(struct core *core, struct process *process, uint64_t time_ns);
/* The process, or its program, is no more: whatever waits leaves. */
void exact_end(struct core *core, struct process *process, uint64_t time_ns);
void exact_tick(struct core *core, uint64_t now_ns);
void exact_checkpoint(struct core *core, uint64_t now_ns);
/* Lets everything that waits leave. */
void exact_flush(struct core *core, uint64_t now_ns);
void exact_free(struct process *process);

/* Handlers of records, see core.c. */
int exact_collect(struct core *core, struct process *process, const struct ts_event *event);
int exact_cost(struct core *core, struct process *process, const struct ts_event *event);
int exact_lost(struct core *core, struct process *process, const struct ts_event *event);
int exact_device(struct core *core, struct process *process, const struct ts_event *event);

#endif
