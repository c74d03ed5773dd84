/* Peer: one process that carries our library, from its connection to its last record.
 * It ends when its connection or the process does, whichever is first. Its ring is read in each
 * turn of the intake while records come, and sleeps after a quiet time, until its eventfd wakes it.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "core/base/cleanup.h"
#include "daemon/inject/internal.h"
#include "daemon/limits.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* of kernels since 6.5 */
#endif
#define QUIET_MS 200 /* after this long without a record the ring sleeps */
#define STUCK_MS 500 /* after this long a slot that is not published is skipped */
/* From one look to the next no more counts as that: if we got no processor meanwhile, its writer
 * may not have had one either. */
#define STUCK_LOOK_MS 50

static void peer_handle_closed(uv_handle_t *handle)
{
	struct peer *peer = handle->data;
	struct inject *inject = peer->inject;

	if (--peer->handles)
		return;
	/* A child that was forked during attaching may have a copy of our end. */
	shutdown(peer->fd, SHUT_RDWR);
	close(peer->fd);
	if (peer->process_fd >= 0)
		close(peer->process_fd);
	inject_ring_close(&peer->ring);
	quota_give(&inject->ring_bytes, peer->user, peer->ring_bytes);
	free(peer);
	inject_handle_closed(inject);
}

static void peer_close(struct peer *peer)
{
	uv_handle_t *handle[] = { (uv_handle_t *)&peer->socket, (uv_handle_t *)&peer->process,
				  (uv_handle_t *)&peer->wake };

	peer->closing = true;
	quota_give(&peer->inject->places, peer->user, 1);
	intake_lane_close(&peer->lane);
	list_remove(&peer->link);
	list_remove(&peer->awake);
	for (int i = 0; i < 3; i++)
		if (handle[i]->data)
			uv_close(handle[i], peer_handle_closed);
}

/* A start, change or end of collection has a time, and a call of light mode; what else a library
 * hands over was over some time before, and comes with what is before it in the ring. */
static uint64_t record_time_ns(const void *record, size_t size)
{
	const struct ts_event *event = record;
	uint64_t time_ns, now_ns;

	if ((event->kind != TS_EVENT_COLLECT && event->kind != TS_EVENT_API) ||
	    size < sizeof(*event))
		return 0;
	time_ns = event->end_ns > event->start_ns ? event->end_ns : event->start_ns;
	now_ns = uv_hrtime();
	return time_ns < now_ns ? time_ns : now_ns;
}

static bool peer_take(void *data, void *record, size_t size)
{
	struct peer *peer = data;
	struct ts_event *event = record; /* names and stacks have their tgid there too */
	struct inject *inject = peer->inject;

	event->tgid = peer->pid;
	inject->stats.records++;
	inject->stats.bytes += size;
	return intake_put(&peer->lane, record_time_ns(record, size), record, size);
}

void peer_give(void *data, const void *record, size_t size)
{
	struct peer *peer = data;
	struct inject *inject = peer->inject;

	inject->callbacks.record(inject->data, peer->pid, record, size);
}

static void peer_tell_lost(struct peer *peer, uint64_t stuck)
{
	struct inject *inject = peer->inject;
	uint64_t no_room = inject_ring_dropped(&peer->ring);

	inject->stats.dropped += no_room;
	inject->stats.stuck += stuck;
	if (no_room || stuck)
		inject->callbacks.lost(inject->data, peer->pid, no_room, stuck);
}

static void peer_wake(struct peer *peer)
{
	uv_poll_stop(&peer->wake);
	inject_ring_woken(&peer->ring);
	peer->quiet_since_ms = uv_now(peer->inject->loop);
	list_append(&peer->inject->awake, &peer->awake);
}

void peer_peek(struct peer *peer)
{
	if (ts_ring_waiting(&peer->ring.reader))
		peer_wake(peer);
	else
		intake_lane_done(&peer->lane);
}

