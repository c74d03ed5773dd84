/* tsctl status: what the daemon says of itself, by section for a person, as a table for programs.
 */
#include <string.h>

#include "client/command.h"
#include "client/items.h"
#include "client/link.h"

static int ask_status(struct link *link, Tracesmith__V1__Reply **ret)
{
	Tracesmith__V1__StatusRequest status = TRACESMITH__V1__STATUS_REQUEST__INIT;
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;
	int r;

	request.body_case = TRACESMITH__V1__REQUEST__BODY_STATUS;
	request.status = &status;
	r = link_send(link, &request);
	return r < 0 ? r : link_next(link, ret);
}

int cmd_status(const struct options *options, int count, char **argument)
{
	_cleanup_(link_freep) struct link *link = NULL;
	_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;
	int r;

	if (link_open(options, &link) < 0 || ask_status(link, &reply) < 0)
		return EXIT_FAILED;
	if (reply->body_case != TRACESMITH__V1__REPLY__BODY_STATUS)
		return complain("The daemon did not answer with its status");
	r = items_write(options, "status", reply->status);
	return r < 0 ? complain("Cannot write the status: %s", strerror(-r)) : EXIT_DONE;
}
