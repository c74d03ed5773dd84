/* Child: runs the process of one request and passes its replies on. What comes from it is not
 * believed: only its own client gets it, framed and within the bound of a reply. */
#include "daemon/api/child.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/time.h"
#include "daemon/helper/spawn.h"
#include "daemon/limits.h"
#include "daemon/query/helper.h"
#include "proto/frame.h"

#define GONE_MS 1000

struct run {
	const struct child *child;
	int control, pidfd, stream;
	uint64_t end_ns; /* when it is killed */
	bool ended;	 /* its last reply has been passed on */
};

/* It says itself that its time is over, in better words, unless a single step takes that long. */
static uint64_t allowed_ns(const Tracesmith__V1__Request *request)
{
	uint64_t ns = LIMIT_QUERY_MS * NS_PER_MS;

	if (request->body_case == TRACESMITH__V1__REQUEST__BODY_SQL && request->sql->timeout_ns &&
	    request->sql->timeout_ns < ns)
		ns = request->sql->timeout_ns;
	return ns + LIMIT_QUERY_GRACE_MS * NS_PER_MS;
}

/* -ETIME: its time is over. */
static int wait_for(const struct run *run, int fd, short events)
{
	struct pollfd poll_fd = { .fd = fd, .events = events };
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	int r;

	if (now_ns >= run->end_ns)
		return -ETIME;
	r = poll(&poll_fd, 1, (int)((run->end_ns - now_ns) / NS_PER_MS) + 1);
	return r < 0 && errno != EINTR ? -errno : 0;
}

/* -ENODATA: it has ended. */
static int get(const struct run *run, void *data, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = recv(run->stream, (char *)data + done, size - done, MSG_DONTWAIT);
		int r;

		if (n > 0) {
			done += (size_t)n;
			continue;
		}
		if (n == 0 || (errno != EAGAIN && errno != EINTR))
			return -ENODATA;
		r = wait_for(run, run->stream, POLLIN);
		if (r < 0)
			return r;
	}
	return 0;
}

static int put(const struct run *run, const uint8_t *data, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n =
			send(run->stream, data + done, size - done, MSG_DONTWAIT | MSG_NOSIGNAL);
		int r;

		if (n > 0) {
			done += (size_t)n;
			continue;
		}
		if (errno != EAGAIN && errno != EINTR)
			return -ENODATA;
		r = wait_for(run, run->stream, POLLOUT);
		if (r < 0)
			return r;
	}
	return 0;
}

static int put_request(const struct run *run)
{
	_cleanup_(freep) uint8_t *data = NULL;
	size_t size;
	int r = ts_frame_pack(&run->child->query.request->base, TS_FRAME_REQUEST_MAX, &data, &size);

	return r < 0 ? r : put(run, data, size);
}

