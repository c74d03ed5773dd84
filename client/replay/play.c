/* Replay play: reads the ops of a window and plays them. At full speed they are played as they
 * arrive. At a set speed they are read a slice of time ahead, so that the daemon never waits for us
 * in the middle of an answer, however slow the replay. */
#include "client/replay/play.h"

#include <errno.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/link/rows.h"
#include "client/output/loss.h"
#include "client/output/pattern.h"
#include "client/replay/pace.h"
#include "client/replay/view.h"
#include "client/trace/trace.h"

/* In our time. */
#define SLICE_NS      500000000.0
#define SLICE_MIN_NS  1000000.0
#define SLICE_MAX_NS  600e9
#define FUNCTIONS_MAX 65536

struct play {
	const struct options *options;
	struct trace trace;
	struct replay *replay;
	struct replay_names names;
	struct replay_view view;
	struct replay_pace pace;
	uint64_t since_ns, until_ns; /* of the shown part */
	uint64_t first_ns;	     /* of the first op, roughly */
	uint64_t from_ns;	     /* ops that start before this were played */
	uint64_t changes;
	const struct meta_process *process; /* of the last change */
	bool sliced;
	size_t ops; /* of the slice */
	uint8_t effect[FUNCTIONS_MAX];
};

static int take_effect(void *data, const Tracesmith__V1__Row *row)
{
	struct play *play = data;
	int64_t fn = row->n_value == 2 ? rows_integer(row->value[0]) : -1;

	if (fn >= 0 && fn < FUNCTIONS_MAX)
		play->effect[fn] = (uint8_t)rows_integer(row->value[1]);
	return 0;
}

static int take_first(void *data, const Tracesmith__V1__Row *row)
{
	struct play *play = data;
	int64_t first_ns = row->n_value == 2 ? rows_integer(row->value[0]) : 0;

	if (first_ns > 0)
		play->first_ns = (uint64_t)first_ns;
	return 0;
}

/* Of the window and the process; nothing is earlier. */
static int load_first(struct play *play)
{
	Tracesmith__V1__QueryRequest query = TRACESMITH__V1__QUERY_REQUEST__INIT;

	query.name = (char *)"trace-ends";
	query.pid = play->trace.pid;
	query.since_ns = play->trace.since_ns;
	return rows_ask(play->trace.link, &query, take_first, play);
}

/* The losses in the window: the end of any answer about it has them. */
static int load_losses(struct play *play, Tracesmith__V1__Reply **ret)
{
	Tracesmith__V1__QueryRequest body = TRACESMITH__V1__QUERY_REQUEST__INIT;

	body.name = (char *)"apis";
	body.limit = 1;
	body.pid = play->trace.pid;
	body.since_ns = play->since_ns ? play->since_ns : 1;
	body.until_ns = play->until_ns < INT64_MAX ? play->until_ns : 0;
	return link_converse(play->trace.link, &body.base, NULL, NULL, ret);
}

static uint32_t pid_of(struct play *play, uint32_t process)
{
	if (!play->process || play->process->id != process)
		play->process = meta_process(play->trace.meta, process);
	return play->process ? play->process->pid : 0;
}

static bool is_wanted(const struct play *play, const struct replay_change *change)
{
	const struct options *options = play->options;

	if (options->given & OPTION(STREAM) && change->stream != options->stream)
		return false;
	return !(options->given & OPTION(DEVICE)) || change->device == (int64_t)options->device;
}

/* With a filter by name, streams would be unknown, but lanes need them. */
static int on_change(void *data, const struct replay_change *change)
{
	struct play *play = data;
	struct replay_shown shown = { .change = change };
	int r;

	if (!is_wanted(play, change))
		return 0;
	if (change->op) {
		shown.name = replay_name_of(&play->names, change->op);
		if (!shown.name)
			return -ENOMEM;
		if (!shown.name->wanted)
			return 0;
	} else if (play->names.wanted && !play->view.draw) {
		return 0;
	}
	shown.pid = pid_of(play, change->process);
	r = replay_pace_wait(&play->pace, change->time_ns);
	if (r < 0)
		return r;
	play->changes++;
	return play->view.change(play->view.view, &shown);
}

static int take_ops(void *data, struct op *op, size_t count, uint64_t done_ns)
{
	struct play *play = data;
	size_t kept = 0;

	if (!play->sliced)
		return replay_ops(play->replay, op, count, done_ns);
	for (size_t i = 0; i < count; i++)
		if (op[i].start_ns >= play->from_ns)
			op[kept++] = op[i];
	play->ops += kept;
	return replay_ops(play->replay, op, kept, 0);
}

static uint64_t slice_at(double speed)
{
	double slice_ns = speed * SLICE_NS;

	if (slice_ns < SLICE_MIN_NS)
		return (uint64_t)SLICE_MIN_NS;
	return (uint64_t)(slice_ns < SLICE_MAX_NS ? slice_ns : SLICE_MAX_NS);
}

