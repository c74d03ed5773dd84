/* tsctl diff: ranks what got slower, and by how much, from one recording or several runs to
 * others. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/diff/ask.h"
#include "client/diff/show.h"
#include "client/verbs/command.h"
#include "core/base/cleanup.h"

#define SHARE_PPM  50000 /* smaller differences count as none, unless --fail-over says otherwise */
#define SAID_MAX   10
#define RUNS_INNER 3 /* with fewer per side, an interval can only come from within them */

/* The recordings of a side are samples: one that counts twice would feign certainty. */
static int check_side(const struct diff_paths *side)
{
	struct stat of[DIFF_RUNS_MAX];

	if (side->count > DIFF_RUNS_MAX) {
		complain("More than %d recordings on one side", DIFF_RUNS_MAX);
		return -EINVAL;
	}
	for (int i = 0; i < side->count; i++) {
		if (side->path[i][0] == '-' && access(side->path[i], F_OK) < 0) {
			complain("'%s' is not a recording: put options and a single '--' before "
				 "B's recordings",
				 side->path[i]);
			return -EINVAL;
		}
		if (stat(side->path[i], &of[i]) < 0)
			of[i] = (struct stat){ 0 }; /* opening it reports the error */
		for (int j = 0; j < i; j++) {
			if (!of[i].st_ino || of[i].st_ino != of[j].st_ino ||
			    of[i].st_dev != of[j].st_dev)
				continue;
			complain("'%s' appears twice on one side: give each recording once",
				 side->path[i]);
			return -EINVAL;
		}
	}
	return 0;
}

/* A and B, or the recordings before and after "--". */
static int choose_sides(const struct options *options, int count, char **argument,
			struct diff_paths side[2])
{
	int after = options->after < 0 ? count - 1 : options->after;

	if (options->after < 0 && count > 2) {
		complain("Say which recordings are A and which are B: 'tsctl diff A... -- B...'");
		return -EINVAL;
	}
	if (after <= 0 || after >= count) {
		complain("Missing recording %s '--'", after <= 0 ? "after" : "before");
		return -EINVAL;
	}
	side[0] = (struct diff_paths){ argument, count - after };
	side[1] = (struct diff_paths){ argument + count - after, after };
	return check_side(&side[0]) < 0 || check_side(&side[1]) < 0 ? -EINVAL : 0;
}

static int ask_all(const struct options *options, const struct diff_paths side[2],
		   struct diff *diff)
{
	bool inside = side[0].count < RUNS_INNER || side[1].count < RUNS_INNER;
	struct options one = *options;
	int r = 0;

	one.given |= OPTION(FILE);
	for (int i = 0; i < 2; i++)
		diff->runs[i] = (uint32_t)side[i].count;
	for (int i = 0; r == 0 && i < 2; i++) {
		for (int run = 0; r == 0 && run < side[i].count; run++) {
			one.file = side[i].path[run];
			r = diff_ask(&one, diff, i, (uint32_t)run, inside);
		}
	}
	return r;
}

/* A recording without measurements must not pass as "not slower". */
static int check_measured(const struct diff *diff, const struct diff_paths side[2])
{
	for (int i = 0; i < 2; i++) {
		for (int run = 0; run < side[i].count; run++) {
			const char *path = side[i].path[run];

			if (diff_is_part(diff, i, (uint32_t)run))
				return complain("Nothing to compare: part of %s is missing, record "
						"it again",
						path);
			if (diff_gpu(diff, i, (uint32_t)run) == 0)
				return complain("Nothing to compare: %s has no GPU times, record "
						"it with 'tsctl record -o %s -- PROGRAM'",
						path, path);
		}
	}
	return EXIT_DONE;
}

static void say_worse(const struct diff_row *row, double share)
{
	if (row->confidence > 0)
		complain("%s: '%s' got worse by %.1f %% (%.1f to %.1f %%), more than %.4g %%",
			 diff_section_name(row->section), row->name, 100 * row->change,
			 100 * row->low, 100 * row->high, 100 * share);
	else
		complain("%s: '%s' got worse by %.1f %%, more than %.4g %%",
			 diff_section_name(row->section), row->name, 100 * row->change,
			 100 * share);
}

static void say_open(const struct diff_row *row)
{
	if (row->confidence > 0)
		complain("%s: '%s' is undecided: %+.1f %%, between %+.1f and %+.1f %%; add "
			 "recordings ('tsctl diff A... -- B...') to narrow it down",
			 diff_section_name(row->section), row->name, 100 * row->change,
			 100 * row->low, 100 * row->high);
	else
		complain("%s: '%s' is undecided: %+.1f %%, but there are too few recordings; give "
			 "%d per side ('tsctl diff A... -- B...')",
			 diff_section_name(row->section), row->name, 100 * row->change,
			 diff_is_wall(row->section) ? 5 : 3);
}

/* One sentence for each row that got worse or may have. */
static int fail(const struct options *options, const struct diff *diff,
		const struct diff_paths side[2])
{
	double share = (double)options->fail_over_ppm / DIFF_PPM;
	uint32_t worse = 0, open = 0;

	if (check_measured(diff, side) != EXIT_DONE)
		return EXIT_FAILED;
	for (size_t i = 0; i < diff->count; i++) {
		const struct diff_row *row = &diff->row[i];

		if (row->verdict == DIFF_WORSE && worse++ < SAID_MAX)
			say_worse(row, share);
		if (row->verdict == DIFF_OPEN && diff_may_be_worse(row, share) && open++ < SAID_MAX)
			say_open(row);
	}
	if (worse > SAID_MAX)
		complain("%" PRIu32 " more got worse", worse - SAID_MAX);
	if (open > SAID_MAX)
		complain("%" PRIu32 " more are undecided", open - SAID_MAX);
	return worse > 0 ? EXIT_FAILED : EXIT_DONE;
}

int cmd_diff(const struct options *options, int count, char **argument)
{
	_cleanup_(diff_done) struct diff diff = { 0 };
	bool fails = options->given & OPTION(FAIL_OVER);
	struct diff_paths side[2];
	int r;

	if (choose_sides(options, count, argument, side) < 0)
		return EXIT_USAGE;
	r = ask_all(options, side, &diff);
	if (r < 0)
		return EXIT_FAILED;
	r = diff_end(&diff, fails ? options->fail_over_ppm : SHARE_PPM);
	if (r < 0)
		return complain("Cannot compare: %s", strerror(-r));
	if (diff_show(options, &diff, side) < 0)
		return EXIT_FAILED;
	fflush(stdout); /* the reasons follow it */
	return fails ? fail(options, &diff, side) : EXIT_DONE;
}
