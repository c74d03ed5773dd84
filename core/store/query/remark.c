/* Remark: what each reason is to a program that does not know it: the code of an error, and a
 * sentence without the options or commands of any client. */
#include "core/store/query/remark.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/sentence.h"
#include "core/base/utf8.h"

#define CODE(name) TRACESMITH__V1__ERROR__CODE__##name

struct meaning {
	Tracesmith__V1__Error__Code code;
	const char *text;
};

static const struct meaning meanings[] = {
	[REASON(NO_QUERY)] = { CODE(NOT_FOUND), "Unknown query '{1}'" },
	[REASON(NO_QUERY_NEAR)] = { CODE(NOT_FOUND), "Unknown query '{1}', did you mean '{2}'?" },
	[REASON(QUERY_OPTION)] = { CODE(BAD_REQUEST),
				   "The query '{1}' does not take '{2}', only: {3}" },
	[REASON(QUERY_SPLIT)] = { CODE(BAD_REQUEST), "Rows can be split by stack, stream, line, "
						     "function, module or op, not by {1}" },
	[REASON(BAD_WINDOW)] = { CODE(BAD_REQUEST), "The window ends before it starts" },
	[REASON(UNKNOWN_PROCESS)] = { CODE(NOT_FOUND), "Process {1} has not used CUDA" },
	[REASON(UNKNOWN_USER)] = { CODE(NOT_FOUND), "No process of user '{1}' has used CUDA" },
	[REASON(QUERY_SORT)] = { CODE(BAD_REQUEST),
				 "The query '{1}' cannot be sorted by '{2}', only by: {3}" },
	[REASON(TOO_MANY_PIDS)] = { CODE(LIMIT), "Too many processes for one request" },
	[REASON(TOO_SLOW)] = { CODE(LIMIT), "The query took too long" },
	[REASON(TOO_SLOW_PID)] = { CODE(LIMIT), "The query took too long" },
	[REASON(TOO_SLOW_WINDOW)] = { CODE(LIMIT), "The query took too long" },
	[REASON(TOO_SLOW_SQL)] = { CODE(LIMIT), "The query took too long" },
	[REASON(LARGE_SUM)] = { CODE(INTERNAL),
				"A sum of impossibly large values does not fit into "
				"64 bits" },
	[REASON(LONG_VALUE)] = { CODE(LIMIT), "A value or the statement is too long" },
	[REASON(LONG_ROW)] = { CODE(LIMIT), "A row is too long to be sent" },
	[REASON(READ_ONLY)] = { CODE(DENIED), "Only reading is allowed: {1}" },
	[REASON(BAD_SQL)] = { CODE(BAD_REQUEST), "The statement failed: {1}" },
	[REASON(SQL_OWN)] = { CODE(DENIED), "tracesmithd's settings show you only your own "
					    "processes, which SQL cannot be held to: use the "
					    "queries" },
	[REASON(NO_SELECT)] = { CODE(DENIED), "Only reading is allowed: start with SELECT" },
	[REASON(NO_STATEMENT)] = { CODE(BAD_REQUEST), "The text has no statement" },
	[REASON(ONE_STATEMENT)] = { CODE(BAD_REQUEST), "Only one statement at a time" },
	[REASON(NO_UTF8)] = { CODE(BAD_REQUEST), "The statement is not valid UTF-8" },
	[REASON(UNREADABLE)] = { CODE(UNAVAILABLE), "The store cannot be read[: {1}]" },
	[REASON(NO_MEMORY)] = { CODE(INTERNAL), "Not enough memory for this request" },
	[REASON(QUERY_MEMORY)] = { CODE(LIMIT), "The query needs more than the {1} MiB of memory "
						"that one may have" },
	[REASON(QUERY_SCRATCH)] = { CODE(LIMIT), "The query sorts or groups more than {1} MiB, or "
						 "the disk is full" },
	[REASON(QUERY_ENDED)] = { CODE(UNAVAILABLE), "The process that answered the query {1}" },
	[REASON(QUERY_UNREAD)] = { CODE(LIMIT), "Nothing of the answer was read for {1} s while "
						"other queries waited" },
	[REASON(BOUND)] = { CODE(LIMIT), "{1}" },
	[REASON(BUSY_WINDOW)] = { CODE(LIMIT), "Too many operations are under way at one time" },
	[REASON(DAMAGED_CHUNK)] = { CODE(INTERNAL), "A stored chunk of operations is damaged" },

	[REASON(NO_MATCH)] = { 0, "None of {1} names matches" },
	[REASON(NONE_SEEN)] = { 0, "No process has used CUDA" },
	[REASON(ENDED)] = { 0, "Process {1} has ended, and this query covers running processes" },
	[REASON(NONE_RUNS)] = { 0, "No process uses CUDA now" },
	[REASON(NONE_IN_WINDOW)] = { 0, "No process used CUDA in the window" },
	[REASON(AFTER_WINDOW)] = { 0, "Process {1} was first seen after the window" },
	[REASON(BEFORE_WINDOW)] = { 0, "Process {1} ended before the window" },
	[REASON(PROBE_IN_WINDOW)] = { 0, "The exact tier did not cover[ process {1} in] the "
					 "window" },
	[REASON(NONE_EXACT)] = { 0, "No process was in the exact tier, which this needs" },
	[REASON(WAS_PROBE)] = { 0, "Process {1} was in the probe tier, which does not see this" },
	[REASON(IS_PROBE)] = { 0, "Process {1} is in the probe tier, which does not see this" },
	[REASON(OTHER_PROFILER)] = { 0, "Another profiler uses CUPTI in process {1}: collection "
					"resumes when it is done" },
	[REASON(NOT_RECORDED)] = { 0, "These records were not collected[ from process {2}]: {1}" },
	[REASON(ALL_YOUNG)] = { 0, "No live allocation[ of process {3}] is at least {1} old; "
				   "younger ones: {2}" },
	[REASON(NONE_GROWS)] = { 0,
				 "Nothing[ in process {2}] leaks or grows; live allocations: {1}" },
	[REASON(RETURNS_UNSEEN)] = { 0, "This is not known[ of process {1}]: calls were seen "
					"at their start only" },
	[REASON(NOT_WATCHED)] = { 0, "Not known[ of process {1}]: not all of the time was "
				     "watched, and nothing was seen in the rest" },
	[REASON(NOTHING)] = { 0, "{1}[ in process {2}][ on device {3}][ on stream {4}]"
				 "[ in the last {5}]" },
	[REASON(NOTHING_IN_WINDOW)] = { 0, "{1}[ in process {2}][ on device {3}]"
					   "[ on stream {4}] in the window" },
	[REASON(OLDER)] = { 0, "This answer is {1} s old: what happened since then is not in it "
			       "yet" },
	[REASON(OWN_ONLY)] = { 0, "tracesmithd's settings show you only your own processes" },
	[REASON(STILL_LOOKING)] = { 0, "still looking at the processes that were there before "
				       "tracesmithd, {1} to go: ask again in a few seconds" },
	[REASON(SET_ASIDE)] = { 0, "what was before is in tracesmith.db.damaged, since the "
				   "database was too damaged to be used" },
	[REASON(HIDDEN)] = { 0, "tracesmithd's settings hide all processes except those of {1}" },

	[REASON(PROTOCOL)] = { CODE(BAD_REQUEST), "tracesmithd {1} uses another protocol" },
	[REASON(NO_REQUEST)] = { CODE(BAD_REQUEST), "Unknown request" },
	[REASON(UNKNOWN_REQUEST)] = { CODE(BAD_REQUEST),
				      "tracesmithd {1} does not know this request" },
	[REASON(UNKNOWN_RECORDS)] = { CODE(BAD_REQUEST),
				      "tracesmithd {1} does not know these records" },
	[REASON(USER_DENIED)] = { CODE(DENIED), "User {1} may not use tracesmithd: only root and "
						"the group '{2}' may" },
	[REASON(OTHER_USER)] = { CODE(DENIED), "Process {1} belongs to another user" },
	[REASON(PRIVILEGED)] = { CODE(DENIED), "Process {1} has more privileges than its user, or "
					       "is closed to debuggers" },
	[REASON(NO_PROCESS)] = { CODE(NOT_FOUND), "Process {1} does not exist on the host" },

	[REASON(ATTACH_FAILED)] = { CODE(INTERNAL), "{1}" },
	[REASON(UNSUPPORTED)] = { CODE(BAD_REQUEST), "{1}" },
	[REASON(PROCESS_ENDED)] = { CODE(NOT_FOUND), "Process {1} has ended" },
	[REASON(PROGRAM_CHANGED)] = { CODE(NOT_FOUND), "Process {1} has started another program" },
	[REASON(PID_REUSED)] = { CODE(NOT_FOUND), "Process {1} has ended, and its pid now belongs "
						  "to another process" },
	[REASON(THREAD_ID)] = { CODE(NOT_FOUND), "{1} is a thread of process {2}: give the pid of "
						 "the process" },
	[REASON(NEVER_ATTACHED)] = { CODE(DENIED), "Process {1} is {2}, which tracesmithd never "
						   "attaches to" },
	[REASON(ZOMBIE)] = { CODE(NOT_FOUND), "Process {1} ({2}) has ended and waits for its "
					      "parent to collect its exit status" },
	[REASON(TRACED)] = { CODE(DENIED), "Process {1} is traced by process {2}[ ({3})]: end that "
					   "tracer first" },
	[REASON(STOPPED)] = { CODE(UNAVAILABLE), "Process {1} is stopped: continue it (kill -CONT "
						 "{1}) and try again" },
	[REASON(NO_CUDA)] = { CODE(NO_CUDA), "Process {1} does not use CUDA (libcuda.so is not "
					     "mapped): try again when it does" },
	[REASON(SECCOMP)] = { CODE(BAD_REQUEST),
			      "Process {1} has a seccomp filter[ (thread {2}, '{3}')], which may "
			      "kill it during attaching; the filters of Docker and Kubernetes do "
			      "not" },
	[REASON(SHADOW_STACK)] = { CODE(BAD_REQUEST),
				   "Process {1} uses a shadow stack, which prevents attaching: "
				   "start it without GLIBC_TUNABLES=glibc.cpu.x86_shstk" },
	[REASON(PTRACE_SCOPE)] = { CODE(DENIED), "Cannot attach to process {1}: "
						 "kernel.yama.ptrace_scope is 3, which forbids it "
						 "until the next boot" },
	[REASON(NO_PTRACE)] = { CODE(DENIED), "No permission to trace process {1}: run tracesmithd "
					      "with CAP_SYS_PTRACE in a user namespace that owns "
					      "it" },
	[REASON(TRACE_REFUSED)] = { CODE(DENIED), "The kernel does not let tracesmithd trace "
						  "process {1}: another tracer was first, or "
						  "CAP_SYS_PTRACE is missing" },
	[REASON(PRIVILEGES_CHANGED)] = { CODE(DENIED), "Process {1} has changed its privileges" },
	[REASON(NO_FREE_THREAD)] = { CODE(UNAVAILABLE),
				     "No thread of process {1} was free within {2} ms: all were "
				     "loading libraries, allocating memory, inside the driver or "
				     "had descriptors of their own; "
				     "try again" },
	[REASON(THREAD_WAITS)] = { CODE(UNAVAILABLE),
				   "Thread {2} ('{3}') of process {1} waits in {4}(), which would "
				   "end half done if it was stopped: try again when {5}" },
	[REASON(OTHER_DAEMON)] = { CODE(BAD_REQUEST), "Process {1} already carries the library, "
						      "connected to another daemon" },
	[REASON(BEING_ATTACHED)] = { CODE(BAD_REQUEST), "Process {1} is already being attached" },
	[REASON(NOT_YET_ATTACHED)] = { CODE(UNAVAILABLE), "Process {1} is being attached: try "
							  "again in a moment" },
	[REASON(BEING_DETACHED)] = { CODE(UNAVAILABLE), "Process {1} is being detached: "
							"try again in a moment" },
	[REASON(IN_LIGHT_MODE)] = { CODE(BAD_REQUEST), "Process {1} is in light mode" },
	[REASON(BEING_RECORDED)] = { CODE(BAD_REQUEST), "Process {1} is already being recorded" },
	[REASON(NOT_ATTACHED)] = { CODE(NOT_FOUND), "Process {1} is not attached" },
	[REASON(CANNOT_RECORD)] = { CODE(INTERNAL), "Cannot record process {1}: {2}" },
	[REASON(NO_LIBRARY)] = { CODE(INTERNAL), "Cannot open the library '{1}': {2}; is it "
						 "installed?" },
	[REASON(NO_ANSWER)] = { CODE(INTERNAL), "The library was loaded into process {1} but does "
						"not answer: try again unless the process is "
						"stopped or has started another program" },
	[REASON(LIBRARY_GONE)] = { CODE(NOT_FOUND), "Process {1} has ended or no longer carries "
						    "the library" },
	[REASON(NOT_DETACHING)] = { CODE(INTERNAL), "Process {1} does not answer the request to "
						    "detach: is it stopped?" },
	[REASON(STOPPING)] = { CODE(UNAVAILABLE), "tracesmithd is stopping" },
	[REASON(NO_ATTACHING)] = { CODE(UNAVAILABLE), "This tracesmithd cannot attach to "
						      "processes" },

	[REASON(BAD_BUDGET)] = { CODE(BAD_REQUEST), "A budget is above 0 % and below 100 %" },
	[REASON(NO_WINDOWS)] = { CODE(UNAVAILABLE),
				 "This kernel has no links to single processes (Linux 6.10 has "
				 "them): every process is watched all the time, and what it pays "
				 "is only estimated" },
	[REASON(NO_HOT_CALLS)] = { CODE(UNAVAILABLE),
				   "Process {1} makes no launches or other frequent calls: there "
				   "is nothing to switch off and on" },
	[REASON(NO_PACE)] = { CODE(UNAVAILABLE),
			      "Process {1} makes too few synchronizations, allocations or other "
			      "rare calls for its pace to be seen: what it pays is only "
			      "estimated" },
	[REASON(NOT_IN_WINDOWS)] = { CODE(UNAVAILABLE),
				     "Process {1} is recorded exactly, which takes each of its "
				     "calls: detach it first" },
	[REASON(PAUSED_PROCESS)] = { CODE(UNAVAILABLE),
				     "Process {1} is stopped, so it has no pace: continue it "
				     "(kill -CONT {1}) and try again" },
	[REASON(NO_MAPPING)] = { CODE(UNAVAILABLE),
				 "Which driver library process {1} uses is unknown: try again in "
				 "a few seconds" },

	[REASON(KERNEL_THREAD)] = { CODE(BAD_REQUEST), "Process {1} is a thread of the kernel, "
						       "which has no stack of a program" },
	[REASON(STACK_SLOW)] = { CODE(UNAVAILABLE), "Process {1} cannot be read: its memory or its "
						    "files have not answered for {2} s" },
	[REASON(TOO_MANY_VIEWERS)] = { CODE(LIMIT), "This user has too many subscriptions: end "
						    "some and try again" },
	[REASON(STACKS_BUSY)] = { CODE(LIMIT), "Too many processes are being read at once, or do "
					       "not answer: try again in a moment" },
};

