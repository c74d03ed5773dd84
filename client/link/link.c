/* Link: a blocking connection to the daemon, or to the file server that stands in for it. Prints
 * the error that ends it, once. */
#include "client/link/link.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "client/base/complain.h"
#include "client/link/wording.h"
#include "proto/frame.h"
#include "proto/paths.h"

struct link {
	int fd;
	const struct link_files *files;
	void *file; /* the file server, NULL: the daemon */
	uint64_t last_id;
	struct ts_frame_reader reader;
	struct link_hello hello;
};

struct link *link_free(struct link *link)
{
	if (!link)
		return NULL;
	if (link->file)
		link->files->close(link->file);
	closep(&link->fd);
	ts_frame_reader_done(&link->reader);
	free(link);
	return NULL;
}

const struct link_hello *link_hello(const struct link *link)
{
	return &link->hello;
}

void reply_free(Tracesmith__V1__Reply *reply)
{
	tracesmith__v1__reply__free_unpacked(reply, NULL);
}

static int explain_connect(int error, const char *path)
{
	if (error == -ENOENT || error == -ECONNREFUSED)
		complain("No daemon listens on %s: start it with 'systemctl start tracesmithd', or "
			 "name its socket with --socket",
			 path);
	else if (error == -EACCES || error == -EPERM)
		complain("No permission to use %s: run tsctl as root, or have root add you to the "
			 "group '" TS_GROUP "' (usermod -aG " TS_GROUP " NAME) and log in again",
			 path);
	else
		complain("Cannot connect to %s: %s", path, strerror(-error));
	return error;
}

int link_connect(const char *path, int type)
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

static int connect_to(const char *path, uint64_t patience_ms, int *ret_fd)
{
	const struct timeval patience = { .tv_sec = (time_t)(patience_ms / 1000),
					  .tv_usec = (suseconds_t)(patience_ms % 1000 * 1000) };
	int fd = link_connect(path, SOCK_STREAM);

	if (fd < 0)
		return explain_connect(fd, path);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	*ret_fd = fd;
	return 0;
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

int link_send(struct link *link, Tracesmith__V1__Request *request)
{
	_cleanup_(freep) uint8_t *data = NULL;
	size_t size;
	int r;

	request->id = ++link->last_id;
	r = ts_frame_pack(&request->base, TS_FRAME_REQUEST_MAX, &data, &size);
	if (r == 0)
		r = write_all(link->fd, data, size);
	/* The daemon may have refused us and closed the connection; then link_next() reports its
	 * reason. */
	if (r == -EPIPE || r == -ECONNRESET)
		return 0;
	if (r == -EMSGSIZE)
		complain("The request is too long");
	else if (r < 0)
		complain("Cannot send the request: %s", strerror(-r));
	return r;
}

/* 1: a message; 0: the daemon has closed the connection. -EAGAIN: there is none yet (flags). */
static int receive(struct link *link, int flags, Tracesmith__V1__Reply **ret)
{
	const uint8_t *data;
	size_t size;
	ssize_t n;
	void *room;
	int r;

	while ((r = ts_frame_reader_next(&link->reader, &data, &size)) == 0) {
		room = ts_frame_reader_room(&link->reader, &size);
		if (!room)
			return -ENOMEM;
		n = recv(link->fd, room, size, flags);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != ECONNRESET)
			return -errno;
		if (n <= 0)
			return 0;
		ts_frame_reader_fill(&link->reader, n);
	}
	if (r < 0)
		return r;
	*ret = tracesmith__v1__reply__unpack(NULL, size, data);
	return *ret ? 1 : -EBADMSG;
}

static int explain_error(const Tracesmith__V1__Error *error)
{
	complain("%s", error->message);
	switch (error->code) {
	case TRACESMITH__V1__ERROR__CODE__DENIED:
		return -EACCES;
	case TRACESMITH__V1__ERROR__CODE__BAD_REQUEST:
		return -EINVAL;
	case TRACESMITH__V1__ERROR__CODE__NOT_FOUND:
		return -ENOENT;
	default:
		return -EREMOTEIO;
	}
}

