/* Inject: the socket that libraries connect to, and the turns in which their rings are read.
 * However many rings there are, a turn takes about as many records as one of them may have. */
#include "daemon/inject/inject.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "core/base/cleanup.h"
#include "core/base/log.h"
#include "daemon/inject/internal.h"
#include "daemon/limits.h"
#include "daemon/proc/owner.h"

#define BACKLOG		 128
#define ACCEPTS_PER_TURN 64
#define LOOK_SLOTS_MIN	 64 /* of one ring in a round, however many there are */
#define SWEEP_MS	 500

static struct inject *inject_free(struct inject *inject)
{
	if (!inject)
		return NULL;
	if (inject->path)
		unlink(inject->path);
	free(inject->path);
	quota_release(&inject->places);
	quota_release(&inject->ring_bytes);
	if (inject->listen_fd >= 0)
		close(inject->listen_fd);
	free(inject);
	return NULL;
}
CLEANUP_DEFINE(struct inject, inject_free)

void inject_handle_closed(struct inject *inject)
{
	void (*closed)(void *data) = inject->closed;
	void *data = inject->data;

	if (--inject->handles || !closed)
		return;
	inject_free(inject);
	closed(data);
}

static void on_handle_closed(uv_handle_t *handle)
{
	inject_handle_closed(handle->data);
}

/* The one with a ring. */
struct peer *inject_find(const struct inject *inject, uint32_t pid)
{
	struct peer *peer;

	list_for_each(peer, &inject->peers, link) {
		if (peer->pid == pid && peer->stage != PEER_NEW)
			return peer;
	}
	return NULL;
}

static uint32_t inject_share(const struct inject *inject, uint32_t budget)
{
	struct peer *peer;
	uint32_t count = 0, share;

	if (budget == UINT32_MAX)
		return budget;
	list_for_each(peer, &inject->awake, awake) {
		count++;
	}
	share = budget / (count ? count : 1);
	return share > LOOK_SLOTS_MIN ? share : LOOK_SLOTS_MIN;
}

/* Each ring is looked at, since others wait for what may be in it; one that sleeps is a load. */
static enum intake_state inject_on_turn(void *data, uint64_t now_ns, uint32_t budget)
{
	struct inject *inject = data;
	enum intake_state most = INTAKE_ASLEEP;
	uint32_t share = inject_share(inject, budget);
	struct peer *peer;

	list_for_each(peer, &inject->peers, link) {
		enum intake_state state;

		if (peer->stage == PEER_NEW)
			continue;
		if (!list_linked(&peer->awake))
			peer_peek(peer);
		if (!list_linked(&peer->awake))
			continue;
		state = peer_look(peer, now_ns, share);
		if (state > most)
			most = state;
	}
	return most;
}

static void inject_on_sweep(uv_timer_t *timer);
static void inject_on_connection(uv_poll_t *poll, int status, int events);

static void inject_sweep_soon(struct inject *inject)
{
	if (!uv_is_active((uv_handle_t *)&inject->sweep))
		uv_timer_start(&inject->sweep, inject_on_sweep, SWEEP_MS, SWEEP_MS);
}

static void inject_on_sweep(uv_timer_t *timer)
{
	struct inject *inject = timer->data;
	uint64_t now_ms = uv_now(inject->loop);
	struct peer *peer;
	bool waits = false;

	if (inject->resting)
		uv_poll_start(&inject->listener, UV_READABLE, inject_on_connection);
	inject->resting = false;
	list_for_each(peer, &inject->peers, link) {
		if (peer->stage != PEER_NEW)
			continue;
		if (now_ms - peer->since_ms >= inject->config.hello_ms)
			peer_end(peer);
		else
			waits = true;
	}
	if (!waits)
		uv_timer_stop(timer);
}

static uint64_t inject_random(struct inject *inject)
{
	inject->random = inject->random * 6364136223846793005 + 1442695040888963407;
	return inject->random >> 33;
}

/* Of those connections of the user that have said nothing yet, any; NULL: there is none. */
static struct peer *inject_any_silent(struct inject *inject, uint32_t user)
{
	struct peer *peer, *any = NULL;
	uint32_t count = 0;

	list_for_each(peer, &inject->peers, link)
		if (peer->user == user && peer->stage == PEER_NEW && !peer->adopted &&
		    inject_random(inject) % ++count == 0)
			any = peer;
	return any;
}

