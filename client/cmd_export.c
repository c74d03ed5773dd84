/* tsctl export: the ops of a window as a file of another program's format.
 * One chunk is held at a time; beside it, the names of what it refers to. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/command.h"
#include "client/export.h"
#include "client/export_load.h"
#include "client/link.h"
#include "client/outfile.h"
#include "core/sbt.h"

#define PID_UNKNOWN (1u << 30) /* plus the id of a process that came after the metadata */
#define NAMED_MAX   8	       /* processes without GPU times that are named */

static const struct {
	uint32_t option;
	const struct export_format *format;
} formats[] = {
#define X(id, name, letter, argument, text, symbol) { OPTION_##id, &export_##symbol },
	EXPORT_FORMATS(X)
#undef X
};

/* What a process submitted, for formats that show exact times only. */
struct tally {
	struct tally *next;
	uint32_t process; /* id */
	uint64_t submitted, exact;
};

struct job {
	struct link *link;
	struct outfile *file;
	const struct export_format *format;
	struct export_meta *meta;
	struct exporter *exporter;
	struct sbt_codec *codec;
	struct op *op; /* SBT_OPS_MAX */
	struct tally *tally;
	uint32_t pid;
	uint64_t since_ns, until_ns;
	uint64_t first_ns; /* of the first chunk, for progress */
	uint64_t op_count;
	bool progress;
};

static int choose_format(const struct options *options, const struct export_format **ret)
{
	int count = 0;

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		if (!(options->given & formats[i].option))
			continue;
		*ret = formats[i].format;
		count++;
	}
	return count == 1 ? 0 : -EINVAL;
}

/* A chunk may reach out of the window. */
static size_t keep_window(const struct job *job, struct op *op, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t end_ns = export_end_ns(&op[i]);

		if (export_has_work(&op[i]) && op[i].gpu_end_ns > end_ns)
			end_ns = op[i].gpu_end_ns;
		if (op[i].start_ns >= job->until_ns || end_ns < job->since_ns)
			continue;
		if (kept != i)
			op[kept] = op[i];
		kept++;
	}
	return kept;
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

static int count_exact(struct job *job, const struct sbt_info *info, size_t count)
{
	struct tally *tally;

	if (!job->format->exact || count == 0)
		return 0;
	tally = tally_of(job, info->process);
	if (!tally)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		tally->submitted += export_is_submission(&job->op[i]);
		tally->exact += export_has_work(&job->op[i]);
	}
	return 0;
}

static int take_chunk(struct job *job, const Tracesmith__V1__Chunk *chunk)
{
	struct sbt_info info;
	size_t count;
	int r;

	r = sbt_decode(job->codec, chunk->data.data, chunk->data.len, SBT_ALL_COLUMNS, job->op,
		       &info);
	if (r < 0)
		return r;
	if (job->first_ns == 0)
		job->first_ns = info.first_ns;
	count = keep_window(job, job->op, info.count);
	if (count > 0 && !export_meta_process(job->meta, info.process)) {
		r = export_meta_add_process(job->meta, info.process, PID_UNKNOWN | info.process,
					    "unknown process", NULL);
		if (r < 0)
			return r;
	}
	job->op_count += count;
	r = count_exact(job, &info, count);
	return r < 0 ? r : job->format->ops(job->exporter, job->op, count);
}

static void show_progress(const struct job *job, uint64_t done_ns)
{
	uint64_t begin = job->since_ns > job->first_ns ? job->since_ns : job->first_ns;
	uint64_t all = job->until_ns > begin ? job->until_ns - begin : 0;
	uint64_t part = done_ns > begin ? done_ns - begin : 0;

	if (job->progress && all > 0)
		fprintf(stderr, "\r%3.0f %%, %.1f MB ", part < all ? 100.0 * part / all : 100.0,
			outfile_size(job->file) / 1e6);
}

/* What was lost in the window is a part of the answer. */
static void show_end(const struct job *job, const Tracesmith__V1__Done *done)
{
	if (job->progress)
		fprintf(stderr, "\r%" PRIu64 " operations, %.1f MB \n", job->op_count,
			outfile_size(job->file) / 1e6);
	for (size_t i = 0; i < done->n_loss; i++)
		fprintf(stderr, "tsctl: lost: %" PRIu64 " %s (%s)\n", done->loss[i]->count,
			done->loss[i]->reason, done->loss[i]->text);
}

