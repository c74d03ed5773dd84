/* Predict: emulates what was recorded with the what-ifs of `tsctl replay`, and draws the streams as
 * recorded and as predicted, on one scale of time. One at a time: a plan is large. */
#include "client/serve/predict.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/output/json.h"
#include "client/replay/report.h"
#include "client/replay/whatif.h"
#include "client/serve/extent.h"
#include "client/serve/lane.h"
#include "client/trace/show.h"
#include "core/base/cleanup.h"

#define COLUMNS_DEFAULT 600
#define COLUMNS_MAX	2000
#define NEW_STREAM	(INT64_C(1) << 32)
#define OPS_MAX		300000 /* each takes about half a kilobyte */

static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;

struct predict {
	FILE *out;
	struct options options;
	uint64_t since_ns, until_ns;
	int64_t columns;
};

static int take_whatifs(const struct web_request *request, struct options *options)
{
	for (int i = 0; i < OPTION_COUNT; i++) {
		const char *text = OPTIONS_WHATIF & OPTION_BIT(i)
					   ? web_argument(request, option_forms[i].name)
					   : NULL;

		if (!text)
			continue;
		if (!option_forms[i].argument || *option_forms[i].argument == '[')
			text = NULL; /* on */
		if (options_take(options, i, text) < 0)
			return -EINVAL;
	}
	return 0;
}

/* The window of the daemon's data; a recording is used as a whole. */
static int read_request(const struct web_request *request, struct link *link,
			struct predict *predict)
{
	const struct connection_hello *hello = link_hello(link);
	struct options *options = &predict->options;
	int64_t pid = 0;
	int r;

	predict->since_ns = hello->now_ns > 10000000000 ? hello->now_ns - 10000000000 : 1;
	predict->until_ns = hello->now_ns;
	predict->columns = COLUMNS_DEFAULT;
	r = web_period(request, hello->now_ns, &predict->since_ns, &predict->until_ns);
	if (r == 0)
		r = web_number(request, "pid", &pid);
	if (r == 0)
		r = web_number(request, "columns", &predict->columns);
	if (r == 0 && (pid < 0 || pid > INT32_MAX || predict->columns < 1 ||
		       predict->columns > COLUMNS_MAX || predict->since_ns >= predict->until_ns)) {
		complain("A prediction has 1 to %d columns and ends after its start", COLUMNS_MAX);
		r = -EINVAL;
	}
	if (r < 0)
		return r;
	if (pid) {
		options->pid = (uint64_t)pid;
		options->given |= OPTION(PID);
	}
	options->given |= OPTION(SINCE) | OPTION(UNTIL);
	options->since = web_moment(link, predict->since_ns);
	options->until = web_moment(link, predict->until_ns);
	return take_whatifs(request, options);
}

/* One side of the picture. */
struct side {
	const struct replay_report *report;
	const struct plan *plan;
	const struct plan_times *times; /* NULL: as recorded */
	struct lanes lanes;
	uint32_t *order; /* works that are shown */
	uint32_t count;
};

static uint64_t start_of(const struct side *side, uint32_t work)
{
	return side->times ? side->times->work_start_ns[work] : side->plan->work[work].start_ns;
}

static uint64_t end_of(const struct side *side, uint32_t work)
{
	return side->times ? side->times->work_end_ns[work] : side->plan->work[work].end_ns;
}

/* As recorded, a work was on its own stream, whatever the changes made of that. A part of one that
 * they divided has no id: it gets one that no row has. */
static int64_t lane_of(const struct side *side, uint32_t work)
{
	const struct plan_work *of = &side->plan->work[work];
	const struct plan_stream *stream = &side->plan->stream[of->stream];

	if (!side->times)
		return side->plan->op[of->op].stream;
	return stream->made_of ? NEW_STREAM + (int64_t)of->stream : stream->stream;
}

static uint32_t process_of(const struct side *side, uint32_t work)
{
	return side->plan->op[side->plan->work[work].op].process;
}

static bool in_lane(const struct side *side, uint32_t a, uint32_t b)
{
	return process_of(side, a) == process_of(side, b) && lane_of(side, a) == lane_of(side, b);
}

static int by_lane(const void *a, const void *b, void *data)
{
	const struct side *side = data;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	int64_t s[] = { process_of(side, x), lane_of(side, x), (int64_t)start_of(side, x) };
	int64_t t[] = { process_of(side, y), lane_of(side, y), (int64_t)start_of(side, y) };
	int i = 0;

	while (i < 2 && s[i] == t[i])
		i++;
	return (s[i] > t[i]) - (s[i] < t[i]);
}

static uint64_t column_of(const struct side *side, uint32_t work)
{
	return (start_of(side, work) - side->lanes.since_ns) / side->lanes.step_ns;
}

static const char *kind_of(const struct op *op)
{
	return op->kind == OP_COPY ? "copy" : op->kind == OP_SET ? "set" : "kernel";
}

