/* tsctl export: writes the ops of a window in another program's format. Only one chunk is in memory
 * at a time, with the names that it refers to. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/base/argument.h"
#include "client/export/export.h"
#include "client/output/loss.h"
#include "client/output/outfile.h"
#include "client/trace/meta_load.h"
#include "client/trace/show.h"
#include "client/trace/trace.h"
#include "client/verbs/command.h"
#include "core/base/array.h"
#include "core/base/units.h"

#define NAMED_MAX 8 /* processes without GPU times to name */

static const struct {
	option_set option;
	const struct export_format *format;
} formats[] = {
#define X(id, name, letter, argument, text, symbol) { OPTION(id), &export_##symbol },
	EXPORTS(X)
#undef X
};

/* The launches of a process, for formats that show only exact times. */
struct tally {
	struct tally *next;
	uint32_t process; /* id */
	uint64_t submitted, exact;
};

struct job {
	struct trace trace;
	struct outfile *file;
	const struct export_format *format;
	struct export_run *export;
	struct tally *tally;
	bool progress;
	bool narrowed; /* to the last seconds, by default */
};

static int choose_format(const struct options *options, const struct export_format **ret)
{
	int count = 0;

	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		if (!(options->given & formats[i].option))
			continue;
		*ret = options->spreadsheet ? &export_csv_spreadsheet : formats[i].format;
		count++;
	}
	return count == 1 ? 0 : -EINVAL;
}

static struct tally *tally_of(struct job *job, uint32_t process)
{
	struct tally *tally = job->tally;

	while (tally && tally->process != process)
		tally = tally->next;
	if (tally)
		return tally;
	tally = calloc(1, sizeof(*tally));
	if (!tally)
		return NULL;
	tally->process = process;
	tally->next = job->tally;
	job->tally = tally;
	return tally;
}

static int count_exact(struct job *job, const struct op *op, size_t count)
{
	struct tally *tally;

	if (!job->format->exact || count == 0)
		return 0;
	tally = tally_of(job, op->process);
	if (!tally)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		tally->submitted += show_is_submission(&op[i]);
		tally->exact += show_has_work(&op[i]);
	}
	return 0;
}

static void show_progress(const struct job *job, uint64_t done_ns)
{
	const struct trace *trace = &job->trace;
	uint64_t begin = trace->since_ns > trace->first_ns ? trace->since_ns : trace->first_ns;
	uint64_t all = trace->until_ns > begin ? trace->until_ns - begin : 0;
	uint64_t part = done_ns > begin ? done_ns - begin : 0;
	char size[UNITS_TEXT_SIZE];

	if (job->progress && all > 0)
		fprintf(stderr, "\r%3.0f %%, %-9s ",
			part < all ? 100.0 * (double)part / (double)all : 100.0,
			units_bytes(size, (int64_t)outfile_size(job->file)));
}

/* Says which window was exported, since that is hard to see in the file. */
static void show_window(const struct job *job)
{
	const struct trace *trace = &job->trace;
	int64_t wall_ns = link_hello(trace->link)->wall_offset_ns;
	uint64_t from_ns = trace->since_ns, to_ns = trace->until_ns;
	char from[UNITS_TEXT_SIZE], to[UNITS_TEXT_SIZE], length[UNITS_TEXT_SIZE];
	char size[UNITS_TEXT_SIZE];

	if (from_ns <= 1 && trace->begin_ns < to_ns) /* all there is */
		from_ns = trace->begin_ns;
	if (trace->end_ns < to_ns && trace->end_ns > from_ns)
		to_ns = trace->end_ns;
	complain("%" PRIu64 " operations of %s, from %s to %s, %s%s", trace->op_count,
		 units_nanoseconds(length, to_ns > from_ns ? (int64_t)(to_ns - from_ns) : 0),
		 units_time(from, (int64_t)from_ns + wall_ns),
		 units_time(to, (int64_t)to_ns + wall_ns),
		 units_bytes(size, (int64_t)outfile_size(job->file)),
		 job->narrowed ? "; use --since for more" : "");
}

/* Losses in the window are part of the answer. */
static void show_end(const struct job *job, const Tracesmith__V1__Done *done)
{
	char note[EXPORT_NOTE_BYTES];

	if (job->progress)
		fputs("\r\033[K", stderr);
	show_window(job);
	loss_complain(done);
	export_note(job->export, note);
	if (*note)
		complain("%s", note);
}

