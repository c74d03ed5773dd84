/* tsctl record: writes the ops of a window, or of a program, to a file that needs no daemon. The
 * past comes in one answer. A live recording asks every second for what is new; after its end it
 * waits a while for reports of what had started by then. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/output/loss.h"
#include "client/record/ask.h"
#include "client/record/launch.h"
#include "client/record/lift.h"
#include "client/record/program.h"
#include "client/record/recording.h"
#include "client/verbs/command.h"
#include "core/base/clock.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "proto/hello.h"

#define PERIOD_NS    NS_PER_S		/* between polls */
#define SLICE_NS     (50 * NS_PER_MS)	/* shortest interval between looks at children */
#define LOOK_SHARE   20			/* at most this fraction of our time */
#define LINGER_NS    (2500 * NS_PER_MS) /* the daemon knows all work by then (bounds_wait) */
#define QUIET_NS     (500 * NS_PER_MS)	/* nothing new from ended processes for this long */
#define NO_CUDA_NS   NS_PER_S		/* a process that used CUDA is known by then */
#define LINGER_MAX   (30 * NS_PER_S)	/* while more arrives */
#define RECONNECT_NS (30 * NS_PER_S)

static volatile sig_atomic_t stops;

struct job {
	const struct options *options;
	char **argument; /* of a program, or NULL */
	struct recording recording;
	struct record_program program;
	struct record_lift lift;
	bool live, ended; /* ended: all recorded processes have */
	bool until_eof;	  /* and it has not come yet */
	bool progress;
	uint64_t begin_ns, end_ns; /* end_ns 0: not yet known */
	uint64_t shown_ns, shown_ops;
	uint64_t rest_ns; /* the program is not looked at before */
};

static void on_stop(int number)
{
	stops++;
}

