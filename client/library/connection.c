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

int connection_dial(const char *path, int type)
{
	_cleanup_(closep) int fd = -1;
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return TAKE_FD(fd);
}

void connection_patience(struct connection *c, uint64_t patience_ms)
{
	const struct timeval patience = { .tv_sec = (time_t)(patience_ms / 1000),
					  .tv_usec = (suseconds_t)(patience_ms % 1000 * 1000) };

	if (c->fd < 0)
		return;
	setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

void connection_close(struct connection *c)
{
	closep(&c->fd);
	c->fd = -1;
	ts_frame_reader_done(&c->reader);
}

static int write_all(int fd, const uint8_t *data, size_t size)
{
	ssize_t n;

	for (size_t done = 0; done < size; done += n) {
		n = send(fd, data + done, size - done, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			n = 0;
		if (n < 0)
			return -errno;
	}
	return 0;
}

int connection_send(struct connection *c, Tracesmith__V1__Request *request)
{
	_cleanup_(freep) uint8_t *data = NULL;
	size_t size;
	int r;

	request->id = ++c->last_id;
	r = ts_frame_pack(&request->base, TS_FRAME_REQUEST_MAX, &data, &size);
	if (r == 0)
		r = write_all(c->fd, data, size);
	if (r == -EPIPE || r == -ECONNRESET)
		return 0;
	if (r == -EMSGSIZE)
		return fail(c, r, "The request is too long");
	return r < 0 ? fail(c, r, "Cannot send the request: %s", strerror(-r)) : 0;
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
		n = recv(c->fd, room, size, flags);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != ECONNRESET)
			return -errno;
		if (n <= 0)
			return 0;
		ts_frame_reader_fill(&c->reader, n);
	}
	if (r < 0)
		return r;
	*ret = tracesmith__v1__reply__unpack(NULL, size, data);
	return *ret ? 1 : -EBADMSG;
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
			return fail(c, r, "The daemon does not answer");
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

static int met(struct connection *c, const Tracesmith__V1__HelloReply *hello)
{
	snprintf(c->hello.version, sizeof(c->hello.version), "%s", hello->version);
	snprintf(c->hello.boot_id, sizeof(c->hello.boot_id), "%s", hello->boot_id);
	c->hello.now_ns = hello->now_ns;
	c->hello.wall_offset_ns = hello->wall_offset_ns;
	return 0;
}

int connection_open(struct connection *c, int fd, uint64_t patience_ms, Tracesmith__V1__Reply **ret)
{
	_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;
	Tracesmith__V1__HelloRequest hello = TRACESMITH__V1__HELLO_REQUEST__INIT;
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;
	int r;

	*c = (struct connection){ .fd = fd, .reader.max = TS_FRAME_REPLY_MAX };
	connection_patience(c, patience_ms);
	hello.protocol = TS_PROTOCOL;
	request.body_case = TRACESMITH__V1__REQUEST__BODY_HELLO;
	request.hello = &hello;
	r = connection_send(c, &request);
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
