/* tsctl export: the ops of a window as a file of another program's format.
 * One chunk is held at a time; beside it, the names of what it refers to. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/command.h"
#include "client/export.h"
#include "client/export_load.h"
#include "client/link.h"
#include "client/outfile.h"
#include "core/sbt.h"

#define PID_UNKNOWN (1u << 30) /* plus the id of a process that came after the metadata */

static const struct {
	uint32_t option;
	const struct export_format *format;
} formats[] = {
#define X(id, name, letter, argument, text, symbol) { OPTION_##id, &export_##symbol },
	EXPORT_FORMATS(X)
#undef X
};

struct export
{
	struct link *link;
	struct outfile *file;
	const struct export_format *format;
	struct export_meta *meta;
	struct exporter *exporter;
	struct sbt_codec *codec;
	struct op *op; /* SBT_OPS_MAX */
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
static size_t keep_window(const struct export *export, struct op *op, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		if (op[i].start_ns >= export->until_ns || export_end_ns(&op[i]) < export->since_ns)
			continue;
		if (kept != i)
			op[kept] = op[i];
		kept++;
	}
	return kept;
}

static int take_chunk(struct export *export, const Tracesmith__V1__Chunk *chunk)
{
	struct sbt_info info;
	size_t count;
	int r;

	r = sbt_decode(export->codec, chunk->data.data, chunk->data.len, SBT_ALL_COLUMNS,
		       export->op, &info);
	if (r < 0)
		return r;
	if (export->first_ns == 0)
		export->first_ns = info.first_ns;
	count = keep_window(export, export->op, info.count);
	if (count > 0 && !export_meta_process(export->meta, info.process)) {
		r = export_meta_add_process(export->meta, info.process, PID_UNKNOWN | info.process,
					    "unknown process", NULL);
		if (r < 0)
			return r;
	}
	export->op_count += count;
	return export->format->ops(export->exporter, export->op, count);
}

static void show_progress(const struct export *export, uint64_t done_ns)
{
	uint64_t begin = export->since_ns > export->first_ns ? export->since_ns : export->first_ns;
	uint64_t all = export->until_ns > begin ? export->until_ns - begin : 0;
	uint64_t part = done_ns > begin ? done_ns - begin : 0;

	if (export->progress && all > 0)
		fprintf(stderr, "\r%3.0f %%, %.1f MB ", part < all ? 100.0 * part / all : 100.0,
			outfile_size(export->file) / 1e6);
}

/* What was lost in the window is a part of the answer. */
static void show_end(const struct export *export, const Tracesmith__V1__Done *done)
{
	if (export->progress)
		fprintf(stderr, "\r%zu operations, %.1f MB \n", (size_t) export->op_count,
			outfile_size(export->file) / 1e6);
	for (size_t i = 0; i < done->n_loss; i++)
		fprintf(stderr, "lost: %llu %s\n", (unsigned long long)done->loss[i]->count,
			*done->loss[i]->text ? done->loss[i]->text : done->loss[i]->reason);
}

static int explain(const struct export *export, int error)
{
	if (outfile_error(export->file) == 0)
		complain("Cannot make the trace: %s", strerror(-error));
	return error;
}

static int receive(struct export *export)
{
	int more, r = 0;

	do {
		_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;

		more = link_next(export->link, &reply);
		if (more < 0)
			return more;
		if (reply->body_case == TRACESMITH__V1__REPLY__BODY_CHUNK) {
			r = take_chunk(export, reply->chunk);
			show_progress(export, reply->chunk->done_ns);
		}
		if (r == 0 && !more) {
			r = export->format->end(export->exporter);
			if (r == 0)
				show_end(export, reply->done);
		}
		if (r < 0)
			return explain(export, r);
	} while (more);
	return 0;
}

static int run(struct export *export)
{
	Tracesmith__V1__ExportRequest body = TRACESMITH__V1__EXPORT_REQUEST__INIT;
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;
	struct out_sink sink = outfile_sink(export->file);
	int r;

	r = export_load(export->link, export->pid, export->since_ns, export->until_ns,
			&export->meta);
	if (r < 0)
		return r;
	if ((r = sbt_codec_new(&export->codec)) < 0 ||
	    (r = export->format->begin(export->meta, &sink, &export->exporter)) < 0)
		return explain(export, r);
	body.pid = export->pid;
	body.since_ns = export->since_ns;
	body.until_ns = export->until_ns;
	request.body_case = TRACESMITH__V1__REQUEST__BODY_EXPORT;
	request.export = &body;
	r = link_send(export->link, &request);
	return r < 0 ? r : receive(export);
}

static void export_done(struct export *export)
{
	if (export->exporter)
		export->format->free(export->exporter);
	export_meta_free(export->meta);
	sbt_codec_free(export->codec);
	outfile_free(export->file);
	link_free(export->link);
	free(export->op);
}

int cmd_export(const struct options *options, int count, char **argument)
{
	_cleanup_(export_done) struct export export = { .pid = options->pid };
	int r;

	if (choose_format(options, &export.format) < 0 || !options->output) {
		complain("Say one format of those that 'tsctl export --help' lists, and -o FILE");
		return EXIT_USAGE;
	}
	export.op = calloc(SBT_OPS_MAX, sizeof(*export.op));
	if (!export.op)
		return complain("Not enough memory");
	if (link_open(options, &export.link) < 0)
		return EXIT_FAILED;
	export.since_ns =
		options->given & OPTION_SINCE ? link_time(export.link, &options->since) : 1;
	/* What comes while we ask would have no names yet. */
	export.until_ns = options->given & OPTION_UNTIL ? link_time(export.link, &options->until)
							: link_hello(export.link)->now_ns;
	r = outfile_open(options->output, &export.file);
	if (r < 0)
		return complain("Cannot write '%s': %s", options->output, strerror(-r));
	export.progress = isatty(STDERR_FILENO);
	r = run(&export);
	if (r < 0 && outfile_error(export.file) == 0)
		return EXIT_FAILED;
	if (r == 0)
		r = outfile_commit(export.file);
	return r < 0 ? complain("Cannot write '%s': %s", options->output, strerror(-r)) : EXIT_DONE;
}
