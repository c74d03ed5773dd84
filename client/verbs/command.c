/* Command: the table of verbs, and their help. */
#include "client/verbs/command.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/diff/diff.h"
#include "core/base/cleanup.h"
#include "core/base/units.h"
#include "core/base/utf8.h"
#include "proto/event.h"

#define X(bit, id, name) " " name
#define RECORD_NAMES	 TS_RECORDS(X)
#define RECORDS_HELP                                                                               \
	"What can be recorded:" RECORD_NAMES ".\n"                                                 \
	"By default all but syncs; '--records +syncs,-nvtx' changes that.\n"

const struct command command_table[] = {
	{ "status", "", "what the daemon sees with, and what it misses",
	  OPTIONS_TABLE | OPTION_CHECK, 0, 0,
	  "--check is one line for monitoring: 0 fine, 1 something to look at, 2 no answer.\n"
	  "Example: tsctl status\n",
	  cmd_status },
	{ "ps", "", "processes that use CUDA now",
	  OPTIONS_TABLE | OPTION_WIDE | OPTION_PID | OPTION_LIMIT, 0, 0, "Example: tsctl ps\n",
	  cmd_ps },
	{ "run", "[--] PROGRAM [ARGUMENT...]", "run a program with exact GPU times", OPTIONS_RECORD,
	  1, ARGUMENTS_FOREIGN, RECORDS_HELP "Example: tsctl run -- python3 train.py --epochs 3\n",
	  cmd_run },
	{ "attach", "PID", "exact GPU times of a process that runs already",
	  OPTIONS_RECORD | OPTION_WAIT | OPTION_SECCOMP | OPTION_JSON, 1, 1,
	  RECORDS_HELP "Root may attach to every process, others to their own.\n"
		       "Example: tsctl attach 4711 --stacks all --budget 3%\n",
	  cmd_attach },
	{ "detach", "PID", "give a process back as it was before", OPTION_JSON, 1, 1,
	  "Example: tsctl detach 4711\n", cmd_detach },
	{ "query", "NAME", "ask one of the listed queries ('tsctl query list')",
	  OPTIONS_TABLE | OPTION_WIDE | OPTIONS_WINDOW | OPTION_PID | OPTION_LIMIT |
		  OPTION_MIN_AGE | OPTION_STREAM | OPTION_DEVICE | OPTIONS_BY | OPTION_FILE,
	  1, 1,
	  "'tsctl query list' shows the queries and which options each takes.\n"
	  "Example: tsctl query leaks --pid 4711 --min-age 5m\n"
	  "Example: tsctl query apis --since 10s --json\n"
	  "Example: tsctl query kernels --by-stack --pid 4711\n"
	  "Example: tsctl query kernels --file run.sbt\n",
	  cmd_query },
	{ "sql", "STATEMENT", "one read-only SQL statement over the daemon's tables",
	  OPTIONS_TABLE | OPTION_WIDE | OPTION_LIMIT | OPTION_TIMEOUT | OPTION_FILE, 1, 1,
	  "Example: tsctl sql \"SELECT pid, comm FROM process WHERE exit_ns IS NULL\"\n", cmd_sql },
	{ "record", "[--] [PROGRAM [ARGUMENT...]]",
	  "keep what happens, or what happened, in a file",
	  OPTIONS_WINDOW | OPTIONS_RECORD | OPTION_PID | OPTION_ALL | OPTION_DURATION |
		  OPTION_OUTPUT,
	  0, ARGUMENTS_FOREIGN,
	  "With --since it takes the past, up to now. Without, and with --duration, it goes on: "
	  "until\n"
	  "that time is over, the process or program has ended, or Ctrl-C. The file is written\n"
	  "under its name as it comes, and what was there before goes with the first operation.\n"
	  "Where there was none, the file is not made, and it exits with 1.\n"
	  "Example: tsctl record -o train.sbt -- python3 train.py\n"
	  "Example: tsctl record -o last.sbt --pid 4711 --since 30s\n"
	  "Example: tsctl record -o next.sbt --all --duration 10s\n",
	  cmd_record },
	{ "info", "F.sbt", "what a recording is, and what is in it", OPTIONS_TABLE, 1, 1,
	  "Example: tsctl info run.sbt\n", cmd_info },
	{ "view", "[F.sbt]", "operations as text: a list, a tree, or lanes that fit the terminal",
	  OPTIONS_WINDOW | OPTIONS_PART | OPTIONS_FILTER | OPTION_FILE | OPTION_LIMIT |
		  OPTION_TREE | OPTION_LANES | OPTION_JSON,
	  0, 1,
	  "Without a recording it shows the daemon's last 10 seconds.\n"
	  "Example: tsctl view run.sbt --kernel 'gemm|conv' --from 1.5s --to 2s\n"
	  "Example: tsctl view run.sbt --lanes --stream 3\n"
	  "Example: tsctl view run.sbt --tree --limit 1\n",
	  cmd_view },
	{ "graph", "[F.sbt]", "what had to wait for what, and how long each could have been later",
	  OPTIONS_WINDOW | OPTIONS_PART | OPTION_PID | OPTION_FILE | OPTION_DOT | OPTION_JSON |
		  OPTION_OUTPUT,
	  0, 1,
	  "Without a recording it is the daemon's last 10 seconds. What is on the critical path\n"
	  "is red, or has \"critical\"; 'tsctl query critical-path' adds up what is on it.\n"
	  "Example: tsctl graph run.sbt --json -o graph.json\n"
	  "Example: tsctl graph run.sbt --dot --from 1.5s --to 1.52s | dot -Tsvg -o graph.svg\n",
	  cmd_graph },
	{ "export", "[F.sbt]", "write a trace for another program to show",
	  OPTIONS_WINDOW | OPTION_PID | OPTIONS_FORMAT | OPTION_CSV | OPTION_OUTPUT | OPTION_FILE,
	  0, 1,
	  "Without a recording it is the daemon's last 10 seconds: --since takes more.\n"
	  "Example: tsctl export --perfetto --since 30s -o trace.perfetto\n"
	  "Example: tsctl export run.sbt --svg -o flame.svg\n",
	  cmd_export },
	{ "diff", "A.sbt... [--] B.sbt...", "what got slower from recordings to others, ranked",
	  OPTIONS_TABLE | OPTION_LIMIT | OPTION_FAIL_OVER, 2, 2 * DIFF_RUNS_MAX,
	  "Several runs of the same say how sure a change is: A's before a '--', B's behind it.\n"
	  "Where both did the same work (their common kernels ran as often), totals are compared,\n"
	  "else the calls of B with those of A. --limit: rows of a section.\n"
	  "low and high: within these the change lies, for 95 % where that can be told. It takes\n"
	  "3 recordings of each (90 %), for wall time 5 (99 %). With fewer there is an interval\n"
	  "for kernels and copies from inside the recordings, and none for wall time.\n"
	  "--fail-over 5% exits with 1 where all of the interval is worse by more, in kernels,\n"
	  "copies, NVTX ranges, peaks of memory or the time of all; a sentence says where. Where\n"
	  "only a part of it is, a sentence says that it is not decided. It does not count what\n"
	  "is less than 1 % of the GPU time, was seen fewer than 5 times, or differs no more\n"
	  "than its own durations do (their middle halves overlap). What has no verdict (idle\n"
	  "time, calls of the driver) tells why, and fails nothing. It exits with 1 also where\n"
	  "there is nothing to compare: one is cut off, or has no GPU times.\n"
	  "Example: tsctl diff before.sbt after.sbt --fail-over 5%\n"
	  "Example: tsctl diff a1.sbt a2.sbt a3.sbt --fail-over 5% -- b1.sbt b2.sbt b3.sbt\n",
	  cmd_diff },
	{ "replay", "[F.sbt [B.sbt]]", "play a recording again, check it, or ask 'what if'",
	  OPTIONS_WINDOW | OPTIONS_PART | OPTIONS_FILTER | OPTION_SPEED | OPTION_JSON |
		  OPTION_CHECK | OPTION_TOLERANCE | OPTION_ON_GPU | OPTION_EMULATE |
		  OPTIONS_WHATIF | OPTION_OUTPUT,
	  0, 2,
	  "Plays the states of operations, streams and devices in order of time: on a terminal a\n"
	  "lane for each stream, at the speed at which it was ('q' ends it); else, as fast as it\n"
	  "goes, a line for each change, or with --json an object. Without a recording it is the\n"
	  "last 10 s of the daemon.\n"
	  "--launch-latency D lets the calls that launch take no more than D of their thread's\n"
	  "time, with 0 none. A what-if that changes nothing is refused.\n"
	  "Example: tsctl replay run.sbt --speed 0.1 --from 1.5s --to 2s\n"
	  "Example: tsctl replay run.sbt --json --stream 3 | head\n"
	  "Example: tsctl replay --since 1m --kernel gemm --speed max\n",
	  cmd_replay },
	{ "version", "", "the version of tsctl and of the daemon", 0, 0, 0,
	  "Example: tsctl version\n", cmd_version },
	{ "help", "[VERB]", "this help, or that of a verb", 0, 0, 1, "Example: tsctl help query\n",
	  cmd_help },
	{ 0 },
};
#undef X

const struct command *command_find(const char *name)
{
	for (const struct command *command = command_table; command->name; command++)
		if (strcmp(command->name, name) == 0)
			return command;
	return NULL;
}

static void option_usage(const struct option_form *form)
{
	char name[32];
	bool optional = form->argument && *form->argument == '[';

	if (optional)
		snprintf(name, sizeof(name), "--%s[=%s", form->name, form->argument + 1);
	else
		snprintf(name, sizeof(name), "--%s%s%s", form->name, form->argument ? " " : "",
			 form->argument ? form->argument : "");
	printf("  %c%c%c %-20s %s\n", form->letter ? '-' : ' ', form->letter ? form->letter : ' ',
	       form->letter ? ',' : ' ', name, form->text);
}

void command_usage(const struct command *command)
{
	uint64_t options = command->options | OPTIONS_COMMON;

	printf("Usage: tsctl %s [OPTION...]%s%s\n%s\n\n", command->name,
	       *command->arguments ? " " : "", command->arguments, command->summary);
	for (int i = 0; i < OPTION_COUNT; i++)
		if (options & UINT64_C(1) << i)
			option_usage(&option_forms[i]);
	printf("\n%s", command->help);
}
