/* tsctl attach: asks the daemon to load the library into a process, and reports the result. With
 * --wait it asks again as long as the process does not use CUDA. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/base/argument.h"
#include "client/link/link.h"
#include "client/output/json.h"
#include "client/output/note.h"
#include "client/verbs/command.h"
#include "core/base/clock.h"
#include "core/base/time.h"
#include "core/base/units.h"

#define PPM_PER_PERCENT 1e4
#define RETRY_MS	200
/* From here on CUPTI's versions are those of CUDA: 130001 is 13.0.1. */
#define DATED_FROM 100000

static int ask_once(struct link *link, const struct options *options, uint32_t pid,
		    Tracesmith__V1__Reply **ret)
{
	Tracesmith__V1__AttachRequest attach = TRACESMITH__V1__ATTACH_REQUEST__INIT;
	int r;

	attach.pid = pid;
	attach.records = options->records;
	attach.stacks = options->stacks;
	attach.budget_ppm = options->budget_ppm;
	attach.light = (options->given & OPTION(LIGHT)) != 0;
	attach.seccomp = (options->given & OPTION(SECCOMP)) != 0;
	r = link_send(link, &attach.base);
	return r < 0 ? r : link_next_or_error(link, ret);
}

static bool uses_no_cuda(const Tracesmith__V1__Reply *reply)
{
	return reply->body_case == TRACESMITH__V1__REPLY__BODY_ERROR &&
	       reply->error->code == TRACESMITH__V1__ERROR__CODE__NO_CUDA;
}

/* Until the process uses CUDA, or the daemon gives another answer. */
static int ask_until(struct link *link, const struct options *options, uint32_t pid,
		     Tracesmith__V1__Reply **ret)
{
	const struct timespec retry = { .tv_nsec = RETRY_MS * NS_PER_MS };
	const bool show = isatty(STDERR_FILENO);
	const uint64_t began_ns = clock_ns(CLOCK_MONOTONIC);
	uint64_t waited_ns = 0;
	bool shown = false;
	int r;

	while ((r = ask_once(link, options, pid, ret)) >= 0 && uses_no_cuda(*ret) &&
	       (options->given & OPTION(WAIT)) &&
	       (options->wait_ns == 0 || waited_ns < options->wait_ns)) {
		if (show)
			fprintf(stderr, "\rWaiting for process %u to use CUDA, %" PRIu64 " s ", pid,
				waited_ns / NS_PER_S);
		shown = show;
		reply_free(*ret);
		*ret = NULL;
		nanosleep(&retry, NULL);
		waited_ns = clock_ns(CLOCK_MONOTONIC) - began_ns;
	}
	if (shown)
		fputs("\r\033[K", stderr);
	return r;
}

static void write_version(uint32_t version)
{
	if (version < DATED_FROM)
		printf("libcupti of API version %u", version);
	else
		printf("libcupti %u.%u.%u", version / 10000, version / 100 % 100, version % 100);
}

static void write_text(uint32_t pid, const Tracesmith__V1__AttachReply *attach)
{
	char stopped[UNITS_TEXT_SIZE], ready[UNITS_TEXT_SIZE], records[RECORDS_TEXT_MAX];

	if (attach->functions && !attach->records) {
		printf("Attached to process %u: paused for %s; its calls of %u functions are "
		       "reported from inside after %s\n",
		       pid, units_nanoseconds(stopped, (int64_t)attach->stopped_ns),
		       attach->functions, units_nanoseconds(ready, (int64_t)attach->ready_ns));
		notes_text(attach->n_note, attach->note);
		return;
	}
	records_text(attach->records, records);
	units_nanoseconds(stopped, (int64_t)attach->stopped_ns);
	units_nanoseconds(ready, (int64_t)attach->ready_ns);
	if (attach->cupti_version)
		printf("Attached to process %u: paused for %s; recording started after %s\n", pid,
		       stopped, ready);
	else
		printf("Attached to process %u: paused for %s; it is not recorded yet\n", pid,
		       stopped);
	printf("%s: %s; call stacks of launches: %s",
	       attach->cupti_version ? "Recording" : "To be recorded", records,
	       stacks_text(attach->stacks));
	if (attach->budget_ppm)
		printf("; budget: %.4g %%", attach->budget_ppm / PPM_PER_PERCENT);
	putchar('\n');
	if (attach->cupti_version) {
		write_version(attach->cupti_version);
		printf(" from %s\n", attach->library);
	}
	if (attach->functions)
		printf("Calls of %u functions are reported from inside the process\n",
		       attach->functions);
	notes_text(attach->n_note, attach->note);
}

static void write_json(uint32_t pid, const Tracesmith__V1__AttachReply *attach)
{
	printf("{\"pid\":%u,\"stopped_ns\":%" PRIu64 ",\"stops\":%u,\"ready_ns\":%" PRIu64
	       ",\"library\":",
	       pid, attach->stopped_ns, attach->stops, attach->ready_ns);
	json_string(stdout, attach->library);
	printf(",\"cupti_version\":%u,\"records\":", attach->cupti_version);
	records_json(attach->records);
	printf(",\"stacks\":\"%s\",\"budget\":", stacks_text(attach->stacks));
	printf(attach->budget_ppm ? "%u" : "null", attach->budget_ppm);
	printf(",\"light_functions\":%u,", attach->functions);
	notes_json(attach->n_note, attach->note);
	puts("}");
}

int cmd_attach(const struct options *options, int count, char **argument)
{
	_cleanup_(link_freep) struct link *link = NULL;
	_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;
	uint32_t pid;

	if (argument_pid(argument[0], &pid) < 0)
		return EXIT_USAGE;
	if (link_open(options, &link) < 0 || ask_until(link, options, pid, &reply) < 0)
		return EXIT_FAILED;
	if (reply->body_case == TRACESMITH__V1__REPLY__BODY_ERROR)
		return complain("%s", reply->error->message);
	if (reply->body_case != TRACESMITH__V1__REPLY__BODY_ATTACH)
		return complain("Unexpected answer from the daemon");
	if (options->given & OPTION(JSON))
		write_json(pid, reply->attach);
	else
		write_text(pid, reply->attach);
	return EXIT_DONE;
}