/* From this one on, those of its lane that start in its column. Returns the first that does not. */
static uint32_t group_works(const struct side *side, uint32_t from, struct lane_group *group)
{
	const struct plan *plan = side->plan;
	uint32_t first = side->order[from], longest = first, next = from;
	const struct meta_text *name;

	for (; next < side->count; next++) {
		uint32_t at = side->order[next];
		uint64_t took_ns = end_of(side, at) - start_of(side, at);

		if (!in_lane(side, first, at) || column_of(side, first) != column_of(side, at))
			break;
		group->count++;
		group->busy_ns += took_ns;
		if (took_ns > end_of(side, longest) - start_of(side, longest))
			longest = at;
	}
	group->what = LANE_WORK;
	group->process = process_of(side, first);
	group->id = lane_of(side, first);
	group->device = plan->device[plan->stream[plan->work[first].stream].device].ordinal;
	group->column = (int64_t)column_of(side, first);
	group->start_ns = start_of(side, longest);
	group->end_ns = end_of(side, longest);
	group->longest_ns = group->end_ns - group->start_ns;
	group->kind = kind_of(&plan->op[plan->work[longest].op]);
	name = show_work_name(side->report->meta, &plan->op[plan->work[longest].op]);
	group->name = name ? name->text : NULL;
	return next;
}

static int add_works(struct side *side)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < side->count;) {
		struct lane_group group = { .count = 0 };

		i = group_works(side, i, &group);
		r = lanes_add(&side->lanes, &group);
	}
	return r;
}

static int write_side(struct side *side, FILE *out)
{
	const struct plan *plan = side->plan;
	uint16_t hidden = PLAN_MARK | PLAN_UNTIMED | (side->times ? PLAN_DROPPED : 0);
	int r;

	side->order = calloc(plan->work_count + 1ul, sizeof(*side->order));
	if (!side->order)
		return -ENOMEM;
	for (uint32_t i = 0; i < plan->work_count; i++)
		if (!(plan->work[i].flags & hidden) && start_of(side, i) >= side->lanes.since_ns &&
		    end_of(side, i) >= start_of(side, i))
			side->order[side->count++] = i;
	qsort_r(side->order, side->count, sizeof(*side->order), by_lane, side);
	r = add_works(side);
	if (r == 0) {
		lanes_fit(&side->lanes);
		fputc('{', out);
		lanes_write(out, &side->lanes);
		fputc('}', out);
	}
	lanes_done(&side->lanes);
	free(side->order);
	return r;
}

static void write_changes(const struct replay_report *report, FILE *out)
{
	fputs("\"changes\":[", out);
	for (uint32_t i = 0; i < report->changes->count; i++) {
		fputs(i ? ",[" : "[", out);
		json_string(out, report->changes->change[i].text);
		fprintf(out, ",%" PRId64 "]", report->changes->change[i].changed);
	}
	fputs("],", out);
}

static int write_prediction(void *data, const struct replay_report *report, const struct plan *plan,
			    const struct plan_times *predicted)
{
	static const char *const names[] = { "recorded", "predicted" };
	const struct predict *predict = data;
	uint64_t span_ns = report->makespan_ns[report->makespan_ns[1] > report->makespan_ns[0]];
	uint64_t step_ns = span_ns / (uint64_t)predict->columns + 1;
	int r = 0;

	fprintf(predict->out,
		"{\"columns\":%" PRId64 ",\"unit_ns\":%.6f,\"recorded_ns\":%" PRIu64
		",\"predicted_ns\":%" PRIu64 ",\"untimed\":%" PRIu64 ",\"off_ns\":%" PRId64
		",\"busy_ns\":[%" PRIu64 ",%" PRIu64 "],",
		predict->columns, (double)step_ns / LANE_UNITS, report->makespan_ns[0],
		report->makespan_ns[1], report->untimed,
		(int64_t)(report->error.emulated_ns - report->error.recorded_ns),
		report->busy[0].any_ns, report->busy[1].any_ns);
	write_changes(report, predict->out);
	for (int i = 0; r == 0 && i < 2; i++) {
		struct side side = {
			.report = report,
			.plan = plan,
			.times = i ? predicted : NULL,
			.lanes = { .since_ns = i ? predicted->start_ns : plan->start_ns,
				   .step_ns = step_ns,
				   .columns = (uint32_t)predict->columns,
				   .beside = 1 },
		};

		fprintf(predict->out, "%s\"%s\":", i ? "," : "", names[i]);
		r = write_side(&side, predict->out);
	}
	fputs("}\n", predict->out);
	return r;
}

static int write_predict(const struct web_request *request, struct link *link, FILE *out)
{
	struct predict predict = { .out = out, .options = request->source->options };
	int r = read_request(request, link, &predict);

	if (r == 0)
		r = extent_check(link, (int64_t)predict.options.pid, predict.since_ns,
				 predict.until_ns, OPS_MAX);
	if (r < 0)
		return r;
	pthread_mutex_lock(&one);
	r = replay_predict(&predict.options, write_prediction, &predict);
	pthread_mutex_unlock(&one);
	return r;
}

void predict_lanes(const struct web_request *request, struct web_answer *answer)
{
	web_relay(request, answer, write_predict);
}
