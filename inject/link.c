/* Link: our one thread, and its conversation with the daemon. It starts on request and ends when
 * the daemon refuses or detaches us; without a daemon it keeps retrying quietly. It blocks all
 * signals, and only it calls cupti.c. */
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/time.h"
#include "inject/address.h"
#include "inject/descriptor.h"
#include "inject/helper.h"
#include "inject/light.h"
#include "inject/link.h"
#include "inject/pin.h"
#include "inject/settle.h"

#define HELLO_WAIT_MS 5000
/* Without a daemon we retry this often while it may be about to return: work submitted until then
 * has no times. A failed connect takes a few microseconds. */
#define AGAIN_MS      100
#define AGAIN_OFTEN   600
#define AGAIN_RARE_MS 1000
#define GONE_WAIT_MS  1000
#define EXIT_WAIT_MS  500

enum stage { STAGE_IDLE, STAGE_RUNNING, STAGE_FORKED };
enum outcome { OUTCOME_NO_DAEMON, OUTCOME_DAEMON_GONE, OUTCOME_END };

union message {
	uint32_t kind;
	struct ts_welcome welcome;
	struct ts_refused refused;
	struct ts_window window;
	struct ts_light_stacks stacks;
};

struct received {
	union message message;
	size_t size;
	int fd[2]; /* -1 if none was handed in */
};

static int stage; /* enum stage */
/* A socket handed in while we had no connection, or one of these; a futex. */
enum { NOTHING = -1, CLOSED = -2 };
static int offered = NOTHING;
static int connected;
static int exiting;
static int serving, finished; /* with a daemon; the last of what there was to hand over */

/* Of our thread. */
static struct {
	enum ts_hello_how how;
	struct ts_settings wanted;
	struct sockaddr_un address;
	int socket;
	bool started;  /* cupti.c or light.c has something to give back */
	bool light;    /* cupti.c is not used */
	bool hooks;    /* the daemon is to say whether hot functions lead to us */
	bool tried;    /* to record, meanwhile */
	bool stranded; /* memory with a writer still inside */
	bool clings;   /* something refers to us, so we must not be unloaded */
	struct ts_state untold;
} self = { .socket = -1 };

static uint64_t now_ms(void)
{
	return clock_ns(CLOCK_MONOTONIC) / NS_PER_MS;
}

/* The process exits: the last that our thread does. */
static void link_finish(void)
{
	if (self.started && !self.light)
		cupti_at_exit();
	handover_losses();
	__atomic_store_n(&finished, 1, __ATOMIC_SEQ_CST);
	for (;;)
		poll(NULL, 0, -1);
}

/* Has our thread hand over what is finished, with a daemon. Nothing is done here: CUPTI may be half
 * gone and not return, and the exiting thread may have a filter that kills for what that takes. */
void link_at_exit(void)
{
	int saved = errno;

	if (__atomic_load_n(&stage, __ATOMIC_ACQUIRE) != STAGE_RUNNING ||
	    __atomic_exchange_n(&exiting, 1, __ATOMIC_SEQ_CST))
		return;
	if (__atomic_load_n(&serving, __ATOMIC_SEQ_CST) && descriptor_is_ours(self.socket))
		shutdown(self.socket, SHUT_RD); /* it leaves its poll() */
	for (int ms = 0; ms < EXIT_WAIT_MS && __atomic_load_n(&serving, __ATOMIC_SEQ_CST) &&
			 !__atomic_load_n(&finished, __ATOMIC_SEQ_CST);
	     ms++)
		poll(NULL, 0, 1);
	errno = saved;
}

void link_forked(void)
{
	if (stage != STAGE_RUNNING)
		return;
	stage = STAGE_FORKED;
	if (self.socket >= 0)
		descriptor_close(self.socket);
	if (offered >= 0)
		close(offered);
	self.socket = -1;
	offered = CLOSED;
	handover_forked();
	light_forked();
	cupti_forked();
}

/* On our thread, so that no thread of the program ever waits for the locks of these lists. Handlers
 * registered here go away when the library is unloaded. */
static void link_register(void)
{
	static bool registered;

	if (!registered)
		registered =
			pthread_atfork(NULL, NULL, link_forked) == 0 && atexit(link_at_exit) == 0;
}

/* Handlers run in reverse order: register after those of libcupti to be called before them. */
static void link_register_again(void)
{
	static bool registered;

	if (!registered)
		registered = atexit(link_at_exit) == 0;
}