static void catch_stops(void)
{
	struct sigaction action = { .sa_handler = on_stop, .sa_flags = SA_RESTART };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

static int check(const struct options *options, int count)
{
	int whom =
		!!(options->given & OPTION(PID)) + !!(options->given & OPTION(ALL)) + (count > 0);

	if (!options->output)
		complain("Missing output file: give -o FILE.sbt");
	else if (whom != 1)
		complain("Nothing to record: give --pid PID, --all, or a program ('-- PROGRAM')");
	else if (count == 0 && (options->given & (OPTION(RECORDS) | OPTION(STACKS))))
		complain("--records and --stacks are for programs that tsctl starts: for a running "
			 "process use 'tsctl attach'");
	else if ((options->given & OPTION(BUDGET)) && (options->given & OPTION(ALL)))
		complain("--budget is for a process or a program: with --all, the daemon's budget "
			 "holds");
	else if (count > 0 && (options->given & OPTION(SINCE)))
		complain("A program that tsctl starts has no past: leave out --since");
	else if (count > 0 && options->until_eof)
		complain("Standard input belongs to the program: leave out --duration eof");
	else if (count > 0 && strcmp(options->output, "-") == 0)
		complain("Standard output belongs to the program: give -o FILE.sbt");
	else
		return 0;
	return -EINVAL;
}

/* The end of the window if only the past is recorded. */
static int choose_window(struct job *job)
{
	const struct options *options = job->options;
	struct recording *recording = &job->recording;
	bool since = options->given & OPTION(SINCE), until = options->given & OPTION(UNTIL);
	uint64_t now_ns = recording_now(recording);

	recording->since_ns = since ? link_time(recording->link, &options->since) : now_ns;
	job->begin_ns = now_ns;
	if (until)
		job->end_ns = link_time(recording->link, &options->until);
	job->until_eof = options->until_eof;
	if ((options->given & OPTION(DURATION)) && !job->until_eof)
		job->end_ns = now_ns + options->duration_ns;
	job->live = job->argument || (options->given & OPTION(DURATION)) || !since ||
		    job->end_ns > now_ns;
	if (!job->live)
		recording->until_ns = job->end_ns ? job->end_ns : now_ns;
	if (!job->live && (options->given & OPTION(BUDGET))) {
		complain("--budget is for what is recorded from now on: leave it out");
		return -EINVAL;
	}
	if (job->end_ns == 0 || job->end_ns > recording->since_ns)
		return 0;
	complain("The window ends before it starts: see --since and --until");
	return -EINVAL;
}

static void show_progress(struct job *job)
{
	struct recording *recording = &job->recording;
	uint64_t now_ns = recording_now(recording), since_ns = now_ns - job->shown_ns;
	char size[UNITS_TEXT_SIZE];

	if (!job->progress || since_ns < PERIOD_NS / 2)
		return;
	fprintf(stderr, "\r%.0f s, %" PRIu64 " operations, %s, %.0f/s, %" PRIu64 " lost ",
		(double)(now_ns - job->begin_ns) / 1e9, recording->ops,
		units_bytes(size, (int64_t)record_file_size(recording->file)),
		(double)(recording->ops - job->shown_ops) / ((double)since_ns / 1e9),
		recording->lost);
	job->shown_ns = now_ns;
	job->shown_ops = recording->ops;
}

/* Losses in the window are part of the answer. */
static void show_end(const struct job *job)
{
	const struct recording *recording = &job->recording;
	const Tracesmith__V1__Done *done = recording->end ? recording->end->done : NULL;
	char size[UNITS_TEXT_SIZE];

	if (job->progress)
		fprintf(stderr, "\r\033[K%" PRIu64 " operations, %s\n", recording->ops,
			units_bytes(size, (int64_t)record_file_size(recording->file)));
	if (done)
		loss_complain(done);
}

static bool is_recorded(const struct recording *recording, uint32_t pid)
{
	for (size_t i = 0; i < recording->pid_count; i++)
		if (recording->pid[i] == pid)
			return true;
	return false;
}

/* Adds the processes of the program; a child may come before its parent. */
static int add_processes(struct job *job, const struct record_process *list, size_t count)
{
	struct recording *recording = &job->recording;
	bool more = true;
	int r = 0;

	while (more) {
		more = false;
		for (size_t i = 0; r == 0 && i < count; i++) {
			if (is_recorded(recording, list[i].pid) ||
			    !record_program_owns(&job->program, list[i].pid, list[i].ppid))
				continue;
			r = recording_add_pid(recording, list[i].pid);
			more = r == 0;
		}
	}
	return r;
}

/* Looks up the processes, and whether the recorded ones have ended. */
static int learn(struct job *job)
{
	_cleanup_(freep) struct record_process *list = NULL;
	struct recording *recording = &job->recording;
	size_t count, running = 0;
	int r;

	if (recording->all)
		return 0;
	r = record_ask_processes(recording->link, recording->since_ns, &list, &count);
	if (r == 0 && job->argument)
		r = add_processes(job, list, count);
	for (size_t i = 0; r == 0 && i < count; i++)
		running += !list[i].ended && is_recorded(recording, list[i].pid);
	job->ended = r == 0 && running == 0;
	return r;
}

static void wait_ns(uint64_t ns)
{
	const struct timespec time = timespec_of(ns);

	nanosleep(&time, NULL);
}

static bool is_away(int error)
{
	/* The socket of a dying daemon may still accept a connection. */
	return error == -ECONNREFUSED || error == -ECONNRESET;
}

/* Whoever started us has closed our input, or has ended. */
static bool has_input_ended(void)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	char rest[256];
	ssize_t n;

	if (poll(&input, 1, 0) <= 0)
		return false;
	n = read(STDIN_FILENO, rest, sizeof(rest));
	return n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
}

static bool is_stopped(struct job *job)
{
	if (job->until_eof && has_input_ended()) {
		job->until_eof = false;
		stops++;
	}
	return stops;
}

