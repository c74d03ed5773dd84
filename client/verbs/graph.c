/* tsctl graph: writes what waited for what, with the critical path and the slack of each
 * operation. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "client/base/argument.h"
#include "client/graph/graph.h"
#include "client/output/outfile.h"
#include "client/trace/plan_load.h"
#include "client/verbs/command.h"

/* Graphviz lays these out within about a minute. */
#define DOT_NODES_MAX 2000

struct job {
	struct trace trace;
	struct plan *plan;
	struct plan_times *times;
	struct critical *critical;
	struct graph graph;
	struct outfile *file;
	bool dot;
};

static void job_done(struct job *job)
{
	out_free(job->graph.out);
	outfile_free(job->file);
	free(job->graph.call_critical);
	free(job->graph.work_critical);
	critical_free(job->critical);
	plan_times_free(job->times);
	plan_free(job->plan);
	trace_done(&job->trace);
}

static int check_size(const struct job *job)
{
	uint64_t nodes = (uint64_t)job->plan->call_count + job->plan->work_count;

	if (!job->dot || nodes <= DOT_NODES_MAX)
		return 0;
	complain("The graph has %" PRIu64
		 " nodes, and Graphviz can lay out about %d: narrow it with --from and --to, "
		 "--since and --until, or --pid, or use --json",
		 nodes, DOT_NODES_MAX);
	return -E2BIG;
}

static int find_path(struct job *job)
{
	struct graph *graph = &job->graph;
	const struct plan *plan = job->plan;
	int r = plan_times_new(plan, &job->times);

	if (r == 0)
		r = critical_find(plan, job->times, &job->critical);
	if (r < 0)
		return r;
	graph->plan = plan;
	graph->meta = job->trace.meta;
	graph->critical = job->critical;
	graph->call_critical = calloc(plan->call_count + 1ul, sizeof(bool));
	graph->work_critical = calloc(plan->work_count + 1ul, sizeof(bool));
	if (!graph->call_critical || !graph->work_critical)
		return -ENOMEM;
	for (size_t i = 0; i < job->critical->count; i++) {
		const struct critical_piece *piece = &job->critical->piece[i];

		if (piece->work != PLAN_NONE)
			graph->work_critical[piece->work] = true;
		else
			graph->call_critical[piece->call] = true;
	}
	return 0;
}

static int write_graph(struct job *job)
{
	struct out_sink sink = outfile_sink(job->file);
	int r = out_new(&sink, &job->graph.out);

	if (r == 0)
		r = job->dot ? graph_dot(&job->graph) : graph_json(&job->graph);
	if (r == 0)
		r = out_flush(job->graph.out);
	return r < 0 ? r : outfile_commit(job->file);
}

static int run(struct job *job, const struct options *options, const char *output)
{
	int r = plan_load(options, &job->trace, &job->plan);

	if (r == 0)
		r = check_size(job);
	if (r < 0)
		return EXIT_FAILED;
	r = find_path(job);
	if (r < 0)
		return complain("Cannot find the critical path: %s", strerror(-r));
	if (outfile_open(output, &job->file) < 0)
		return EXIT_FAILED;
	r = write_graph(job);
	return r < 0 ? complain("Cannot write '%s': %s", output, strerror(-r)) : EXIT_DONE;
}

int cmd_graph(const struct options *given, int count, char **argument)
{
	_cleanup_(job_done) struct job job = { .dot = given->given & OPTION(DOT) };
	struct options options = *given;

	if (job.dot == !!(given->given & OPTION(JSON))) {
		complain("Missing format: give --dot or --json");
		return EXIT_USAGE;
	}
	if (argument_file(&options, count, argument) < 0 ||
	    outfile_spare(options.output, options.file) < 0)
		return EXIT_USAGE;
	argument_window(&options);
	return run(&job, &options, options.output ? options.output : "-");
}
