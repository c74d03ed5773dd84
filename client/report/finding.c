/* Finding: each looks at one answer, and says at most one sentence with the command that shows
 * more. Rare and short things are left out. */
#include "client/report/finding.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/units.h"

#define TEXT_BYTES  1024
#define SHARE_WHOLE 1000000
#define WAIT_SHARE  50 /* of the window: waits of less are not worth a sentence */
#define TINY_NS	    10000
#define GAIN_PPM    20000

struct finding {
	char text[TEXT_BYTES];
	char command[TEXT_BYTES];
};

static const struct report_answer *answer_of(const struct finding_facts *facts, enum section_id id)
{
	return &facts->answer[id];
}

__attribute__((format(printf, 2, 3))) static void say(struct finding *finding, const char *format,
						      ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(finding->text, sizeof(finding->text), format, ap);
	va_end(ap);
}

static void show(struct finding *finding, const struct finding_facts *facts, const char *query)
{
	snprintf(finding->command, sizeof(finding->command), "tsctl query %s %s", query,
		 facts->where);
}

/* " in train (train.py:12)", or nothing. */
static const char *place(char text[TEXT_BYTES], const struct report_answer *answer, size_t row)
{
	const char *where = answer_cell(answer, row, "where");

	snprintf(text, TEXT_BYTES, "%s%s", *where ? ", in " : "", where);
	return text;
}

static void find_no_times(const struct finding_facts *facts, struct finding *finding)
{
	if (answer_of(facts, SECTION_KERNELS)->rows || !answer_of(facts, SECTION_LAUNCHES)->rows)
		return;
	say(finding, "Nobody recorded when kernels ran: there are calls, and no GPU times. They "
		     "need the exact tier.");
	snprintf(finding->command, sizeof(finding->command), "tsctl attach PID");
}

static bool is_of_same(const struct report_answer *idle, size_t a, size_t b)
{
	return answer_number(idle, a, "pid") == answer_number(idle, b, "pid") &&
	       answer_number(idle, a, "device") == answer_number(idle, b, "device");
}

static bool is_running(const struct report_answer *idle, size_t row)
{
	return strcmp(answer_cell(idle, row, "state"), "running") == 0;
}

/* Of the process and device that ran kernels for longest, the row with the largest share but that.
 * If none ran any, of all. */
static void find_idle(const struct finding_facts *facts, struct finding *finding)
{
	const struct report_answer *idle = answer_of(facts, SECTION_IDLE);
	size_t most = idle->rows, running = idle->rows;

	for (size_t i = 0; i < idle->rows; i++)
		if (is_running(idle, i) && answer_number(idle, i, "total_ns") &&
		    (running == idle->rows ||
		     answer_number(idle, i, "total_ns") > answer_number(idle, running, "total_ns")))
			running = i;
	for (size_t i = 0; i < idle->rows; i++) {
		if (is_running(idle, i) || (running < idle->rows && !is_of_same(idle, i, running)))
			continue;
		if (most == idle->rows ||
		    answer_number(idle, i, "total_ns") > answer_number(idle, most, "total_ns"))
			most = i;
	}
	if (most == idle->rows || answer_number(idle, most, "share") < SHARE_WHOLE / 10)
		return;
	say(finding,
	    "Device %" PRId64 " ran kernels of %s (%" PRId64 ") for %s of the time. Most of the "
	    "rest is '%s', %s: %s.",
	    answer_number(idle, most, "device"), answer_cell(idle, most, "comm"),
	    answer_number(idle, most, "pid"),
	    running < idle->rows ? answer_cell(idle, running, "share") : "0 %",
	    answer_cell(idle, most, "state"), answer_cell(idle, most, "share"),
	    answer_cell(idle, most, "text"));
	show(finding, facts, "idle");
}