static bool inject_give_up(void *data, uint32_t user)
{
	struct inject *inject = data;
	struct peer *silent = inject_any_silent(inject, user);

	if (!silent)
		return false;
	inject->stats.refused++;
	peer_end(silent);
	return true;
}

/* If there is no place, whoever has most loses a connection that has said nothing, and without one
 * the user himself: a library says hello at once, so those who only keep places do not keep it out,
 * not even if they are many users. */
static bool inject_has_place(struct inject *inject, uint32_t user)
{
	if (quota_claim(&inject->places, user, inject_give_up, inject))
		return true;
	inject->stats.refused++;
	return false;
}

static int inject_take(struct inject *inject, int fd, const uint32_t *pid)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);
	uint32_t user;
	int r;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return -errno;
	/* 0: in a PID namespace that is not below ours. */
	if (peer.pid <= 0 || (pid && (uint32_t)peer.pid != *pid))
		return -EPERM;
	user = owner_of((uint32_t)peer.pid, peer.uid);
	if (!inject_has_place(inject, user))
		return -EUSERS;
	r = peer_new(inject, fd, &peer, user, pid != NULL);
	if (r == 0)
		inject_sweep_soon(inject);
	else
		quota_give(&inject->places, user, 1);
	return r;
}

static bool is_shortage(int error)
{
	return error == -EMFILE || error == -ENFILE || error == -ENOMEM || error == -ENOBUFS;
}

