/* Handler: what is done for each kind of request, one row each.
 * What reads the database becomes a job, the rest is answered at once. */
#include <string.h>
#include <time.h>

#include "daemon/api/internal.h"
#include "daemon/api/status.h"
#include "daemon/limits.h"
#include "proto/frame.h"

static void handle_hello(struct client *client, const Tracesmith__V1__Request *request)
{
	Tracesmith__V1__HelloReply hello = TRACESMITH__V1__HELLO_REPLY__INIT;
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;

	if (request->hello->protocol != TS_PROTOCOL) {
		client_refuse(client, TRACESMITH__V1__ERROR__CODE__BAD_REQUEST,
			      "tracesmithd " TS_VERSION
			      " speaks another protocol: use the tsctl of "
			      "that version");
		return;
	}
	hello.protocol = TS_PROTOCOL;
	hello.version = TS_VERSION;
	hello.now_ns = uv_hrtime();
	hello.wall_offset_ns = client->api->wall_offset_ns;
	hello.boot_id = client->api->boot_id;
	reply.id = request->id;
	reply.body_case = TRACESMITH__V1__REPLY__BODY_HELLO;
	reply.hello = &hello;
	client_reply(client, &reply);
}

static void add_own_status(const struct api *api, struct status_builder *builder)
{
	status_number(builder, "api", "clients", false, api->client_count, "%u", api->client_count);
	status_number(builder, "api", "queries", false, api->running_count + api->waiting_count,
		      "%u running, %u waiting", api->running_count, api->waiting_count);
	status_number(builder, "api", "refused", false, api->refused, "%llu",
		      (unsigned long long)api->refused);
}

static void handle_status(struct client *client, const Tracesmith__V1__Request *request)
{
	Tracesmith__V1__StatusReply status = TRACESMITH__V1__STATUS_REPLY__INIT;
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;
	struct status_builder builder = { 0 };
	struct api *api = client->api;

	api->callbacks.status(api->data, &builder);
	add_own_status(api, &builder);
	status.n_item = builder.count;
	status.item = builder.item;
	reply.id = request->id;
	reply.body_case = TRACESMITH__V1__REPLY__BODY_STATUS;
	reply.status = &status;
	if (builder.failed)
		client_error(client, request->id, TRACESMITH__V1__ERROR__CODE__INTERNAL,
			     "tracesmithd ran out of memory over its status");
	else
		client_reply(client, &reply);
	status_done(&builder);
}

static void handle_cancel(struct client *client, const Tracesmith__V1__Request *request)
{
	Tracesmith__V1__Done done = TRACESMITH__V1__DONE__INIT;
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;
	struct job *job = job_find(client, request->cancel->request);

	if (job)
		job_cancel(job);
	reply.id = request->id;
	reply.body_case = TRACESMITH__V1__REPLY__BODY_DONE;
	reply.done = &done;
	client_reply(client, &reply);
}

/* No function: it becomes a job. */
static const struct handler {
	bool known;
	void (*answer)(struct client *client, const Tracesmith__V1__Request *request);
} handlers[] = {
	[TRACESMITH__V1__REQUEST__BODY_HELLO] = { true, handle_hello },
	[TRACESMITH__V1__REQUEST__BODY_STATUS] = { true, handle_status },
	[TRACESMITH__V1__REQUEST__BODY_CANCEL] = { true, handle_cancel },
	[TRACESMITH__V1__REQUEST__BODY_QUERY] = { true, NULL },
	[TRACESMITH__V1__REQUEST__BODY_SQL] = { true, NULL },
	[TRACESMITH__V1__REQUEST__BODY_EXPORT] = { true, NULL },
	[TRACESMITH__V1__REQUEST__BODY_LIST] = { true, NULL },
};

static bool add_job(struct client *client, Tracesmith__V1__Request *request)
{
	if (client->job_count >= LIMIT_CLIENT_REQUESTS) {
		client_error(client, request->id, TRACESMITH__V1__ERROR__CODE__LIMIT,
			     "Too many requests under way on this connection: wait for one to end");
		return false;
	}
	if (job_find(client, request->id)) {
		client_refuse(client, TRACESMITH__V1__ERROR__CODE__BAD_REQUEST,
			      "Two requests under way have the same id");
		return false;
	}
	if (job_add(client, request) < 0) {
		client_error(client, request->id, TRACESMITH__V1__ERROR__CODE__INTERNAL,
			     "tracesmithd has no memory for this request");
		return false;
	}
	return true;
}

void handler_call(struct client *client, Tracesmith__V1__Request *request)
{
	const size_t count = sizeof(handlers) / sizeof(handlers[0]);
	size_t body = request->body_case;

	if (request->id == 0) {
		client_refuse(client, TRACESMITH__V1__ERROR__CODE__BAD_REQUEST,
			      "A request needs an id that is not 0");
	} else if (body >= count || !handlers[body].known) {
		client_error(client, request->id, TRACESMITH__V1__ERROR__CODE__BAD_REQUEST,
			     "tracesmithd " TS_VERSION " does not know this kind of request");
	} else if (handlers[body].answer) {
		handlers[body].answer(client, request);
	} else if (add_job(client, request)) {
		return;
	}
	tracesmith__v1__request__free_unpacked(request, NULL);
}