/* Says which processes are missing for want of exact times. -ENODATA: all of them. */
static int show_inexact(const struct job *job)
{
	uint32_t named = 0, more = 0;
	uint64_t exact = 0;

	if (!job->format->exact)
		return 0;
	if (job->progress)
		fputs("\r\033[K", stderr);
	for (const struct tally *tally = job->tally; tally; tally = tally->next) {
		const struct export_process *process =
			export_meta_process(job->meta, tally->process);

		exact += tally->exact;
		if (tally->exact > 0 || tally->submitted == 0)
			continue;
		if (named++ < NAMED_MAX)
			complain("%s (%" PRIu32 ") has no GPU times: they need the exact tier",
				 process->name->text, process->pid);
		else
			more++;
	}
	if (more > 0)
		complain("Nor have %" PRIu32 " other processes", more);
	if (exact > 0)
		return 0;
	complain("There are no GPU times to write. Get them with 'tsctl run -- PROGRAM' or"
		 " 'tsctl attach PID', then export again");
	return -ENODATA;
}

static int explain(const struct job *job, int error)
{
	if (outfile_error(job->file) == 0)
		complain("Cannot make the trace: %s", strerror(-error));
	return error;
}

static int receive(struct job *job)
{
	int more, r = 0;

	do {
		_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;

		more = link_next(job->link, &reply);
		if (more < 0)
			return more;
		if (reply->body_case == TRACESMITH__V1__REPLY__BODY_CHUNK) {
			r = take_chunk(job, reply->chunk);
			show_progress(job, reply->chunk->done_ns);
		}
		if (r == 0 && !more) {
			r = show_inexact(job);
			if (r < 0)
				return r;
			r = job->format->end(job->exporter);
			if (r == 0)
				show_end(job, reply->done);
		}
		if (r < 0)
			return explain(job, r);
	} while (more);
	return 0;
}

static int run(struct job *job)
{
	Tracesmith__V1__ExportRequest body = TRACESMITH__V1__EXPORT_REQUEST__INIT;
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;
	struct out_sink sink = outfile_sink(job->file);
	int r;

	r = export_load(job->link, job->pid, job->since_ns, job->until_ns, &job->meta);
	if (r < 0)
		return r;
	if ((r = sbt_codec_new(&job->codec)) < 0 ||
	    (r = job->format->begin(job->meta, &sink, &job->exporter)) < 0)
		return explain(job, r);
	body.pid = job->pid;
	body.since_ns = job->since_ns;
	body.until_ns = job->until_ns;
	request.body_case = TRACESMITH__V1__REQUEST__BODY_EXPORT;
	request.export = &body;
	r = link_send(job->link, &request);
	return r < 0 ? r : receive(job);
}

static void job_done(struct job *job)
{
	if (job->exporter)
		job->format->free(job->exporter);
	while (job->tally) {
		struct tally *next = job->tally->next;

		free(job->tally);
		job->tally = next;
	}
	export_meta_free(job->meta);
	sbt_codec_free(job->codec);
	outfile_free(job->file);
	link_free(job->link);
	free(job->op);
}

int cmd_export(const struct options *options, int count, char **argument)
{
	_cleanup_(job_done) struct job job = { .pid = options->pid };
	int r;

	if (choose_format(options, &job.format) < 0 || !options->output) {
		complain("Say one format of those that 'tsctl export --help' lists, and -o FILE");
		return EXIT_USAGE;
	}
	job.op = calloc(SBT_OPS_MAX, sizeof(*job.op));
	if (!job.op)
		return complain("Not enough memory");
	if (link_open(options, &job.link) < 0)
		return EXIT_FAILED;
	job.since_ns = options->given & OPTION_SINCE ? link_time(job.link, &options->since) : 1;
	/* What comes while we ask would have no names yet. */
	job.until_ns = options->given & OPTION_UNTIL ? link_time(job.link, &options->until)
						     : link_hello(job.link)->now_ns;
	r = outfile_open(options->output, &job.file);
	if (r < 0)
		return complain("Cannot write '%s': %s", options->output, strerror(-r));
	job.progress = isatty(STDERR_FILENO);
	r = run(&job);
	if (r < 0 && outfile_error(job.file) == 0)
		return EXIT_FAILED;
	if (r == 0)
		r = outfile_commit(job.file);
	return r < 0 ? complain("Cannot write '%s': %s", options->output, strerror(-r)) : EXIT_DONE;
}
