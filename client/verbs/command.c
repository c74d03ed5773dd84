/* Command: the table of verbs and their help. */
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
	"The default is all but syncs, which cost more than all others together (CUPTI 13.0);\n"   \
	"'--records +syncs,-nvtx' changes it.\n"

const struct command command_table[] = {
	{ "status", "", "show what the daemon traces, and what it misses",
	  OPTIONS_TABLE | OPTION(CHECK), 0, 0,
	  "--check prints one line for monitoring. Exit status: 0 fine, 1 needs attention,\n"
	  "2 no answer.\n"
	  "Example: tsctl status\n",
	  cmd_status },
	{ "ps", "", "list the processes that use CUDA now",
	  OPTIONS_TABLE | OPTION(WIDE) | OPTION(PID) | OPTION(COLUMNS) | OPTIONS_ROWS, 0, 0,
	  "Example: tsctl ps\n"
	  "Example: tsctl ps --user alice --sort -peak_bytes\n",
	  cmd_ps },
	{ "top", "", "show on the screen what devices and processes do, each second",
	  OPTION(ONCE) | OPTION(JSON), 0, 0,
	  "Press ? for the keys. --once prints the state as text after some seconds, --json as\n"
	  "one JSON object.\n"
	  "Example: tsctl top\n"
	  "Example: tsctl top --once\n",
	  cmd_top },
	{ "run", "[--] PROGRAM [ARGUMENT...]", "run a program with exact GPU times",
	  OPTIONS_RECORD | OPTION(LIGHT), 1, ARGUMENTS_FOREIGN,
	  RECORDS_HELP "Example: tsctl run -- python3 train.py --epochs 3\n", cmd_run },
	{ "attach", "PID", "get exact GPU times of a running process",
	  OPTIONS_RECORD | OPTION(LIGHT) | OPTION(WAIT) | OPTION(SECCOMP) | OPTION(JSON), 1, 1,
	  RECORDS_HELP "Root may attach to any process, other users to their own.\n"
		       "Example: tsctl attach 4711 --stacks all --budget 3%\n",
	  cmd_attach },
	{ "detach", "PID", "stop recording a process and restore it", OPTION(JSON), 1, 1,
	  "Example: tsctl detach 4711\n", cmd_detach },
	{ "cost", "[PID]", "show what tracing costs a process, and what other settings would save",
	  OPTIONS_TABLE | OPTION(WIDE) | OPTION(NOW), 0, 1,
	  "Without a PID, list all processes. A cost is how much more time a process needs "
	  "because\n"
	  "it is traced. --now switches its frequent calls off and on for some seconds, and so\n"
	  "measures what they cost at this moment.\n"
	  "Example: tsctl cost\n"
	  "Example: tsctl cost 4711 --now\n",
	  cmd_cost },
	{ "budget", "PID SHARE", "give a process another budget for the probes",
	  OPTION(FOR) | OPTION(JSON), 2, 2,
	  "SHARE is how much of its speed the process may pay, e.g. 5% or 0.5%; 'none' watches it\n"
	  "all the time, 'default' is the budget of the settings again. It holds until the "
	  "process\n"
	  "ends, or for as long as --for says. Root may do this to any process, other users to\n"
	  "their own.\n"
	  "Example: tsctl budget 4711 none --for 60s\n"
	  "Example: tsctl budget 4711 0.5%\n",
	  cmd_budget },
	{ "stack", "PID", "show what the threads of a process are doing, in Python",
	  OPTION(THREADS) | OPTION(NATIVE) | OPTION(LOCALS) | OPTION(WATCH) | OPTION(JSON), 1, 1,
	  "For each thread: its state, the system call that it is in, and its Python frames,\n"
	  "innermost first. The process needs no CUDA, is not stopped, and runs any CPython from\n"
	  "3.9 to 3.14. Root may look at any process, other users at their own.\n"
	  "Example: tsctl stack 4711\n"
	  "Example: tsctl stack 4711 --threads --locals\n"
	  "Example: tsctl stack 4711 --native\n",
	  cmd_stack },
	{ "query", "NAME", "run a query ('tsctl query list' lists them)",
	  OPTIONS_TABLE | OPTION(WIDE) | OPTIONS_WINDOW | OPTION(PID) | OPTION(COLUMNS) |
		  OPTIONS_ROWS | OPTION(MIN_AGE) | OPTION(ALL) | OPTION(STREAM) | OPTION(DEVICE) |
		  OPTIONS_BY | OPTION(FILE),
	  1, 1,
	  "'tsctl query list' lists the queries and the options that each takes.\n"
	  "Example: tsctl query leaks --pid 4711\n"
	  "Example: tsctl query leaks --all --min-age 5m\n"
	  "Example: tsctl query apis --since 10s --json\n"
	  "Example: tsctl query kernels --by-stack --pid 4711\n"
	  "Example: tsctl query kernels --name 'gemm|conv' --sort count --user alice\n"
	  "Example: tsctl query kernels --file run.sbt\n",
	  cmd_query },
	{ "oom", "[show N]", "show what ran out of memory, and who held what then",
	  OPTIONS_TABLE | OPTION(WIDE) | OPTION(FILE), 0, 2,
	  "Without 'show', list what failed, as 'tsctl query oom' does; N is a number of that "
	  "list.\n"
	  "Example: tsctl oom\n"
	  "Example: tsctl oom show 3\n",
	  cmd_oom },
	{ "ship", "status|window [FILE]", "show how this host is shipped to a fleet's ClickHouse",
	  OPTIONS_TABLE | OPTION(SINCE), 1, 2,
	  "'status' reads FILE, which another tracesmith-ship than the usual one writes "
	  "(--status).\n"
	  "'window' sends the single operations since then, at most of 10 minutes, with the\n"
	  "settings of the shipper, or those in FILE: 'tsctl fleet export' makes a trace of them.\n"
	  "Example: tsctl ship status\n"
	  "Example: tsctl ship window --since 30s\n",
	  cmd_ship },
	{ "sql", "STATEMENT", "run a read-only SQL statement on the daemon's tables",
	  OPTIONS_TABLE | OPTION(WIDE) | OPTION(LIMIT) | OPTION(TIMEOUT) | OPTION(FILE), 1, 1,
	  "Example: tsctl sql \"SELECT pid, comm FROM process WHERE exit_ns IS NULL\"\n", cmd_sql },
	{ "record", "[--] [PROGRAM [ARGUMENT...]]",
	  "record a program, a process, or the recent past to a file",
	  OPTIONS_WINDOW | OPTIONS_RECORD | OPTION(PID) | OPTION(ALL) | OPTION(DURATION) |
		  OPTION(OUTPUT),
	  0, ARGUMENTS_FOREIGN,
	  "With --since, record the past up to now. Otherwise, or with --duration as well, record\n"
	  "live until that time is over, the process or program ends, or you press Ctrl-C; with\n"
	  "--duration eof, until a program that starts tsctl closes a pipe to it, or ends.\n"
	  "The file is written in place, and its old contents are replaced when the first\n"
	  "operation arrives. If there are no operations, no file is written and tsctl exits\n"
	  "with 1.\n"
	  "Example: tsctl record -o train.sbt -- python3 train.py\n"
	  "Example: tsctl record -o last.sbt --pid 4711 --since 30s\n"
	  "Example: tsctl record -o next.sbt --all --duration 10s\n",
	  cmd_record },
	{ "info", "F.sbt", "describe a recording and its contents", OPTIONS_TABLE, 1, 1,
	  "Example: tsctl info run.sbt\n", cmd_info },
	{ "view", "[F.sbt]", "show operations as text: a list, a tree, or lanes",
	  OPTIONS_WINDOW | OPTIONS_PART | OPTIONS_FILTER | OPTION(FILE) | OPTION(LIMIT) |
		  OPTION(TREE) | OPTION(LANES) | OPTION(JSON),
	  0, 1,
	  "Without a recording, show the daemon's last 10 seconds.\n"
	  "Example: tsctl view run.sbt --kernel 'gemm|conv' --from 1.5s --to 2s\n"
	  "Example: tsctl view run.sbt --lanes --stream 3\n"
	  "Example: tsctl view run.sbt --tree --limit 1\n",
	  cmd_view },
	{ "graph", "[F.sbt]", "write the dependency graph of operations, with slack",
	  OPTIONS_WINDOW | OPTIONS_PART | OPTION(PID) | OPTION(FILE) | OPTION(DOT) | OPTION(JSON) |
		  OPTION(OUTPUT),
	  0, 1,
	  "Without a recording, use the daemon's last 10 seconds. The critical path is red, or\n"
	  "marked \"critical\" in JSON; 'tsctl query critical-path' summarizes it.\n"
	  "Example: tsctl graph run.sbt --json -o graph.json\n"
	  "Example: tsctl graph run.sbt --dot --from 1.5s --to 1.52s | dot -Tsvg -o graph.svg\n",
	  cmd_graph },
	{ "export", "[F.sbt]", "convert a trace to another tool's format",
	  OPTIONS_WINDOW | OPTION(PID) | OPTIONS_FORMAT | OPTION(CSV) | OPTION(OUTPUT) |
		  OPTION(FILE),
	  0, 1,
	  "Without a recording, export the daemon's last 10 seconds; --since takes more.\n"
	  "Example: tsctl export --perfetto --since 30s -o trace.perfetto\n"
	  "Example: tsctl export run.sbt --svg -o flame.svg\n",
	  cmd_export },
	{ "report", "[PID|F.sbt]", "write what happened, with pictures, to one file",
	  OPTIONS_WINDOW | OPTION(PID) | OPTION(FILE) | OPTION(MARKDOWN) | OPTION(OUTPUT), 0, 1,
	  "For a ticket or a mail: what stands out, streams and memory over time, a flame graph,\n"
	  "and the tables behind them, as one HTML file that needs nothing else; --md as text.\n"
	  "Without a recording, it covers the daemon's last 10 seconds; --since takes more.\n"
	  "Example: tsctl report 4711 --since 1m -o report.html\n"
	  "Example: tsctl report run.sbt --md -o report.md\n",
	  cmd_report },
	{ "plot", "busy|memory|memory-map [F.sbt]", "draw streams or memory over time",
	  OPTIONS_WINDOW | OPTION(PID) | OPTION(FILE) | OPTION(FOLLOW) | OPTION(OUTPUT), 1, 2,
	  "As SVG, or PNG if the file's name ends in .png (librsvg2-2 draws it): when each stream\n"
	  "was busy; the live bytes of each process and device; or which addresses each block "
	  "had,\n"
	  "in the color of its stack, with the segments around it, and allocations that failed.\n"
	  "Without a recording, it covers the daemon's last 10 seconds; --since takes more.\n"
	  "Example: tsctl plot busy --since 30s -o busy.svg\n"
	  "Example: tsctl plot memory run.sbt -o memory.png\n",
	  cmd_plot },
	{ "diff", "A.sbt... [--] B.sbt...", "compare recordings and rank what got slower",
	  OPTIONS_TABLE | OPTION(LIMIT) | OPTION(FAIL_OVER), 2, 2 * DIFF_RUNS_MAX,
	  "Give several runs of each side to see how certain a change is: A's before the '--',\n"
	  "B's after it. If both sides did the same work (their common kernels ran equally\n"
	  "often), diff compares totals, otherwise the time per call. --limit is per section.\n"
	  "low and high enclose the change, with 95 % confidence if the recordings allow it.\n"
	  "Three recordings per side give 90 %; wall time takes five, and gives 99 %. With fewer,\n"
	  "kernels and copies get an interval from within the recordings, and wall time gets\n"
	  "none.\n"
	  "--fail-over 5% exits with 1 if the whole interval of a kernel, copy, NVTX range, peak\n"
	  "memory or total time is more than 5 % worse, and reports where. If only part of the\n"
	  "interval is, diff reports that it is undecided. Ignored: anything below 1 % of the GPU\n"
	  "time, seen fewer than 5 times, or that differs less than its own durations vary (their\n"
	  "middle halves overlap). Rows without a verdict (idle time, driver calls) say why, and\n"
	  "never fail the check. diff also exits with 1 if it cannot compare: a recording is\n"
	  "truncated, or has no GPU times.\n"
	  "Example: tsctl diff before.sbt after.sbt --fail-over 5%\n"
	  "Example: tsctl diff a1.sbt a2.sbt a3.sbt --fail-over 5% -- b1.sbt b2.sbt b3.sbt\n",
	  cmd_diff },
	{ "replay", "[F.sbt [B.sbt]]", "play back a recording, check it, or predict changes",
	  OPTIONS_WINDOW | OPTIONS_PART | OPTIONS_FILTER | OPTION(SPEED) | OPTION(JSON) |
		  OPTION(CHECK) | OPTION(TOLERANCE) | OPTION(ON_GPU) | OPTION(EMULATE) |
		  OPTIONS_WHATIF | OPTION(OUTPUT),
	  0, 2,
	  "Plays back the states of operations, streams and devices in order of time. On a\n"
	  "terminal it draws one lane per stream at the original speed ('q' quits); otherwise it\n"
	  "prints one line per change as fast as it can, or one object with --json. Without a\n"
	  "recording, it plays the daemon's last 10 seconds.\n"
	  "--launch-latency D limits launching calls to D of their thread's time; 0 makes them\n"
	  "free. A what-if that changes nothing is refused.\n"
	  "Example: tsctl replay run.sbt --speed 0.1 --from 1.5s --to 2s\n"
	  "Example: tsctl replay run.sbt --json --stream 3 | head\n"
	  "Example: tsctl replay --since 1m --kernel gemm --speed max\n",
	  cmd_replay },
	{ "serve", "[F.sbt [NEW.sbt]]",
	  "serve a page for the browser, and metrics to Prometheus, over HTTP",
	  OPTION(LISTEN) | OPTION(TOKEN) | OPTION(TLS), 0, 2,
	  "Prints the addresses, with the token that clients must know: in the address, or as\n"
	  "'Authorization: Bearer TOKEN'. --token keeps it in a file, which is made if it is not\n"
	  "there. It listens on 127.0.0.1:9640; on an address that other hosts can reach, it\n"
	  "needs --tls. The page shows the daemon or, without one, a recording, which has no\n"
	  "metrics; of two recordings, the flame graph shows what the second one has more or\n"
	  "less of.\n"
	  "Example: tsctl serve\n"
	  "Example: tsctl serve run.sbt --listen 127.0.0.1:0\n"
	  "Example: tsctl serve before.sbt after.sbt\n"
	  "Example: tsctl serve --token /etc/tracesmith/web-token --listen 127.0.0.1:9700\n"
	  "Example: tsctl serve --listen 0.0.0.0 --tls /etc/ssl/private/gpu1.pem\n",
	  cmd_serve },
	{ "fleet", "init|query NAME|export|window|sql STATEMENT",
	  "ask many hosts, whose data is in one ClickHouse",
	  OPTIONS_TABLE | OPTIONS_FLEET | OPTION(WIDE) | OPTIONS_WINDOW | OPTION(LIMIT) |
		  OPTION(TIMEOUT) | OPTION(CLUSTER) | OPTION(JOB) | OPTION(HOST) | OPTION(RANK) |
		  OPTION(ALL) | OPTION(PERFETTO) | OPTION(OUTPUT),
	  1, 2,
	  "'init' makes the tables or brings them up to date; --cluster puts them on all nodes of\n"
	  "one. 'query list' lists the queries and the options that each takes, 'sql' runs a\n"
	  "statement that only reads. 'export' writes one trace of all ranks of a job, from the\n"
	  "operations that 'tsctl ship window' has sent on their hosts; 'window' asks those hosts\n"
	  "for them that allow it. Without --url and --password-file, $TRACESMITH_FLEET_URL and\n"
	  "$TRACESMITH_FLEET_PASSWORD_FILE say where the server is.\n"
	  "Example: tsctl fleet init --url http://ch1:8123 --password-file ~/.fleet --cluster "
	  "gpus\n"
	  "Example: tsctl fleet query stragglers --job 4711 --since 1h\n"
	  "Example: tsctl fleet window --job 4711 --since 30s\n"
	  "Example: tsctl fleet export --perfetto --job 4711 --since 5m -o job.perfetto\n"
	  "Example: tsctl fleet sql \"SELECT host, count() FROM process GROUP BY host\"\n",
	  cmd_fleet },
	{ "answer", "F.sbt", "answer another program's requests about a recording", 0, 1, 1,
	  "Standard input is a connected stream socket, whose other end asks as it would ask the\n"
	  "daemon: control.proto has the messages. Ends when the other end is closed. Thus\n"
	  "tracesmith.open() reads a recording in Python.\n"
	  "Example: socat UNIX-LISTEN:/tmp/run.sock EXEC:'tsctl answer run.sbt'\n",
	  cmd_answer },
	{ "version", "", "show the versions of tsctl and the daemon", 0, 0, 0,
	  "Example: tsctl version\n", cmd_version },
	{ "help", "[COMMAND]", "show this help, or that of a command", 0, 0, 1,
	  "Example: tsctl help query\n", cmd_help },
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
	option_set options = command->options | OPTIONS_COMMON;

	printf("Usage: tsctl %s [OPTION...]%s%s\n%s\n\n", command->name,
	       *command->arguments ? " " : "", command->arguments, command->summary);
	for (int i = 0; i < OPTION_COUNT; i++)
		if (options & OPTION_BIT(i))
			option_usage(&option_forms[i]);
	printf("\n%s", command->help);
}