/* Says which processes are left out because they have no exact times. -ENODATA: all of them. */
static int show_inexact(const struct job *job)
{
	uint32_t named = 0, more = 0;
	uint64_t exact = 0;

	if (!job->format->exact)
		return 0;
	if (job->progress)
		fputs("\r\033[K", stderr);
	for (const struct tally *tally = job->tally; tally; tally = tally->next) {
		const struct meta_process *process = meta_process(job->trace.meta, tally->process);

		exact += tally->exact;
		if (tally->exact > 0 || tally->submitted == 0)
			continue;
		if (named++ < NAMED_MAX)
			complain("%s (%" PRIu32 ") has no GPU times: these need the exact tier",
				 process->name->text, process->pid);
		else
			more++;
	}
	if (more > 0)
		complain("%" PRIu32 " other processes have none either", more);
	if (exact > 0)
		return 0;
	complain("No GPU times to export: record them with 'tsctl run -- PROGRAM' or 'tsctl attach "
		 "PID', then export again");
	return -ENODATA;
}

/* A format may know better why. */
static int explain(const struct job *job, int error)
{
	char note[EXPORT_NOTE_BYTES] = "";

	if (outfile_error(job->file) != 0)
		return error;
	if (error == -ENOMEM)
		return complain_memory(), error;
	if (job->export)
		export_note(job->export, note);
	if (*note)
		complain("%s", note);
	else
		complain("Cannot write the trace: %s", strerror(-error));
	return error;
}

static bool is_of_allocations(const void *data, const struct sbt_info *info)
{
	(void)data;
	return info->kind == OP_ALLOC || info->kind == OP_FREE;
}

static int open_trace(struct job *job, const struct options *options)
{
	struct trace *trace = &job->trace;
	int r = trace_open(options, trace);

	if (r < 0 || !job->format->allocations)
		return r;
	trace->want = is_of_allocations;
	return meta_load_held(trace->link, trace->pid, trace->meta);
}

static int take_ops(void *data, struct op *op, size_t count, uint64_t done_ns)
{
	struct job *job = data;
	int r = count_exact(job, op, count);

	if (r == 0)
		r = export_ops(job->export, op, count);
	show_progress(job, done_ns);
	return r < 0 ? explain(job, r) : 0;
}

static int run(struct job *job)
{
	_cleanup_(reply_freep) Tracesmith__V1__Reply *end = NULL;
	struct out_sink sink = outfile_sink(job->file);
	int r = export_new(job->format, job->trace.meta, &sink, &job->export);

	if (r < 0)
		return explain(job, r);
	r = trace_read(&job->trace, take_ops, job, &end);
	if (r == 0)
		r = show_inexact(job);
	if (r < 0)
		return r;
	r = export_end(job->export);
	if (r < 0)
		return explain(job, r);
	show_end(job, end->done);
	return 0;
}

static void job_done(struct job *job)
{
	export_free(job->export);
	while (job->tally) {
		struct tally *next = job->tally->next;

		free(job->tally);
		job->tally = next;
	}
	outfile_free(job->file);
	trace_done(&job->trace);
}

/* A terminal may take binary data for commands. */
static int check_output(const struct options *options)
{
	if (!(options->given & (OPTION(PERFETTO) | OPTION(PPROF) | OPTION(MEMORY_VIZ))) ||
	    strcmp(options->output, "-") != 0 || !isatty(STDOUT_FILENO))
		return 0;
	complain("This format is binary: give -o FILE, or redirect it to a file or a pipe");
	return -EINVAL;
}

int cmd_export(const struct options *given, int count, char **argument)
{
	_cleanup_(job_done) struct job job = { 0 };
	struct options copy = *given;
	const struct options *options = &copy;
	int r;

	if (argument_file(&copy, count, argument) < 0)
		return EXIT_USAGE;
	if (choose_format(options, &job.format) < 0 || !options->output) {
		complain("Give one of the formats that 'tsctl export --help' lists, and -o FILE");
		return EXIT_USAGE;
	}
	if (job.format->allocations && options->given & OPTION(UNTIL)) {
		complain("What is live is known at the end alone: leave out --until");
		return EXIT_USAGE;
	}
	if (outfile_spare(options->output, options->file) < 0 || check_output(options) < 0)
		return EXIT_USAGE;
	job.narrowed = argument_window(&copy);
	if (open_trace(&job, options) < 0)
		return EXIT_FAILED;
	if (outfile_open(options->output, &job.file) < 0)
		return EXIT_FAILED;
	job.progress = isatty(STDERR_FILENO);
	r = run(&job);
	if (r < 0 && outfile_error(job.file) == 0)
		return EXIT_FAILED;
	if (r == 0)
		r = outfile_commit(job.file);
	return r < 0 ? complain("Cannot write '%s': %s", options->output, strerror(-r)) : EXIT_DONE;
}