static void peer_on_wake(uv_poll_t *poll, int status, int events)
{
	struct peer *peer = poll->data;

	peer_wake(peer);
	intake_wake(peer->inject->intake);
}

static enum intake_state peer_sleep(struct peer *peer)
{
	if (!inject_ring_sleep(&peer->ring))
		return INTAKE_AWAKE;
	list_remove(&peer->awake);
	uv_poll_start(&peer->wake, UV_READABLE, peer_on_wake);
	return INTAKE_ASLEEP;
}

/* Passes over what its writer never published; returns whether it did. */
static bool peer_skip(struct peer *peer)
{
	uint64_t skipped = ts_ring_skip(&peer->ring.reader);

	ts_ring_release(&peer->ring.reader);
	peer->stuck_seen_ms = 0;
	peer_tell_lost(peer, skipped);
	return skipped > 0;
}

/* A slot is claimed and not published: whether that has been so for too long. */
static bool peer_stuck(struct peer *peer, uint64_t now_ms)
{
	uint64_t since_ms = peer->stuck_seen_ms ? now_ms - peer->stuck_seen_ms : 0;

	if (!peer->stuck_seen_ms)
		peer->stuck_ms = 0;
	peer->stuck_ms += since_ms < STUCK_LOOK_MS ? since_ms : STUCK_LOOK_MS;
	peer->stuck_seen_ms = now_ms;
	return peer->stuck_ms >= STUCK_MS;
}

/* There was no record. */
static enum intake_state peer_wait(struct peer *peer)
{
	uint64_t now_ms = uv_now(peer->inject->loop);

	if (!ts_ring_waiting(&peer->ring.reader)) {
		peer->stuck_seen_ms = 0;
		if (now_ms - peer->quiet_since_ms >= QUIET_MS)
			return peer_sleep(peer);
	} else if (peer_stuck(peer, now_ms)) {
		peer_skip(peer);
	}
	return INTAKE_AWAKE;
}

static void peer_gone(struct peer *peer)
{
	struct inject *inject = peer->inject;

	inject->stats.processes--;
	inject->callbacks.gone(inject->data, peer->pid);
	peer_close(peer);
}

/* What was in its ring is read. It is over when what others have of before then is given, too. */
static void peer_over(struct peer *peer, uint64_t now_ns)
{
	if (!peer->ended_ns)
		peer->ended_ns = now_ns;
	intake_lane_done(&peer->lane);
	peer_tell_lost(peer, 0);
	if (intake_lane_passed(&peer->lane, peer->ended_ns))
		peer_gone(peer);
}

static enum intake_state peer_look_last(struct peer *peer, uint64_t now_ns, uint32_t budget)
{
	uint64_t left = peer->end - peer->ring.reader.position;
	uint32_t taken;

	if (left > peer->ring.reader.ring.mask + 1ull)
		left = 0; /* a long record went beyond it */
	taken = inject_ring_read(&peer->ring, left < budget ? (uint32_t)left : budget, peer_take,
				 peer);
	if (intake_lane_holds(&peer->lane))
		return INTAKE_AWAKE;
	if (taken || (left && peer_skip(peer)))
		return INTAKE_MORE;
	peer_over(peer, now_ns);
	return INTAKE_AWAKE;
}

enum intake_state peer_look(struct peer *peer, uint64_t now_ns, uint32_t budget)
{
	uint32_t slots = peer->ring.reader.ring.mask + 1, taken;
	uint64_t waiting = ts_ring_waiting(&peer->ring.reader);

	intake_lane_roomy(&peer->lane, waiting < slots / 4);
	if (intake_lane_holds(&peer->lane))
		return INTAKE_AWAKE;
	if (peer->stage == PEER_ENDED)
		return peer_look_last(peer, now_ns, budget);
	taken = inject_ring_read(&peer->ring, budget < slots ? budget : slots, peer_take, peer);
	peer_tell_lost(peer, 0);
	/* What was there when the turn started is read, whatever has come since; a slot that is
	 * claimed and not yet published hides those behind it. */
	if (taken >= waiting)
		intake_lane_done(&peer->lane);
	if (!taken)
		return peer_wait(peer);
	peer->quiet_since_ms = uv_now(peer->inject->loop);
	peer->stuck_seen_ms = 0;
	return taken >= budget ? INTAKE_MORE : INTAKE_AWAKE;
}