int link_next_or_error(struct link *link, Tracesmith__V1__Reply **ret)
{
	_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;
	int r;

	do {
		reply_free(reply);
		reply = NULL;
		r = receive(link, 0, &reply);
		if (r == 0) {
			complain("The daemon closed the connection in the middle of its answer");
			return -ECONNRESET;
		}
		if (r == -EAGAIN) {
			complain("The daemon does not answer");
			return r;
		}
		if (r < 0) {
			complain("Cannot read the daemon's answer: %s", strerror(-r));
			return r;
		}
	} while (reply->id != link->last_id && reply->id != 0);
	r = wording_apply(reply, link->file);
	if (r < 0) {
		complain("Not enough memory");
		return r;
	}
	r = reply->body_case == TRACESMITH__V1__REPLY__BODY_COLUMNS ||
	    reply->body_case == TRACESMITH__V1__REPLY__BODY_ROWS ||
	    reply->body_case == TRACESMITH__V1__REPLY__BODY_CHUNK;
	*ret = TAKE(reply);
	return r;
}

int link_next(struct link *link, Tracesmith__V1__Reply **ret)
{
	_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;
	int r = link_next_or_error(link, &reply);

	if (r == 0 && reply->body_case == TRACESMITH__V1__REPLY__BODY_ERROR)
		return explain_error(reply->error);
	if (r >= 0)
		*ret = TAKE(reply);
	return r;
}

int link_fd(const struct link *link)
{
	return link->fd;
}

int link_poll(struct link *link, Tracesmith__V1__Reply **ret)
{
	_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;
	int r = receive(link, MSG_DONTWAIT, &reply);

	if (r == -EAGAIN)
		return 0;
	if (r == 0)
		r = -ECONNRESET;
	if (r < 0)
		complain("The daemon has ended, or closed the connection");
	else if (wording_apply(reply, false) < 0)
		r = -ENOMEM;
	else if (reply->body_case == TRACESMITH__V1__REPLY__BODY_ERROR)
		return explain_error(reply->error);
	if (r == 1)
		*ret = TAKE(reply);
	return r;
}

int link_converse(struct link *link, Tracesmith__V1__Request *request, link_reply_fn *take,
		  void *data, Tracesmith__V1__Reply **ret_end)
{
	int more, r = link_send(link, request);

	if (r < 0)
		return r;
	do {
		_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;

		more = link_next(link, &reply);
		if (more < 0)
			return more;
		r = take ? take(data, reply) : 0;
		if (r < 0)
			return r;
		if (!more && ret_end)
			*ret_end = TAKE(reply);
	} while (more);
	return 0;
}

static int greet(struct link *link)
{
	_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;
	Tracesmith__V1__HelloRequest hello = TRACESMITH__V1__HELLO_REQUEST__INIT;
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;
	int r;

	hello.protocol = TS_PROTOCOL;
	request.body_case = TRACESMITH__V1__REQUEST__BODY_HELLO;
	request.hello = &hello;
	r = link_send(link, &request);
	if (r == 0)
		r = link_next(link, &reply);
	if (r < 0)
		return r;
	if (reply->body_case != TRACESMITH__V1__REPLY__BODY_HELLO) {
		complain("The server on this socket is not tracesmithd");
		return -EPROTO;
	}
	snprintf(link->hello.version, sizeof(link->hello.version), "%s", reply->hello->version);
	snprintf(link->hello.boot_id, sizeof(link->hello.boot_id), "%s", reply->hello->boot_id);
	link->hello.now_ns = reply->hello->now_ns;
	link->hello.wall_offset_ns = reply->hello->wall_offset_ns;
	return 0;
}

int link_open(const struct options *options, struct link **ret)
{
	_cleanup_(link_freep) struct link *link = calloc(1, sizeof(*link));
	int r;

	if (!link) {
		complain("Not enough memory");
		return -ENOMEM;
	}
	link->reader.max = TS_FRAME_REPLY_MAX;
	link->files = options->files;
	link->fd = -1;
	r = options->file ? options->files->open(options->file, &link->file, &link->fd)
			  : connect_to(options->socket, options->patience_ms, &link->fd);
	if (r == 0)
		r = greet(link);
	if (r < 0)
		return r;
	*ret = TAKE(link);
	return 0;
}

uint64_t link_time(const struct link *link, const struct moment *moment)
{
	int64_t ns = moment->ago ? (int64_t)link->hello.now_ns - moment->ns
				 : moment->ns - link->hello.wall_offset_ns;

	return ns > 0 ? ns : 1;
}
