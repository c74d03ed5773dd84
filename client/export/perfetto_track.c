/* Perfetto export, tracks: each is found by its owner. Lanes appear as one row: their tracks share
 * name, parent and merge key. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/export/packet.h"
#include "client/export/perfetto.h"

/* Order in the group of a device: counters, then each stream with its states below. */
enum rank { RANK_BUSY = 1, RANK_COPIED, RANK_STREAMS };

/* The uuid of a track. 1: it is new, and must be written. */
static int track_number(struct exporter *x, enum what what, uint64_t id, uint64_t *ret)
{
	struct map_key key = { what, id };

	*ret = (uintptr_t)map_get(&x->number, key);
	if (*ret != 0)
		return 0;
	if (map_put(&x->number, key, (void *)(uintptr_t)(x->track_count + 1)) < 0)
		return -ENOMEM;
	*ret = ++x->track_count;
	return 1;
}

static int process_track(struct exporter *x, uint32_t id, uint64_t *ret)
{
	const struct meta_process *process = meta_process(x->meta, id);
	struct perfetto_track track = { 0 };
	int r;

	if (!process)
		return -ENOENT;
	r = track_number(x, WHAT_PROCESS, id, ret);
	if (r <= 0)
		return r;
	track.uuid = *ret;
	track.pid = process->pid;
	track.process_name = process->name->text;
	/* Readers take the name from its first word. */
	if (process->command != process->name)
		track.command = process->command->text;
	return perfetto_track(x->out, &track);
}

static uint64_t thread_key(const struct op *op)
{
	return (uint64_t)op->process << 32 | op->tid;
}

int perfetto_thread_track(struct exporter *x, const struct op *op, uint64_t *ret)
{
	uint64_t parent, key = thread_key(op);
	char name[SHOW_NAME_BYTES];
	struct perfetto_track track = { .tid = op->tid, .name = name };
	const struct meta_process *process;
	int r;

	*ret = x->thread_track;
	if (key == x->thread_key)
		return 0;
	r = process_track(x, op->process, &parent);
	if (r < 0)
		return r;
	if (op->tid == 0) { /* of no known thread */
		*ret = parent;
		return 0;
	}
	r = track_number(x, WHAT_THREAD, key, ret);
	if (r > 0) {
		process = meta_process(x->meta, op->process);
		show_thread_name(name, process, op->tid);
		track.uuid = *ret;
		track.pid = process->pid;
		r = perfetto_track(x->out, &track);
	}
	if (r < 0)
		return r;
	x->thread_key = key;
	x->thread_track = *ret;
	return 0;
}

int perfetto_memory_track(struct exporter *x, const struct op *op, uint64_t *ret)
{
	char name[SHOW_NAME_BYTES];
	struct perfetto_track track = { .name = name, .bytes = true };
	uint64_t key = show_device_key(op) | (uint64_t)show_is_host(op) << 16;
	int r = process_track(x, op->process, &track.parent);

	if (r == 0)
		r = track_number(x, WHAT_MEMORY, key, ret);
	if (r <= 0)
		return r;
	show_memory_name(name, op);
	track.uuid = *ret;
	return perfetto_track(x->out, &track);
}

int perfetto_gpu(struct exporter *x, const struct op *op, struct gpu **ret)
{
	struct map_key key = { WHAT_GPU, show_device_key(op) };
	char name[SHOW_NAME_BYTES];
	struct perfetto_track track = { .name = name, .ranked = true };
	struct gpu *gpu = map_get(&x->number, key);
	int r = 0;

	*ret = gpu;
	if (gpu)
		return 0;
	gpu = calloc(1, sizeof(*gpu));
	if (!gpu)
		return -ENOMEM;
	if (map_put(&x->number, key, gpu) < 0) {
		free(gpu);
		return -ENOMEM;
	}
	gpu->next = x->gpu;
	x->gpu = gpu;
	*ret = gpu;
	r = process_track(x, op->process, &track.parent);
	if (r < 0)
		return r;
	track.uuid = gpu->track = ++x->track_count;
	show_gpu_name(name, x->meta, op);
	return perfetto_track(x->out, &track);
}

static int bounds_track(struct exporter *x, const struct op *op, uint64_t *ret)
{
	char name[SHOW_NAME_BYTES];
	struct perfetto_track track = { .name = name };
	int r = process_track(x, op->process, &track.parent);

	if (r == 0)
		r = track_number(x, WHAT_BOUNDS, show_device_key(op), ret);
	if (r <= 0)
		return r;
	show_device_name(name, op->device, " (bounds)");
	track.uuid = *ret;
	return perfetto_track(x->out, &track);
}

/* The state of a device is on the track above those of its streams. */
int perfetto_state_track(struct exporter *x, const struct op *op, uint64_t *ret)
{
	char name[SHOW_NAME_BYTES + 8];
	struct perfetto_track track = { .name = name };
	bool exact = op->flags & OP_EXACT;
	struct gpu *gpu;
	int r;

	if (exact) {
		r = perfetto_gpu(x, op, &gpu);
		*ret = r < 0 ? 0 : gpu->track;
	} else {
		r = bounds_track(x, op, ret);
	}
	if (r < 0 || op->stream == 0)
		return r;
	track.parent = *ret;
	r = track_number(x, exact ? WHAT_STATES : WHAT_BOUNDS_STREAM, op->stream, ret);
	if (r <= 0)
		return r;
	show_stream_name(name, x->meta, op->stream);
	if (exact) {
		strcat(name, " state");
		track.rank = RANK_STREAMS + 2 * op->stream + 1;
	}
	track.uuid = *ret;
	return perfetto_track(x->out, &track);
}