void peer_end(struct peer *peer)
{
	if (peer->closing || peer->stage == PEER_ENDED)
		return;
	if (peer->stage == PEER_NEW) {
		peer_close(peer);
		if (peer->adopted)
			peer->inject->callbacks.unheard(peer->inject->data, peer->pid);
		return;
	}
	peer->stage = PEER_ENDED;
	peer->end = peer->ring.reader.position + peer->ring.reader.ring.mask + 1;
	uv_poll_stop(&peer->socket);
	uv_poll_stop(&peer->wake);
	if (peer->process.data)
		uv_poll_stop(&peer->process);
	if (!list_linked(&peer->awake))
		list_append(&peer->inject->awake, &peer->awake);
	intake_wake(peer->inject->intake);
}

void peer_finish(struct peer *peer)
{
	peer_end(peer);
	if (!peer->closing)
		intake_lane_straight(&peer->lane);
	while (!peer->closing)
		peer_look(peer, uv_hrtime(), LIMIT_EVENTS_PER_TURN);
}

static void peer_on_message(uv_poll_t *poll, int status, int events)
{
	struct peer *peer = poll->data;

	peer_listen(peer);
	if ((status < 0 || (events & UV_DISCONNECT)) && !peer->closing)
		peer_end(peer);
}

/* The process has ended, and a child of it may still have our socket. */
static void peer_on_exit(uv_poll_t *poll, int status, int events)
{
	struct peer *peer = poll->data;

	peer_listen(peer);
	if (!peer->closing)
		peer_end(peer);
}

/* -ESRCH: it has ended. If the kernel has no pidfd, only the connection can tell. */
static int open_process(int fd, uint32_t pid)
{
	socklen_t size = sizeof(int);
	int process_fd;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &process_fd, &size) == 0)
		return process_fd;
	process_fd = (int)syscall(SYS_pidfd_open, pid, 0);
	return process_fd < 0 ? -errno : process_fd;
}

static int peer_watch(struct peer *peer, uv_poll_t *handle, int fd, int events, uv_poll_cb on)
{
	int r = uv_poll_init(peer->inject->loop, handle, fd);

	if (r < 0)
		return r;
	handle->data = peer;
	peer->handles++;
	return on ? uv_poll_start(handle, events, on) : 0;
}

int peer_new(struct inject *inject, int fd, const struct ucred *process, uint32_t user,
	     bool adopted)
{
	_cleanup_(freep) struct peer *peer = calloc(1, sizeof(*peer));
	_cleanup_(closep) int process_fd = open_process(fd, (uint32_t)process->pid);
	int r;

	if (!peer)
		return -ENOMEM;
	if (process_fd == -ESRCH || process_fd == -EMFILE || process_fd == -ENFILE)
		return process_fd;
	peer->inject = inject;
	peer->pid = (uint32_t)process->pid;
	peer->uid = process->uid;
	peer->user = user;
	peer->adopted = adopted;
	peer->since_ms = uv_now(inject->loop);
	list_init(&peer->link);
	list_init(&peer->awake);
	r = peer_watch(peer, &peer->socket, fd, UV_READABLE | UV_DISCONNECT, peer_on_message);
	if (r < 0 && !peer->socket.data)
		return r;
	/* From here on the last handle frees it. */
	peer->fd = fd;
	peer->process_fd = TAKE_FD(process_fd);
	inject->handles++;
	list_append(&inject->peers, &peer->link);
	if (r == 0 && peer->process_fd >= 0)
		r = peer_watch(peer, &peer->process, peer->process_fd, UV_READABLE, peer_on_exit);
	if (r < 0)
		peer_close(peer);
	TAKE(peer);
	return 0;
}