static uint32_t load_le32(const uint8_t *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* A message is its id, a number, and then its one other field, the number of which comes first. */
static bool is_last(const uint8_t *message, size_t size)
{
	size_t at = 1;
	unsigned int field;

	while (at < size && message[at] & 0x80)
		at++;
	if (at + 1 >= size)
		return false;
	field = message[at + 1] >> 3;
	return field == TRACESMITH__V1__REPLY__BODY_DONE ||
	       field == TRACESMITH__V1__REPLY__BODY_ERROR;
}

/* The time that the reader takes is not the query's. */
static int pass(struct run *run, uint8_t *frame, size_t size)
{
	uint64_t begin_ns = clock_ns(CLOCK_MONOTONIC);
	bool last = is_last(frame + TS_FRAME_HEAD, size - TS_FRAME_HEAD);
	int r = run->child->pass(run->child->data, frame, size, last);

	run->end_ns += clock_ns(CLOCK_MONOTONIC) - begin_ns;
	run->ended = r == 0 && last;
	return r;
}

static int pass_one(struct run *run)
{
	_cleanup_(freep) uint8_t *frame = NULL;
	uint8_t head[TS_FRAME_HEAD];
	uint32_t size;
	int r = get(run, head, sizeof(head));

	if (r < 0)
		return r;
	size = load_le32(head);
	if (size > TS_FRAME_REPLY_MAX)
		return -EMSGSIZE;
	frame = malloc(sizeof(head) + size);
	if (!frame)
		return -ENOMEM;
	memcpy(frame, head, sizeof(head));
	r = get(run, frame + sizeof(head), size);
	return r < 0 ? r : pass(run, TAKE(frame), sizeof(head) + size);
}

static int start(struct run *run)
{
	int r;

	/* Where the zygote is busy, others are being started. */
	while ((r = spawn_child(run->child->zygote, run->child->role, &run->control)) == -EAGAIN) {
		r = wait_for(run, run->child->zygote, POLLOUT);
		if (r < 0)
			return r;
	}
	while (r == 0 && (r = spawn_take_pidfd(run->control, &run->pidfd)) == -EAGAIN)
		r = wait_for(run, run->control, POLLIN);
	return r;
}

static bool copy(char *out, size_t size, const char *text)
{
	return (size_t)snprintf(out, size, "%s", text ? text : "") < size;
}

static int put_order(struct run *run)
{
	const struct query_job *query = &run->child->query;
	struct query_order order = {
		.now_ns = query->now_ns,
		.suspended_ns = query->suspended_ns,
		.older_ns = query->older_ns,
		.own = query->own,
		.owner = query->owner,
		.unlooked = query->unlooked,
	};
	_cleanup_(closep) int theirs = -1;
	int pair[2];
	ssize_t n;

	if (!copy(order.database, sizeof(order.database), query->database) ||
	    !copy(order.boot_id, sizeof(order.boot_id), query->boot_id) ||
	    !copy(order.watched, sizeof(order.watched), query->watched))
		return -ENAMETOOLONG;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	run->stream = pair[0];
	theirs = pair[1];
	n = spawn_send(run->control, &order, sizeof(order), &theirs, 1);
	return n < 0 ? (int)n : 0;
}

static Tracesmith__V1__Remark__Reason too_slow(const Tracesmith__V1__Request *request)
{
	return request->body_case == TRACESMITH__V1__REQUEST__BODY_SQL ? REASON(TOO_SLOW_SQL)
								       : REASON(TOO_SLOW);
}

/* Its place is given to another when it is gone. */
static void end(struct run *run)
{
	struct pollfd gone = { .fd = run->pidfd, .events = POLLIN };

	closep(&run->stream);
	closep(&run->control);
	if (run->pidfd < 0)
		return;
	spawn_kill(run->pidfd);
	poll(&gone, 1, GONE_MS);
	close(run->pidfd);
}

static int answer(struct run *run)
{
	int r = put_order(run);

	if (r == 0)
		r = put_request(run);
	while (r == 0 && !run->ended)
		r = pass_one(run);
	return r;
}

Tracesmith__V1__Remark__Reason child_run(const struct child *child, char text[CHILD_TEXT])
{
	struct run run = { .child = child, .control = -1, .pidfd = -1, .stream = -1 };
	int r;

	run.end_ns = clock_ns(CLOCK_MONOTONIC) + allowed_ns(child->query.request);
	r = start(&run);
	if (r < 0) {
		end(&run);
		snprintf(text, CHILD_TEXT, "could not be started: %s", strerror(-r));
		return REASON(QUERY_ENDED);
	}
	child->running(child->data, run.pidfd);
	r = answer(&run);
	child->running(child->data, -1);
	end(&run);
	if (run.ended || r == -ECANCELED)
		return 0;
	if (r == -ETIME)
		return too_slow(child->query.request);
	if (r == -ENOMEM)
		return REASON(NO_MEMORY);
	snprintf(text, CHILD_TEXT, "was killed, perhaps for lack of memory");
	return REASON(QUERY_ENDED);
}