/* Empty slices grow, since a file may claim to last for ages. */
static int play_slices(struct play *play)
{
	struct trace *trace = &play->trace;
	uint64_t until_ns = trace->until_ns, at_ns = play->first_ns;
	uint64_t first_slice_ns = slice_at(play->pace.speed), slice_ns = first_slice_ns;
	int r = 0;

	if (at_ns < play->since_ns)
		at_ns = play->since_ns;
	play->sliced = true;
	while (r == 0 && at_ns < until_ns) {
		r = replay_pace_wait_ahead(&play->pace,
					   at_ns > first_slice_ns ? at_ns - first_slice_ns : 0);
		if (r < 0)
			return r;
		at_ns = until_ns - at_ns > slice_ns ? at_ns + slice_ns : until_ns;
		trace->until_ns = at_ns;
		play->ops = 0;
		r = trace_read(trace, take_ops, play, NULL);
		if (r == 0)
			r = replay_ops(play->replay, NULL, 0, at_ns);
		play->from_ns = trace->since_ns = at_ns;
		slice_ns = play->ops ? first_slice_ns : slice_ns * 2;
	}
	return r;
}

static int play_all(struct play *play)
{
	int r = play->pace.speed > 0 ? play_slices(play)
				     : trace_read(&play->trace, take_ops, play, NULL);

	return r < 0 ? r : replay_end(play->replay);
}

static int explain(const struct play *play, int error)
{
	if (error == -E2BIG)
		complain("Too many operations overlap: narrow the window with --from and --to, or "
			 "use --pid");
	else if (error == -ENOMEM)
		complain_memory();
	else if (play->trace.link && (error == -EPIPE || error == -EIO || error == -ENOSPC))
		complain("Cannot write the output: %s", strerror(-error));
	return error;
}

static void show_losses(const struct play *play, const Tracesmith__V1__Done *done)
{
	if (!play->changes)
		complain("Nothing to play");
	loss_complain(done);
}

/* Being stopped is a normal end. */
static int play_to_the_end(struct play *play)
{
	_cleanup_(reply_freep) Tracesmith__V1__Reply *end = NULL;
	int shown, r = play_all(play);
	bool stopped = r == -ECANCELED;

	replay_pace_end(&play->pace);
	if (r == 0)
		r = load_losses(play, &end);
	shown = play->view.end(play->view.view, end ? end->done : NULL, play->changes);
	if (r == 0 || stopped)
		r = shown;
	if (r < 0)
		return explain(play, r);
	if (end)
		show_losses(play, end->done);
	return 0;
}

static int play_begin(struct play *play)
{
	const struct options *options = play->options;
	struct trace *trace = &play->trace;
	bool lanes = !(options->given & OPTION(JSON)) && isatty(STDOUT_FILENO);
	bool from = options->given & (OPTION(SINCE) | OPTION(FROM));
	bool to = options->given & (OPTION(UNTIL) | OPTION(TO));
	int r = replay_new(play->effect, FUNCTIONS_MAX, on_change, play, &play->replay);

	if (r == 0)
		r = lanes ? replay_lanes_new(trace->begin_ns, &play->view)
			  : replay_lines_new(options->given & OPTION(JSON), trace->begin_ns,
					     &play->view);
	if (r < 0)
		return r;
	play->names.meta = trace->meta;
	play->names.json = options->given & OPTION(JSON);
	play->since_ns = from ? trace->since_ns : 0;
	play->until_ns = to ? trace->until_ns : UINT64_MAX;
	replay_window(play->replay, play->since_ns, play->until_ns);
	trace->since_ns = play->since_ns > REPLAY_BEFORE_NS ? play->since_ns - REPLAY_BEFORE_NS : 1;
	replay_pace_begin(&play->pace, &play->view,
			  options->given & OPTION(SPEED) ? options->speed : lanes, lanes);
	return 0;
}

static void play_done(struct play **play)
{
	if (!*play)
		return;
	replay_pace_end(&(*play)->pace);
	if ((*play)->view.free)
		(*play)->view.free((*play)->view.view);
	replay_free((*play)->replay);
	replay_names_clear(&(*play)->names);
	trace_done(&(*play)->trace);
	free(*play);
}

static int play_run(const struct options *options, const regex_t *kernel)
{
	_cleanup_(play_done) struct play *play = calloc(1, sizeof(*play));
	int r;

	if (!play)
		return complain_memory();
	play->options = options;
	play->names.wanted = kernel;
	if (trace_open(options, &play->trace) < 0 ||
	    rows_query(play->trace.link, "function-effects", FUNCTIONS_MAX, take_effect, play) <
		    0 ||
	    load_first(play) < 0)
		return EXIT_FAILED;
	r = play_begin(play);
	if (r < 0)
		return r == -EINVAL ? EXIT_USAGE : complain_memory();
	return play_to_the_end(play) < 0 ? EXIT_FAILED : EXIT_DONE;
}

int replay_play(const struct options *options)
{
	regex_t kernel;
	char why[PATTERN_WHY_BYTES];
	int r;

	if (!(options->given & OPTION(KERNEL)))
		return play_run(options, NULL);
	r = pattern_compile(options->kernel, 0, &kernel, why);
	if (r < 0) {
		complain("Invalid --kernel '%s': %s", options->kernel, why);
		return EXIT_USAGE;
	}
	r = play_run(options, &kernel);
	regfree(&kernel);
	return r;
}