/* A library whose connection is closed retries later. */
static void inject_on_connection(uv_poll_t *poll, int status, int events)
{
	static struct log_limit limit;
	struct inject *inject = poll->data;
	int r = 0;

	for (int i = 0; i < ACCEPTS_PER_TURN && !is_shortage(r); i++) {
		_cleanup_(closep) int fd =
			accept4(inject->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		r = fd < 0 ? -errno : inject_take(inject, fd, NULL);
		if (r == 0)
			TAKE_FD(fd);
		else if (log_allowed(&limit, 1))
			log_warning_errno(r, "Failed to accept a library's connection");
	}
	if (is_shortage(r)) {
		/* It would be reported again and again. */
		uv_poll_stop(poll);
		inject->resting = true;
		inject_sweep_soon(inject);
	}
}

/* Somebody still answers there. */
static bool answers(const struct sockaddr_un *address)
{
	_cleanup_(closep) int fd =
		socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd >= 0 && (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 ||
			   errno == EAGAIN || errno == EPROTOTYPE);
}

static int make_socket(struct inject *inject, const char *path)
{
	_cleanup_(closep) int fd = -1;
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct stat there;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path));
	if (lstat(path, &there) == 0 && !S_ISSOCK(there.st_mode))
		return -EEXIST;
	if (answers(&address))
		return -EADDRINUSE;
	if (unlink(path) < 0 && errno != ENOENT)
		return -errno;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	inject->path = strdup(path);
	if (!inject->path)
		return -ENOMEM;
	if (chmod(path, 0666) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static int inject_listen(struct inject *inject)
{
	int r;

	if (inject->config.fd < 0 && !inject->config.path)
		return 0;
	r = inject->config.fd >= 0 ? inject->config.fd : make_socket(inject, inject->config.path);
	if (r < 0)
		return r;
	inject->listen_fd = r;
	r = uv_poll_init(inject->loop, &inject->listener, inject->listen_fd);
	if (r < 0)
		return r;
	inject->listener.data = inject;
	inject->handles++;
	return uv_poll_start(&inject->listener, UV_READABLE, inject_on_connection);
}

static void ignore_closed(void *data)
{
}

int inject_new(uv_loop_t *loop, struct intake *intake, const struct inject_config *config,
	       const struct inject_callbacks *callbacks, void *data, struct inject **ret)
{
	_cleanup_(inject_freep) struct inject *inject = calloc(1, sizeof(*inject));
	int r;

	if (!inject)
		return -ENOMEM;
	inject->loop = loop;
	inject->intake = intake;
	inject->config = *config;
	if (!config->slots)
		inject->config.slots = LIMIT_INJECT_SLOTS;
	inject->places.total = config->max_processes ?: LIMIT_INJECT_PROCESSES;
	inject->ring_bytes.total = config->max_ring_bytes ?: LIMIT_INJECT_RING_BYTES;
	inject->random = uv_hrtime();
	if (!config->hello_ms)
		inject->config.hello_ms = LIMIT_INJECT_HELLO_MS;
	inject->callbacks = *callbacks;
	inject->data = data;
	inject->listen_fd = -1;
	list_init(&inject->peers);
	list_init(&inject->awake);
	if (!ts_ring_slots_ok(inject->config.slots))
		return -EINVAL;
	uv_timer_init(loop, &inject->sweep);
	inject->sweep.data = inject;
	inject->handles = 1;
	intake_attach(intake, INTAKE_LIBRARIES, inject_on_turn, inject);
	r = inject_listen(inject);
	if (r < 0) {
		inject_close(TAKE(inject), ignore_closed);
		return r;
	}
	*ret = TAKE(inject);
	return 0;
}

void inject_close(struct inject *inject, void (*closed)(void *data))
{
	struct peer *peer;

	inject->closed = closed;
	while ((peer = list_first(&inject->peers, struct peer, link)))
		peer_finish(peer);
	intake_attach(inject->intake, INTAKE_LIBRARIES, NULL, NULL);
	uv_close((uv_handle_t *)&inject->sweep, on_handle_closed);
	if (inject->listener.data)
		uv_close((uv_handle_t *)&inject->listener, on_handle_closed);
}

int inject_adopt(struct inject *inject, int fd, uint32_t pid)
{
	return inject_take(inject, fd, &pid);
}

int inject_settings(struct inject *inject, uint32_t pid, const struct ts_settings *settings)
{
	struct ts_welcome message = {
		.message = TS_MESSAGE_SETTINGS,
		.protocol = TS_HELLO_PROTOCOL,
		.settings = *settings,
	};

	if (!inject_has(inject, pid))
		return -ENOENT;
	message.slots = inject_find(inject, pid)->ring.reader.ring.mask + 1;
	return peer_say(inject_find(inject, pid), &message, sizeof(message));
}

int inject_window(struct inject *inject, uint32_t pid, enum ts_window_how how, uint64_t at_ns)
{
	struct ts_window message = {
		.message = TS_MESSAGE_WINDOW,
		.how = how,
		.at_ns = at_ns,
	};

	if (!inject_has(inject, pid))
		return -ENOENT;
	return peer_say(inject_find(inject, pid), &message, sizeof(message));
}

int inject_modules(struct inject *inject, uint32_t pid)
{
	const uint32_t kind = TS_MESSAGE_MODULES;

	if (!inject_has(inject, pid))
		return -ENOENT;
	return peer_say(inject_find(inject, pid), &kind, sizeof(kind));
}

int inject_watched(struct inject *inject, uint32_t pid)
{
	const uint32_t kind = TS_MESSAGE_WATCHED;

	if (!inject_has(inject, pid))
		return -ENOENT;
	return peer_say(inject_find(inject, pid), &kind, sizeof(kind));
}

int inject_walk(struct inject *inject, uint32_t pid, int fd)
{
	const uint32_t kind = TS_MESSAGE_WALK;

	if (!inject_has(inject, pid))
		return -ENOENT;
	return peer_hand(inject_find(inject, pid), &kind, sizeof(kind), &fd, 1);
}

int inject_stacks(struct inject *inject, uint32_t pid, uint32_t stacks, uint64_t sample_ns)
{
	struct ts_light_stacks message = {
		.message = TS_MESSAGE_STACKS,
		.stacks = stacks,
		.sample_ns = sample_ns,
	};

	if (!inject_has(inject, pid))
		return -ENOENT;
	return peer_say(inject_find(inject, pid), &message, sizeof(message));
}

int inject_detach(struct inject *inject, uint32_t pid)
{
	struct ts_refused message = { .message = TS_MESSAGE_DETACH };

	if (!inject_has(inject, pid))
		return -ENOENT;
	return peer_say(inject_find(inject, pid), &message, sizeof(message));
}

bool inject_has(const struct inject *inject, uint32_t pid)
{
	const struct peer *peer = inject_find(inject, pid);

	return peer && peer->stage == PEER_WELCOMED;
}

void inject_stats(const struct inject *inject, struct inject_stats *ret)
{
	*ret = inject->stats;
}
