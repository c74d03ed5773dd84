/* Wording: the reasons to which tsctl has more to say than the reply's own text: which option or
 * command helps, and what it is called in a recording. */
#include "client/link/wording.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/sentence.h"
#include "core/base/text.h"
#include "core/store/query/table.h"

#define REASON(name) TRACESMITH__V1__REMARK__REASON__##name
#define ARGUMENTS    9

static const struct wording wordings[] = {
	[REASON(NO_QUERY)] = { .text = "Unknown query '{1}': 'tsctl query list' lists all" },
	[REASON(NO_QUERY_NEAR)] = { .text = "Unknown query '{1}', did you mean '{2}'? 'tsctl query "
					    "list' lists all" },
	[REASON(QUERY_OPTION)] = { .text = "The query '{1}' takes no {2}, only {3}",
				   .options_from = 2 },
	[REASON(QUERY_SPLIT)] = { .text = "This tsctl is newer than tracesmithd, which cannot "
					  "split rows this way" },
	[REASON(BAD_WINDOW)] = { .text = "The window ends before it starts: see --since and "
					 "--until" },
	[REASON(UNKNOWN_PROCESS)] = { .text = "Process {1} has not used CUDA while tracesmithd was "
					      "running: 'tsctl ps' lists those that do",
				      .recording = "Process {1} is not in this recording: 'tsctl "
						   "info' lists those that are" },
	[REASON(UNKNOWN_USER)] = { .text = "No process of user '{1}' has used CUDA while "
					   "tracesmithd was running: 'tsctl query processes' lists "
					   "the users",
				   .recording = "No process of user '{1}' is in this recording: "
						"'tsctl query processes' lists the users" },
	[REASON(TOO_MANY_PIDS)] = { .text = "Too many processes for one recording: record all" },
	[REASON(TOO_SLOW)] = { .text = "The query took too long: try again" },
	[REASON(TOO_SLOW_PID)] = { .text = "The query took too long: narrow it with --pid" },
	[REASON(TOO_SLOW_WINDOW)] = { .text = "The query took too long: narrow it with --since or "
					      "--pid" },
	[REASON(TOO_SLOW_SQL)] = { .text = "The query took too long: read less, for example with "
					   "bounds on start_ns" },
	[REASON(SQL_OWN)] = { .text = "tracesmithd's settings show you only your own processes, "
				      "which SQL cannot be held to: use 'tsctl query', or "
				      "'tsctl record' and then 'tsctl sql --file'" },
	[REASON(UNREADABLE)] = { .text = "The database cannot be read[: {1}]",
				 .recording = "The recording cannot be read[: {1}]" },
	[REASON(NO_MEMORY)] = { .text = "tracesmithd does not have enough memory for this request",
				.recording = "Not enough memory" },
	[REASON(QUERY_MEMORY)] = { .text = "The query needs more than the {1} MiB of memory that "
					   "one may have: select fewer or shorter values, or use "
					   "--file with a recording, which has no such bound" },
	[REASON(QUERY_SCRATCH)] = { .text = "The query sorts or groups more than {1} MiB, or the "
					    "disk is full: select less, or use --file with a "
					    "recording" },
	[REASON(QUERY_ENDED)] = { .text = "The process that answered the query {1}: try again" },
	[REASON(QUERY_UNREAD)] = { .text = "Nothing of the answer was read for {1} s while other "
					   "queries waited: try again, and keep reading" },
	[REASON(LARGE_SUM)] = { .text = "A sum of impossibly large values does not fit into 64 "
					"bits: leave them out with --pid, --since and --until",
				.recording =
					"The recording has impossibly large values, whose sum "
					"does not fit into 64 bits: leave them out with --pid, "
					"--since and --until" },
	[REASON(BOUND)] = { .text = "{1}: narrow it with --since and --until" },
	[REASON(BUSY_WINDOW)] = { .text = "Too many operations are under way at one time: narrow "
					  "it with --since or --pid" },
	[REASON(DAMAGED_CHUNK)] = { .text = "A stored chunk of operations is damaged",
				    .recording =
					    "A chunk of operations in the recording is damaged" },

	[REASON(NO_MATCH)] = { .text = "None of {1} names matches --name" },
	[REASON(NONE_SEEN)] = { .text = "No process has used CUDA while tracesmithd was running",
				.recording = "No process has used CUDA in this recording" },
	[REASON(NONE_RUNS)] = { .text = "No process uses CUDA now: 'tsctl query processes' lists "
					"those that did" },
	[REASON(NONE_IN_WINDOW)] = { .text = "No process used CUDA in the window: see --since" },
	[REASON(AFTER_WINDOW)] = { .text = "Process {1} was first seen after the window: see "
					   "--until" },
	[REASON(BEFORE_WINDOW)] = { .text = "Process {1} ended before the window: see --since" },
	[REASON(PROBE_IN_WINDOW)] = { .text = "The exact tier did not cover[ process {1} in] the "
					      "window: see --since and --until" },
	[REASON(NONE_EXACT)] = { .text = "No process was in the exact tier, which this needs: see "
					 "'tsctl run' and 'tsctl attach'" },
	[REASON(WAS_PROBE)] = { .text = "Process {1} was in the probe tier, which does not see "
					"this: start it with 'tsctl run'" },
	[REASON(IS_PROBE)] = { .text = "Process {1} is in the probe tier, which does not see this: "
				       "'tsctl attach {1}' moves it to the exact tier",
			       .recording = "Process {1} was in the probe tier, which does not see "
					    "this: start it with 'tsctl run'" },
	[REASON(NOT_RECORDED)] = { .text = "These records were not collected[ from process {2}]: "
					   "{1}; see --records and --budget" },
	[REASON(NONE_GROWS)] = { .text = "Nothing[ in process {2}] leaks or grows; live "
					 "allocations: "
					 "{1}, see --all" },
	[REASON(RETURNS_UNSEEN)] = { .text = "This is not known[ of process {1}]: calls were seen "
					     "at their start only; 'tsctl status' says why",
				     .recording = "This is not known[ of process {1}]: calls were "
						  "seen at their start only" },
	[REASON(ALL_YOUNG)] = { .text = "No live allocation[ of process {3}] is at least {1} old; "
					"younger ones: {2}; see --min-age" },

	[REASON(PROTOCOL)] = { .text = "tracesmithd {1} uses another protocol: use the tsctl of "
				       "that version" },
	[REASON(NO_REQUEST)] = { .text = "Unknown request: use a tsctl of the same version as "
					 "tracesmithd" },
	[REASON(UNKNOWN_REQUEST)] = { .text = "tracesmithd {1} does not know this request: use the "
					      "tsctl of that version" },
	[REASON(UNKNOWN_RECORDS)] = { .text = "tracesmithd {1} does not know these records: use "
					      "the tsctl of that version" },
	[REASON(USER_DENIED)] = { .text = "User {1} may not use tracesmithd: run tsctl as root, or "
					  "have root add the user to the group '{2}', and log in "
					  "again" },
	[REASON(OTHER_USER)] = { .text = "Process {1} belongs to another user: run tsctl as root "
					 "or as that user" },
	[REASON(PRIVILEGED)] = { .text = "Process {1} has more privileges than its user, or is "
					 "closed to debuggers: run tsctl as root" },
	[REASON(NO_CUDA)] = { .text = "Process {1} does not use CUDA (libcuda.so is not mapped): "
				      "try again when it does, or wait for it with --wait" },
	[REASON(SECCOMP)] = { .text = "Process {1} has a seccomp filter[ (thread {2}, '{3}')], "
				      "which may kill it during attaching; the filters of Docker "
				      "and Kubernetes do not: try with --seccomp" },
	[REASON(SHADOW_STACK)] = { .text = "Process {1} uses a shadow stack, which prevents "
					   "attaching: start it without "
					   "GLIBC_TUNABLES=glibc.cpu.x86_shstk, or with 'tsctl "
					   "run'" },
	[REASON(PTRACE_SCOPE)] = { .text = "Cannot attach to process {1}: kernel.yama.ptrace_scope "
					   "is 3, which forbids it until the next boot; start the "
					   "program with 'tsctl run'" },
	[REASON(PRIVILEGES_CHANGED)] = { .text = "Process {1} has changed its privileges: run "
						 "tsctl as root" },
	[REASON(IN_LIGHT_MODE)] = { .text = "Process {1} is in light mode: 'tsctl detach {1}' ends "
					    "that, then it can be attached" },
	[REASON(BEING_RECORDED)] = { .text = "Process {1} is already being recorded: see 'tsctl "
					     "ps'; 'tsctl detach {1}' stops it" },
	[REASON(BAD_BUDGET)] = { .text = "A budget is above 0% and below 100%, e.g. 5% or 0.5%, or "
					 "'none', or 'default'" },
	[REASON(NOT_IN_WINDOWS)] = { .text = "Process {1} is recorded exactly, which takes each of "
					     "its calls: 'tsctl detach {1}' ends that" },
	[REASON(NOT_ATTACHED)] = { .text = "Process {1} is not attached: see 'tsctl ps'" },
	[REASON(NO_PROCESS)] = { .text = "Process {1} does not exist: use the pid on the host "
					 "('tsctl ps')" },
};