/* The daemon itself reports what it misses meanwhile as a gap. */
static int reconnect(struct job *job)
{
	uint64_t lost_ns = recording_now(&job->recording), away_ns = 0;
	int r = -ECONNREFUSED;

	complain("Waiting up to %d s for it to come back", (int)(RECONNECT_NS / NS_PER_S));
	while (is_away(r) && away_ns < RECONNECT_NS && !is_stopped(job)) {
		wait_ns(SLICE_NS);
		r = recording_open_again(job->options, &job->recording);
		away_ns = recording_now(&job->recording) - lost_ns;
	}
	if (r == 0)
		complain("The daemon is back after %.1f s: the recording continues",
			 (double)away_ns / 1e9);
	else if (is_away(r))
		complain("The daemon did not come back: the recording ends here");
	return r;
}

/* A recording is full, unless it is told otherwise; that of all processes leaves each its budget.
 */
static int lift(struct job *job)
{
	struct recording *recording = &job->recording;

	return record_lift(&job->lift, recording->link, recording->pid, recording->pid_count);
}

static int look(struct job *job, bool last)
{
	int r = learn(job);

	if (r == 0)
		r = recording_ask(&job->recording, last);
	if (r == 0 && !last)
		r = lift(job);
	if (r == -ECONNRESET) {
		r = reconnect(job);
		return r < 0 ? r : look(job, last);
	}
	show_progress(job);
	return r;
}

static bool is_over(struct job *job)
{
	const struct recording *recording = &job->recording;

	if (job->end_ns && recording_now(recording) >= job->end_ns)
		return true;
	if (job->argument)
		return job->program.ended;
	return is_stopped(job) || (!recording->all && job->ended);
}

/* A program with many threads takes longer to look at, so we look less often. */
static void look_at_program(struct job *job)
{
	uint64_t begin_ns = recording_now(&job->recording);

	if (!job->argument || begin_ns < job->rest_ns)
		return;
	record_program_look(&job->program);
	job->rest_ns = begin_ns + LOOK_SHARE * (recording_now(&job->recording) - begin_ns);
}

/* Until the next poll. */
static void pause_until(struct job *job, uint64_t then_ns)
{
	uint64_t now_ns;

	while ((now_ns = recording_now(&job->recording)) < then_ns && !is_over(job)) {
		uint64_t left_ns = then_ns - now_ns;

		if (job->end_ns && job->end_ns > now_ns && job->end_ns - now_ns < left_ns)
			left_ns = job->end_ns - now_ns;
		wait_ns(left_ns < SLICE_NS ? left_ns : SLICE_NS);
		look_at_program(job);
	}
}

/* Whether all that had started has been reported, as far as we know. */
static bool is_told(const struct job *job, uint64_t over_ns, uint64_t quiet_ns)
{
	const struct recording *recording = &job->recording;
	uint64_t now_ns = recording_now(recording);
	bool quiet = now_ns - quiet_ns >= QUIET_NS;

	if (now_ns - over_ns >= LINGER_MAX || stops > 1)
		return true;
	if (job->argument && recording->pid_count == 0)
		return now_ns - over_ns >= NO_CUDA_NS;
	if (!recording->all && job->ended)
		return quiet;
	return quiet && now_ns - over_ns >= LINGER_NS;
}

static int linger(struct job *job)
{
	struct recording *recording = &job->recording;
	uint64_t over_ns = recording_now(recording), quiet_ns = over_ns;
	int r = 0;

	if (!job->argument || !job->program.ended)
		recording->until_ns = job->end_ns && job->end_ns < over_ns ? job->end_ns : over_ns;
	while (r == 0 && !is_told(job, over_ns, quiet_ns)) {
		wait_ns(4 * SLICE_NS);
		r = look(job, false);
		if (recording->chunks > 0)
			quiet_ns = recording_now(recording);
	}
	return r < 0 ? r : look(job, true);
}

static int run_live(struct job *job)
{
	struct recording *recording = &job->recording;
	uint64_t next_ns;
	int r = lift(job);

	if (r == 0)
		r = recording_begin(recording, job->options);
	job->shown_ns = next_ns = recording_now(recording);
	while (r == 0 && !is_over(job)) {
		next_ns += PERIOD_NS;
		pause_until(job, next_ns);
		r = look(job, false);
		if (recording_now(recording) > next_ns + PERIOD_NS)
			next_ns = recording_now(recording);
	}
	return r < 0 ? r : linger(job);
}

