/* exact.h: what the library in a process has reported, and how the process is recorded. */
#ifndef TS_CORE_EXACT_H
#define TS_CORE_EXACT_H

#include "core/base/list.h"
#include "core/base/map.h"
#include "core/model/core.h"
#include "core/model/range.h"
#include "core/model/sweep.h"

struct caller;
struct process;
struct ticket;

/* A period in which something is left out. */
struct exact_gap {
	uint64_t since_ns; /* 0: there is none */
	uint64_t told_ns;  /* reported up to then, 0: not yet */
};

/* Calls made before a change, which may still come. */
struct exact_former {
	uint64_t until_ns; /* made before then; 0: they have come */
	uint64_t told_ns;  /* of the change, by our time */
	uint32_t records;  /* how many of them were handed over */
};

/* State of a process from its library's first record on. */
struct exact {
	struct list link; /* in core's exacts */
	struct process *process;
	struct core_collect row;
	bool untold;	  /* the row has changed */
	uint32_t changes; /* since the last checkpoint */
	bool on;	  /* records come: started or resumed */
	struct exact_former former;
	uint64_t ended_ns; /* the process has ended, 0: not; the rest of its records is awaited */
	int32_t exit_code; /* then */
	uint64_t heard_ns; /* the latest record came, by our time */
	uint64_t on_ns;	   /* when we learned that they come */
	uint64_t off_ns;   /* when they ended, 0: they come */
	struct exact_gap pause, economy; /* another user has CUPTI; the budget leaves records out */
	struct exact_gap away;		 /* a former daemon recorded it, we do not yet */
	uint64_t away_until_ns;		 /* after this its library will not come */
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
	struct list resting;		  /* likewise: their parts came, and no more for a while */
	uint32_t held;			  /* tickets and answers */
	uint32_t first_correlation;	  /* of the calls of this recording, 0: none yet */
	uint64_t *fingerprint;		  /* answer.c: of the latest records */

	struct map track_by_number; /* track.c */
	struct list tracks, contexts;
	uint32_t numbered; /* streams created for them */

	struct ranges ranges;

	struct sweep sweep;
};

/* Created on first use. NULL: no memory, counted. */
struct exact *exact_get(struct core *core, struct process *process);
/* Whether the states of its streams and devices are exact now. */
bool exact_is_swept(const struct process *process);

/* The process has ended. Whether more records are still to come: then it ends later. */
bool exact_lingers(struct process *process, uint64_t time_ns, int32_t exit_code);
/* The library is gone. */
/* For a process that a former daemon recorded. */
int exact_restore(struct core *core, struct process *process, uint64_t since_ns);
void exact_gone(struct core *core, struct process *process, uint64_t time_ns);
/* The process, or its program, is gone: whatever waits leaves. */
void exact_end(struct core *core, struct process *process, uint64_t time_ns);
void exact_tick(struct core *core, uint64_t now_ns);
void exact_checkpoint(struct core *core, uint64_t now_ns);
/* Lets everything that waits leave. */
void exact_flush(struct core *core, uint64_t now_ns);
void exact_free(struct core *core, struct process *process);
/* One more that waits for its call, or one less. -ENOMEM. */
int exact_hold(struct core *core, struct exact *exact);
void exact_let_go(struct core *core, struct exact *exact);
/* The least valuable of those that wait, NULL: there is none. */
struct ticket *exact_victim(const struct exact *exact);
/* Of the user who has most of an enum core_share, the process that has most. NULL: nobody. */
struct exact *exact_biggest(struct core *core, int share);

/* The library has described it. */
bool exact_knows_device(const struct exact *exact, int16_t ordinal);

/* How it is recorded, and its devices. */
void exact_look(const struct exact *exact, core_row_fn *row, void *data);

/* Handlers of records, see core.c. */
int exact_collect(struct core *core, struct process *process, const struct ts_event *event);
int exact_cost(struct core *core, struct process *process, const struct ts_event *event);
int exact_lost(struct core *core, struct process *process, const struct ts_event *event);
int exact_device(struct core *core, struct process *process, const struct ts_event *event);

#endif
