/* Request: what a program asks for, as a request of the protocol. */
#include "client/library/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "client/library/session.h"
#include "core/base/clock.h"
#include "proto/event.h"
#include "proto/hello.h"
#include "proto/paths.h"

EXPORT struct tracesmith *tracesmith_new(void)
{
	struct tracesmith *ts = calloc(1, sizeof(*ts));

	if (!ts)
		return NULL;
	ts->connection.fd = -1;
	ts->said = -1;
	return ts;
}

EXPORT void tracesmith_free(struct tracesmith *ts)
{
	if (!ts)
		return;
	session_close(ts);
	free(ts);
}

EXPORT void tracesmith_set_timeout(struct tracesmith *ts, uint64_t timeout_ns)
{
	if (ts)
		ts->timeout_ns = timeout_ns;
}

EXPORT const char *tracesmith_message(const struct tracesmith *ts)
{
	return ts ? ts->message : "The object is NULL";
}

EXPORT const char *tracesmith_version(const struct tracesmith *ts)
{
	return ts && ts->connection.fd >= 0 ? ts->connection.hello.version : "";
}

EXPORT uint64_t tracesmith_now_ns(const struct tracesmith *ts)
{
	if (!ts || ts->connection.fd < 0)
		return 0;
	if (ts->reader)
		return ts->connection.hello.now_ns;
	return ts->connection.hello.now_ns + clock_ns(CLOCK_MONOTONIC) - ts->met_ns;
}

EXPORT int64_t tracesmith_wall_offset_ns(const struct tracesmith *ts)
{
	return ts && ts->connection.fd >= 0 ? ts->connection.hello.wall_offset_ns : 0;
}

EXPORT int tracesmith_fd(const struct tracesmith *ts)
{
	return ts ? ts->connection.fd : -1;
}

static int no_connection(struct tracesmith *ts, int error, const char *path)
{
	if (error == -EACCES || error == -EPERM)
		return session_fail(ts, TRACESMITH_DENIED,
				    "No permission to use %s: run the program as root, or have "
				    "root add you to the group '" TS_GROUP
				    "' (usermod -aG " TS_GROUP " NAME) and log in again",
				    path);
	if (error == -ENOENT || error == -ECONNREFUSED)
		return session_fail(ts, TRACESMITH_NO_DAEMON,
				    "No daemon listens on %s: start it with 'systemctl start "
				    "tracesmithd', or name its socket (" TS_ENV_SOCKET ")",
				    path);
	if (error == -EAGAIN)
		return session_fail(ts, TRACESMITH_TIMED_OUT,
				    "The daemon on %s does not answer in time", path);
	return session_fail(ts, TRACESMITH_NO_DAEMON, "Cannot connect to %s: %s", path,
			    strerror(-error));
}

EXPORT int tracesmith_connect(struct tracesmith *ts, const char *socket)
{
	const char *path = socket ? socket : getenv(TS_ENV_SOCKET);
	uint64_t until_ns;
	int fd;

	if (!ts)
		return TRACESMITH_BAD_REQUEST;
	session_close(ts);
	until_ns = session_until(ts);
	if (!path || !*path)
		path = TS_PATH_CONTROL_SOCKET;
	fd = connection_dial(path, SOCK_STREAM, ts->timeout_ns);
	return fd < 0 ? no_connection(ts, fd, path) : session_open(ts, fd, until_ns);
}

/* A table, from `columns` to `done`. */
static int ask(struct tracesmith *ts, const ProtobufCMessage *body, struct tracesmith_answer **ret)
{
	_cleanup_(answer_freep) struct tracesmith_answer *answer = answer_new();
	Tracesmith__V1__Reply *reply;
	int r = answer ? session_send(ts, body) : session_no_memory(ts);

	if (r < 0)
		return r;
	do {
		r = session_next(ts, &reply);
		if (r < 0)
			return r;
		r = answer_take(answer, reply);
	} while (r == 0);
	if (r == -E2BIG) {
		session_close(ts);
		return session_fail(ts, TRACESMITH_LIMIT,
				    "The answer has more than %u MiB: ask for less",
				    ANSWER_BYTES_MAX >> 20);
	}
	if (r < 0)
		return session_lost(ts, r);
	*ret = TAKE(answer);
	return 0;
}

/* A moment as the daemon has it, where 0 is not set. */
static uint64_t moment(const struct tracesmith *ts, int64_t ns)
{
	const uint64_t now_ns = tracesmith_now_ns(ts);

	if (ns >= 0)
		return (uint64_t)ns;
	return now_ns > -(uint64_t)ns ? now_ns - -(uint64_t)ns : 1;
}

/* Copies a struct of the caller, which may be of another version: what is beyond ours must be 0. */
static int take_struct(struct tracesmith *ts, void *to, size_t size, const void *from)
{
	size_t given;

	if (from)
		memcpy(&given, from, sizeof(given));
	if (!from || given < sizeof(given) || given > 1 << 12)
		return session_fail(ts, TRACESMITH_BAD_REQUEST,
				    "The size of the struct is not set");
	for (size_t i = size; i < given; i++)
		if (((const char *)from)[i])
			return session_fail(ts, TRACESMITH_BAD_REQUEST,
					    "This library is older than the program, and lacks "
					    "what it asks for");
	memset(to, 0, size);
	memcpy(to, from, given < size ? given : size);
	return 0;
}

