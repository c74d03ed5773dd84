/* track.h: which of our streams a CUPTI number means. */
#ifndef TS_CORE_TRACK_H
#define TS_CORE_TRACK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/list.h"
#include "proto/event.h"

struct core;
struct exact;
struct lane;
struct process;

struct track {
	struct list link; /* in exact's */
	struct lane *lane;
	uint32_t context, number;
	uint32_t stream; /* id */
	bool learned;	 /* from matched work */
};

/* A context by its number. */
struct exact_context {
	struct list link; /* in exact's */
	uint64_t handle;  /* 0: unknown */
	uint32_t number, null_stream;
	int16_t device;
};

/* Work on the stream with this id has that number. */
void track_learn(struct core *core, struct exact *exact, const struct ts_work *work,
		 uint32_t stream);
bool track_is_known(struct exact *exact, const struct ts_work *work);
/* The id of the stream that work ran on; 0: a limit was reached. */
uint32_t track_stream(struct core *core, struct exact *exact, const struct ts_work *work);
/* Its lane. NULL: none. */
struct lane *track_lane(struct core *core, struct exact *exact, const struct ts_work *work);
/* The sweep has ended. */
void track_drop_lanes(struct exact *exact);
void track_free_all(struct exact *exact);

/* Handler of records, see core.c. */
int track_context(struct core *core, struct process *process, const struct ts_event *event);

#endif