static void find_waits(const struct finding_facts *facts, struct finding *finding)
{
	const struct report_answer *syncs = answer_of(facts, SECTION_SYNCS);
	char where[TEXT_BYTES];

	if (syncs->rows == 0 ||
	    answer_number(syncs, 0, "total_ns") < (int64_t)(facts->window_ns / WAIT_SHARE))
		return;
	say(finding, "%s (%" PRId64 ") waited for the device for %s in %" PRId64 " calls of %s%s.",
	    answer_cell(syncs, 0, "comm"), answer_number(syncs, 0, "pid"),
	    answer_cell(syncs, 0, "total_ns"), answer_number(syncs, 0, "calls"),
	    answer_cell(syncs, 0, "fn"), place(where, syncs, 0));
	show(finding, facts, "syncs");
}

/* Copies whose call returns when they are done. */
static void find_copies(const struct finding_facts *facts, struct finding *finding)
{
	const struct report_answer *apis = answer_of(facts, SECTION_APIS);

	for (size_t i = 0; i < apis->rows; i++) {
		if (strcmp(answer_cell(apis, i, "kind"), "copy") != 0 ||
		    answer_number(apis, i, "total_ns") < (int64_t)(facts->window_ns / WAIT_SHARE))
			continue;
		say(finding,
		    "%" PRId64 " blocking copies (%s) held threads up for %s. From page-locked "
		    "memory, cuMemcpyHtoDAsync and its kin return at once.",
		    answer_number(apis, i, "calls"), answer_cell(apis, i, "fn"),
		    answer_cell(apis, i, "total_ns"));
		show(finding, facts, "transfers");
		return;
	}
}

static const char *known(const char *time)
{
	return *time ? time : "an unknown time";
}

static const char *known_bytes(const char *bytes)
{
	return *bytes ? bytes : "an unknown size";
}

/* The driver copies such memory through a buffer of its own, and calls wait for that. */
static void find_pageable(const struct finding_facts *facts, struct finding *finding)
{
	const struct report_answer *pageable = answer_of(facts, SECTION_PAGEABLE);
	const int64_t least_ns = (int64_t)(facts->window_ns / WAIT_SHARE);
	char where[TEXT_BYTES];

	for (size_t i = 0; i < pageable->rows; i++) {
		if (answer_number(pageable, i, "total_ns") < least_ns &&
		    answer_number(pageable, i, "call_ns") < least_ns)
			continue;
		say(finding,
		    "%s (%" PRId64 ") made %" PRId64 " copies (%s, %s) from or to pageable "
		    "memory%s: %s on the device, %s in the calls. Page-locked memory is copied "
		    "faster, and beside kernels.",
		    answer_cell(pageable, i, "comm"), answer_number(pageable, i, "pid"),
		    answer_number(pageable, i, "count"), answer_cell(pageable, i, "kind"),
		    answer_cell(pageable, i, "bytes"), place(where, pageable, i),
		    known(answer_cell(pageable, i, "total_ns")),
		    known(answer_cell(pageable, i, "call_ns")));
		show(finding, facts, "pageable");
		return;
	}
}

#define HELD_BYTES (1 << 20)

/* Time in calls, or memory that lay idle for as long; copies of pageable memory have a finding of
 * their own. */
static bool waste_is_much(const struct finding_facts *facts, const struct report_answer *waste,
			  size_t row)
{
	const int64_t least_ns = (int64_t)(facts->window_ns / WAIT_SHARE);

	return strcmp(answer_cell(waste, row, "pattern"), "pageable copy") != 0 &&
	       (answer_number(waste, row, "lost_ns") >= least_ns ||
		(answer_number(waste, row, "held_ns") >= least_ns &&
		 answer_number(waste, row, "bytes") >= HELD_BYTES));
}

