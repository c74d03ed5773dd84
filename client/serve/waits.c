/* Waits: looks for an operation in the dependency graph of a window, and follows its edges in both
 * directions, through the marks of events and graphs, to the next operations. That the calls of a
 * thread follow each other, and submit work, is no wait. */
#include "client/serve/waits.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/graph/graph.h"
#include "client/output/json.h"
#include "client/serve/extent.h"
#include "client/trace/plan_load.h"
#include "core/base/cleanup.h"

#define OPS_MAX	   300000 /* each takes about half a kilobyte */
#define ARROWS_MAX 64	  /* a direction */
#define HOPS_MAX   16	  /* marks on the way */

struct item {
	bool is_call;
	uint32_t index;
};

struct asked {
	uint64_t since_ns, until_ns;
	int64_t pid, id, at_ns;
	bool call;
};

enum reached { NOT_REACHED, REACHED, NEXT, NOW };

struct search {
	struct graph graph; /* first: graph_edges() hands it on */
	FILE *out;
	bool forward;
	uint8_t *call, *work; /* enum reached of each */
	const char **why;     /* of works that are marks: what led there */
	uint32_t count, left_out;
	bool found_marks;
};

static int read_request(const struct web_request *request, struct link *link, struct asked *asked)
{
	const char *what = web_argument(request, "what");
	const uint64_t now_ns = link_hello(link)->now_ns;
	int r;

	*asked = (struct asked){ .until_ns = now_ns, .at_ns = -1, .id = -1 };
	asked->since_ns = now_ns > 10000000000 ? now_ns - 10000000000 : 1;
	r = web_period(request, now_ns, &asked->since_ns, &asked->until_ns);
	if (r == 0)
		r = web_number(request, "pid", &asked->pid);
	if (r == 0)
		r = web_number(request, "id", &asked->id);
	if (r == 0)
		r = web_number(request, "at", &asked->at_ns);
	if (r < 0)
		return r;
	asked->call = what && strcmp(what, "calls") == 0;
	if (what && (asked->call || strcmp(what, "work") == 0) && asked->pid > 0 &&
	    asked->pid <= INT32_MAX && asked->id >= 0 && asked->at_ns >= 0 &&
	    asked->since_ns < asked->until_ns)
		return 0;
	complain("Waits are of 'work' or 'calls' of a process: give pid, id and at");
	return -EINVAL;
}

static uint64_t apart(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* The one on that stream or thread that starts nearest to it: a browser rounds times. */
static bool find(const struct plan *plan, const struct asked *asked, struct item *ret)
{
	const uint32_t count = asked->call ? plan->call_count : plan->work_count;
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 0; i < count; i++) {
		const struct op *op = &plan->op[asked->call ? plan->call[i].op : plan->work[i].op];
		uint64_t off = apart(asked->call ? plan->call[i].start_ns : plan->work[i].start_ns,
				     (uint64_t)asked->at_ns);

		if ((asked->call ? op->tid : op->stream) != asked->id || off >= least ||
		    (!asked->call && plan->work[i].flags & PLAN_MARK))
			continue;
		least = off;
		*ret = (struct item){ asked->call, i };
	}
	return least < UINT64_MAX;
}

static void write_item(struct search *search, const struct item *item, const char *why)
{
	const struct plan *plan = search->graph.plan;
	const struct plan_call *call = item->is_call ? &plan->call[item->index] : NULL;
	const struct plan_work *work = item->is_call ? NULL : &plan->work[item->index];
	const struct op *op = &plan->op[call ? call->op : work->op];

	if (search->count == ARROWS_MAX) {
		search->left_out++;
		return;
	}
	fprintf(search->out,
		"%s{\"why\":\"%s\",\"what\":\"%s\",\"id\":%" PRIu32 ",\"process\":%" PRIu32
		",\"start\":%" PRIu64 ",\"end\":%" PRIu64 ",\"name\":",
		search->count++ ? "," : "", why, call ? "calls" : "work",
		call ? op->tid : op->stream, op->process, call ? call->start_ns : work->start_ns,
		call ? call->end_ns : work->end_ns);
	json_string(search->out, call ? graph_call_name(&search->graph, item->index)
				      : graph_work_name(&search->graph, item->index));
	fputc('}', search->out);
}

