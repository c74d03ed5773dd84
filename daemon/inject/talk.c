/* Talk: the messages of a library and our answers. Messages are copied and checked; a short or
 * unknown one, or too many, end the connection. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/poll.h>
#include <sys/socket.h>

#include "core/base/cleanup.h"
#include "core/base/log.h"
#include "core/base/utf8.h"
#include "daemon/inject/internal.h"
#include "daemon/limits.h"

#define FDS_MAX 2

union message {
	uint32_t kind;
	struct ts_hello hello;
	struct ts_state state;
	struct ts_light light;
	struct ts_light_stacks stacks;
	struct ts_light_walks walks;
};

int peer_say(struct peer *peer, const void *message, size_t size)
{
	if (send(peer->fd, message, size, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	return 0;
}

int peer_hand(struct peer *peer, const void *message, size_t size, const int *fd, unsigned int fds)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(FDS_MAX * sizeof(*fd))] = { 0 };
	struct iovec part = { (void *)message, size };
	struct msghdr header = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = CMSG_SPACE(fds * sizeof(*fd)),
	};
	struct cmsghdr *rights = CMSG_FIRSTHDR(&header);

	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN(fds * sizeof(*fd));
	memcpy(CMSG_DATA(rights), fd, fds * sizeof(*fd));
	return sendmsg(peer->fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* Makes untrusted text safe to show: terminated, UTF-8, on one line. */
static void clean_text(char *text, size_t size)
{
	bool valid;

	text[size - 1] = '\0';
	valid = utf8_valid(text, strlen(text));
	for (unsigned char *c = (unsigned char *)text; *c; c++)
		if (*c < ' ' || *c == 0x7f || (*c >= 0x80 && !valid))
			*c = '?';
}

static void peer_foreign(struct peer *peer, const char *what)
{
	static struct log_limit limit;

	if (log_allowed(&limit, 1))
		log_warning("Process %u %s: closing its library's connection", peer->pid, what);
	peer_end(peer);
}

static void peer_refuse(struct peer *peer, const char *why)
{
	struct ts_refused refused = { .message = TS_MESSAGE_REFUSED };

	snprintf(refused.text, sizeof(refused.text), "%s", why);
	peer->inject->stats.refused++;
	peer_say(peer, &refused, sizeof(refused));
	peer_end(peer);
}

static bool peer_has_hung_up(const struct peer *peer)
{
	struct pollfd state = { .fd = peer->fd };

	return peer->stage == PEER_ENDED || (poll(&state, 1, 0) > 0 && (state.revents & POLLHUP));
}

/* One connection per process: an older one must be over. False: refused. */
static bool peer_is_only(struct peer *peer)
{
	struct peer *older = inject_find(peer->inject, peer->pid);

	if (!older)
		return true;
	if (peer_has_hung_up(older)) {
		peer_listen(older);
		peer_end(older);
		intake_reach(peer->inject->intake, uv_hrtime());
		if (!older->closing)
			peer_finish(older);
		return true;
	}
	peer_refuse(peer, "This process is already connected to the daemon: detach it first");
	return false;
}

static int send_welcome(struct peer *peer, const struct ts_settings *settings, int ring_fd)
{
	const int fd[2] = { ring_fd, peer->ring.wake_fd };
	const struct ts_welcome welcome = {
		.message = TS_MESSAGE_WELCOME,
		.protocol = TS_HELLO_PROTOCOL,
		.slots = peer->ring.reader.ring.mask + 1,
		.settings = *settings,
	};

	return peer_hand(peer, &welcome, sizeof(welcome), fd, 2);
}

/* From here on it has a ring, and its end is reported. */
static void peer_welcomed(struct peer *peer)
{
	struct inject *inject = peer->inject;

	peer->stage = PEER_WELCOMED;
	peer->quiet_since_ms = uv_now(inject->loop);
	inject->stats.processes++;
	list_append(&inject->awake, &peer->awake);
	peer->lane.give = peer_give;
	peer->lane.data = peer;
	intake_lane_open(&peer->lane, inject->intake, INTAKE_LIBRARIES, uv_hrtime());
	intake_wake(inject->intake);
}

/* The more its user's rings take, the smaller is the next one. -EUSERS: they take as much as one
 * user may have. */
static int ring_slots(struct peer *peer, uint32_t *ret)
{
	struct inject *inject = peer->inject;
	uint64_t part = quota_left(&inject->ring_bytes, peer->user) / LIMIT_INJECT_RING_PART;
	uint32_t slots = inject->config.slots;

	while (slots > LIMIT_INJECT_SLOTS_MIN && ts_ring_bytes(slots) > part)
		slots /= 2;
	if (!quota_take(&inject->ring_bytes, peer->user, ts_ring_bytes(slots)))
		return -EUSERS;
	peer->ring_bytes = ts_ring_bytes(slots);
	*ret = slots;
	return 0;
}

