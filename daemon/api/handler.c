/* Handler: one row for each kind of request. A request that reads the database becomes a job, one
 * for another part of the daemon gets a ticket, the rest is answered at once. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "core/base/array.h"
#include "daemon/api/internal.h"
#include "daemon/api/status.h"
#include "daemon/api/target.h"
#include "daemon/limits.h"
#include "proto/event.h"
#include "proto/frame.h"

#define BAD_REQUEST TRACESMITH__V1__ERROR__CODE__BAD_REQUEST
#define PPM	    1000000

static void handle_hello(struct client *client, const Tracesmith__V1__Request *request)
{
	Tracesmith__V1__HelloReply hello = TRACESMITH__V1__HELLO_REPLY__INIT;
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;

	if (request->hello->protocol != TS_PROTOCOL) {
		client_refuse_for(client, REASON(PROTOCOL), TS_VERSION, NULL);
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
	if (api->died)
		status_number(builder, "api", "queries_died",
			      uv_now(api->loop) - api->died_ms < API_WARNS_MS, (int64_t)api->died,
			      "%llu were killed or crashed", (unsigned long long)api->died);
	status_number(builder, "api", "refused", false, api->refused, "%llu",
		      (unsigned long long)api->refused);
}

static void handle_status(struct client *client, const Tracesmith__V1__Request *request)
{
	Tracesmith__V1__StatusReply status = TRACESMITH__V1__STATUS_REPLY__INIT;
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;
	struct status_builder builder = { .user = client->uid, .own = client_sees_own(client) };
	struct api *api = client->api;

	api->callbacks.status(api->data, &builder);
	add_own_status(api, &builder);
	status.n_item = builder.count;
	status.item = builder.item;
	reply.id = request->id;
	reply.body_case = TRACESMITH__V1__REPLY__BODY_STATUS;
	reply.status = &status;
	if (builder.failed)
		client_fail(client, request->id, REASON(NO_MEMORY), NULL);
	else
		client_reply(client, &reply);
	status_done(&builder);
}

static void handle_cancel(struct client *client, const Tracesmith__V1__Request *request)
{
	Tracesmith__V1__Done done = TRACESMITH__V1__DONE__INIT;
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;
	struct job *job = job_find(client, request->cancel->request);
	struct api_ticket *ticket = ticket_find(client, request->cancel->request);
	struct subscription *subscription = subscription_find(client, request->cancel->request);

	if (job)
		job_cancel(job);
	if (ticket)
		ticket_cancel(ticket);
	if (subscription)
		subscription_cancel(subscription);
	reply.id = request->id;
	reply.body_case = TRACESMITH__V1__REPLY__BODY_DONE;
	reply.done = &done;
	client_reply(client, &reply);
}

/* Whether this client may have one more open request, with this id. */
static bool has_room(struct client *client, uint64_t id)
{
	if (client->job_count + client->ticket_count + client->subscription_count >=
	    LIMIT_CLIENT_REQUESTS) {
		client_error(client, id, TRACESMITH__V1__ERROR__CODE__LIMIT,
			     "Too many open requests on this connection: wait for one to finish");
		return false;
	}
	if (job_find(client, id) || ticket_find(client, id) || subscription_find(client, id)) {
		client_refuse(client, BAD_REQUEST, "Two open requests have the same id");
		return false;
	}
	return true;
}

/* The requested process, if the client has permission; otherwise the client was reported why
 * not. */
static bool find_target(struct client *client, uint64_t id, uint32_t pid, struct api_target *ret)
{
	Tracesmith__V1__Remark__Reason why;
	int r;

	*ret = (struct api_target){ .pid = pid, .uid = client->uid, .asker = client->pid };
	if (pid == 0 || pid > TARGET_PID_MAX) {
		client_error(client, id, BAD_REQUEST, "Invalid process id");
		return false;
	}
	r = target_check(pid, client->uid, &ret->started_ticks, &why);
	if (r < 0)
		client_fail(client, id, why, REMARK_NUMBER(pid), NULL);
	return r == 0;
}

static bool is_sane(const Tracesmith__V1__AttachRequest *request)
{
	return !(request->records & ~TS_RECORDS_ALL) && request->stacks <= TS_STACKS_ALL &&
	       (request->budget_ppm < PPM || request->budget_ppm == TS_BUDGET_NONE);
}

static void handle_attach(struct client *client, const Tracesmith__V1__Request *request)
{
	struct api_attach attach = {
		.wanted = { .records = request->attach->records,
			    .stacks = request->attach->stacks,
			    .budget_ppm = request->attach->budget_ppm,
			    .light = request->attach->light },
		.seccomp = request->attach->seccomp,
	};
	struct api *api = client->api;
	struct api_ticket *ticket;

	if (!has_room(client, request->id))
		return;
	if (!is_sane(request->attach)) {
		client_fail(client, request->id, REASON(UNKNOWN_RECORDS), TS_VERSION, NULL);
		return;
	}
	if (!find_target(client, request->id, request->attach->pid, &attach.target))
		return;
	ticket = ticket_add(client, request->id);
	if (!ticket)
		return;
	if (api->callbacks.attach)
		api->callbacks.attach(api->data, ticket, &attach);
	else
		api_ticket_fail(ticket, REASON(NO_ATTACHING), NULL);
}

/* For what another part of the daemon does to a process, or finds out about it. NULL: the client
 * was told why not. */
static struct api_ticket *ticket_for(struct client *client, uint64_t id, uint32_t pid,
				     struct api_target *ret)
{
	if (!has_room(client, id) || !find_target(client, id, pid, ret))
		return NULL;
	return ticket_add(client, id);
}