static void find_waste(const struct finding_facts *facts, struct finding *finding)
{
	const struct report_answer *waste = answer_of(facts, SECTION_WASTE);
	char where[TEXT_BYTES];

	for (size_t i = 0; i < waste->rows; i++) {
		const bool held = answer_number(waste, i, "held_ns") > 0;

		if (!waste_is_much(facts, waste, i))
			continue;
		say(finding,
		    "%s (%" PRId64 "): %" PRId64 " times '%s' (%s, %s)%s, which %s %s, and is %s. "
		    "Advice: %s.",
		    answer_cell(waste, i, "comm"), answer_number(waste, i, "pid"),
		    answer_number(waste, i, "count"), answer_cell(waste, i, "pattern"),
		    answer_cell(waste, i, "fn"), answer_cell(waste, i, "bytes"),
		    place(where, waste, i), held ? "held memory for" : "took",
		    answer_cell(waste, i, held ? "held_ns" : "lost_ns"),
		    answer_cell(waste, i, "certainty"), answer_cell(waste, i, "advice"));
		show(finding, facts, "waste");
		return;
	}
}

static void find_tiny(const struct finding_facts *facts, struct finding *finding)
{
	const struct report_answer *kernels = answer_of(facts, SECTION_KERNELS);
	uint64_t before = facts->recorded_ns, after = facts->predicted_ns;
	int64_t count = answer_sum(kernels, "count"), total_ns = answer_sum(kernels, "total_ns");
	char mean[UNITS_TEXT_SIZE], gain[64] = "";

	if (count < FINDING_TINY_COUNT || total_ns / count >= TINY_NS)
		return;
	if (before && after < before && (before - after) * SHARE_WHOLE / before >= GAIN_PPM)
		snprintf(gain, sizeof(gain), "%.1f %% less time",
			 100.0 * (double)(before - after) / (double)before);
	say(finding,
	    "%" PRId64 " kernels took %s on average: launching them costs more than running them. "
	    "As CUDA graphs, the emulator predicts %s.",
	    count, units_nanoseconds(mean, total_ns / count),
	    *gain ? gain : "no gain worth mentioning");
	snprintf(finding->command, sizeof(finding->command), "tsctl replay --graph %s",
		 facts->replay);
}

static bool find_grown(const struct finding_facts *facts, struct finding *finding,
		       const char *verdict, const char *does)
{
	const struct report_answer *leaks = answer_of(facts, SECTION_LEAKS);
	char where[TEXT_BYTES];

	for (size_t i = 0; i < leaks->rows; i++) {
		if (strcmp(answer_cell(leaks, i, "verdict"), verdict))
			continue;
		say(finding, "%s (%" PRId64 ") %s: %s in %" PRId64 " allocations%s. Why: %s.",
		    answer_cell(leaks, i, "comm"), answer_number(leaks, i, "pid"), does,
		    answer_cell(leaks, i, "bytes"), answer_number(leaks, i, "count"),
		    place(where, leaks, i), answer_cell(leaks, i, "why"));
		show(finding, facts, "leaks");
		return true;
	}
	return false;
}

static void find_leak(const struct finding_facts *facts, struct finding *finding)
{
	if (!find_grown(facts, finding, "leak", "leaks memory"))
		find_grown(facts, finding, "growing", "holds more and more memory");
}

/* Of those, the last one that its program did not get over. */
static void find_oom(const struct finding_facts *facts, struct finding *finding)
{
	const struct report_answer *oom = answer_of(facts, SECTION_OOM);
	char where[TEXT_BYTES];

	for (size_t i = 0; i < oom->rows; i++) {
		if (strcmp(answer_cell(oom, i, "outcome"), "failed") != 0)
			continue;
		say(finding, "%s (%" PRId64 ") got no memory: it asked for %s%s. Enough was: %s.",
		    answer_cell(oom, i, "comm"), answer_number(oom, i, "pid"),
		    known_bytes(answer_cell(oom, i, "bytes")), place(where, oom, i),
		    answer_cell(oom, i, "enough"));
		snprintf(finding->command, sizeof(finding->command),
			 "tsctl oom show %" PRId64 " %s", answer_number(oom, i, "oom"),
			 facts->file);
		return;
	}
}

#define FREE_BYTES   (16 << 20)
#define INDEX_PPM    (SHARE_WHOLE / 2)
#define UNUSABLE_PPM (SHARE_WHOLE / 10)

