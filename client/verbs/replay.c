/* tsctl replay: plays back a recording, checks it against another, emulates it, predicts what-ifs,
 * or reissues it on a GPU. */
#include "client/base/argument.h"
#include "client/output/outfile.h"
#include "client/reissue/reissue.h"
#include "client/replay/check.h"
#include "client/replay/play.h"
#include "client/replay/whatif.h"
#include "client/verbs/command.h"

/* Options of some modes only. */
#define PLAY_ONLY  (OPTION(SPEED))
#define CHECK_ONLY (OPTION(TOLERANCE))
/* The others need everything. */
#define CHOICE (OPTION(STREAM) | OPTION(DEVICE) | OPTION(KERNEL))

static int play(const struct options *options, int count, char **argument)
{
	return replay_play(options);
}

static int whatif(const struct options *options, int count, char **argument)
{
	return replay_whatif(options);
}

static int on_gpu(const struct options *options, int count, char **argument)
{
	return replay_on_gpu(options);
}

/* The first mode whose options are given; the last needs none. */
static const struct way {
	option_set options; /* that select it */
	option_set never;   /* that it refuses */
	int files_max;
	const char *name;
	int (*run)(const struct options *options, int count, char **argument);
} ways[] = {
	{ OPTION(CHECK),
	  PLAY_ONLY | CHOICE | OPTION(ON_GPU) | OPTION(EMULATE) | OPTIONS_WHATIF | OPTION(OUTPUT),
	  2, "--check", replay_check },
	{ OPTION(ON_GPU), PLAY_ONLY | CHECK_ONLY | OPTION(EMULATE) | OPTIONS_WHATIF, 1, "--on-gpu",
	  on_gpu },
	{ OPTION(EMULATE) | OPTIONS_WHATIF, PLAY_ONLY | CHECK_ONLY | CHOICE, 1,
	  "--emulate and what-ifs", whatif },
	{ 0, CHECK_ONLY | OPTION(OUTPUT), 1, "playing", play },
};

int cmd_replay(const struct options *options, int count, char **argument)
{
	struct options own = *options;
	const struct way *way = ways;

	while (way->options && !(options->given & way->options))
		way++;
	for (int i = 0; i < OPTION_COUNT; i++) {
		if (!(options->given & way->never & OPTION_BIT(i)))
			continue;
		complain("--%s does not go with %s: see 'tsctl replay --help'",
			 option_forms[i].name, way->name);
		return EXIT_USAGE;
	}
	if (count > way->files_max) {
		complain("Give one recording: only --check takes two");
		return EXIT_USAGE;
	}
	if (count > 0)
		own.file = argument[0];
	if (outfile_spare(own.output, own.file) < 0)
		return EXIT_USAGE;
	if (!(own.given & OPTIONS_PART))
		argument_window(&own);
	return way->run(&own, count, argument);
}
