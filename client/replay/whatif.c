/* Replay what-if: emulates the unchanged recording, to measure the error, then the changed one. */
#include "client/replay/whatif.h"

#include <errno.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/link/rows.h"
#include "client/replay/interval.h"
#include "client/replay/report.h"
#include "client/replay/write.h"
#include "client/trace/plan_load.h"

struct replay {
	const struct options *options;
	struct whatif_options changes;
	struct trace trace;
	struct plan *plan;
	struct emulate_result as_was, result; /* only the first without what-ifs */
	struct replay_report report;
	uint64_t begin_ns; /* of the recording */
};

static void replay_release(struct replay *replay)
{
	whatif_options_done(&replay->changes);
	replay_report_done(&replay->report);
	plan_times_free(replay->as_was.times);
	plan_times_free(replay->result.times);
	plan_free(replay->plan);
	trace_done(&replay->trace);
}

static int fail(const char *what, int error)
{
	if (error == -ELOOP)
		complain("The emulator cannot %s: the dependencies form a cycle", what);
	else
		complain("The emulator cannot %s: %s", what, strerror(-error));
	return error;
}

static int take_begin(void *data, const Tracesmith__V1__Row *row)
{
	struct replay *replay = data;

	if (row->n_value)
		replay->begin_ns = (uint64_t)rows_integer(row->value[0]);
	return 0;
}

/* For a window of the daemon, its first operation. */
static int find_begin(struct replay *replay)
{
	replay->begin_ns = replay->plan->start_ns;
	if (!replay->options->file)
		return 0;
	return rows_query(replay->trace.link, "recorded-since", 1, take_begin, replay);
}

static int say_recorded(struct replay *replay)
{
	struct replay_report *report = &replay->report;
	const struct plan *plan = replay->plan;
	struct plan_times *recorded = NULL;
	int r = plan_times_new(plan, &recorded);

	report->plan = plan;
	report->meta = replay->trace.meta;
	report->changes = &replay->changes;
	report->untimed = plan->untimed;
	report->no_call = plan->no_call;
	report->contradicted = plan->contradicted;
	for (uint32_t i = 0; i < plan->device_count; i++)
		report->unknown_devices += !plan->device[i].multiprocessors;
	report->makespan_ns[0] = plan->end_ns - plan->start_ns;
	if (r == 0)
		r = emulate_busy(plan, recorded, &report->busy[0]);
	if (r == 0)
		r = replay_report_path(report, plan, recorded, 0);
	plan_times_free(recorded);
	if (r == 0)
		r = emulate(plan, &replay->as_was);
	if (r == 0)
		r = emulate_compare(plan, replay->as_was.times, &report->error);
	return r < 0 ? fail("run this recording", r) : 0;
}

static int say_predicted(struct replay *replay)
{
	struct replay_report *report = &replay->report;
	int r;

	r = replay->changes.count ? emulate(replay->plan, &replay->result) : 0;
	if (r == 0 && !replay->changes.count) {
		replay->result = replay->as_was;
		replay->as_was.times = NULL;
	}
	if (r == 0) {
		report->makespan_ns[1] = replay->result.makespan_ns;
		report->devices = replay->plan->device_count;
		if (replay->changes.count)
			replay_interval(replay->plan, replay->result.times, &report->speedup);
		r = emulate_busy(replay->plan, replay->result.times, &report->busy[1]);
	}
	if (r == 0)
		r = replay_report_path(report, replay->plan, replay->result.times, 1);
	return r < 0 ? fail("run the changed recording", r) : 0;
}

static int compute(struct replay *replay)
{
	const struct options *options = replay->options;
	int r = plan_load(options, &replay->trace, &replay->plan);

	if (r == 0 && replay->plan->work_count + replay->plan->call_count == 0) {
		complain("No operations to replay: see --pid, --since and --from");
		return -ENOENT;
	}
	if (r == 0)
		r = find_begin(replay);
	if (r == 0)
		r = say_recorded(replay);
	if (r == 0)
		r = whatif_options_apply(&replay->changes, options, replay->trace.meta,
					 replay->begin_ns, replay->plan);
	if (r == 0)
		r = say_predicted(replay);
	return r;
}

static int run(struct replay *replay)
{
	const struct options *options = replay->options;
	int r = compute(replay);

	if (r == 0 && options->output)
		r = replay_write(options, &replay->changes, replay->plan, replay->result.times);
	replay->report.output = options->output;
	if (r == 0)
		replay_report_show(&replay->report, options);
	return r;
}

int replay_whatif(const struct options *options)
{
	_cleanup_(replay_release) struct replay replay = { .options = options };
	int r = whatif_options_parse(options, &replay.changes);

	if (r == -EINVAL)
		return EXIT_USAGE;
	if (options->output && !options->file) {
		complain("A prediction is written from a recording: make one with 'tsctl record', "
			 "then replay it");
		return EXIT_USAGE;
	}
	return r < 0 || run(&replay) < 0 ? EXIT_FAILED : EXIT_DONE;
}

int replay_predict(const struct options *options, replay_predicted_fn *call, void *data)
{
	_cleanup_(replay_release) struct replay replay = { .options = options };
	int r = whatif_options_parse(options, &replay.changes);

	if (r == 0)
		r = compute(&replay);
	return r < 0 ? r : call(data, &replay.report, replay.plan, replay.result.times);
}

int replay_predict_graph(const struct options *options, struct replay_gain *ret)
{
	struct options own = *options;
	_cleanup_(replay_release) struct replay replay = { .options = &own };
	int r;

	own.given |= OPTION(GRAPH);
	own.graph = NULL;
	r = whatif_options_parse(&own, &replay.changes);
	if (r == 0)
		r = compute(&replay);
	if (r == 0)
		*ret = (struct replay_gain){ replay.report.makespan_ns[0],
					     replay.report.makespan_ns[1] };
	return r;
}