static bool has_ended(const struct job *job)
{
	return job->live && !job->argument && !job->recording.all && job->ended && !stops;
}

/* Nobody wants an empty recording: says what to do about it. */
static int refuse_nothing(const struct job *job)
{
	if (job->argument)
		return complain("Nothing was recorded: the daemon saw no CUDA calls from %s; is it "
				"a CUDA program? 'tsctl ps' lists those running",
				job->program.name);
	if (job->recording.all)
		return complain("Nothing was recorded: no process used CUDA in that time; 'tsctl "
				"ps' lists those running, and --since records the past");
	if (has_ended(job))
		return complain(
			"Nothing was recorded: process %" PRIu64
			" has ended; 'tsctl ps' lists those running, and --since records its past",
			job->options->pid);
	return complain("Nothing was recorded: process %" PRIu64
			" used no CUDA in that time; --since records its past",
			job->options->pid);
}

static int finish(struct job *job, int error)
{
	struct recording *recording = &job->recording;
	int r;

	/* Nothing arrived: the file is unchanged. */
	if (error < 0 && (!recording->started || record_file_error(recording->file) < 0))
		return EXIT_FAILED;
	if (recording->ops == 0) {
		show_end(job);
		return error < 0 ? EXIT_FAILED : refuse_nothing(job);
	}
	if (error == 0 && has_ended(job))
		complain("Process %" PRIu64 " has ended: recording stopped", job->options->pid);
	r = recording_end(recording, error == 0);
	show_end(job);
	return error < 0 || r < 0 ? EXIT_FAILED : EXIT_DONE;
}

/* A failed recording does not end the program. */
static int finish_program(struct job *job, int error)
{
	struct record_program *program = &job->program;
	int status = finish(job, error);

	while (!program->ended) {
		wait_ns(SLICE_NS);
		record_program_look(program);
	}
	return record_program_exit_status(program) ? record_program_exit_status(program) : status;
}

/* What the program does before the recording starts is fetched as its past: a program that cannot
 * be started leaves the file unchanged. */
static int record_program(struct job *job)
{
	int status;

	job->recording.command = job->argument[0];
	if (launch_prepare(job->options, job->argument[0]) < 0)
		return EXIT_FAILED;
	status = record_program_start(&job->program, job->argument);
	return status ? status : finish_program(job, run_live(job));
}

static int record(struct job *job)
{
	if (job->argument)
		return record_program(job);
	if (!job->live)
		return finish(job, recording_ask(&job->recording, true));
	catch_stops();
	return finish(job, run_live(job));
}

static void job_done(struct job *job)
{
	record_program_done(&job->program);
	recording_done(&job->recording);
}

int cmd_record(const struct options *options, int count, char **argument)
{
	struct options asked = *options;
	_cleanup_(job_done) struct job job = { .options = &asked,
					       .argument = count ? argument : NULL,
					       .progress = isatty(STDERR_FILENO) };

	/* What is recorded is recorded whole, whatever the daemon's settings say. */
	if (!asked.budget_ppm)
		asked.budget_ppm = TS_BUDGET_NONE;
	if (asked.budget_ppm != TS_BUDGET_NONE)
		job.lift.budget_ppm = asked.budget_ppm;

	if (check(options, count) < 0)
		return EXIT_USAGE;
	if (recording_open(options, &job.recording) < 0)
		return EXIT_FAILED;
	if (choose_window(&job) < 0)
		return EXIT_USAGE;
	job.recording.all = options->given & OPTION(ALL);
	if ((options->given & OPTION(PID)) &&
	    recording_add_pid(&job.recording, (uint32_t)options->pid) < 0)
		return EXIT_FAILED;
	if (record_file_open(options->output, &job.recording.file) < 0)
		return EXIT_FAILED;
	return record(&job);
}
