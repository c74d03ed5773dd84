/* Serve: answers one request after another until the socket is closed. */
#include "client/file/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "client/base/complain.h"
#include "client/file/say.h"
#include "client/trace/plan_load.h"
#include "core/store/file/file.h"
#include "core/store/query/query.h"
#include "core/store/query/table.h"
#include "core/store/thread.h"
#include "proto/control.pb-c.h"
#include "proto/frame.h"

/* How long nothing is asked until memory is given back. */
#define REST_MS 1000

struct file_server {
	char *path;
	struct file *file;
	struct ts_frame_reader reader;
	int fd;
	pthread_t thread;
	bool started;
	bool rests; /* since nothing was asked */
	bool ended; /* the last answer has its end */
	atomic_bool stopped;
};

static int send_all(int fd, const uint8_t *data, size_t size)
{
	ssize_t n;

	for (size_t done = 0; done < size; done += (size_t)n) {
		n = send(fd, data + done, size - done, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			n = 0;
		if (n < 0)
			return -ECANCELED;
	}
	return 0;
}

static int on_send(void *data, const Tracesmith__V1__Reply *reply)
{
	struct file_server *server = data;
	_cleanup_(freep) uint8_t *bytes = NULL;
	size_t size;
	int r = ts_frame_pack(&reply->base, TS_FRAME_REPLY_MAX, &bytes, &size);

	if (r == 0)
		r = send_all(server->fd, bytes, size);
	if (r == 0 && reply->body_case != TRACESMITH__V1__REPLY__BODY_COLUMNS &&
	    reply->body_case != TRACESMITH__V1__REPLY__BODY_ROWS &&
	    reply->body_case != TRACESMITH__V1__REPLY__BODY_CHUNK)
		server->ended = true;
	return r;
}

static bool on_cancelled(void *data)
{
	struct file_server *server = data;

	return atomic_load(&server->stopped);
}

static int on_note_losses(void *data)
{
	struct file_server *server = data;

	return file_note_losses(server->file);
}

static void greet(struct file_server *server, const Tracesmith__V1__Request *request)
{
	const struct file_facts *facts = file_facts(server->file);
	Tracesmith__V1__HelloReply hello = TRACESMITH__V1__HELLO_REPLY__INIT;
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;

	hello.protocol = TS_PROTOCOL;
	hello.version = TS_VERSION;
	hello.now_ns = facts->now_ns;
	hello.wall_offset_ns = facts->wall_offset_ns;
	hello.boot_id = (char *)facts->boot_id;
	reply.id = request->id;
	reply.body_case = TRACESMITH__V1__REPLY__BODY_HELLO;
	reply.hello = &hello;
	on_send(server, &reply);
}

static void refuse(struct file_server *server, const Tracesmith__V1__Request *request,
		   const char *message)
{
	Tracesmith__V1__Error error = TRACESMITH__V1__ERROR__INIT;
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;

	error.code = TRACESMITH__V1__ERROR__CODE__UNAVAILABLE;
	error.message = (char *)message;
	reply.id = request->id;
	reply.body_case = TRACESMITH__V1__REPLY__BODY_ERROR;
	reply.error = &error;
	on_send(server, &reply);
}

/* What a request reads; "" if it reads no table of sums. */
static const char *statement_of(const Tracesmith__V1__Request *request)
{
	const struct query *query = NULL;

	if (request->body_case == TRACESMITH__V1__REQUEST__BODY_SQL)
		return request->sql->text;
	if (request->body_case == TRACESMITH__V1__REQUEST__BODY_QUERY)
		query = query_find(request->query->name);
	return query ? query->sql : "";
}

static void ask(struct file_server *server, const Tracesmith__V1__Request *request)
{
	int r = file_count(server->file, statement_of(request), on_cancelled, server);
	char message[160];
	const struct file_facts *facts = file_facts(server->file);
	struct query_job job = {
		.request = request,
		.reader = file_reader(server->file),
		.boot_id = facts->boot_id,
		.now_ns = facts->now_ns,
		.told_ns = facts->told_ns,
		.send = on_send,
		.cancelled = on_cancelled,
		.note_losses = on_note_losses,
		.data = server,
	};

	if (r < 0) {
		snprintf(message, sizeof(message),
			 "The recording lacks its end, and its sums cannot be counted: %s",
			 r == -E2BIG ? "too many operations overlap" : strerror(-r));
		refuse(server, request, message);
		return;
	}
	query_run(&job);
}

static void answer(struct file_server *server, const Tracesmith__V1__Request *request)
{
	switch (request->body_case) {
	case TRACESMITH__V1__REQUEST__BODY_HELLO:
		greet(server, request);
		break;
	case TRACESMITH__V1__REQUEST__BODY_QUERY:
	case TRACESMITH__V1__REQUEST__BODY_SQL:
	case TRACESMITH__V1__REQUEST__BODY_EXPORT:
	case TRACESMITH__V1__REQUEST__BODY_LIST:
	case TRACESMITH__V1__REQUEST__BODY_REPLAY:
		ask(server, request);
		break;
	default:
		refuse(server, request,
		       "A recording cannot answer this: ask the daemon, without --file");
	}
}

static void wait_for_request(struct file_server *server)
{
	struct pollfd ready = { .fd = server->fd, .events = POLLIN };

	if (server->rests || poll(&ready, 1, REST_MS) != 0)
		return;
	file_rest(server->file);
	malloc_trim(0);
	server->rests = true;
}

/* 1: a request; 0: the client has closed its end. */
static int receive(struct file_server *server, Tracesmith__V1__Request **ret)
{
	const uint8_t *data;
	size_t size;
	ssize_t n;
	void *room;
	int r;

	while ((r = ts_frame_reader_next(&server->reader, &data, &size)) == 0) {
		room = ts_frame_reader_room(&server->reader, &size);
		if (!room)
			return -ENOMEM;
		wait_for_request(server);
		n = recv(server->fd, room, size, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return 0;
		ts_frame_reader_fill(&server->reader, (size_t)n);
	}
	if (r < 0)
		return r;
	r = ts_frame_unpack(&tracesmith__v1__request__descriptor, data, size, ret);
	return r < 0 ? r : 1;
}

static void *serve(void *data)
{
	struct file_server *server = data;
	Tracesmith__V1__Request *request;

	/* A client that waits for the rest of an answer learns that none comes. */
	for (server->ended = true; server->ended && receive(server, &request) > 0;) {
		server->ended = false;
		answer(server, request);
		server->rests = false;
		tracesmith__v1__request__free_unpacked(request, NULL);
	}
	shutdown(server->fd, SHUT_RDWR);
	return NULL;
}

static int start(struct file_server *server)
{
	int r = thread_start(&server->thread, serve, server);

	server->started = r == 0;
	return r;
}

static struct file_server *server_free(struct file_server *server)
{
	if (!server)
		return NULL;
	atomic_store(&server->stopped, true);
	if (server->fd >= 0)
		shutdown(server->fd, SHUT_RDWR);
	if (server->started)
		pthread_join(server->thread, NULL);
	closep(&server->fd);
	ts_frame_reader_done(&server->reader);
	file_free(server->file);
	free(server->path);
	free(server);
	return NULL;
}

CLEANUP_DEFINE(struct file_server, server_free)

/* A server of an open file; errors are printed. */
static int server_new(const char *path, struct file_server **ret)
{
	_cleanup_(server_freep) struct file_server *server = calloc(1, sizeof(*server));
	struct file_config config = { .plan_ops = PLAN_LOAD_OPS_MAX, .remark = say_remark };
	int r;

	if (server) {
		server->fd = -1;
		server->reader.max = TS_FRAME_REQUEST_MAX;
		server->path = strdup(path);
	}
	if (!server || !server->path) {
		complain_memory();
		return -ENOMEM;
	}
	config.data = server->path;
	r = file_open(path, &config, &server->file);
	if (r < 0)
		return r;
	*ret = TAKE(server);
	return 0;
}

static int server_open(const char *path, void **ret_server, int *ret_fd)
{
	_cleanup_(server_freep) struct file_server *server = NULL;
	int fd[2] = { -1, -1 }, r = server_new(path, &server);

	if (r < 0)
		return r;
	r = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) < 0 ? -errno : 0;
	server->fd = fd[0];
	if (r == 0)
		r = start(server);
	if (r < 0) {
		closep(&fd[1]);
		complain("Cannot read '%s': %s", path, strerror(-r));
		return r;
	}
	*ret_fd = fd[1];
	*ret_server = TAKE(server);
	return 0;
}

int file_serve_socket(const char *path, int fd)
{
	_cleanup_(server_freep) struct file_server *server = NULL;
	int type, r;
	socklen_t size = sizeof(type);

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || type != SOCK_STREAM)
		return -ENOTSOCK;
	r = server_new(path, &server);
	if (r < 0)
		return r;
	server->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (server->fd < 0) {
		complain("Cannot read '%s': %s", path, strerror(errno));
		return -errno;
	}
	serve(server);
	return 0;
}

static void server_close(void *server)
{
	server_free(server);
}

const struct link_files file_serve = { .open = server_open, .close = server_close };
