/* Client: one connection of the control socket. Its unfinished input is bounded by the frame
 * reader, its unread output by LIMIT_CLIENT_QUEUE: beyond that its queries wait and nothing more is
 * read from it. A client is in api->clients until uv_close, and freed in the close callback, after
 * its last write callback. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "core/base/cleanup.h"
#include "core/base/log.h"
#include "daemon/api/internal.h"
#include "daemon/limits.h"

struct write {
	uv_write_t request;
	struct client *client;
	struct job *job;
	uint8_t *data;
	size_t size;
};

static void parse(struct client *client);

static void on_close(uv_handle_t *handle)
{
	struct client *client = handle->data;
	struct api *api = client->api;

	ts_frame_reader_done(&client->reader);
	free(client);
	api->handles--;
	api_close_rest(api);
}

static void give_place(struct client *client)
{
	quota_give(&client->api->places, client->uid, client->admitted);
	client->admitted = 0;
}

void client_close(struct client *client)
{
	if (uv_is_closing((uv_handle_t *)&client->pipe))
		return;
	jobs_detach(client);
	tickets_detach(client);
	subscriptions_end(client);
	list_remove(&client->link);
	client->api->client_count--;
	give_place(client);
	uv_close((uv_handle_t *)&client->pipe, on_close);
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
	struct client *client = handle->data;
	size_t size = 0;

	buffer->base = ts_frame_reader_room(&client->reader, &size);
	buffer->len = size;
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer)
{
	struct client *client = stream->data;

	if (size < 0) {
		client_close(client);
		return;
	}
	ts_frame_reader_fill(&client->reader, size);
	parse(client);
}

static void pause_reading(struct client *client, bool pause)
{
	if (client->paused == pause)
		return;
	client->paused = pause;
	if (pause)
		uv_read_stop((uv_stream_t *)&client->pipe);
	else
		uv_read_start((uv_stream_t *)&client->pipe, on_room, on_read);
}

static bool accepts(const struct client *client)
{
	return !client->ending && !uv_is_closing((const uv_handle_t *)&client->pipe);
}

static void parse(struct client *client)
{
	Tracesmith__V1__Request *request;
	const uint8_t *data;
	size_t size;
	int r = 0, unpacked;

	while (accepts(client)) {
		if (client->queued_bytes > LIMIT_CLIENT_QUEUE) {
			pause_reading(client, true);
			return;
		}
		r = ts_frame_reader_next(&client->reader, &data, &size);
		if (r <= 0)
			break;
		client->half_since_ms = 0;
		unpacked =
			ts_frame_unpack(&tracesmith__v1__request__descriptor, data, size, &request);
		if (unpacked == 0)
			handler_call(client, request);
		else
			client_refuse_for(
				client,
				unpacked == -ENOMEM ? REASON(NO_MEMORY) : REASON(NO_REQUEST), NULL);
	}
	if (r < 0)
		client_refuse(client, TRACESMITH__V1__ERROR__CODE__BAD_REQUEST,
			      "The request is too long or malformed");
	if (!ts_frame_reader_half(&client->reader))
		client->half_since_ms = 0;
	else if (!client->half_since_ms)
		client->half_since_ms = uv_now(client->api->loop);
}

static void on_written(uv_write_t *request, int status)
{
	struct write *write = request->data;
	struct client *client = write->client;

	client->queued_bytes -= write->size;
	client->moved_ms = uv_now(client->api->loop);
	if (write->job)
		job_written(write->job, write->size);
	free(write->data);
	free(write);
	if (status < 0) {
		client_close(client);
		return;
	}
	if (client->ending && client->queued_bytes == 0)
		client_close(client);
	if (client->paused && accepts(client) && client->queued_bytes <= LIMIT_CLIENT_QUEUE / 2) {
		pause_reading(client, false);
		parse(client);
	}
}

void client_write(struct client *client, struct job *job, uint8_t *data, size_t size)
{
	struct write *write = calloc(1, sizeof(*write));
	uv_buf_t buffer = uv_buf_init((char *)data, (unsigned int)size);

	if (!write) {
		free(data);
		if (job)
			job_written(job, size);
		client_close(client);
		return;
	}
	*write = (struct write){ .client = client, .job = job, .data = data, .size = size };
	write->request.data = write;
	if (client->queued_bytes == 0)
		client->moved_ms = uv_now(client->api->loop);
	client->queued_bytes += size;
	if (uv_write(&write->request, (uv_stream_t *)&client->pipe, &buffer, 1, on_written) < 0)
		on_written(&write->request, UV_ECANCELED);
}

void client_reply(struct client *client, const Tracesmith__V1__Reply *reply)
{
	uint8_t *data;
	size_t size;

	if (!accepts(client))
		return;
	if (ts_frame_pack(&reply->base, TS_FRAME_REPLY_MAX, &data, &size) < 0)
		client_close(client);
	else
		client_write(client, NULL, data, size);
}

void client_error(struct client *client, uint64_t id, Tracesmith__V1__Error__Code code,
		  const char *message)
{
	Tracesmith__V1__Error error = TRACESMITH__V1__ERROR__INIT;
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;

	error.code = code;
	error.message = (char *)message;
	reply.id = id;
	reply.body_case = TRACESMITH__V1__REPLY__BODY_ERROR;
	reply.error = &error;
	client_reply(client, &reply);
}

void client_fail_for(struct client *client, uint64_t id, const struct remarks *why)
{
	Tracesmith__V1__Error error = TRACESMITH__V1__ERROR__INIT;
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;

	error.code = remark_code(why->count ? why->item[0]->reason : REASON(NO_MEMORY));
	if (why->count)
		error.message = why->item[0]->text;
	error.remark = (Tracesmith__V1__Remark **)why->item;
	error.n_remark = why->count;
	reply.id = id;
	reply.body_case = TRACESMITH__V1__REPLY__BODY_ERROR;
	reply.error = &error;
	client_reply(client, &reply);
}

static void fail(struct client *client, uint64_t id, Tracesmith__V1__Remark__Reason reason,
		 va_list arguments)
{
	_cleanup_(remarks_clear) struct remarks remarks = { 0 };

	remarks_add_list(&remarks, reason, arguments);
	client_fail_for(client, id, &remarks);
}

void client_fail(struct client *client, uint64_t id, Tracesmith__V1__Remark__Reason reason, ...)
{
	va_list arguments;

	va_start(arguments, reason);
	fail(client, id, reason, arguments);
	va_end(arguments);
}

/* What is said next is the last. */
static void stop(struct client *client)
{
	client->api->refused++;
	give_place(client);
	jobs_detach(client);
	tickets_detach(client);
	subscriptions_end(client);
	uv_read_stop((uv_stream_t *)&client->pipe);
}

