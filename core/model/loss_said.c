/* Loss_said: a pattern for each reason that is a period. */
#include "core/model/loss_said.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/sentence.h"
#include "core/base/units.h"

#define PERCENT 100.0
/* A share that rounds to all of the time is not all of it. */
#define NEARLY_ALL 99.5

/* {1}: for how long, {2}: the share that was seen, where some was; or where it is not known whether
 * any was. */
static const struct {
	const char *unseen, *sampled, *partly;
} patterns[LOSS_REASON_MAX + 1] = {
	[LOSS_GAP] = { .unseen = "not watched for {1} (probes were not attached yet)" },
	[LOSS_NO_DAEMON] = { .unseen = "not watched for {1} (no daemon was running)" },
	[LOSS_FILTER] = { .unseen = "processes may not have been watched before the settings "
				    "changed" },
	[LOSS_LAST_RECORDS] = { .unseen = "GPU times were not recorded for {1} (the program ended "
					  "without handing them over)" },
	[LOSS_GAP_TORCH] = { .unseen =
				     "PyTorch's allocator was not watched for {1} (probes were not "
				     "attached yet)" },
	[LOSS_GAP_NCCL] = { .unseen =
				    "NCCL was not watched for {1} (probes were not attached yet)" },
	[LOSS_GAP_RANGE] = { .unseen = "ranges were not watched for {1} (probes were not attached "
				       "yet)" },
	[LOSS_PAUSED] = { .unseen = "GPU times were not recorded for {1} (another profiler used "
				    "CUPTI)" },
	[LOSS_BUDGET] = { .unseen = "some GPU times were not recorded for {1} (to stay within the "
				    "budget)" },
	[LOSS_DISCONNECTED] = { .unseen = "GPU times were not recorded for {1} (no daemon "
					  "answered)" },
	[LOSS_WINDOWS] = { .unseen = "frequent calls were not watched for {1}",
			   .sampled = "sampled: frequent calls were seen {2} % of the time; counts "
				      "are estimates",
			   .partly = "sampled: frequent calls were not seen all the time; counts "
				     "are estimates" },
	[LOSS_EXACT_WINDOWS] = { .unseen = "GPU times were not recorded for {1} (to stay within "
					   "the budget)",
				 .sampled = "sampled: GPU times were recorded {2} % of the time; "
					    "totals are estimates",
				 .partly = "sampled: GPU times were not recorded all the time; "
					   "totals are estimates" },
	[LOSS_LEFT_OUT] = { .unseen = "not watched for {1} (too many calls a second)" },
	[LOSS_LEFT_OUT_HOT] = { .unseen = "frequent calls were not watched for {1} (too many a "
					  "second)" },
	[LOSS_TENSORS] = { .unseen = "tensors were not followed for {1} (to stay within the "
				     "budget)" },
};

static const char *share_text(char text[UNITS_TEXT_SIZE], const struct loss_time *time)
{
	double percent = PERCENT * (double)time->seen_ns / (double)time->all_ns;

	if (percent >= NEARLY_ALL)
		return "over 99";
	if (percent < 1)
		return "less than 1";
	snprintf(text, UNITS_TEXT_SIZE, "%.0f", percent);
	return text;
}

static const struct {
	const char *name, *noun;
} reasons[LOSS_REASON_MAX + 1] = { { "", "thing" },
#define X(number, identifier, counts, alarm, misses, noun, name, text) [number] = { name, noun },
				   LOSS_REASONS(X)
#undef X
};

enum loss_reason loss_reason_of(const char *name)
{
	int reason = LOSS_REASON_MAX;

	while (reason > 0 && strcmp(name, reasons[reason].name) != 0)
		reason--;
	return (enum loss_reason)reason;
}

const char *loss_name(enum loss_reason reason)
{
	return reasons[reason].name;
}

const char *loss_noun(enum loss_reason reason)
{
	return reasons[reason].noun;
}

int loss_said(const struct loss_time *time, char **ret)
{
	char duration[UNITS_TEXT_SIZE], share[UNITS_TEXT_SIZE] = "";
	const char *argument[] = { "a moment", share };
	const char *pattern;

	*ret = NULL;
	if ((size_t)time->reason >= ARRAY_SIZE(patterns) || !patterns[time->reason].unseen)
		return 0;
	pattern = patterns[time->reason].unseen;
	if (!time->all_ns && patterns[time->reason].partly)
		pattern = patterns[time->reason].partly;
	if (time->time_ns)
		argument[0] = units_nanoseconds(duration, (int64_t)time->time_ns);
	if (time->seen_ns && time->all_ns && patterns[time->reason].sampled) {
		pattern = patterns[time->reason].sampled;
		argument[1] = share_text(share, time);
	}
	*ret = sentence_fill(pattern, argument, ARRAY_SIZE(argument));
	return *ret ? 0 : -ENOMEM;
}
