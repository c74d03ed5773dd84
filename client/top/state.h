/* state.h: what the daemon has said of devices and processes, as rows to show. Pure: it takes
 * replies, and gives the shares and rates that follow from them. */
#ifndef TS_TOP_STATE_H
#define TS_TOP_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/top/lanes.h"
#include "core/model/loss_row.h"
#include "proto/control.pb-c.h"

#define TOP_HISTORY LANES_HISTORY /* of the busy share, seconds */
#define TOP_TEXT    64
#define TOP_USES    16 /* devices of a process that are looked at */

struct top_share {
	bool known;
	bool most;    /* it is at most that */
	double value; /* of the time, at most 1 */
};

struct top_device {
	int32_t device; /* -1: unknown */
	char uuid[33];
	uint64_t memory_bytes, live_bytes; /* 0: unknown */
	struct top_share busy;
	uint32_t busy_age;	     /* replies since it was known */
	double history[TOP_HISTORY]; /* the latest last; negative: unknown */
	double copies_per_s, in_per_s, out_per_s;
	const char *state; /* what it does most of the other time, or NULL */
	const char *why;   /* in words */
	double state_share;
	bool unwatched; /* launches of a process on it were not watched all the time */
	uint32_t processes;
};

/* Of a device. */
struct top_use {
	int32_t device;
	struct top_share busy;
};

struct top_process {
	uint32_t id, pid, ppid, uid;
	uint32_t depth; /* in the tree */
	char user[TOP_TEXT], comm[TOP_TEXT], container[TOP_TEXT + 1], tier[TOP_TEXT];
	struct top_share busy; /* of all its devices */
	uint32_t busy_age;
	uint64_t live_bytes, peak_bytes, growth_bytes;
	double calls_per_s, launches_per_s, errors_per_s;
	bool launches_known; /* else none was seen while not all of them were watched */
	double waits;	     /* threads that wait, on average */
	uint64_t lost;	     /* since it is watched */
	bool priced;
	double cost, budget, watched; /* shares; budget 0: none */
	bool windows;		      /* rates are of part of the time */
	bool unwatched;		      /* so are they, or some calls were not watched at all */
	struct top_use use[TOP_USES];
	size_t uses;
	uint32_t streams_left_out;
	bool quiet; /* the last reply had nothing new of it */
};

enum top_sort {
	TOP_BY_BUSY,
	TOP_BY_MEMORY,
	TOP_BY_LAUNCHES,
	TOP_BY_WAITS,
	TOP_BY_GROWTH,
	TOP_BY_COST,
	TOP_BY_PID,
	TOP_BY_COMM,
	TOP_SORTS
};
extern const char *const top_sort_names[TOP_SORTS]; /* of the columns */

struct top_state {
	struct top_device *device;
	size_t devices, device_room;
	struct top_process *process; /* in the order of the last top_order() */
	size_t processes, process_room;
	struct top_lanes lanes;
	uint64_t replies;
	uint64_t span_ns; /* of the last one; 0: the first, which has no rates */
	uint32_t left_out;
	/* Since it is watched: by reason, 0 for those of a newer version, of which the last has the
	 * name; and what is counted of all. */
	struct top_loss {
		uint64_t count, time_ns;
	} loss[LOSS_REASON_MAX + 1];
	char loss_name[TOP_TEXT];
	uint64_t lost;
};

/* `user` gives the name of a uid. -ENOMEM: `state` is as it was, or has part of the reply. */
typedef void top_user_fn(uint32_t uid, char name[TOP_TEXT]);
int top_apply(struct top_state *state, const Tracesmith__V1__LiveReply *live, top_user_fn *user);
/* Nothing is known any more, but the history. */
void top_forget(struct top_state *state);
void top_clear(struct top_state *state);
/* What is missing, as answers say it, to be freed; "": nothing. NULL: no memory,
 * which it says. */
char *top_missing(const struct top_state *state);
void top_order(struct top_state *state, enum top_sort sort, bool reverse);
/* After that: each behind its parent, as far as that uses CUDA, too. -ENOMEM: as it was. */
int top_tree(struct top_state *state);
/* The text is in the name, user, container, tier or pid; "" is in all. */
bool top_matches(const struct top_process *process, const char *text);

#endif
