/* perfetto.h: what the parts of the Perfetto export share: the tracks of a trace.
 *
 * A process has a track. Below it are one for each thread, with the calls that it made (and below
 * that its NVTX ranges and CUPTI's overhead); one for the memory of each device; one for each
 * device that is known by bounds, with the states of its streams; and a group for each device that
 * is known exactly: its state, counters, and for each stream what ran on it and its state.
 * A track is written right before the first event that needs it. Uuids count up.
 */
#ifndef TS_CLIENT_EXPORT_PERFETTO_H
#define TS_CLIENT_EXPORT_PERFETTO_H

#include "client/export/bins.h"
#include "client/export/export.h"
#include "client/export/lane.h"
#include "client/output/out.h"

/* What a track, or a thing that is sent once, is. */
enum what {
	WHAT_PROCESS,
	WHAT_THREAD,
	WHAT_MEMORY,
	WHAT_BOUNDS,	    /* states of a device */
	WHAT_BOUNDS_STREAM, /* of a stream */
	WHAT_GPU,
	WHAT_STATES, /* of a stream, exact */
	WHAT_LOSSES,
	/* Rows of lanes: */
	WHAT_KERNELS, /* of a stream; shown as one row with the next */
	WHAT_COPIES,
	WHAT_RANGES, /* of a thread */
	WHAT_OVERHEAD,
	WHAT_LOSS, /* for one reason */
	/* No tracks: */
	WHAT_SYMBOL,
	WHAT_FILE,
	WHAT_FRAME,
	WHAT_STACK,
	WHAT_NAME,
};

/* Counted over time for a device of a process, and written at the end. */
struct gpu {
	struct gpu *next;
	uint64_t track;
	struct bins busy, copied;
};

struct exporter {
	const struct meta *meta;
	struct out *out;
	struct export_order order;
	struct map seen;   /* what was written */
	struct map number; /* uuids and struct gpu, by what they are of */
	struct rows rows;
	struct gpu *gpu; /* newest first */
	uint64_t track_count;
	/* Of the last call: the next one is mostly of the same. */
	uint64_t thread_key, thread_track;
};

/* These give the uuid of a track, and write the track where that was not done. */
int perfetto_thread_track(struct exporter *x, const struct op *op, uint64_t *ret);
int perfetto_memory_track(struct exporter *x, const struct op *op, uint64_t *ret);
int perfetto_state_track(struct exporter *x, const struct op *op, uint64_t *ret);
/* Of work, a range or overhead from start to end. */
int perfetto_lane_track(struct exporter *x, const struct op *op, uint64_t start_ns, uint64_t end_ns,
			uint64_t *ret);
int perfetto_loss_track(struct exporter *x, const struct meta_loss *loss, uint64_t *ret);
int perfetto_gpu(struct exporter *x, const struct op *op, struct gpu **ret);
/* Writes what was counted for each device. */
int perfetto_gpu_counters(struct exporter *x);
void perfetto_tracks_clear(struct exporter *x);

#endif
