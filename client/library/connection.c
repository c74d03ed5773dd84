/* Connection: a blocking socket, on which there is one request at a time. What comes from the other
 * side is bounded by a frame's maximum and checked by protobuf; its meaning is for the caller to
 * check. */
#include "client/library/connection.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "core/base/clock.h"

#define TICK_MS	 500 /* of silence before a hello asks whether the daemon is alive */
#define ID_ALIVE UINT64_MAX

void reply_free(Tracesmith__V1__Reply *reply)
{
	tracesmith__v1__reply__free_unpacked(reply, NULL);
}

__attribute__((format(printf, 3, 4))) static int fail(struct connection *c, int error,
						      const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(c->message, sizeof(c->message), format, ap);
	va_end(ap);
	return error;
}

static void set_patience(int fd, uint64_t ns)
{
	const struct timeval patience = { .tv_sec = (time_t)(ns / NS_PER_S),
					  .tv_usec = (suseconds_t)((ns % NS_PER_S + NS_PER_US - 1) /
								   NS_PER_US) };

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

int connection_dial(const char *path, int type, uint64_t patience_ns)
{
	_cleanup_(closep) int fd = -1;
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (patience_ns)
		set_patience(fd, patience_ns);
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return TAKE_FD(fd);
}

void connection_init(struct connection *c, int fd)
{
	*c = (struct connection){ .fd = fd, .reader.max = TS_FRAME_REPLY_MAX };
}

void connection_patience(struct connection *c, uint64_t patience_ns)
{
	set_patience(c->fd, patience_ns);
}

void connection_watch(struct connection *c, connection_silent_fn *silent, void *data)
{
	c->silent = silent;
	c->silent_data = data;
	set_patience(c->fd, TICK_MS * NS_PER_MS);
}

void connection_until(struct connection *c, uint64_t until_ns)
{
	c->until_ns = until_ns;
	if (!until_ns)
		set_patience(c->fd, 0);
}

/* Before each wait for the other side. -EAGAIN: its time is over. */
static int allow(const struct connection *c)
{
	const uint64_t now_ns = c->until_ns ? clock_ns(CLOCK_MONOTONIC) : 0;

	if (!c->until_ns)
		return 0;
	if (now_ns >= c->until_ns)
		return -EAGAIN;
	set_patience(c->fd, c->until_ns - now_ns);
	return 0;
}

void connection_close(struct connection *c)
{
	closep(&c->fd);
	c->fd = -1;
	ts_frame_reader_done(&c->reader);
}

static int write_all(const struct connection *c, const uint8_t *data, size_t size)
{
	ssize_t n;

	for (size_t done = 0; done < size; done += n) {
		if (allow(c) < 0)
			return -EAGAIN;
		n = send(c->fd, data + done, size - done, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			n = 0;
		if (n < 0)
			return -errno;
	}
	return 0;
}

/* No two kinds of request have a body of the same type. The bodies are one union of pointers. */
static void put_body(Tracesmith__V1__Request *request, const ProtobufCMessage *body)
{
	const ProtobufCMessageDescriptor *kinds = request->base.descriptor;

	for (unsigned i = 0; i < kinds->n_fields; i++)
		if (kinds->fields[i].descriptor == body->descriptor)
			request->body_case = kinds->fields[i].id;
	request->query = (Tracesmith__V1__QueryRequest *)body;
}

static int send_request(const struct connection *c, uint64_t id, const ProtobufCMessage *body)
{
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;
	_cleanup_(freep) uint8_t *data = NULL;
	size_t size;
	int r;

	put_body(&request, body);
	request.id = id;
	r = ts_frame_pack(&request.base, TS_FRAME_REQUEST_MAX, &data, &size);
	return r < 0 ? r : write_all(c, data, size);
}

int connection_send(struct connection *c, const ProtobufCMessage *body)
{
	int r = send_request(c, ++c->last_id, body);

	c->silent_ms = 0;
	if (r == -EPIPE || r == -ECONNRESET)
		return 0;
	if (r == -EMSGSIZE)
		return fail(c, r, "The request is too long");
	if (r == -EAGAIN)
		return fail(c, r, "The daemon does not answer in time");
	return r < 0 ? fail(c, r, "Cannot send the request: %s", strerror(-r)) : 0;
}

/* After a tick without a byte: whether to wait for another one. The answer to the hello is none to
 * the last request, and ends the silence. */
static bool waits_on(struct connection *c)
{
	Tracesmith__V1__HelloRequest hello = TRACESMITH__V1__HELLO_REQUEST__INIT;

	if (!c->silent)
		return false;
	hello.protocol = TS_PROTOCOL;
	if (c->silent_ms == 0)
		send_request(c, ID_ALIVE, &hello.base);
	c->silent_ms += TICK_MS;
	return c->silent(c->silent_data, c->silent_ms);
}

/* 1: a message; 0: the other side has closed the connection. -EAGAIN: there is none yet (flags). */
static int receive(struct connection *c, int flags, Tracesmith__V1__Reply **ret)
{
	const uint8_t *data;
	size_t size;
	ssize_t n;
	void *room;
	int r;

	while ((r = ts_frame_reader_next(&c->reader, &data, &size)) == 0) {
		room = ts_frame_reader_room(&c->reader, &size);
		if (!room)
			return -ENOMEM;
		if (!(flags & MSG_DONTWAIT) && allow(c) < 0)
			return -EAGAIN;
		n = recv(c->fd, room, size, flags);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN && !(flags & MSG_DONTWAIT) && waits_on(c))
			continue;
		if (n < 0 && errno != ECONNRESET)
			return -errno;
		if (n <= 0)
			return 0;
		c->silent_ms = 0;
		ts_frame_reader_fill(&c->reader, n);
	}
	if (r < 0)
		return r;
	r = ts_frame_unpack(&tracesmith__v1__reply__descriptor, data, size, ret);
	return r < 0 ? r : 1;
}

int connection_next(struct connection *c, Tracesmith__V1__Reply **ret)
{
	Tracesmith__V1__Reply *reply = NULL;
	int r;

	do {
		reply_free(reply);
		reply = NULL;
		r = receive(c, 0, &reply);
		if (r == 0)
			return fail(c, -ECONNRESET,
				    "The daemon closed the connection in the middle of its answer");
		if (r == -EAGAIN)
			return fail(c, r, "The daemon does not answer in time");
		if (r < 0)
			return fail(c, r, "Cannot read the daemon's answer: %s", strerror(-r));
	} while (reply->id != c->last_id && reply->id != 0);
	*ret = reply;
	return reply->body_case == TRACESMITH__V1__REPLY__BODY_COLUMNS ||
	       reply->body_case == TRACESMITH__V1__REPLY__BODY_ROWS ||
	       reply->body_case == TRACESMITH__V1__REPLY__BODY_CHUNK;
}

int connection_poll(struct connection *c, Tracesmith__V1__Reply **ret)
{
	int r = receive(c, MSG_DONTWAIT, ret);

	if (r == -EAGAIN)
		return 0;
	if (r == 1)
		return 1;
	return fail(c, r ? r : -ECONNRESET, "The daemon has ended, or closed the connection");
}

pid_t connection_peer(const struct connection *c)
{
	struct ucred peer = { 0 };
	socklen_t size = sizeof(peer);

	getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
	return peer.pid;
}

static int met(struct connection *c, const Tracesmith__V1__HelloReply *hello)
{
	snprintf(c->hello.version, sizeof(c->hello.version), "%s", hello->version);
	snprintf(c->hello.boot_id, sizeof(c->hello.boot_id), "%s", hello->boot_id);
	c->hello.now_ns = hello->now_ns;
	c->hello.wall_offset_ns = hello->wall_offset_ns;
	return 0;
}

int connection_greet(struct connection *c, Tracesmith__V1__Reply **ret)
{
	_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;
	Tracesmith__V1__HelloRequest hello = TRACESMITH__V1__HELLO_REQUEST__INIT;
	int r;

	hello.protocol = TS_PROTOCOL;
	r = connection_send(c, &hello.base);
	if (r == 0)
		r = connection_next(c, &reply);
	if (r < 0)
		return r;
	if (reply->body_case == TRACESMITH__V1__REPLY__BODY_HELLO)
		return met(c, reply->hello);
	if (reply->body_case != TRACESMITH__V1__REPLY__BODY_ERROR)
		return fail(c, -EPROTO, "The server on this socket is not tracesmithd");
	*ret = TAKE(reply);
	return 1;
}