static void find_fragmentation(const struct finding_facts *facts, struct finding *finding)
{
	const struct report_answer *pools = answer_of(facts, SECTION_FRAGMENTATION);

	for (size_t i = 0; i < pools->rows; i++) {
		if (answer_number(pools, i, "index") < INDEX_PPM ||
		    answer_number(pools, i, "unusable") < UNUSABLE_PPM ||
		    answer_number(pools, i, "free_bytes") < FREE_BYTES)
			continue;
		say(finding,
		    "Memory of %s (%" PRId64
		    ") is fragmented: of %s in its %s pool %s are free, in "
		    "%" PRId64 " pieces of at most %s, and %s is of no use for what it asked for "
		    "lately.",
		    answer_cell(pools, i, "comm"), answer_number(pools, i, "pid"),
		    answer_cell(pools, i, "reserved_bytes"), answer_cell(pools, i, "pool"),
		    answer_cell(pools, i, "free_bytes"), answer_number(pools, i, "pieces"),
		    answer_cell(pools, i, "largest_bytes"), answer_cell(pools, i, "unusable"));
		show(finding, facts, "fragmentation --by-place");
		return;
	}
}

static void find_errors(const struct finding_facts *facts, struct finding *finding)
{
	const struct report_answer *errors = answer_of(facts, SECTION_ERRORS);
	char where[TEXT_BYTES];

	if (errors->rows == 0)
		return;
	say(finding, "%" PRId64 " calls of %s in %s (%" PRId64 ") failed with %s%s.",
	    answer_number(errors, 0, "calls"), answer_cell(errors, 0, "fn"),
	    answer_cell(errors, 0, "comm"), answer_number(errors, 0, "pid"),
	    answer_cell(errors, 0, "name"), place(where, errors, 0));
	show(finding, facts, "errors");
}

static void find_price(const struct finding_facts *facts, struct finding *finding)
{
	const struct report_answer *cost = answer_of(facts, SECTION_COST);

	for (size_t i = 0; i < cost->rows; i++) {
		if (!answer_number(cost, i, "budget") ||
		    answer_number(cost, i, "cost") <= answer_number(cost, i, "budget"))
			continue;
		say(finding,
		    "Tracing %s (%" PRId64 ") costs it %s of its speed, more than its budget of "
		    "%s.",
		    answer_cell(cost, i, "comm"), answer_number(cost, i, "pid"),
		    answer_cell(cost, i, "cost"), answer_cell(cost, i, "budget"));
		snprintf(finding->command, sizeof(finding->command), "tsctl cost %" PRId64,
			 answer_number(cost, i, "pid"));
		return;
	}
}

static const struct {
	void (*find)(const struct finding_facts *facts, struct finding *finding);
	enum section_id section; /* that it looks at, whose losses are its own */
} finds[] = {
	{ find_no_times, SECTION_KERNELS },  { find_idle, SECTION_IDLE },
	{ find_waits, SECTION_SYNCS },	     { find_copies, SECTION_APIS },
	{ find_pageable, SECTION_PAGEABLE }, { find_waste, SECTION_WASTE },
	{ find_tiny, SECTION_KERNELS },	     { find_oom, SECTION_OOM },
	{ find_leak, SECTION_LEAKS },	     { find_fragmentation, SECTION_FRAGMENTATION },
	{ find_errors, SECTION_ERRORS },     { find_price, SECTION_COST },
};

void findings_write(const struct finding_facts *facts, const struct page_form *form, FILE *out)
{
	uint32_t count = 0;

	for (size_t i = 0; i < ARRAY_SIZE(finds); i++) {
		struct finding finding = { "", "" };

		const char *loss = answer_of(facts, finds[i].section)->loss;

		finds[i].find(facts, &finding);
		if (!*finding.text)
			continue;
		form->finding(out, finding.text, *finding.command ? finding.command : NULL,
			      loss && *loss ? loss : NULL);
		count++;
	}
	if (count == 0)
		form->text(out, "Nothing stands out.");
}