static void end(struct client *client)
{
	client->ending = true;
	if (client->queued_bytes == 0)
		client_close(client);
}

void client_refuse(struct client *client, Tracesmith__V1__Error__Code code, const char *message)
{
	if (!accepts(client))
		return;
	stop(client);
	client_error(client, 0, code, message);
	end(client);
}

void client_refuse_for(struct client *client, Tracesmith__V1__Remark__Reason reason, ...)
{
	va_list arguments;

	if (!accepts(client))
		return;
	stop(client);
	va_start(arguments, reason);
	fail(client, 0, reason, arguments);
	va_end(arguments);
	end(client);
}

void client_sweep(struct client *client, uint64_t now_ms)
{
	struct api *api = client->api;

	if (client->queued_bytes && now_ms - client->moved_ms > api->stall_ms)
		client_close(client);
	else if (client->half_since_ms && !client->paused &&
		 now_ms - client->half_since_ms > api->half_ms)
		client_refuse(client, TRACESMITH__V1__ERROR__CODE__BAD_REQUEST,
			      "The message was cut off");
}

/* It has asked for something, which has not been read yet: clients do at once. */
static bool has_asked(const struct client *client)
{
	uv_os_fd_t fd;
	char byte;

	return uv_fileno((const uv_handle_t *)&client->pipe, &fd) == 0 &&
	       recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

static struct client *oldest_idle(struct api *api, uid_t uid)
{
	struct client *client;

	list_for_each(client, &api->clients, link)
		if (client->uid == uid && client->job_count == 0 && client->ticket_count == 0 &&
		    client->subscription_count == 0 && client->queued_bytes == 0 &&
		    !client->ending && !has_asked(client))
			return client;
	return NULL;
}

static void refuse_place(struct client *client)
{
	client_refuse(client, TRACESMITH__V1__ERROR__CODE__LIMIT,
		      "This user has too many connections: close some and try again");
}

static bool give_up_idle(void *data, uint32_t uid)
{
	struct client *idle = oldest_idle(data, uid);

	if (idle)
		refuse_place(idle);
	return idle;
}

/* If there is no place, whoever has most loses the oldest idle connection, and without one the user
 * who wants it, so that the next command works. */
static bool has_place(struct client *client)
{
	if (quota_claim(&client->api->places, client->uid, give_up_idle, client->api))
		return true;
	refuse_place(client);
	return false;
}

static void admit(struct client *client)
{
	static struct log_limit limit;
	struct api *api = client->api;
	struct ucred peer = { .uid = -1 };
	uv_os_fd_t fd = -1;
	int r;

	r = uv_fileno((uv_handle_t *)&client->pipe, &fd);
	if (r == 0)
		r = peer_check(fd, &api->rule, &peer);
	client->uid = peer.uid;
	client->pid = peer.pid;
	if (r < 0) {
		if (log_allowed(&limit, 5))
			log_warning("Refused uid %u on the control socket", client->uid);
		client_refuse_for(client, REASON(USER_DENIED), REMARK_NUMBER(client->uid),
				  api->group, NULL);
		return;
	}
	client->admitted = has_place(client);
}

int client_accept(struct api *api, uv_stream_t *listener)
{
	struct client *client = calloc(1, sizeof(*client));
	int r;

	if (!client)
		return -ENOMEM;
	client->api = api;
	client->uid = -1;
	client->reader.max = TS_FRAME_REQUEST_MAX;
	list_init(&client->jobs);
	list_init(&client->tickets);
	r = uv_pipe_init(api->loop, &client->pipe, 0);
	if (r < 0) {
		free(client);
		return r;
	}
	client->pipe.data = client;
	api->handles++;
	list_append(&api->clients, &client->link);
	api->client_count++;
	r = uv_accept(listener, (uv_stream_t *)&client->pipe);
	if (r == 0)
		r = uv_read_start((uv_stream_t *)&client->pipe, on_room, on_read);
	if (r < 0) {
		client_close(client);
		return r;
	}
	admit(client);
	return 0;
}
