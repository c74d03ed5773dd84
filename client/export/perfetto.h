/* perfetto.h: the tracks of the Perfetto export, which its parts share.
 *
 * A process has a track. Below it are a track per thread with its calls (and below that its NVTX
 * ranges and CUPTI's overhead); one for the memory of each device; one per device known only by
 * bounds, with the states of its streams; and a group per device known exactly: its state,
 * counters, and for each stream what ran on it and its state. A track is written right before the
 * first event that needs it. Uuids count up. */
#ifndef TS_CLIENT_EXPORT_PERFETTO_H
#define TS_CLIENT_EXPORT_PERFETTO_H

#include "client/export/bins.h"
#include "client/export/export.h"
#include "client/export/lane.h"
#include "client/output/out.h"

/* The kind of a track, or of a thing written once. */
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
	WHAT_KERNELS, /* of a stream; merged into one row with the next */
	WHAT_COPIES,
	WHAT_RANGES, /* of a thread */
	WHAT_OVERHEAD,
	WHAT_LOSS, /* per reason */
	/* No tracks: */
	WHAT_SYMBOL,
	WHAT_SOURCE,
	WHAT_FILE,
	WHAT_FRAME,
	WHAT_STACK,
	WHAT_NAME,
};

/* Sampled over time per device of a process, and written at the end. */
struct gpu {
	struct gpu *next;
	uint64_t track;
	struct bins busy, copied;
};

struct exporter {
	const struct meta *meta;
	struct out *out;
	struct map seen;   /* already written */
	struct map number; /* uuids and struct gpu, by their owner */
	struct rows rows;
	struct gpu *gpu; /* newest first */
	uint64_t track_count;
	/* Of the last call, since the next one is mostly the same. */
	uint64_t thread_key, thread_track;
};

/* These return the uuid of a track, and write the track on first use. */
int perfetto_thread_track(struct exporter *x, const struct op *op, uint64_t *ret);
int perfetto_memory_track(struct exporter *x, const struct op *op, uint64_t *ret);
int perfetto_state_track(struct exporter *x, const struct op *op, uint64_t *ret);
/* Of work, a range, or overhead, from start to end. */
int perfetto_lane_track(struct exporter *x, const struct op *op, uint64_t start_ns, uint64_t end_ns,
			uint64_t *ret);
int perfetto_loss_track(struct exporter *x, const struct meta_loss *loss, uint64_t *ret);
int perfetto_gpu(struct exporter *x, const struct op *op, struct gpu **ret);
/* Writes the counters of each device. */
int perfetto_gpu_counters(struct exporter *x);
void perfetto_tracks_clear(struct exporter *x);

#endif
