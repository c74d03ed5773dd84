/* internal.h: shared by the files of live. */
#ifndef TS_LIVE_INTERNAL_H
#define TS_LIVE_INTERNAL_H

#include "core/base/arena.h"
#include "core/base/list.h"
#include "core/base/map.h"
#include "core/model/core.h"
#include "proto/control.pb-c.h"

#define LIVE_MINIMA 5 /* of 10 s each, all growing */

/* What a process has on a device. */
struct live_use {
	struct list link;
	int16_t device;
	bool used;  /* not only asked for its size */
	bool told;  /* its library described the device */
	bool exact; /* its states come from records */
	struct core_device row;
	uint64_t live_bytes[MEMORY_KIND_MAX + 1], peak_bytes[MEMORY_KIND_MAX + 1];
	uint64_t ns[OP_STATE_MAX + 1];
	uint64_t marked_ns; /* counted up to then, without records */
	Tracesmith__V1__LiveReply__Calls calls;
};

struct live_process {
	struct list link;
	struct core_process row;
	struct list uses, streams;
	Tracesmith__V1__LiveReply__Calls calls;
	Tracesmith__V1__LiveReply__Calls taken; /* as the last message has them */
	uint64_t lost, weight;
	bool unwatched;	  /* for some of the time since the last message */
	uint32_t collect; /* enum ts_collect_state, 0: not recorded */
	bool described;
	char container[65];
	int32_t cost_ppm;
	uint32_t budget_ppm, watched_ppm;
	bool priced;
	struct {
		uint64_t least, since_ns;
		uint64_t minimum[LIVE_MINIMA]; /* the latest last */
		uint32_t count;
	} growth;
	struct map_key told; /* what the last message said of it */
};

struct live {
	bool on;
	uint64_t taken_ns;
	struct list processes;
	struct map process_by_id, stream_by_id;
	uint32_t *gone; /* ids, since the last message */
	size_t gone_count, gone_room;
	/* By reason, since the last message: how many, and for how long something was not seen, of
	 * whatever process; it is known up to `seen_ns`. */
	struct live_loss {
		uint64_t count, time_ns, seen_ns;
	} lost[LOSS_REASON_MAX + 1];
	uint64_t started_ns;
	struct arena arena; /* of the last message */
};

struct live_process *live_process(const struct live *live, uint32_t id);
uint64_t live_bytes(const struct live_use *use);

/* stream.c */
int streams_take(struct live *live, const struct live_process *process,
		 Tracesmith__V1__LiveReply__Process *ret);
void streams_start_again(struct live *live, struct live_process *process);
void streams_free(struct live *live, struct live_process *process);

#endif
