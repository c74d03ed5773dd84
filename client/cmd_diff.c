/* tsctl diff: what got slower from one recording to another, by how much, ranked. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/command.h"
#include "client/diff_ask.h"
#include "client/diff_show.h"
#include "core/base/cleanup.h"

#define SHARE_PPM  50000 /* what differs less is the same, where --fail-over does not say */
#define WORSE_SAID 10

static int ask_both(const struct options *options, char **path, struct diff *diff)
{
	struct options one = *options;
	int r = 0;

	for (int side = 0; r == 0 && side < 2; side++) {
		one.file = path[side];
		one.given |= OPTION_FILE;
		r = diff_ask(&one, diff, side);
	}
	return r;
}

/* Who measured nothing has not got slower, and must not pass for it. */
static int check_measured(const struct diff *diff, char **path)
{
	for (int side = 0; side < 2; side++) {
		if (diff_is_part(diff, side))
			return complain("There is nothing to compare: a part of %s is missing, so "
					"record it again",
					path[side]);
		if (diff->gpu[side] == 0)
			return complain("There is nothing to compare: %s has no GPU times, so "
					"record it with 'tsctl record -o %s -- PROGRAM'",
					path[side], path[side]);
	}
	return EXIT_DONE;
}

/* Why it fails, a sentence for each thing. */
static int fail(const struct options *options, const struct diff *diff, char **path)
{
	uint32_t worse = 0;

	if (check_measured(diff, path) != EXIT_DONE)
		return EXIT_FAILED;
	for (size_t i = 0; i < diff->count; i++) {
		const struct diff_row *row = &diff->row[i];

		if (row->verdict != DIFF_WORSE)
			continue;
		if (worse++ < WORSE_SAID)
			complain("%s: '%s' got worse by %.1f %%, more than %.4g %%",
				 diff_section_name(row->section), row->name, 100 * row->change,
				 100.0 * options->fail_over_ppm / DIFF_PPM);
	}
	if (worse > WORSE_SAID)
		complain("And so did %" PRIu32 " others", worse - WORSE_SAID);
	return worse > 0 ? EXIT_FAILED : EXIT_DONE;
}

int cmd_diff(const struct options *options, int count, char **argument)
{
	_cleanup_(diff_done) struct diff diff = { 0 };
	bool fails = options->given & OPTION_FAIL_OVER;
	int r = ask_both(options, argument, &diff);

	if (r < 0)
		return EXIT_FAILED;
	r = diff_end(&diff, fails ? options->fail_over_ppm : SHARE_PPM);
	if (r < 0)
		return complain("Cannot compare: %s", strerror(-r));
	if (diff_show(options, &diff, (const char *const *)argument) < 0)
		return EXIT_FAILED;
	fflush(stdout); /* the reasons come after it */
	return fails ? fail(options, &diff, argument) : EXIT_DONE;
}
