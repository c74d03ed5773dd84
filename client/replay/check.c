/* Replay check: loads both sides (the second may be an emulation of the first) and compares them.
 */
#include "client/replay/check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "client/base/complain.h"
#include "client/replay/check_show.h"
#include "client/trace/plan_load.h"
#include "core/plan/emulate.h"

#define EMULATION "its emulation"

/* Function numbers by name, since another version may number them differently. */
struct names {
	uint32_t count;
	uint64_t number[];
};

struct half {
	struct trace trace;
	struct plan *plan;
	struct names *names;
};

static void half_done(struct half *half)
{
	trace_done(&half->trace);
	plan_free(half->plan);
	free(half->names);
}

/* How often a program polls is not part of what it does. */
static bool asks(const char *function)
{
	return strstr(function, "Query");
}

static int name_functions(struct half *half, const struct meta *meta)
{
	struct names *names =
		calloc(1, sizeof(*names) + meta->function_count * sizeof(names->number[0]));

	if (!names)
		return -ENOMEM;
	names->count = meta->function_count;
	for (uint32_t fn = 0; fn < names->count; fn++) {
		const struct meta_text *name = meta->function[fn];

		if (name && !asks(name->text))
			names->number[fn] = XXH3_64bits(name->text, strlen(name->text)) | 1;
	}
	half->names = names;
	return 0;
}

static uint64_t function_of(void *data, uint16_t fn)
{
	const struct names *names = data;

	return fn < names->count ? names->number[fn] : 0;
}

static int load(const struct options *options, const char *path, struct half *half)
{
	struct options one = *options;
	int r;

	one.file = path;
	one.given |= OPTION(FILE);
	r = plan_load(&one, &half->trace, &half->plan);
	if (r < 0)
		return r;
	r = name_functions(half, half->trace.meta);
	if (r < 0)
		complain_memory();
	return r;
}

/* The plan of the ops that the emulator makes from another plan. */
static int load_emulation(struct half *from, struct half *half)
{
	_cleanup_(plan_times_freep) struct plan_times *times = NULL;
	_cleanup_(freep) struct op *op = NULL;
	struct emulate_result result = { 0 };
	size_t count;
	int r = emulate(from->plan, &result);

	times = result.times;
	if (r == 0)
		r = emulate_ops(from->plan, times, &op, &count);
	if (r == 0)
		r = name_functions(half, from->trace.meta);
	if (r < 0) {
		complain("Cannot emulate the recording: %s", strerror(-r));
		return r;
	}
	return plan_load_ops(&from->trace, op, count, &half->plan);
}

/* Unknown values may explain a difference. */
static void warn(const struct plan *plan, const char *path)
{
	if (plan->untimed > 0)
		complain("%s has %" PRIu64
			 " operations without exact times: their durations are not compared",
			 path, plan->untimed);
	if (plan->no_call > 0)
		complain("%s has %" PRIu64 " operations whose calls are unknown", path,
			 plan->no_call);
}

int replay_check(const struct options *options, int count, char **argument)
{
	_cleanup_(half_done) struct half a = { 0 };
	_cleanup_(half_done) struct half b = { 0 };
	_cleanup_(check_freep) struct check *check = NULL;
	struct replay_check_shown shown = { 0 };
	struct check_side side[2];
	uint32_t tolerance_ppm =
		options->given & OPTION(TOLERANCE) ? options->tolerance_ppm : CHECK_ANY_DURATION;

	if (count == 0) {
		complain("Missing recording: tsctl replay --check A.sbt [B.sbt]");
		return EXIT_USAGE;
	}
	if (load(options, argument[0], &a) < 0)
		return EXIT_FAILED;
	if ((count > 1 ? load(options, argument[1], &b) : load_emulation(&a, &b)) < 0)
		return EXIT_FAILED;
	side[0] = (struct check_side){ a.plan, function_of, a.names, 0 };
	side[1] = (struct check_side){ b.plan, function_of, b.names, 0 };
	if (check_run(side, tolerance_ppm, &check) < 0)
		return complain_memory();
	if (check->compared == 0 && check->different == 0)
		return complain("Nothing to compare: %s has no operations, record it with 'tsctl "
				"record -o FILE.sbt -- PROGRAM'",
				argument[0]);
	warn(a.plan, argument[0]);
	if (count > 1)
		warn(b.plan, argument[1]);
	shown = (struct replay_check_shown){
		.check = check,
		.side = side,
		.meta = { a.trace.meta, count > 1 ? b.trace.meta : a.trace.meta },
		.path = { argument[0], count > 1 ? argument[1] : EMULATION },
	};
	if (options->given & OPTION(JSON))
		replay_check_json(&shown);
	else
		replay_check_text(&shown);
	return check->different > 0 ? EXIT_FAILED : EXIT_DONE;
}