/* Of a query that this tsctl knows: tracesmithd is older, or too new to have it still. */
static const struct wording other_version = {
	.text = "tracesmithd is of another version and lacks the query '{1}': restart it if it was "
		"upgraded, or use a tsctl of its version",
};

char *wording_options(const char *fields)
{
	char *text = NULL;
	size_t size;
	FILE *out = text_open(&text, &size);

	if (!out)
		return NULL;
	for (const char *at = fields; *at; at++) {
		if (at == fields || at[-1] == ' ')
			fputs("--", out);
		fputc(*at == '_' ? '-' : *at, out);
	}
	if (text_close(out) == 0)
		return text;
	free(text);
	return NULL;
}

static char *word_options(const Tracesmith__V1__Remark *remark, const char *pattern, size_t from)
{
	const char *argument[ARGUMENTS];
	char *made[ARGUMENTS] = { NULL }, *text = NULL;
	const size_t count = remark->n_argument < ARGUMENTS ? remark->n_argument : ARGUMENTS;
	bool whole = true;

	for (size_t i = 0; i < count; i++) {
		if (i + 1 >= from)
			made[i] = wording_options(remark->argument[i]);
		whole = whole && (i + 1 < from || made[i]);
		argument[i] = made[i] ? made[i] : remark->argument[i];
	}
	if (whole)
		text = sentence_fill(pattern, argument, count);
	for (size_t i = 0; i < count; i++)
		free(made[i]);
	return text;
}

