/* Reissue, comparison: compares the issued part of a recording with a recording of the reissue. The
 * makespan runs from the first to the last operation on the device. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/reissue/part.h"
#include "client/reissue/world.h"
#include "client/trace/plan_load.h"
#include "core/base/units.h"
#include "core/plan/emulate.h"
#include "core/replay/check.h"

/* Differences of a stand-in kernel, and in how a copy was requested. */
#define IGNORED                                                                                    \
	(1u << CHECK_FIELD_REGISTERS | 1u << CHECK_FIELD_STATIC | 1u << CHECK_FIELD_RESULT |       \
	 1u << CHECK_FIELD_KIND | 1u << CHECK_FIELD_NODE | 1u << CHECK_FIELD_CAPTURED)

struct measured {
	struct trace trace;
	struct plan *plan;
	uint64_t makespan_ns, sum_ns, busy_ns;
};

static void measured_done(struct measured *measured)
{
	trace_done(&measured->trace);
	plan_free(measured->plan);
}

static bool is_timed(const struct plan_work *work)
{
	return !(work->flags & (PLAN_MARK | PLAN_UNTIMED)) && work->engine != PLAN_ENGINE_NONE;
}

/* Over the streams that both sides have. */
static int measure(struct measured *measured, const struct check *check, int side)
{
	_cleanup_(plan_times_freep) struct plan_times *times = NULL;
	const struct plan *plan = measured->plan;
	uint64_t first_ns = UINT64_MAX, last_ns = 0;
	struct emulate_busy busy;
	int r = plan_times_new(plan, &times);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < check->lane_count; i++) {
		const struct check_lane *lane = &check->lane[i];

		for (uint32_t k = 0; k < lane->count[side]; k++) {
			uint32_t item = lane->item[side][k];
			const struct plan_work *work = &plan->work[item];

			if (lane->what == CHECK_MISSING)
				times->work_end_ns[item] = times->work_start_ns[item];
			if (lane->what == CHECK_MISSING || !is_timed(work))
				continue;
			measured->sum_ns += work->end_ns - work->start_ns;
			first_ns = work->start_ns < first_ns ? work->start_ns : first_ns;
			last_ns = work->end_ns > last_ns ? work->end_ns : last_ns;
		}
	}
	r = emulate_busy(plan, times, &busy);
	measured->busy_ns = busy.any_ns;
	measured->makespan_ns = last_ns > first_ns ? last_ns - first_ns : 0;
	return r;
}

static int load_recorded(const struct options *options, struct measured *measured)
{
	_cleanup_(freep) bool *skip = NULL;
	int r = plan_load(options, &measured->trace, &measured->plan);

	if (r == 0)
		r = gpu_part_choose(options, &measured->trace, measured->plan, &skip);
	return r < 0 ? r : gpu_part_cut(&measured->trace, &measured->plan, skip);
}

static int load_replayed(const struct options *given, const char *path, struct measured *measured)
{
	_cleanup_(freep) bool *skip = NULL;
	struct options options = { .given = OPTION(FILE), .file = path, .files = given->files };
	int r = plan_load(&options, &measured->trace, &measured->plan);

	if (r == 0)
		r = gpu_part_choose_replayed(&measured->trace, measured->plan, &skip);
	return r < 0 ? r : gpu_part_cut(&measured->trace, &measured->plan, skip);
}

/* What a reissue does differently: copies between devices stay on one, and sets are of bytes. */
static void level(struct plan *plan)
{
	for (size_t i = 0; i < plan->op_count; i++) {
		struct op *op = &plan->op[i];

		if (op->kind == OP_SET)
			op->detail = 0;
		if (op->kind == OP_COPY && (op->detail == COPY_PTOP || op->detail == COPY_UNKNOWN))
			op->detail = COPY_DTOD;
	}
}

/* Threads and functions are not compared. */
static uint64_t no_function(void *data, uint16_t fn)
{
	return 0;
}

/* The share of the device's busy time in which more than one operation ran. */
static double overlap(const struct measured *measured)
{
	return measured->sum_ns > 0 ? 1 - (double)measured->busy_ns / (double)measured->sum_ns : 0;
}

static double change(const struct measured pair[2])
{
	return pair[0].makespan_ns > 0
		       ? (double)pair[1].makespan_ns / (double)pair[0].makespan_ns - 1
		       : 0;
}

static void show(const struct options *options, const struct measured pair[2],
		 const struct check *check)
{
	uint32_t streams = check->lane_count, in_order = streams - check->different;
	char text[2][UNITS_TEXT_SIZE];

	if (options->given & OPTION(JSON)) {
		printf("{\"recorded_ns\":%" PRIu64 ",\"replayed_ns\":%" PRIu64
		       ",\"recorded_overlap\":%.6f,\"replayed_overlap\":%.6f,\"streams\":%u"
		       ",\"streams_in_order\":%u,\"works\":%" PRIu64
		       ",\"p50_ppm\":%u,\"p99_ppm\":%u}\n",
		       pair[0].makespan_ns, pair[1].makespan_ns, overlap(&pair[0]),
		       overlap(&pair[1]), streams, in_order, check->durations, check->p50_ppm,
		       check->p99_ppm);
		return;
	}
	printf("Makespan: %s recorded, %s reissued (%+.2f %%).\n",
	       units_nanoseconds(text[0], (int64_t)pair[0].makespan_ns),
	       units_nanoseconds(text[1], (int64_t)pair[1].makespan_ns), 100 * change(pair));
	printf("Overlap: %.2f %% of the busy time recorded, %.2f %% reissued.\n",
	       100 * overlap(&pair[0]), 100 * overlap(&pair[1]));
	printf("Order: %u of %u streams did the same operations in the same order.\n", in_order,
	       streams);
	printf("Durations of %" PRIu64
	       " operations differ by %.2f %% at the median, %.2f %% at the 99th"
	       " percentile.\n",
	       check->durations, check->p50_ppm / 1e4, check->p99_ppm / 1e4);
}

int gpu_compare(const struct options *options, const char *path)
{
	_cleanup_(measured_done) struct measured recorded = { 0 };
	_cleanup_(measured_done) struct measured replayed = { 0 };
	_cleanup_(check_freep) struct check *check = NULL;
	struct check_side side[2];

	if (load_recorded(options, &recorded) < 0 || load_replayed(options, path, &replayed) < 0)
		return EXIT_FAILED;
	level(recorded.plan);
	level(replayed.plan);
	side[0] = (struct check_side){ recorded.plan, no_function, NULL, IGNORED };
	side[1] = (struct check_side){ replayed.plan, no_function, NULL, IGNORED };
	if (check_run(side, CHECK_ANY_DURATION, &check) < 0 || measure(&recorded, check, 0) < 0 ||
	    measure(&replayed, check, 1) < 0)
		return complain_memory();
	show(options, (const struct measured[]){ recorded, replayed }, check);
	return check->different > 0 ? EXIT_FAILED : EXIT_DONE;
}