/* An event that a stream waits for lies behind two marks that follow work in streams. */
static const char *why_of(const struct search *search, const struct item *near, const char *why)
{
	const char *before = near->is_call ? NULL : search->why[near->index];

	return before && strcmp(why, "stream") == 0 ? before : why;
}

static int follow(struct graph *graph, const struct graph_edge *edge)
{
	struct search *search = (struct search *)graph;
	const struct item from = { edge->from_call, edge->from };
	const struct item to = { edge->to_call, edge->to };
	const struct item *near = search->forward ? &from : &to;
	const struct item *far = search->forward ? &to : &from;
	uint8_t *reached = &(far->is_call ? search->call : search->work)[far->index];

	if ((near->is_call ? search->call : search->work)[near->index] != NOW || *reached ||
	    strcmp(edge->why, "thread") == 0 || strcmp(edge->why, "submit") == 0)
		return 0;
	*reached = REACHED;
	if (far->is_call || !(graph->plan->work[far->index].flags & PLAN_MARK)) {
		write_item(search, far, why_of(search, near, edge->why));
		return 0;
	}
	*reached = NEXT;
	search->why[far->index] = why_of(search, near, edge->why);
	search->found_marks = true;
	return 0;
}

static void advance(struct search *search)
{
	for (uint32_t i = 0; i < search->graph.plan->work_count; i++)
		if (search->work[i] == NOW)
			search->work[i] = REACHED;
		else if (search->work[i] == NEXT)
			search->work[i] = NOW;
}

static int write_side(struct search *search, const struct item *item, bool forward)
{
	const struct plan *plan = search->graph.plan;
	_cleanup_(freep) uint8_t *call = calloc(plan->call_count + 1ul, 1);
	_cleanup_(freep) uint8_t *work = calloc(plan->work_count + 1ul, 1);
	_cleanup_(freep) const char **why = calloc(plan->work_count + 1ul, sizeof(*why));

	if (!call || !work || !why)
		return -ENOMEM;
	search->call = call;
	search->work = work;
	search->why = why;
	search->forward = forward;
	search->count = search->left_out = 0;
	(item->is_call ? call : work)[item->index] = NOW;
	fprintf(search->out, "\"%s\":[", forward ? "after" : "before");
	search->found_marks = true;
	for (int hops = 0; hops < HOPS_MAX && search->found_marks; hops++) {
		search->found_marks = false;
		graph_edges(&search->graph, follow);
		advance(search);
		if (item->is_call)
			call[item->index] = REACHED;
	}
	fprintf(search->out, "],\"%s_left_out\":%" PRIu32 "%s", forward ? "after" : "before",
		search->left_out, forward ? "}\n" : ",");
	return 0;
}

static int write_graph(const struct asked *asked, const struct trace *trace,
		       const struct plan *plan, FILE *out)
{
	struct search search = { .graph = { .plan = plan, .meta = trace->meta }, .out = out };
	struct item item;
	int r;

	if (!find(plan, asked, &item)) {
		complain("It is no longer there");
		return -ENOENT;
	}
	fputc('{', out);
	r = write_side(&search, &item, false);
	return r < 0 ? r : write_side(&search, &item, true);
}

static int write_waits(const struct web_request *request, struct link *link, FILE *out)
{
	_cleanup_(trace_done) struct trace trace = { 0 };
	_cleanup_(plan_freep) struct plan *plan = NULL;
	struct options options = request->source->options;
	struct asked asked;
	int r = read_request(request, link, &asked);

	if (r == 0)
		r = extent_check(link, asked.pid, asked.since_ns, asked.until_ns, OPS_MAX);
	if (r < 0)
		return r;
	options.pid = (uint64_t)asked.pid;
	options.given |= OPTION(PID) | OPTION(SINCE) | OPTION(UNTIL);
	options.since = web_moment(link, asked.since_ns);
	options.until = web_moment(link, asked.until_ns);
	r = plan_load_on(link, &options, &trace, &plan);
	return r < 0 ? r : write_graph(&asked, &trace, plan, out);
}

void waits_arrows(const struct web_request *request, struct web_answer *answer)
{
	web_relay(request, answer, write_waits);
}
