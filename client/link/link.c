/* Link: a connection to the daemon, or to the file server that stands in for it, with the words of
 * tsctl. Prints the error that ends it, once. */
#include "client/link/link.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "client/base/complain.h"
#include "client/link/wording.h"
#include "core/base/time.h"
#include "proto/paths.h"

#define SAY_MS	   2000
#define GIVE_UP_MS 10000
#define NAME_BYTES 160

struct link {
	struct connection connection;
	const char *socket; /* NULL: it waits as its caller wants it to */
	const struct link_files *files;
	void *file; /* the file server, NULL: the daemon */
	bool page;
};

struct link *link_free(struct link *link)
{
	if (!link)
		return NULL;
	if (link->file)
		link->files->close(link->file);
	connection_close(&link->connection);
	free(link);
	return NULL;
}

const struct connection_hello *link_hello(const struct link *link)
{
	return &link->connection.hello;
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

/* "tracesmithd (PID)"; before it listens itself, its socket is the service manager's. */
static const char *name_daemon(const struct link *link, char name[NAME_BYTES])
{
	pid_t pid = link->connection.fd < 0 ? 0 : connection_peer(&link->connection);

	if (pid > 1)
		snprintf(name, NAME_BYTES, "tracesmithd (%d)", pid);
	else
		snprintf(name, NAME_BYTES, "tracesmithd on %s", link->socket);
	return name;
}

static void say_waiting(const struct link *link)
{
	char name[NAME_BYTES];

	complain("%s does not answer; waiting", name_daemon(link, name));
}

static void say_given_up(const struct link *link)
{
	char name[NAME_BYTES];

	complain(
		"%s has not answered for %d s: see 'systemctl status tracesmithd' and its log, and "
		"restart it with 'systemctl restart tracesmithd'",
		name_daemon(link, name), GIVE_UP_MS / 1000);
}

static bool on_silent(void *data, unsigned silent_ms)
{
	const struct link *link = data;

	if (silent_ms == SAY_MS)
		say_waiting(link);
	return silent_ms < GIVE_UP_MS;
}

/* What it failed for, if it did. */
static int said(const struct link *link, int r)
{
	if (r == -EAGAIN && link->socket)
		say_given_up(link);
	else if (r == -ENOMEM || (r == -ECONNRESET && link->file))
		complain_memory();
	else if (r < 0)
		complain("%s", link->connection.message);
	/* Not what means something else to the caller: the connection is of no more use. A daemon
	 * that has gone may come back. */
	if (r == 0 || r == 1 || r == -EAGAIN || r == -ENOMEM || (r == -ECONNRESET && !link->file))
		return r;
	return -ENOTCONN;
}

/* Words the remarks of an answer for whoever reads it. */
static int put_words(const struct link *link, Tracesmith__V1__Reply *reply)
{
	enum wording_place place = (link->file ? WORDING_RECORDING : WORDING_DAEMON) |
				   (link->page ? WORDING_PAGE : WORDING_DAEMON);
	int r = wording_apply(reply, place);

	if (r < 0)
		complain_memory();
	return r;
}

int link_send(struct link *link, const ProtobufCMessage *body)
{
	return said(link, connection_send(&link->connection, body));
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
	case TRACESMITH__V1__ERROR__CODE__LIMIT:
		return -E2BIG;
	default:
		return -EREMOTEIO;
	}
}