static bool link_wait_for(short events, int ms)
{
	struct pollfd wait = { .fd = self.socket, .events = events };
	int r;

	do {
		r = poll(&wait, 1, ms);
	} while (r < 0 && errno == EINTR);
	return r > 0;
}

static bool link_send(const void *message, size_t size)
{
	return send(self.socket, message, size, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)size;
}

/* The first attempt to record has finished, either way; and so has the one to see hot calls. */
static void link_settled(void)
{
	self.tried = true;
	if (!self.hooks)
		settle_done();
}

void link_tell(enum ts_library_state state, bool unloadable, const char *text)
{
	struct ts_state message = {
		.message = TS_MESSAGE_STATE,
		.state = state,
		.unloadable = unloadable,
	};

	snprintf(message.text, sizeof(message.text), "%s", text ? text : "");
	debug_say("state %d%s%s", state, text && *text ? ": " : "", text ? text : "");
	if (state == TS_LIBRARY_COLLECTING)
		link_register_again();
	link_settled();
	if (self.socket < 0)
		return;
	self.untold = message;
	if (link_send(&message, sizeof(message)))
		self.untold.message = 0;
}

/* What the daemon had no room for. */
static void link_tell_again(void)
{
	if (self.untold.message && link_send(&self.untold, sizeof(self.untold)))
		self.untold.message = 0;
}

static void link_take_fds(struct msghdr *header, int fd[2])
{
	unsigned int count = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
		size_t bytes = c->cmsg_len - CMSG_LEN(0);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i + sizeof(int) <= bytes; i += sizeof(int)) {
			int got;

			memcpy(&got, CMSG_DATA(c) + i, sizeof(got));
			if (count < 2)
				fd[count++] = descriptor_keep(got);
			else
				close(got);
		}
	}
}

static void received_done(struct received *received)
{
	for (int i = 0; i < 2; i++) {
		if (received->fd[i] >= 0)
			descriptor_close(received->fd[i]);
		received->fd[i] = -1;
	}
}

