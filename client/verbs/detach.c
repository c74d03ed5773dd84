/* tsctl detach: asks the daemon to unload the library from a process, and reports the result. */
#include <inttypes.h>
#include <stdio.h>

#include "client/base/argument.h"
#include "client/link/link.h"
#include "client/output/note.h"
#include "client/verbs/command.h"
#include "core/base/units.h"

static int ask_detach(struct link *link, uint32_t pid, Tracesmith__V1__Reply **ret)
{
	Tracesmith__V1__DetachRequest detach = TRACESMITH__V1__DETACH_REQUEST__INIT;

	detach.pid = pid;
	return link_single(link, &detach.base, TRACESMITH__V1__REPLY__BODY_DETACH, ret);
}

static void write_text(uint32_t pid, const Tracesmith__V1__DetachReply *detach)
{
	char stopped[UNITS_TEXT_SIZE];

	printf("Detached from process %u after %" PRIu64 " records, %" PRIu64 " of them lost\n",
	       pid, detach->records, detach->lost);
	if (!detach->unloaded)
		puts("The library stays loaded, but inactive");
	else if (detach->stopped_ns)
		printf("The library was unloaded; the process was paused for %s\n",
		       units_nanoseconds(stopped, (int64_t)detach->stopped_ns));
	else
		puts("The library was unloaded");
	notes_text(detach->n_note, detach->note);
}

static void write_json(uint32_t pid, const Tracesmith__V1__DetachReply *detach)
{
	printf("{\"pid\":%u,\"stopped_ns\":%" PRIu64 ",\"records\":%" PRIu64 ",\"lost\":%" PRIu64
	       ",\"unloaded\":%s,",
	       pid, detach->stopped_ns, detach->records, detach->lost,
	       detach->unloaded ? "true" : "false");
	notes_json(detach->n_note, detach->note);
	puts("}");
}

int cmd_detach(const struct options *options, int count, char **argument)
{
	_cleanup_(link_freep) struct link *link = NULL;
	_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;
	uint32_t pid;

	if (argument_pid(argument[0], &pid) < 0)
		return EXIT_USAGE;
	if (link_open(options, &link) < 0 || ask_detach(link, pid, &reply) < 0)
		return EXIT_FAILED;
	if (options->given & OPTION(JSON))
		write_json(pid, reply->detach);
	else
		write_text(pid, reply->detach);
	return EXIT_DONE;
}