int link_next_or_error(struct link *link, Tracesmith__V1__Reply **ret)
{
	_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;
	int r = said(link, connection_next(&link->connection, &reply));

	if (r < 0)
		return r;
	if (put_words(link, reply) < 0)
		return -ENOMEM;
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

int link_single(struct link *link, const ProtobufCMessage *body,
		Tracesmith__V1__Reply__BodyCase wanted, Tracesmith__V1__Reply **ret)
{
	_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;
	int r = link_send(link, body);

	if (r == 0)
		r = link_next(link, &reply);
	if (r < 0)
		return r;
	if (reply->body_case != wanted) {
		complain("Unexpected answer from the daemon");
		return -EPROTO;
	}
	*ret = TAKE(reply);
	return 0;
}

int link_fd(const struct link *link)
{
	return link->connection.fd;
}

int link_poll(struct link *link, Tracesmith__V1__Reply **ret)
{
	_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;
	int r = said(link, connection_poll(&link->connection, &reply));

	if (r != 1)
		return r;
	if (put_words(link, reply) < 0)
		return -ENOMEM;
	if (reply->body_case == TRACESMITH__V1__REPLY__BODY_ERROR)
		return explain_error(reply->error);
	*ret = TAKE(reply);
	return 1;
}

int link_converse(struct link *link, const ProtobufCMessage *body, link_reply_fn *take, void *data,
		  Tracesmith__V1__Reply **ret_end)
{
	int more, r = link_send(link, body);

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

int link_answer(struct link *link, const ProtobufCMessage *body, struct tracesmith_answer **ret)
{
	_cleanup_(answer_freep) struct tracesmith_answer *answer = answer_new();
	Tracesmith__V1__Reply *reply;
	int r = link_send(link, body);

	if (r < 0)
		return r;
	r = answer ? 0 : -ENOMEM;
	while (r == 0) {
		r = link_next(link, &reply);
		if (r < 0)
			return r;
		r = answer_take(answer, reply);
	}
	if (r == -ENOMEM)
		complain_memory();
	else if (r < 0)
		complain("Cannot interpret the daemon's answer: %s", strerror(-r));
	if (r < 0)
		return r;
	*ret = TAKE(answer);
	return 0;
}

static int greet(struct link *link)
{
	_cleanup_(reply_freep) Tracesmith__V1__Reply *refused = NULL;
	int r;

	r = said(link, connection_greet(&link->connection, &refused));
	if (r != 1)
		return r;
	if (put_words(link, refused) < 0)
		return -ENOMEM;
	return explain_error(refused->error);
}

/* If the listen backlog is full, connecting waits, too. */
static int dial(const struct link *link, const struct options *options)
{
	int fd;

	if (!link->socket)
		return connection_dial(options->socket, SOCK_STREAM,
				       options->patience_ms * NS_PER_MS);
	fd = connection_dial(link->socket, SOCK_STREAM, SAY_MS * NS_PER_MS);
	if (fd != -EAGAIN)
		return fd;
	say_waiting(link);
	return connection_dial(link->socket, SOCK_STREAM, (GIVE_UP_MS - SAY_MS) * NS_PER_MS);
}

static int reach(struct link *link, const struct options *options)
{
	int fd = dial(link, options);

	if (fd == -EAGAIN && link->socket) {
		say_given_up(link);
		return fd;
	}
	if (fd < 0)
		return explain_connect(fd, options->socket);
	connection_init(&link->connection, fd);
	if (link->socket)
		connection_watch(&link->connection, on_silent, link);
	else
		connection_patience(&link->connection, options->patience_ms * NS_PER_MS);
	return 0;
}

int link_open(const struct options *options, struct link **ret)
{
	_cleanup_(link_freep) struct link *link = calloc(1, sizeof(*link));
	int fd, r;

	if (!link) {
		complain_memory();
		return -ENOMEM;
	}
	link->files = options->files;
	link->page = options->page;
	link->connection.fd = -1;
	if (options->file) {
		r = options->files->open(options->file, &link->file, &fd);
		if (r == 0)
			connection_init(&link->connection, fd);
	} else {
		link->socket = options->patience_ms ? NULL : options->socket;
		r = reach(link, options);
	}
	if (r == 0)
		r = greet(link);
	if (r < 0)
		return r;
	*ret = TAKE(link);
	return 0;
}

uint64_t link_time(const struct link *link, const struct moment *moment)
{
	const struct connection_hello *hello = &link->connection.hello;
	/* Unsigned: a recording may claim any clock. */
	uint64_t ns = moment->ago ? hello->now_ns - (uint64_t)moment->ns
				  : (uint64_t)moment->ns - (uint64_t)hello->wall_offset_ns;

	return (int64_t)ns > 0 ? ns : 1;
}
