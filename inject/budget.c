/* Budget: consecutive windows of time, and steps from recording everything to recording little.
 *
 * Each step leaves out more than the one before. Two windows over the limit: one step down; twenty
 * under half of it: one step up, which avoids oscillation. In the last steps even kernels are
 * recorded only part of the time. Whole graphs are not a step: they cannot be switched while a
 * program runs (collect.c).
 */
#include "inject/budget.h"

#include "core/base/array.h"
#include "inject/buffer.h"
#include "inject/drain.h"
#include "inject/internal.h"
#include "inject/launcher.h"

#define WINDOW_NS      500000000
#define OVER_WINDOWS   2
#define UNDER_WINDOWS  20
#define DUTY_PERIOD_NS 2000000000
#define MILLION	       1000000

#define LEAST	       (TS_RECORD_OVERHEAD | TS_RECORD_SYNCS | TS_RECORD_MEMORY)
#define LESS	       (LEAST | TS_RECORD_COPIES)
#define NO_JOINS       (LESS | TS_RECORD_CALLS)
#define NOT_ALWAYS     (NO_JOINS | TS_RECORD_KERNELS)

/* What a step leaves out, and for how long. */
static const struct {
	uint32_t left_out;
	uint32_t of_thousand;
} steps[] = {
	{ 0, 0 },
	{ LEAST, 1000 },
	{ LESS, 1000 },
	{ NO_JOINS, 1000 },
	{ NOT_ALWAYS, 500 },
	{ NOT_ALWAYS, 800 },
	{ NOT_ALWAYS, 950 },
};
#define STEPS ARRAY_SIZE(steps)

static struct {
	struct budget_rule rule;
	uint32_t wanted;
	uint64_t window_ns; /* its start */
	uint32_t windows;   /* since the rule was last asked */
	uint64_t sum_ppm;
} budget;

/* Whether a step differs from the one above it, given the wanted records. */
static bool step_matters(uint32_t step, uint32_t wanted)
{
	uint32_t left_out = steps[step].left_out & wanted;

	if (step == 0 || left_out != (steps[step - 1].left_out & wanted))
		return true;
	return left_out & TS_RECORD_KERNELS &&
	       steps[step].of_thousand != steps[step - 1].of_thousand;
}

uint32_t budget_rule_windows(const struct budget_rule *rule)
{
	uint32_t share = steps[rule->step].of_thousand;

	return share && share < 1000 ? DUTY_PERIOD_NS / WINDOW_NS : 1;
}

bool budget_rule_turn(struct budget_rule *rule, uint32_t wanted, uint32_t busiest_ppm,
		      uint32_t windows)
{
	uint32_t step = rule->step;

	if (!rule->limit_ppm)
		return false;
	rule->over = busiest_ppm > rule->limit_ppm ? rule->over + windows : 0;
	rule->under = busiest_ppm < rule->limit_ppm / 2 ? rule->under + windows : 0;
	if (rule->over >= OVER_WINDOWS && step + 1 < STEPS) {
		do {
			step++;
		} while (step + 1 < STEPS && !step_matters(step, wanted));
	} else if (rule->under >= UNDER_WINDOWS && step > 0) {
		do {
			step--;
		} while (step > 0 && !step_matters(step, wanted));
	}
	if (step == rule->step)
		return false;
	rule->step = step;
	rule->over = rule->under = 0;
	return true;
}

uint32_t budget_left_out(const struct budget_rule *rule, uint32_t wanted, uint64_t now_ns)
{
	uint32_t left_out = steps[rule->step].left_out;
	uint64_t phase = now_ns % DUTY_PERIOD_NS * 1000 / DUTY_PERIOD_NS;

	/* Kernels are the last to go and come back part of the time; the rest stays out. */
	if (left_out & TS_RECORD_KERNELS && phase >= steps[rule->step].of_thousand)
		left_out &= ~(uint32_t)TS_RECORD_KERNELS;
	return left_out & wanted;
}

void budget_set(uint64_t now_ns, uint32_t limit_ppm, uint32_t wanted)
{
	struct drain_stats stats;
	uint64_t most_ns;

	budget.rule = (struct budget_rule){ .limit_ppm = limit_ppm };
	budget.wanted = wanted;
	budget.window_ns = now_ns;
	budget.windows = 0;
	budget.sum_ppm = 0;
	launcher_costs(&most_ns);
	drain_stats(&stats);
}

/* `recorded`: enum ts_records of this window. */
static uint32_t window_end(uint64_t now_ns, uint32_t recorded)
{
	struct ts_event event = { .kind = TS_EVENT_COST,
				  .start_ns = budget.window_ns,
				  .end_ns = now_ns };
	struct buffer_stats buffers;
	struct drain_stats drained;
	uint64_t most_ns, untold_ns;

	event.cost.busy_ns = launcher_costs(&most_ns);
	drain_stats(&drained);
	buffer_stats(&buffers);
	event.cost.own_ns = drained.own_ns;
	/* Without callbacks nobody knows whose calls they were: attribute all to one thread. */
	if (!(recorded & TS_RECORD_CALLS) || drained.calls) {
		untold_ns = drained.work * BUDGET_WORK_NS + drained.calls * BUDGET_CALL_NS;
		event.cost.busy_ns += untold_ns;
		most_ns += untold_ns;
	}
	event.cost.busy_ns += drained.own_ns;
	/* Whoever launches the graphs waits for them in the end. */
	most_ns += drained.nodes * TS_NODE_NS;
	event.cost.nodes = drained.nodes;
	event.cost.records = drained.records;
	event.cost.busiest_ppm = (uint32_t)(most_ns * MILLION / (now_ns - budget.window_ns));
	event.cost.buffers = buffers.out;
	event.cost.buffer_bytes = buffers.out_bytes;
	link_put(&event, sizeof(event));
	return event.cost.busiest_ppm;
}

static void window_count(uint32_t busiest_ppm)
{
	budget.sum_ppm += busiest_ppm;
	if (++budget.windows < budget_rule_windows(&budget.rule))
		return;
	if (budget_rule_turn(&budget.rule, budget.wanted,
			     (uint32_t)(budget.sum_ppm / budget.windows), budget.windows))
		debug_say("the budget moves to step %u", budget.rule.step);
	budget.windows = 0;
	budget.sum_ppm = 0;
}

uint32_t budget_tick(uint64_t now_ns)
{
	if (now_ns - budget.window_ns >= WINDOW_NS) {
		uint32_t left_out = budget_left_out(&budget.rule, budget.wanted, now_ns);

		window_count(window_end(now_ns, budget.wanted & ~left_out));
		budget.window_ns = now_ns;
	}
	return budget_left_out(&budget.rule, budget.wanted, now_ns);
}