static const struct meaning *meaning_of(Tracesmith__V1__Remark__Reason reason)
{
	static const struct meaning none = { CODE(INTERNAL), "" };

	if ((size_t)reason >= ARRAY_SIZE(meanings) || !meanings[reason].text)
		return &none;
	return &meanings[reason];
}

Tracesmith__V1__Error__Code remark_code(Tracesmith__V1__Remark__Reason reason)
{
	return meaning_of(reason)->code;
}

const char *remark_number(char text[REMARK_NUMBER_SIZE], uint64_t number)
{
	snprintf(text, REMARK_NUMBER_SIZE, "%" PRIu64, number);
	return text;
}

static char *clean(struct arena *arena, const char *text)
{
	const size_t size = strlen(text);
	char *out = arena_get(arena, 3 * size + 1);

	if (out)
		utf8_clean(out, text, size);
	return out;
}

static char *word(struct arena *arena, const Tracesmith__V1__Remark *remark)
{
	_cleanup_(freep) char *text =
		sentence_fill(meaning_of(remark->reason)->text,
			      (const char *const *)remark->argument, remark->n_argument);

	return text ? arena_text(arena, text, strlen(text)) : NULL;
}

int remarks_add_list(struct remarks *remarks, Tracesmith__V1__Remark__Reason reason,
		     va_list arguments)
{
	struct arena *arena = &remarks->arena;
	Tracesmith__V1__Remark *remark = arena_get(arena, sizeof(*remark));
	char **argument = arena_get(arena, REMARK_ARGUMENTS_MAX * sizeof(*argument));
	const char *text;

	if (!remark || !argument)
		return -ENOMEM;
	if (remarks->count == REMARKS_MAX)
		return -ENOBUFS;
	tracesmith__v1__remark__init(remark);
	remark->reason = reason;
	remark->argument = argument;
	while (remark->n_argument < REMARK_ARGUMENTS_MAX &&
	       (text = va_arg(arguments, const char *))) {
		argument[remark->n_argument] = clean(arena, text);
		if (!argument[remark->n_argument++])
			return -ENOMEM;
	}
	remark->text = word(arena, remark);
	if (!remark->text)
		return -ENOMEM;
	remarks->item[remarks->count++] = remark;
	return 0;
}

int remarks_add(struct remarks *remarks, Tracesmith__V1__Remark__Reason reason, ...)
{
	va_list arguments;
	int r;

	va_start(arguments, reason);
	r = remarks_add_list(remarks, reason, arguments);
	va_end(arguments);
	return r;
}

char *remarks_text(struct remarks *remarks)
{
	size_t size = 1;
	char *text, *end;

	for (size_t i = 0; i < remarks->count; i++)
		size += strlen(remarks->item[i]->text) + 2;
	text = end = arena_get(&remarks->arena, size);
	if (!text)
		return NULL;
	*end = '\0';
	for (size_t i = 0; i < remarks->count; i++)
		end += sprintf(end, "%s%s", i ? "; " : "", remarks->item[i]->text);
	return text;
}

void remarks_clear(struct remarks *remarks)
{
	arena_clear(&remarks->arena);
	*remarks = (struct remarks){ 0 };
}
