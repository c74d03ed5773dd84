/* Session: a connection with the words and errors of the library. A connection that has failed in
 * the middle of an answer is closed, so that nothing of it is taken for the next one. */
#include "client/library/session.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/utf8.h"

int session_fail(struct tracesmith *ts, enum tracesmith_error error, const char *format, ...)
{
	char text[CONNECTION_MESSAGE_BYTES];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	utf8_visible(ts->message, text, strlen(text));
	return error;
}

int session_no_memory(struct tracesmith *ts)
{
	return session_fail(ts, TRACESMITH_NO_MEMORY, "Not enough memory");
}

/* In the child of a fork it is not the child's to end. */
static bool is_own(const struct tracesmith *ts)
{
	return ts->owner == getpid();
}

/* `now`: without waiting for who is slow. */
static void end(struct tracesmith *ts, bool now)
{
	if (ts->connection.fd >= 0 && is_own(ts))
		shutdown(ts->connection.fd, SHUT_RDWR); /* also if a child has it open */
	connection_close(&ts->connection);
	if (is_own(ts))
		reader_end(ts, now);
	closep(&ts->said);
	ts->said = -1;
	ts->reader = 0;
	ts->live = live_free(ts->live);
}

void session_close(struct tracesmith *ts)
{
	end(ts, false);
	ts->message[0] = '\0';
}

int session_lost(struct tracesmith *ts, int error)
{
	char why[CONNECTION_MESSAGE_BYTES];
	enum tracesmith_error kind = TRACESMITH_CONNECTION_LOST;

	snprintf(why, sizeof(why), "%s", ts->connection.message);
	if (error == -EAGAIN)
		kind = TRACESMITH_TIMED_OUT;
	if (error == -ENOMEM)
		kind = TRACESMITH_NO_MEMORY;
	if (error == -EBADMSG || error == -EMSGSIZE || error == -EPROTO)
		snprintf(why, sizeof(why), "The server on this socket is not tracesmithd");
	ts->message[0] = '\0';
	end(ts, kind == TRACESMITH_TIMED_OUT);
	return ts->message[0] ? TRACESMITH_UNAVAILABLE : session_fail(ts, kind, "%s", why);
}

int session_refused(struct tracesmith *ts, const Tracesmith__V1__Error *error)
{
	static const enum tracesmith_error kinds[] = {
		[TRACESMITH__V1__ERROR__CODE__BAD_REQUEST] = TRACESMITH_BAD_REQUEST,
		[TRACESMITH__V1__ERROR__CODE__NOT_FOUND] = TRACESMITH_NOT_FOUND,
		[TRACESMITH__V1__ERROR__CODE__DENIED] = TRACESMITH_DENIED,
		[TRACESMITH__V1__ERROR__CODE__LIMIT] = TRACESMITH_LIMIT,
		[TRACESMITH__V1__ERROR__CODE__UNAVAILABLE] = TRACESMITH_UNAVAILABLE,
		[TRACESMITH__V1__ERROR__CODE__CANCELLED] = TRACESMITH_CANCELLED,
		[TRACESMITH__V1__ERROR__CODE__NO_CUDA] = TRACESMITH_NO_CUDA,
	};
	const size_t code = error->code;

	return session_fail(
		ts, code < ARRAY_SIZE(kinds) && kinds[code] ? kinds[code] : TRACESMITH_FAILED, "%s",
		error->message[0] ? error->message : "The daemon refused");
}

uint64_t session_until(const struct tracesmith *ts)
{
	const uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);

	if (!ts->timeout_ns || ts->timeout_ns > UINT64_MAX - now_ns)
		return 0;
	return now_ns + ts->timeout_ns;
}

int session_open(struct tracesmith *ts, int fd, uint64_t until_ns)
{
	_cleanup_(reply_freep) Tracesmith__V1__Reply *refused = NULL;
	int r;

	ts->owner = getpid();
	ts->met_ns = clock_ns(CLOCK_MONOTONIC);
	connection_init(&ts->connection, fd);
	connection_until(&ts->connection, until_ns);
	r = connection_greet(&ts->connection, &refused);
	if (r < 0)
		return session_lost(ts, r);
	if (r == 0)
		return 0;
	session_close(ts);
	return session_refused(ts, refused->error);
}

bool session_foreign(struct tracesmith *ts)
{
	if (is_own(ts))
		return false;
	session_fail(ts, TRACESMITH_BAD_REQUEST,
		     "The connection is that of the parent: connect again");
	return true;
}

int session_send(struct tracesmith *ts, const ProtobufCMessage *body)
{
	int r;

	ts->message[0] = '\0';
	if (ts->connection.fd < 0)
		return session_fail(ts, TRACESMITH_BAD_REQUEST, "There is no connection");
	if (session_foreign(ts))
		return TRACESMITH_BAD_REQUEST;
	if (ts->live)
		return session_fail(ts, TRACESMITH_BAD_REQUEST,
				    "The connection is subscribed: ask on another one");
	connection_until(&ts->connection, session_until(ts));
	r = connection_send(&ts->connection, body);
	if (r == -EMSGSIZE)
		return session_fail(ts, TRACESMITH_BAD_REQUEST, "%s", ts->connection.message);
	return r < 0 ? session_lost(ts, r) : 0;
}

int session_next(struct tracesmith *ts, Tracesmith__V1__Reply **ret)
{
	_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;
	int r = connection_next(&ts->connection, &reply);

	if (r < 0)
		return session_lost(ts, r);
	if (reply->body_case == TRACESMITH__V1__REPLY__BODY_ERROR) {
		r = session_refused(ts, reply->error);
		if (reply->id == 0)
			end(ts, false);
		ts->live = live_free(ts->live);
		return r;
	}
	*ret = TAKE(reply);
	return 0;
}

int session_single(struct tracesmith *ts, const ProtobufCMessage *body,
		   Tracesmith__V1__Reply__BodyCase wanted, Tracesmith__V1__Reply **ret)
{
	_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;
	int r = session_send(ts, body);

	if (r == 0)
		r = session_next(ts, &reply);
	if (r < 0)
		return r;
	if (reply->body_case != wanted)
		return session_lost(ts, -EPROTO);
	*ret = TAKE(reply);
	return 0;
}
