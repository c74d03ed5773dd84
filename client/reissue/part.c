/* Reissue, part: selects calls by the options, and makes a plan of only those, so that like is
 * compared with like. */
#include "client/reissue/part.h"

#include <errno.h>
#include <regex.h>
#include <stdlib.h>

#include "client/base/complain.h"
#include "client/output/pattern.h"
#include "client/trace/plan_load.h"
#include "client/trace/show.h"

#define CHOICE (OPTION(STREAM) | OPTION(DEVICE) | OPTION(KERNEL))

/* Whether an operation is selected. */
static bool is_wanted(const struct options *options, const struct meta *meta, const regex_t *kernel,
		      const struct op *op, bool works)
{
	if (options->given & OPTION(STREAM) && op->stream != options->stream &&
	    (works || op->stream != 0))
		return false;
	if (options->given & OPTION(DEVICE) && op->device != (int16_t)options->device)
		return false;
	return !kernel || !works ||
	       regexec(kernel, show_work_name(meta, op)->text, 0, NULL, 0) == 0;
}

static bool has_work(const struct plan *plan, uint32_t call)
{
	for (uint32_t i = plan->call[call].work; i != PLAN_NONE; i = plan->work[i].next)
		if (!(plan->work[i].flags & PLAN_MARK))
			return true;
	return false;
}

/* Returns the number of remaining calls with work. */
static uint32_t choose(const struct options *options, const struct meta *meta,
		       const regex_t *kernel, const struct plan *plan, bool *skip)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < plan->call_count; i++) {
		uint32_t work = plan->call[i].work;
		bool works = work != PLAN_NONE && !(plan->work[work].flags & PLAN_MARK);
		const struct op *op = &plan->op[works ? plan->work[work].op : plan->call[i].op];

		skip[i] = !is_wanted(options, meta, kernel, op, works);
		left += !skip[i] && has_work(plan, i);
	}
	return left;
}

static int make_skip(const struct plan *plan, bool **ret)
{
	*ret = calloc(plan->call_count + 1ul, sizeof(**ret));
	if (*ret)
		return 0;
	complain_memory();
	return -ENOMEM;
}

int gpu_part_choose(const struct options *options, const struct trace *trace,
		    const struct plan *plan, bool **ret_skip)
{
	_cleanup_(freep) bool *skip = NULL;
	const char *pattern = options->given & OPTION(KERNEL) ? options->kernel : NULL;
	char why[PATTERN_WHY_BYTES];
	regex_t kernel;
	uint32_t left;
	int r = make_skip(plan, &skip);

	if (r < 0)
		return r;
	if (pattern && pattern_compile(pattern, 0, &kernel, why) < 0) {
		complain("Invalid --kernel '%s': %s", pattern, why);
		return -EINVAL;
	}
	left = choose(options, trace->meta, pattern ? &kernel : NULL, plan, skip);
	if (pattern)
		regfree(&kernel);
	if (left == 0 && options->given & CHOICE) {
		complain("Nothing in the recording matches --stream, --device or --kernel");
		return -ENOENT;
	}
	*ret_skip = TAKE(skip);
	return 0;
}

int gpu_part_choose_replayed(const struct trace *trace, const struct plan *plan, bool **ret_skip)
{
	bool *skip;
	int r = make_skip(plan, &skip);

	for (uint32_t i = 0; r == 0 && i < plan->call_count; i++) {
		const struct plan_thread *thread = &plan->thread[plan->call[i].thread];
		const struct meta_process *process = meta_process(trace->meta, thread->process);

		skip[i] = process && process->pid == thread->tid;
	}
	if (r == 0)
		*ret_skip = skip;
	return r;
}

int gpu_part_cut(struct trace *trace, struct plan **plan, const bool *skip)
{
	struct plan *whole = *plan;
	_cleanup_(freep) bool *keep = calloc(whole->op_count + 1, sizeof(*keep));
	size_t count = 0;
	int r;

	if (!keep) {
		complain_memory();
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < whole->call_count; i++) {
		if (skip[i])
			continue;
		keep[whole->call[i].op] = true;
		for (uint32_t k = whole->call[i].work; k != PLAN_NONE; k = whole->work[k].next)
			keep[whole->work[k].op] = true;
	}
	for (size_t i = 0; i < whole->op_count; i++)
		if (keep[i])
			whole->op[count++] = whole->op[i];
	*plan = NULL;
	r = plan_load_ops(trace, whole->op, count, plan);
	plan_free(whole);
	return r;
}
