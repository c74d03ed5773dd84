/* Write: a cost in sentences, or as one object. Each figure says what it rests on. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/cost/cost.h"
#include "client/output/json.h"
#include "core/base/units.h"
#include "core/base/utf8.h"
#include "proto/hello.h"

#define SHARE_TEXT 64

static const char *percent(char text[SHARE_TEXT], int64_t ppm)
{
	snprintf(text, SHARE_TEXT, "%.2f %%", (double)ppm / COST_PERCENT_PPM);
	return text;
}

static const char *interval(char text[SHARE_TEXT], const struct cost_share *share)
{
	*text = '\0';
	if (share->measured)
		snprintf(text, SHARE_TEXT, " (%.2f to %.2f %%)",
			 (double)share->low / COST_PERCENT_PPM,
			 (double)share->high / COST_PERCENT_PPM);
	return text;
}

static void write_head(const struct cost *cost)
{
	char comm[3 * COST_TEXT], share[SHARE_TEXT], range[SHARE_TEXT], time[UNITS_TEXT_SIZE];
	bool nothing = cost->sum.measured && cost->sum.low <= 0;

	utf8_visible(comm, cost->comm, strlen(cost->comm));
	interval(range, &cost->sum);
	if (nothing)
		printf("Process %u (%s) pays nothing in speed that can be measured%s", cost->pid,
		       comm, range);
	else
		printf("Process %u (%s) pays %s of its speed%s", cost->pid, comm,
		       percent(share, cost->sum.middle), range);
	if (cost->budget)
		printf("; its budget is %.4g %%", (double)cost->budget / COST_PERCENT_PPM);
	else
		fputs("; it has no budget", stdout);
	if (cost->until_ns > (int64_t)cost->now_ns)
		printf(" for another %s",
		       units_nanoseconds(time, cost->until_ns - (int64_t)cost->now_ns));
	putchar('\n');
}

static void write_basis(const struct cost *cost, const struct cost_part *part)
{
	char time[UNITS_TEXT_SIZE];
	int64_t ago_ns = (int64_t)cost->now_ns - part->turned_ns;

	if (part->cost.measured) {
		printf("measured in place, %" PRId64 " turns", part->turns);
		if (part->turned_ns)
			printf(", %s ago", units_nanoseconds(time, ago_ns > 0 ? ago_ns : 0));
	} else if (part->hit_ns) {
		printf("estimated from %" PRId64 " %s at %s", part->calls_per_s,
		       cost_part_adds(part) ? "calls/s" : "walks/s",
		       units_nanoseconds(time, part->hit_ns));
	} else {
		fputs("estimated", stdout);
	}
	putchar('\n');
}

/* What is a part of the others: the time that walks took. */
static void write_stacks(const struct cost *cost, const char *name, const char *what)
{
	const struct cost_part *part = cost_find(cost, name);
	char share[SHARE_TEXT];

	if (!part)
		return;
	printf("  %s: %s, part of it, ", what, percent(share, part->cost.middle));
	write_basis(cost, part);
}

static void write_part(const struct cost *cost, const struct cost_part *part)
{
	char share[SHARE_TEXT], range[SHARE_TEXT];

	if (!cost_part_adds(part))
		return;
	printf("  %s: %s%s, ", part->name, percent(share, part->cost.middle),
	       interval(range, &part->cost));
	write_basis(cost, part);
	if (part->watched < (int64_t)COST_PPM)
		printf("    watched %.1f %% of the time; all of the time it would be %s%s\n",
		       (double)part->watched / COST_PERCENT_PPM, percent(share, part->whole.middle),
		       interval(range, &part->whole));
	if (part->cpu)
		printf("    CPU time: at least %s of a core\n", percent(share, part->cpu));
	if (part->over)
		puts("    the budget is out of reach: windows come as seldom as they may");
}

static void write_cycles(const struct cost *cost)
{
	if (!cost->cycles)
		return;
	printf("  CUPTI was taken out of the process (%" PRId64
	       " of at most %d times), which leaves "
	       "some 0.6 MiB of device memory there each time, until the process ends\n",
	       cost->cycles, TS_CYCLES_MAX);
	if (cost->cycles >= TS_CYCLES_MAX)
		puts("    no window is opened any more where that is the way to close it: with "
		     "'tsctl budget PID none' all is recorded");
}

static void write_extras(const struct cost *cost)
{
	const struct cost_part *part = cost_find(cost, "thread");
	char share[SHARE_TEXT];

	write_stacks(cost, "stacks", "stacks");
	write_stacks(cost, "stacks-inside", "stacks, walked by our library in the process");
	if (part)
		printf("  thread of the library: %s of a core, by its own count since recording "
		       "started\n",
		       percent(share, part->cpu));
	write_cycles(cost);
}

static void write_budget(const struct cost_part *part, const struct foreseen *foreseen)
{
	char share[SHARE_TEXT], range[SHARE_TEXT];

	printf("  %-5s %s%s, %+.2f points, watched %.1f %% of the time\n", foreseen->setting,
	       percent(share, foreseen->then.middle), interval(range, &foreseen->then),
	       (double)(foreseen->then.middle - part->cost.middle) / COST_PERCENT_PPM,
	       (double)foreseen->watched / COST_PERCENT_PPM);
}