EXPORT int tracesmith_query(struct tracesmith *ts, const struct tracesmith_query *query,
			    struct tracesmith_answer **ret)
{
	Tracesmith__V1__QueryRequest wanted = TRACESMITH__V1__QUERY_REQUEST__INIT;
	struct tracesmith_query q;

	if (!ts)
		return TRACESMITH_BAD_REQUEST;
	if (take_struct(ts, &q, sizeof(q), query) < 0)
		return TRACESMITH_BAD_REQUEST;
	if (!q.name)
		return session_fail(ts, TRACESMITH_BAD_REQUEST, "A query needs a name");
	wanted.name = (char *)q.name;
	if (q.user)
		wanted.user = (char *)q.user;
	if (q.match)
		wanted.match = (char *)q.match;
	if (q.sort)
		wanted.sort = (char *)q.sort;
	wanted.since_ns = moment(ts, q.since_ns);
	wanted.until_ns = moment(ts, q.until_ns);
	wanted.limit = q.limit;
	wanted.min_age_ns = q.min_age_ns;
	wanted.pid = q.pid;
	wanted.stream = q.stream;
	wanted.by = q.by;
	if (q.has_device) {
		wanted.device_given_case = TRACESMITH__V1__QUERY_REQUEST__DEVICE_GIVEN_DEVICE;
		wanted.device = q.device;
	}
	return ask(ts, &wanted.base, ret);
}

EXPORT int tracesmith_sql(struct tracesmith *ts, const char *statement, uint64_t limit,
			  uint64_t timeout_ns, struct tracesmith_answer **ret)
{
	Tracesmith__V1__SqlRequest sql = TRACESMITH__V1__SQL_REQUEST__INIT;

	if (!ts)
		return TRACESMITH_BAD_REQUEST;
	sql.text = (char *)(statement ? statement : "");
	sql.limit = limit;
	sql.timeout_ns = timeout_ns;
	return ask(ts, &sql.base, ret);
}

/* The messages as a table, for who wants one. */
static int as_table(struct tracesmith *ts, const ProtobufCMessageDescriptor *descriptor,
		    const void *message, size_t count, struct tracesmith_answer **ret)
{
	if (!ret)
		return 0;
	return answer_of_messages(descriptor, message, count, NULL, ret) < 0 ? session_no_memory(ts)
									     : 0;
}

EXPORT int tracesmith_status(struct tracesmith *ts, struct tracesmith_answer **ret)
{
	_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;
	Tracesmith__V1__StatusRequest status = TRACESMITH__V1__STATUS_REQUEST__INIT;
	int r;

	if (!ts)
		return TRACESMITH_BAD_REQUEST;
	r = session_single(ts, &status.base, TRACESMITH__V1__REPLY__BODY_STATUS, &reply);
	return r < 0 ? r
		     : as_table(ts, &tracesmith__v1__status_reply__item__descriptor,
				reply->status->item, reply->status->n_item, ret);
}

/* The header for others repeats numbers of the protocol. */
#define TRACESMITH_RECORD_RANGES TRACESMITH_RECORD_NVTX
#define X(bit, id, name)                                                                           \
	_Static_assert((int)TRACESMITH_RECORD_##id == (int)TS_RECORD_##id, "the same record");
TS_RECORDS(X)
#undef X
_Static_assert((int)TRACESMITH_RECORDS_USUAL == (int)TS_RECORDS_DEFAULT, "the same records");
_Static_assert((int)TRACESMITH_STACKS_NONE == (int)TS_STACKS_NONE &&
		       (int)TRACESMITH_STACKS_SAMPLED == (int)TS_STACKS_SAMPLED &&
		       (int)TRACESMITH_STACKS_ALL == (int)TS_STACKS_ALL,
	       "the same stacks");

EXPORT int tracesmith_attach(struct tracesmith *ts, const struct tracesmith_attach *attach,
			     struct tracesmith_answer **ret)
{
	_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;
	Tracesmith__V1__AttachRequest wanted = TRACESMITH__V1__ATTACH_REQUEST__INIT;
	struct tracesmith_attach a;
	int r;

	if (!ts)
		return TRACESMITH_BAD_REQUEST;
	if (take_struct(ts, &a, sizeof(a), attach) < 0)
		return TRACESMITH_BAD_REQUEST;
	wanted.pid = a.pid;
	wanted.budget_ppm = a.budget_ppm;
	wanted.light = a.light != 0;
	wanted.seccomp = a.seccomp != 0;
	wanted.records = a.records;
	wanted.stacks = a.stacks;
	r = session_single(ts, &wanted.base, TRACESMITH__V1__REPLY__BODY_ATTACH, &reply);
	return r < 0 ? r
		     : as_table(ts, &tracesmith__v1__attach_reply__descriptor, &reply->attach, 1,
				ret);
}

EXPORT int tracesmith_detach(struct tracesmith *ts, uint32_t pid, struct tracesmith_answer **ret)
{
	_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;
	Tracesmith__V1__DetachRequest detach = TRACESMITH__V1__DETACH_REQUEST__INIT;
	int r;

	if (!ts)
		return TRACESMITH_BAD_REQUEST;
	detach.pid = pid;
	r = session_single(ts, &detach.base, TRACESMITH__V1__REPLY__BODY_DETACH, &reply);
	return r < 0 ? r
		     : as_table(ts, &tracesmith__v1__detach_reply__descriptor, &reply->detach, 1,
				ret);
}