const struct wording *wording_find(size_t reason)
{
	return reason < ARRAY_SIZE(wordings) && wordings[reason].text ? &wordings[reason] : NULL;
}

static const struct wording *find(const Tracesmith__V1__Remark *remark)
{
	const size_t reason = remark->reason;

	if ((reason == REASON(NO_QUERY) || reason == REASON(NO_QUERY_NEAR)) &&
	    remark->n_argument > 0 && query_find(remark->argument[0]))
		return &other_version;
	return wording_find(reason);
}

static char *word(const Tracesmith__V1__Remark *remark, enum wording_place place)
{
	const struct wording *wording = find(remark);
	const char *pattern;

	if (!wording)
		return strdup(remark->text);
	pattern = place & WORDING_RECORDING && wording->recording ? wording->recording
								  : wording->text;
	if (place & WORDING_PAGE && (wording->options_from || strstr(pattern, "--")))
		return strdup(remark->text);
	if (wording->options_from)
		return word_options(remark, pattern, (size_t)wording->options_from);
	return sentence_fill(pattern, (const char *const *)remark->argument, remark->n_argument);
}

static int put(FILE *out, Tracesmith__V1__Remark *const *remark, size_t count,
	       enum wording_place place)
{
	for (size_t i = 0; i < count; i++) {
		_cleanup_(freep) char *text = word(remark[i], place);

		if (!text)
			return -ENOMEM;
		fprintf(out, "%s%s", i ? "; " : "", text);
	}
	return 0;
}

static int replace(char **text, Tracesmith__V1__Remark *const *remark, size_t count,
		   enum wording_place place)
{
	_cleanup_(freep) char *said = NULL;
	size_t size;
	FILE *out;
	int r;

	if (!count)
		return 0;
	out = text_open(&said, &size);
	if (!out)
		return -ENOMEM;
	r = put(out, remark, count, place);
	if (text_close(out) < 0 || r < 0)
		return -ENOMEM;
	if (*text != protobuf_c_empty_string)
		free(*text);
	*text = TAKE(said);
	return 0;
}

int wording_apply(Tracesmith__V1__Reply *reply, enum wording_place place)
{
	if (reply->body_case == TRACESMITH__V1__REPLY__BODY_ERROR)
		return replace(&reply->error->message, reply->error->remark, reply->error->n_remark,
			       place);
	if (reply->body_case == TRACESMITH__V1__REPLY__BODY_DONE)
		return replace(&reply->done->note, reply->done->remark, reply->done->n_remark,
			       place);
	return 0;
}