/* Finds the lane's track for a slice. 1: it is new, and must be written. */
static int take_lane(struct exporter *x, struct lanes *lanes, uint64_t start_ns, uint64_t end_ns,
		     bool nest, uint64_t *ret)
{
	struct lane *lane = lanes ? lanes_take(lanes, start_ns, end_ns, nest) : NULL;

	if (!lane)
		return -ENOMEM;
	*ret = lane->track;
	if (lane->track != 0)
		return 0;
	lane->track = *ret = ++x->track_count;
	return 1;
}

static int work_track(struct exporter *x, const struct op *op, uint64_t start_ns, uint64_t end_ns,
		      uint64_t *ret)
{
	bool copies = op->kind == OP_COPY || op->kind == OP_SET;
	uint64_t id = op->stream ? op->stream : show_device_key(op);
	struct lanes *lanes = rows_get(&x->rows, copies ? WHAT_COPIES : WHAT_KERNELS, id);
	char name[SHOW_NAME_BYTES] = "unknown stream";
	struct perfetto_track track = { .name = name };
	struct gpu *gpu;
	int r = take_lane(x, lanes, start_ns, end_ns, false, ret);

	if (r <= 0 || (r = perfetto_gpu(x, op, &gpu)) < 0)
		return r;
	if (op->stream)
		show_stream_name(name, x->meta, op->stream);
	track.uuid = *ret;
	track.parent = gpu->track;
	track.merge = (uint64_t)op->stream + 1;
	track.rank = RANK_STREAMS + 2 * op->stream;
	return perfetto_track(x->out, &track);
}

int perfetto_lane_track(struct exporter *x, const struct op *op, uint64_t start_ns, uint64_t end_ns,
			uint64_t *ret)
{
	bool overhead = op->kind == OP_OVERHEAD;
	enum what what = overhead ? WHAT_OVERHEAD : WHAT_RANGES;
	struct perfetto_track track = { .name = overhead ? "CUPTI overhead" : "NVTX" };
	int r;

	if (op->kind != OP_RANGE && !overhead)
		return work_track(x, op, start_ns, end_ns, ret);
	r = take_lane(x, rows_get(&x->rows, what, thread_key(op)), start_ns, end_ns, true, ret);
	if (r <= 0 || (r = perfetto_thread_track(x, op, &track.parent)) < 0)
		return r;
	track.uuid = *ret;
	track.merge = what;
	return perfetto_track(x->out, &track);
}

static int losses_track(struct exporter *x, uint32_t process, uint64_t *ret)
{
	struct perfetto_track track = { .name = "TraceSmith loss" };
	int r = 0;

	if (meta_process(x->meta, process))
		r = process_track(x, process, &track.parent);
	if (r == 0)
		r = track_number(x, WHAT_LOSSES, process, ret);
	track.uuid = *ret;
	return r <= 0 ? r : perfetto_track(x->out, &track);
}

/* The losses of one process and reason share a row. */
int perfetto_loss_track(struct exporter *x, const struct meta_loss *loss, uint64_t *ret)
{
	uint64_t key = (uint64_t)loss->process << 32 | loss->reason;
	struct perfetto_track track = { .name = loss->name->text, .merge = loss->reason + 1 };
	int r = take_lane(x, rows_get(&x->rows, WHAT_LOSS, key), loss->start_ns, loss->end_ns,
			  false, ret);

	if (r <= 0 || (r = losses_track(x, loss->process, &track.parent)) < 0)
		return r;
	track.uuid = *ret;
	return perfetto_track(x->out, &track);
}

/* Changes only: a counter keeps its value. */
static int write_bins(struct exporter *x, const struct bins *bins, double factor,
		      struct perfetto_track *track)
{
	double last = -1;
	int r = 0;

	if (bins->count == 0)
		return 0;
	track->uuid = ++x->track_count;
	r = perfetto_track(x->out, track);
	for (uint32_t i = 0; i < bins->count && r == 0; i++) {
		double value = bins->amount[i] * factor;

		if (value != last)
			r = perfetto_real(x->out, track->uuid, bins_start_ns(bins, i), value);
		last = value;
	}
	return r < 0 ? r : perfetto_real(x->out, track->uuid, bins_start_ns(bins, bins->count), 0);
}

int perfetto_gpu_counters(struct exporter *x)
{
	int r = 0;

	for (const struct gpu *gpu = x->gpu; gpu && r == 0; gpu = gpu->next) {
		struct perfetto_track busy = {
			.parent = gpu->track, .name = "busy", .unit = "%", .rank = RANK_BUSY
		};
		struct perfetto_track copied = { .parent = gpu->track,
						 .name = "copied and set",
						 .unit = "B/s",
						 .rank = RANK_COPIED };

		r = write_bins(x, &gpu->busy, 100.0 / (double)bins_width_ns(&gpu->busy), &busy);
		if (r == 0)
			r = write_bins(x, &gpu->copied, 1e9 / (double)bins_width_ns(&gpu->copied),
				       &copied);
	}
	return r;
}

void perfetto_tracks_clear(struct exporter *x)
{
	while (x->gpu) {
		struct gpu *next = x->gpu->next;

		free(x->gpu);
		x->gpu = next;
	}
	rows_clear(&x->rows);
	map_clear(&x->number);
}