static void write_setting(const struct cost_part *part, const struct foreseen *foreseen, int width)
{
	char share[SHARE_TEXT], low[UNITS_TEXT_SIZE], high[UNITS_TEXT_SIZE];

	printf("  %-*s %s, %+.2f points", width, foreseen->setting,
	       percent(share, foreseen->then.middle),
	       (double)(foreseen->then.middle - part->cost.middle) / COST_PERCENT_PPM);
	units_nanoseconds(low, foreseen->each_low_ns);
	units_nanoseconds(high, foreseen->each_high_ns);
	if (!foreseen->rate)
		puts(" or more");
	else if (foreseen->each_low_ns == foreseen->each_high_ns)
		printf(", %" PRId64 " %s at %s\n", foreseen->rate,
		       foreseen->kind == FORESEEN_STACKS ? "walks/s" : "calls/s", high);
	else
		printf(", %" PRId64 " calls/s at %s to %s, as on an H200\n", foreseen->rate, low,
		       high);
}

static void write_settings(const struct cost_part *part, const struct foreseen *foreseen,
			   size_t count)
{
	size_t width = 0, size;

	if (count)
		puts("With another setting, by estimate:");
	for (size_t i = 0; i < count; i++) {
		size = strlen(foreseen[i].setting);
		width = size > width ? size : width;
	}
	for (size_t i = 0; i < count; i++)
		write_setting(part, &foreseen[i], (int)width);
}

static void write_others(const struct cost *cost)
{
	const struct cost_part *part = cost_budgeted(cost);
	struct foreseen foreseen[FORESEEN_MAX];
	size_t count = cost_foresee(cost, foreseen), i;

	for (i = 0; i < count && foreseen[i].kind == FORESEEN_BUDGET; i++) {
		if (i == 0)
			printf("With another budget ('tsctl budget %u …') it would cost:\n",
			       cost->pid);
		write_budget(part, &foreseen[i]);
	}
	write_settings(part, &foreseen[i], count - i);
}

static void number_json(const char *name, int64_t number, bool known)
{
	printf(",\"%s\":", name);
	printf(known ? "%" PRId64 : "null", number);
}

static void share_json(const char *prefix, const char *middle, const struct cost_share *share,
		       bool known)
{
	char name[COST_TEXT];

	number_json(middle, share->middle, known);
	snprintf(name, sizeof(name), "%slow", prefix);
	number_json(name, share->low, share->measured);
	snprintf(name, sizeof(name), "%shigh", prefix);
	number_json(name, share->high, share->measured);
}

static void part_json(const struct cost_part *part)
{
	bool counted = cost_part_is(part, "thread");

	fputs("{\"part\":", stdout);
	json_string(stdout, part->name);
	share_json("", "cost", &part->cost, !counted);
	number_json("turns", part->turns, true);
	number_json("turned_ns", part->turned_ns, part->turned_ns);
	number_json("watched", part->watched, !counted);
	share_json("whole_", "whole", &part->whole, !counted);
	number_json("cpu", part->cpu, part->cpu);
	number_json("calls_per_s", part->calls_per_s, part->hit_ns);
	number_json("hit_ns", part->hit_ns, part->hit_ns);
	fputs(",\"basis\":", stdout);
	json_string(stdout, part->basis);
	printf(",\"measured\":%s,\"over\":%s}", part->cost.measured ? "true" : "false",
	       part->over ? "true" : "false");
}

static void foreseen_json(const struct foreseen *foreseen, const char *part)
{
	bool budget = foreseen->kind == FORESEEN_BUDGET;

	fputs("{\"part\":", stdout);
	json_string(stdout, part);
	if (budget) {
		number_json("budget", foreseen->budget, foreseen->budget);
	} else {
		fputs(",\"setting\":", stdout);
		json_string(stdout, foreseen->setting);
	}
	share_json("", "cost", &foreseen->then, true);
	number_json("watched", foreseen->watched, foreseen->watched);
	if (!budget) {
		number_json("per_s", foreseen->rate, foreseen->rate);
		number_json("each_low_ns", foreseen->each_low_ns, foreseen->rate);
		number_json("each_high_ns", foreseen->each_high_ns, foreseen->rate);
	}
	putchar('}');
}

static void others_json(const struct cost *cost)
{
	const struct cost_part *part = cost_budgeted(cost);
	struct foreseen foreseen[FORESEEN_MAX];
	size_t count = cost_foresee(cost, foreseen), i;

	fputs(",\"others\":[", stdout);
	for (i = 0; i < count && foreseen[i].kind == FORESEEN_BUDGET; i++) {
		fputs(i ? "," : "", stdout);
		foreseen_json(&foreseen[i], part->name);
	}
	fputs("],\"settings\":[", stdout);
	for (size_t first = i; i < count; i++) {
		fputs(i > first ? "," : "", stdout);
		foreseen_json(&foreseen[i], part->name);
	}
	putchar(']');
}

void cost_write_json(const struct cost *cost)
{
	printf("{\"pid\":%u,\"comm\":", cost->pid);
	json_string(stdout, cost->comm);
	share_json("", "cost", &cost->sum, true);
	number_json("budget", cost->budget, cost->budget);
	number_json("until_ns", cost->until_ns, cost->until_ns);
	number_json("cycles", cost->cycles, true);
	fputs(",\"parts\":[", stdout);
	for (size_t i = 0; i < cost->count; i++) {
		fputs(i ? "," : "", stdout);
		part_json(&cost->part[i]);
	}
	putchar(']');
	others_json(cost);
	puts("}");
}

void cost_write_text(const struct cost *cost)
{
	write_head(cost);
	for (size_t i = 0; i < cost->count; i++)
		write_part(cost, &cost->part[i]);
	write_extras(cost);
	write_others(cost);
}