static void handle_detach(struct client *client, const Tracesmith__V1__Request *request)
{
	struct api *api = client->api;
	struct api_target target;
	struct api_ticket *ticket = ticket_for(client, request->id, request->detach->pid, &target);

	if (!ticket)
		return;
	if (api->callbacks.detach)
		api->callbacks.detach(api->data, ticket, &target);
	else
		api_ticket_fail(ticket, REASON(NO_ATTACHING), NULL);
}

static void handle_stack(struct client *client, const Tracesmith__V1__Request *request)
{
	const Tracesmith__V1__StackRequest *stack = request->stack;
	const struct api_stack wanted = { .locals = stack->locals, .native = stack->native };
	struct api *api = client->api;
	struct api_target target;
	struct api_ticket *ticket = ticket_for(client, request->id, stack->pid, &target);

	if (!ticket)
		return;
	if (api->callbacks.stack)
		api->callbacks.stack(api->data, ticket, &target, &wanted);
	else
		api_ticket_fail(ticket, REASON(UNKNOWN_REQUEST), TS_VERSION, NULL);
}

static void handle_subscribe(struct client *client, const Tracesmith__V1__Request *request)
{
	if (has_room(client, request->id))
		subscription_add(client, request->id);
}

static void handle_budget(struct client *client, const Tracesmith__V1__Request *request)
{
	Tracesmith__V1__BudgetReply body = TRACESMITH__V1__BUDGET_REPLY__INIT;
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;
	const Tracesmith__V1__BudgetRequest *asked = request->budget;
	Tracesmith__V1__Remark__Reason why = REASON(UNKNOWN_REQUEST);
	struct api *api = client->api;
	struct api_budget_result result = { 0 };
	struct api_budget budget = {
		.budget_ppm = asked->budget_ppm,
		.reset = asked->reset,
		.recording = asked->recording,
		.for_ns = asked->for_ns,
	};

	if (asked->budget_ppm >= PPM) {
		client_fail(client, request->id, REASON(BAD_BUDGET), NULL);
		return;
	}
	if (!find_target(client, request->id, asked->pid, &budget.target))
		return;
	if (!api->callbacks.budget ||
	    api->callbacks.budget(api->data, &budget, &result, &why) < 0) {
		client_fail(client, request->id, why, REMARK_NUMBER(asked->pid), NULL);
		return;
	}
	body.budget_ppm = result.budget_ppm;
	body.setting_ppm = result.setting_ppm;
	body.for_ns = result.for_ns;
	body.n_note = result.note != NULL;
	body.note = (char **)&result.note;
	reply.id = request->id;
	reply.body_case = TRACESMITH__V1__REPLY__BODY_BUDGET;
	reply.budget = &body;
	client_reply(client, &reply);
}

static void handle_measure(struct client *client, const Tracesmith__V1__Request *request)
{
	Tracesmith__V1__MeasureReply body = TRACESMITH__V1__MEASURE_REPLY__INIT;
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;
	Tracesmith__V1__Remark__Reason why = REASON(UNKNOWN_REQUEST);
	const Tracesmith__V1__MeasureRequest *asked = request->measure;
	struct api_measure_result result = { 0 };
	struct api *api = client->api;
	struct api_target target;

	if (!find_target(client, request->id, asked->pid, &target))
		return;
	if (!api->callbacks.measure ||
	    api->callbacks.measure(api->data, &target, asked->start, &result, &why) < 0) {
		client_fail(client, request->id, why, REMARK_NUMBER(asked->pid), NULL);
		return;
	}
	body.busy = result.busy;
	body.turns = result.turns;
	body.wanted = result.wanted;
	reply.id = request->id;
	reply.body_case = TRACESMITH__V1__REPLY__BODY_MEASURE;
	reply.measure = &body;
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
	[TRACESMITH__V1__REQUEST__BODY_ATTACH] = { true, handle_attach },
	[TRACESMITH__V1__REQUEST__BODY_DETACH] = { true, handle_detach },
	[TRACESMITH__V1__REQUEST__BODY_BUDGET] = { true, handle_budget },
	[TRACESMITH__V1__REQUEST__BODY_MEASURE] = { true, handle_measure },
	[TRACESMITH__V1__REQUEST__BODY_STACK] = { true, handle_stack },
	[TRACESMITH__V1__REQUEST__BODY_SUBSCRIBE] = { true, handle_subscribe },
	[TRACESMITH__V1__REQUEST__BODY_QUERY] = { true, NULL },
	[TRACESMITH__V1__REQUEST__BODY_SQL] = { true, NULL },
	[TRACESMITH__V1__REQUEST__BODY_EXPORT] = { true, NULL },
	[TRACESMITH__V1__REQUEST__BODY_LIST] = { true, NULL },
	[TRACESMITH__V1__REQUEST__BODY_RECORD] = { true, NULL },
	[TRACESMITH__V1__REQUEST__BODY_REPLAY] = { true, NULL },
};

static bool add_job(struct client *client, Tracesmith__V1__Request *request)
{
	if (!has_room(client, request->id))
		return false;
	if (job_add(client, request) < 0) {
		client_fail(client, request->id, REASON(NO_MEMORY), NULL);
		return false;
	}
	return true;
}

void handler_call(struct client *client, Tracesmith__V1__Request *request)
{
	const size_t count = ARRAY_SIZE(handlers);
	size_t body = request->body_case;

	if (request->id == 0) {
		client_refuse(client, BAD_REQUEST, "A request needs a nonzero id");
	} else if (body >= count || !handlers[body].known) {
		client_fail(client, request->id, REASON(UNKNOWN_REQUEST), TS_VERSION, NULL);
	} else if (handlers[body].answer) {
		handlers[body].answer(client, request);
	} else if (add_job(client, request)) {
		return;
	}
	tracesmith__v1__request__free_unpacked(request, NULL);
}