static int make_ring(struct peer *peer, int *ret_fd)
{
	uint32_t slots;
	int r = ring_slots(peer, &slots);

	if (r == 0)
		r = inject_ring_open(slots, &peer->ring, ret_fd);
	if (r == 0)
		r = uv_poll_init(peer->inject->loop, &peer->wake, peer->ring.wake_fd);
	if (r < 0)
		return r;
	peer->wake.data = peer;
	peer->handles++;
	return 0;
}

static void peer_welcome(struct peer *peer, const struct ts_hello *hello)
{
	static struct log_limit limit;
	struct inject *inject = peer->inject;
	_cleanup_(closep) int ring_fd = -1;
	struct ts_settings settings = { 0 };
	char why[TS_HELLO_TEXT] = "";
	int r;

	r = make_ring(peer, &ring_fd);
	if (r == -EUSERS) {
		peer_refuse(peer, "The processes that this user records have as much memory for "
				  "records as one user may: record fewer at one time");
		return;
	}
	if (r < 0) {
		/* It retries, and that may succeed. */
		if (log_allowed(&limit, 1))
			log_warning_errno(r, "Failed to create a ring for process %u", peer->pid);
		peer_end(peer);
		return;
	}
	r = inject->callbacks.hello(inject->data, peer->pid, peer->uid, hello, &settings, why);
	if (r < 0) {
		why[sizeof(why) - 1] = '\0';
		peer_refuse(peer, *why ? why : "The daemon does not record this process");
		return;
	}
	peer_welcomed(peer);
	if (send_welcome(peer, &settings, ring_fd) < 0)
		peer_end(peer);
}

static void peer_on_hello(struct peer *peer, struct ts_hello *hello)
{
	char why[TS_HELLO_TEXT];

	clean_text(hello->version, sizeof(hello->version));
	if (hello->protocol != TS_HELLO_PROTOCOL) {
		snprintf(why, sizeof(why),
			 "The library (%s) speaks protocol %u, the daemon (%s) %u: install the "
			 "same version of both",
			 hello->version, hello->protocol, TS_VERSION, TS_HELLO_PROTOCOL);
		peer_refuse(peer, why);
		return;
	}
	if (peer_is_only(peer))
		peer_welcome(peer, hello);
}

static void peer_on_state(struct peer *peer, struct ts_state *state)
{
	struct inject *inject = peer->inject;

	clean_text(state->text, sizeof(state->text));
	inject->callbacks.state(inject->data, peer->pid, state);
	/* A child that was forked at a bad moment may keep the connection open. */
	if (state->state == TS_LIBRARY_GONE)
		peer_end(peer);
}

static void peer_on_light(struct peer *peer, struct ts_light *light)
{
	struct inject *inject = peer->inject;

	clean_text(light->text, sizeof(light->text));
	inject->callbacks.light(inject->data, peer->pid, light);
}

static bool peer_says_too_much(struct peer *peer)
{
	uint64_t second = uv_now(peer->inject->loop) / 1000;

	if (second != peer->second)
		peer->messages = 0;
	peer->second = second;
	return ++peer->messages > LIMIT_INJECT_MESSAGES_PER_S;
}

static void peer_message(struct peer *peer, union message *message, size_t size)
{
	if (peer_says_too_much(peer))
		peer_foreign(peer, "sends too many messages");
	else if (peer->stage == PEER_NEW && size >= sizeof(message->hello) &&
		 message->kind == TS_MESSAGE_HELLO)
		peer_on_hello(peer, &message->hello);
	else if (peer->stage == PEER_WELCOMED && size >= sizeof(message->state) &&
		 message->kind == TS_MESSAGE_STATE)
		peer_on_state(peer, &message->state);
	else if (peer->stage == PEER_WELCOMED && size >= sizeof(message->light) &&
		 message->kind == TS_MESSAGE_LIGHT)
		peer_on_light(peer, &message->light);
	else if (peer->stage == PEER_WELCOMED && size >= sizeof(message->stacks) &&
		 message->kind == TS_MESSAGE_STACKS)
		peer->inject->callbacks.stacks(peer->inject->data, peer->pid,
					       message->stacks.stacks);
	else if (peer->stage == PEER_WELCOMED && size >= sizeof(message->walks) &&
		 message->kind == TS_MESSAGE_WALKS)
		peer->inject->callbacks.walks(peer->inject->data, peer->pid, &message->walks);
	else
		peer_foreign(peer, "sends a message that no library sends");
}

void peer_listen(struct peer *peer)
{
	union message message;
	ssize_t n;

	while (!peer->closing && peer->stage != PEER_ENDED) {
		n = recv(peer->fd, &message, sizeof(message), MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n > 0)
			peer_message(peer, &message, (size_t)n);
		else
			peer_end(peer);
	}
}
