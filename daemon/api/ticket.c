/* Ticket: a request that another part of the daemon answers, later or at once. It is in
 * api->tickets until it is answered or the api is gone, and in client->tickets while somebody waits
 * for the answer. Only answering it frees it. */
#include <stdlib.h>

#include "core/base/cleanup.h"
#include "daemon/api/internal.h"
#include "daemon/limits.h"

struct api_ticket {
	struct list link, client_link;
	struct api *api;       /* NULL: gone */
	struct client *client; /* NULL: nobody waits */
	uint64_t id, asked_ns;
	uid_t uid;
};

struct api_ticket *ticket_add(struct client *client, uint64_t id)
{
	struct api *api = client->api;
	struct api_ticket *ticket;

	if (!quota_take(&api->ticket_share, client->uid, 1)) {
		client_error(client, id, TRACESMITH__V1__ERROR__CODE__LIMIT,
			     "Too many attach, detach and stack requests at once: try again in a "
			     "moment");
		return NULL;
	}
	ticket = calloc(1, sizeof(*ticket));
	if (!ticket) {
		quota_give(&api->ticket_share, client->uid, 1);
		client_fail(client, id, REASON(NO_MEMORY), NULL);
		return NULL;
	}
	*ticket = (struct api_ticket){
		.api = api, .client = client, .id = id, .asked_ns = uv_hrtime(), .uid = client->uid
	};
	list_append(&api->tickets, &ticket->link);
	list_append(&client->tickets, &ticket->client_link);
	client->ticket_count++;
	return ticket;
}

struct api_ticket *ticket_find(struct client *client, uint64_t id)
{
	struct api_ticket *ticket;

	list_for_each(ticket, &client->tickets, client_link)
		if (ticket->id == id)
			return ticket;
	return NULL;
}

static void ticket_detach(struct api_ticket *ticket)
{
	struct client *client = ticket->client;

	if (!client)
		return;
	list_remove(&ticket->client_link);
	client->ticket_count--;
	ticket->client = NULL;
}

void tickets_detach(struct client *client)
{
	struct api_ticket *ticket;

	list_for_each(ticket, &client->tickets, client_link)
		ticket_detach(ticket);
}

void ticket_cancel(struct api_ticket *ticket)
{
	struct client *client = ticket->client;

	ticket_detach(ticket);
	client_error(client, ticket->id, TRACESMITH__V1__ERROR__CODE__CANCELLED,
		     "The request was cancelled; a step already started still completes");
}

void tickets_orphan(struct api *api)
{
	struct api_ticket *ticket;

	while ((ticket = list_first(&api->tickets, struct api_ticket, link))) {
		list_remove(&ticket->link);
		quota_give(&api->ticket_share, ticket->uid, 1);
		ticket->api = NULL;
	}
}

bool api_ticket_wanted(const struct api_ticket *ticket)
{
	return ticket->client;
}

/* Takes the ticket out of all lists before anything is written: a write that fails at once closes
 * the client, and with it its tickets. */
static struct client *take_client(struct api_ticket *ticket)
{
	struct client *client = ticket->client;

	ticket_detach(ticket);
	if (ticket->api) {
		list_remove(&ticket->link);
		quota_give(&ticket->api->ticket_share, ticket->uid, 1);
	}
	ticket->api = NULL;
	return client;
}

static void answer(struct api_ticket *ticket, Tracesmith__V1__Reply *reply)
{
	struct client *client = take_client(ticket);

	reply->id = ticket->id;
	if (client)
		client_reply(client, reply);
	free(ticket);
}

void api_attach_done(struct api_ticket *ticket, const struct api_attach_result *result)
{
	Tracesmith__V1__AttachReply body = TRACESMITH__V1__ATTACH_REPLY__INIT;
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;

	body.stopped_ns = result->stopped_ns;
	body.stops = result->stops;
	body.ready_ns = uv_hrtime() - ticket->asked_ns;
	body.library = (char *)(result->library ? result->library : "");
	body.cupti_version = result->cupti_version;
	body.records = result->records;
	body.stacks = result->stacks;
	body.budget_ppm = result->budget_ppm;
	body.functions = result->functions;
	body.n_note = result->note_count;
	body.note = (char **)result->note;
	reply.body_case = TRACESMITH__V1__REPLY__BODY_ATTACH;
	reply.attach = &body;
	answer(ticket, &reply);
}

void api_detach_done(struct api_ticket *ticket, const struct api_detach_result *result)
{
	Tracesmith__V1__DetachReply body = TRACESMITH__V1__DETACH_REPLY__INIT;
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;

	body.stopped_ns = result->stopped_ns;
	body.records = result->records;
	body.lost = result->lost;
	body.unloaded = result->unloaded;
	body.n_note = result->note_count;
	body.note = (char **)result->note;
	reply.body_case = TRACESMITH__V1__REPLY__BODY_DETACH;
	reply.detach = &body;
	answer(ticket, &reply);
}

void api_stack_done(struct api_ticket *ticket, void *stack, size_t size)
{
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;
	ProtobufCMessageUnknownField field = { .tag = TRACESMITH__V1__REPLY__BODY_STACK,
					       .wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED,
					       .len = size,
					       .data = stack };

	/* It goes on as it is: to unpack it for that would take the loop's time. */
	reply.base.unknown_fields = &field;
	reply.base.n_unknown_fields = 1;
	answer(ticket, &reply);
}

void api_ticket_fail_for(struct api_ticket *ticket, const struct remarks *why)
{
	struct client *client = take_client(ticket);

	if (client)
		client_fail_for(client, ticket->id, why);
	free(ticket);
}

void api_ticket_fail(struct api_ticket *ticket, Tracesmith__V1__Remark__Reason reason, ...)
{
	_cleanup_(remarks_clear) struct remarks why = { 0 };
	va_list arguments;

	va_start(arguments, reason);
	remarks_add_list(&why, reason, arguments);
	va_end(arguments);
	api_ticket_fail_for(ticket, &why);
}