/* -EAGAIN: nothing there; -ECONNRESET: the daemon is gone. */
static int link_receive(struct received *ret)
{
	char control[CMSG_SPACE(2 * sizeof(int))];
	struct iovec part = { &ret->message, sizeof(ret->message) };
	struct msghdr header = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n;

	memset(ret, 0, sizeof(*ret));
	ret->fd[0] = ret->fd[1] = -1;
	n = recvmsg(self.socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	/* A peer that closes without reading everything we sent resets the connection, which is
	 * reported once, before its last message. */
	if (n < 0 && errno == ECONNRESET)
		n = recvmsg(self.socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -EAGAIN;
	if (n <= 0)
		return -ECONNRESET;
	link_take_fds(&header, ret->fd);
	ret->size = (size_t)n;
	if (ret->size < sizeof(uint32_t)) {
		received_done(ret);
		return -ECONNRESET;
	}
	return 0;
}

static void link_refused(const struct received *received)
{
	char text[TS_HELLO_TEXT];

	memcpy(text, received->message.refused.text, sizeof(text));
	text[sizeof(text) - 1] = '\0';
	debug_say("refused by the daemon: %s", text);
}

/* Gets the ring. */
static enum outcome link_welcome(struct received *received)
{
	const struct ts_welcome *welcome = &received->message.welcome;
	int r;

	if (welcome->message == TS_MESSAGE_REFUSED) {
		link_refused(received);
		return OUTCOME_END;
	}
	if (welcome->message != TS_MESSAGE_WELCOME || received->size < sizeof(*welcome) ||
	    welcome->protocol != TS_HELLO_PROTOCOL || received->fd[1] < 0)
		return OUTCOME_NO_DAEMON;
	r = handover_open(received->fd[0], received->fd[1], welcome->slots);
	if (r < 0) {
		debug_say("the daemon's ring cannot be used: %s", strerror(-r));
		return OUTCOME_NO_DAEMON;
	}
	received->fd[1] = -1;
	return OUTCOME_DAEMON_GONE; /* from now on */
}

static enum outcome link_hello(struct ts_settings *ret_settings)
{
	struct ts_hello hello = {
		.message = TS_MESSAGE_HELLO,
		.protocol = TS_HELLO_PROTOCOL,
		.how = self.how,
		.wanted = self.wanted,
		.version = TS_VERSION,
	};
	struct received received;
	enum outcome outcome;

	/* A failure is not the end: the daemon may have refused us at once. */
	link_send(&hello, sizeof(hello));
	if (!link_wait_for(POLLIN, HELLO_WAIT_MS) || link_receive(&received) < 0)
		return OUTCOME_NO_DAEMON;
	outcome = link_welcome(&received);
	*ret_settings = received.message.welcome.settings;
	received_done(&received);
	return outcome;
}

static void link_stop(void)
{
	char why[TS_HELLO_TEXT] = "";
	bool clean;

	clean = self.light || cupti_stop(why, sizeof(why));
	if (!light_stop() && clean) {
		snprintf(why, sizeof(why), "functions of the driver still lead to it");
		clean = false;
	}
	self.started = false;
	handover_losses();
	if (!handover_close())
		self.stranded = true;
	self.clings = !clean;
	if (clean && self.stranded)
		snprintf(why, sizeof(why), "a thread is still handing over a record");
	if (self.socket < 0)
		return;
	/* Only the last state counts. */
	link_tell(TS_LIBRARY_GONE, clean && !self.stranded, why);
	if (self.untold.message && link_wait_for(POLLOUT, GONE_WAIT_MS))
		link_tell_again();
}

static void link_hooked(const struct ts_light_stacks *stacks)
{
	light_stacks(stacks);
	self.hooks = false;
	if (self.tried)
		link_settled();
}

static bool link_offer_light(bool wanted)
{
	struct ts_light light;

	return light_start(wanted, &light) && link_send(&light, sizeof(light));
}

static void link_changed(const struct ts_settings *settings)
{
	if (settings->light == TS_LIGHT_BESIDE)
		link_offer_light(true);
	cupti_settings(settings);
}

/* Handles the waiting messages. */
static enum outcome link_read(void)
{
	struct received received;
	int r;

	while ((r = link_receive(&received)) == 0) {
		uint32_t kind = received.message.kind;

		if (kind == TS_MESSAGE_WALK)
			light_walk(received.fd[0]);
		received_done(&received);
		if (kind == TS_MESSAGE_DETACH)
			return OUTCOME_END;
		if (kind == TS_MESSAGE_REFUSED) {
			link_refused(&received);
			return OUTCOME_END;
		}
		if (kind == TS_MESSAGE_SETTINGS && received.size >= sizeof(struct ts_welcome) &&
		    !self.light)
			link_changed(&received.message.welcome.settings);
		if (kind == TS_MESSAGE_STACKS && received.size >= sizeof(struct ts_light_stacks))
			link_hooked(&received.message.stacks);
		if (kind == TS_MESSAGE_WATCHED)
			settle_watched();
		if (kind == TS_MESSAGE_MODULES && !self.light)
			cupti_modules();
		if (kind == TS_MESSAGE_WINDOW && received.size >= sizeof(struct ts_window))
			cupti_window(&received.message.window);
	}
	return r == -EAGAIN ? OUTCOME_NO_DAEMON : OUTCOME_DAEMON_GONE;
}

static void link_tick(void)
{
	int fd = __atomic_exchange_n(&offered, NOTHING, __ATOMIC_ACQ_REL);

	if (fd >= 0)
		close(fd); /* we had a connection before */
	if (!self.light)
		cupti_tick();
	light_tick(link_send);
	handover_losses();
	link_tell_again();
}

static void link_begin_recording(const struct ts_settings *settings)
{
	self.started = true;
	self.light = settings->light == TS_LIGHT_ALONE;
	self.hooks = self.tried = false;
	self.hooks = link_offer_light(settings->light) && settings->light == TS_LIGHT_BESIDE;
	if (self.light) {
		link_settled();
		return;
	}
	cupti_start(settings);
}

/* With a daemon, until either side closes. */
static enum outcome link_serve(const struct ts_settings *settings)
{
	uint64_t next_ms = now_ms() + CUPTI_TICK_MS;
	enum outcome outcome = OUTCOME_NO_DAEMON;

	link_begin_recording(settings);
	for (;;) {
		uint64_t now = now_ms();

		/* First: who exits shuts the connection. */
		if (__atomic_load_n(&exiting, __ATOMIC_SEQ_CST))
			link_finish();
		if (outcome != OUTCOME_NO_DAEMON)
			return outcome;
		if (!descriptor_is_ours(self.socket))
			return OUTCOME_DAEMON_GONE;
		if (now >= next_ms) {
			link_tick();
			next_ms = now_ms() + CUPTI_TICK_MS;
			continue;
		}
		if (link_wait_for(POLLIN, (int)(next_ms - now)))
			outcome = link_read();
	}
}

static void link_close(void)
{
	int fd = self.socket;

	self.socket = -1; /* first, for link_forked() */
	self.untold.message = 0;
	/* Whoever sees the end of the connection may hand in the next one. */
	__atomic_store_n(&connected, 0, __ATOMIC_RELEASE);
	if (fd >= 0)
		descriptor_close(fd);
}

static enum outcome link_talk(void)
{
	struct ts_settings settings;
	enum outcome outcome = link_hello(&settings);

	if (outcome == OUTCOME_DAEMON_GONE) {
		debug_say("connected to the daemon");
		__atomic_store_n(&serving, 1, __ATOMIC_SEQ_CST);
		outcome = link_serve(&settings);
	}
	if (outcome == OUTCOME_DAEMON_GONE) {
		debug_say("lost the daemon, waiting for it");
		light_suspend();
		if (!self.light)
			cupti_suspend();
		if (!handover_close())
			self.stranded = true;
	} else if (outcome == OUTCOME_END && self.started) {
		link_stop();
	}
	__atomic_store_n(&serving, 0, __ATOMIC_SEQ_CST);
	link_close();
	return outcome;
}

/* The socket that was handed in, or a new one. */
static bool link_connect(void)
{
	int fd = __atomic_exchange_n(&offered, NOTHING, __ATOMIC_ACQ_REL);

	if (fd < 0) {
		fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (fd < 0)
			return false;
		if (connect(fd, (struct sockaddr *)&self.address, sizeof(self.address)) < 0) {
			close(fd);
			return false;
		}
	}
	self.socket = descriptor_keep(fd);
	__atomic_store_n(&connected, 1, __ATOMIC_RELEASE);
	return true;
}

/* Until somebody hands in a socket, or the time is up. */
static void link_wait(unsigned int ms)
{
	struct timespec timeout = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000l };

	syscall(SYS_futex, &offered, FUTEX_WAIT_PRIVATE, NOTHING, &timeout, NULL, 0);
}

/* Before we end: nothing was handed in, and from now on nothing can be. */
static bool link_is_last(void)
{
	int none = NOTHING;

	return __atomic_compare_exchange_n(&offered, &none, CLOSED, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED);
}

/* Whether something may still call us when our thread has ended. */
static bool link_stays(void)
{
	return self.clings || self.stranded || __atomic_load_n(&exiting, __ATOMIC_SEQ_CST);
}

static void *link_main(void *unused)
{
	unsigned int tries = 0;
	enum outcome outcome = OUTCOME_NO_DAEMON;

	prctl(PR_SET_NAME, THREAD_NAME);
	settle_begin();
	link_register();
	while (outcome != OUTCOME_END || !link_is_last()) {
		outcome = link_connect() ? link_talk() : OUTCOME_NO_DAEMON;
		self.hooks = false;
		link_settled();
		settle_watched();
		tries = outcome == OUTCOME_DAEMON_GONE ? 0 : tries + 1;
		if (outcome != OUTCOME_END)
			link_wait(tries < AGAIN_OFTEN ? AGAIN_MS : AGAIN_RARE_MS);
	}
	debug_say("ends");
	if (!link_stays())
		pin_give_at_end();
	__atomic_store_n(&stage, STAGE_IDLE, __ATOMIC_RELEASE);
	return NULL;
}

/* A thread exists already: it takes the socket if it has none. */
static int link_offer(int socket)
{
	int none = NOTHING;

	if (socket < 0 || __atomic_load_n(&connected, __ATOMIC_ACQUIRE) ||
	    !__atomic_compare_exchange_n(&offered, &none, socket, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED))
		return -EALREADY;
	syscall(SYS_futex, &offered, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	return 0;
}

int link_start(enum ts_hello_how how, int socket, const struct ts_settings *wanted)
{
	int before = STAGE_IDLE, r;

	if (!__atomic_compare_exchange_n(&stage, &before, STAGE_RUNNING, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		return before == STAGE_RUNNING ? link_offer(socket) : -ECHILD;
	self.how = how;
	self.wanted = *wanted;
	address_of_daemon(&self.address);
	__atomic_store_n(&offered, socket, __ATOMIC_RELEASE);
	r = pin_take();
	if (r == 0 && (r = helper_start(link_main)) < 0 && !link_stays())
		pin_give();
	if (r < 0) {
		__atomic_store_n(&offered, NOTHING, __ATOMIC_RELEASE);
		__atomic_store_n(&stage, STAGE_IDLE, __ATOMIC_RELEASE);
	}
	return r;
}
