/* inject_fixture.h: the daemon's side of libraries on a loop that the test turns itself, and a
 * library of nothing but a socket and a ring. */
#ifndef INJECT_FIXTURE_H
#define INJECT_FIXTURE_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "daemon/inject/internal.h"
#include "daemon/intake/turn.h"

#define DEADLINE_MS 60000
#define SLOTS	    1024

struct server {
	uv_loop_t loop;
	uv_timer_t alarm; /* so that the loop never waits for long */
	struct inject_config config;
	struct turn turn;
	struct inject *inject;
	char directory[64], path[96];
	/* what the callbacks saw */
	const char *refuse;
	struct ts_settings settings;
	struct ts_hello hello;
	struct ts_state state;
	uint32_t pid, uid;
	uint64_t hellos, states, gone, unheard, records, no_room, stuck, lights;
	uint32_t stacks; /* that a library says it takes */
	struct ts_light_walks walks;
	uint64_t records_at_gone;
	uint64_t told[8]; /* losses by reason, as libraries tell them */
	struct ts_event last;
	bool in_order, closed;
};

/* The other end. */
struct library {
	int fd;
	struct ts_ring ring;
	struct ts_welcome welcome;
	int ring_fd, wake_fd;
};

static inline int on_hello(void *data, uint32_t pid, uint32_t uid, const struct ts_hello *hello,
			   struct ts_settings *ret_settings, char *why)
{
	struct server *server = data;

	server->hellos++;
	server->pid = pid;
	server->uid = uid;
	server->hello = *hello;
	*ret_settings = server->settings;
	if (!server->refuse)
		return 0;
	snprintf(why, TS_HELLO_TEXT, "%s", server->refuse);
	return -EACCES;
}

static inline void on_record(void *data, uint32_t pid, const void *record, size_t size)
{
	struct server *server = data;
	const struct ts_event *event = record;

	assert_true(size % TS_EVENT_SIZE == 0 && size <= TS_RING_COPY_MAX);
	assert_int_equal(event->tgid, pid);
	if (event->start_ns != server->records)
		server->in_order = false;
	server->records++;
	if (event->kind == TS_EVENT_LOST && event->lost.reason < ARRAY_SIZE(server->told))
		server->told[event->lost.reason] += event->lost.count;
	memcpy(&server->last, record, sizeof(server->last));
}

static inline void on_state(void *data, uint32_t pid, const struct ts_state *state)
{
	struct server *server = data;

	server->states++;
	server->state = *state;
}

static inline void on_gone(void *data, uint32_t pid)
{
	struct server *server = data;

	server->gone++;
	server->records_at_gone = server->records;
}

static inline void on_unheard(void *data, uint32_t pid)
{
	struct server *server = data;

	server->unheard++;
	server->pid = pid;
}

static inline void on_lost(void *data, uint32_t pid, uint64_t no_room, uint64_t stuck)
{
	struct server *server = data;

	server->no_room += no_room;
	server->stuck += stuck;
}

static inline void on_light(void *data, uint32_t pid, const struct ts_light *light)
{
	struct server *server = data;

	server->lights++;
	server->pid = pid;
}

static inline void on_stacks(void *data, uint32_t pid, uint32_t stacks)
{
	struct server *server = data;

	server->stacks = stacks;
	server->pid = pid;
}

static inline void on_walks(void *data, uint32_t pid, const struct ts_light_walks *walks)
{
	struct server *server = data;

	server->walks = *walks;
	server->pid = pid;
}

static const struct inject_callbacks server_callbacks = {
	on_hello, on_record, on_state, on_gone, on_unheard, on_lost, on_light, on_stacks, on_walks,
};

static inline void on_alarm(uv_timer_t *timer)
{
}

static inline void on_inject_closed(void *data)
{
	struct server *server = data;

	server->closed = true;
}

/* Turns the loop once, for some milliseconds at most. */
static inline void server_turn(struct server *server)
{
	uv_timer_start(&server->alarm, on_alarm, 5, 0);
	uv_run(&server->loop, UV_RUN_ONCE);
}

#define server_wait(server, condition)                                                             \
	do {                                                                                       \
		uint64_t wait_start = uv_hrtime();                                                 \
		while (!(condition)) {                                                             \
			if ((uv_hrtime() - wait_start) / 1000000 > DEADLINE_MS)                    \
				fail_msg("never came true: %s", #condition);                       \
			server_turn(server);                                                       \
		}                                                                                  \
	} while (0)

static inline void server_start(struct server *server)
{
	assert_int_equal(inject_new(&server->loop, server->turn.intake, &server->config,
				    &server_callbacks, server, &server->inject),
			 0);
	server->closed = false;
}

static inline void server_stop(struct server *server)
{
	inject_close(server->inject, on_inject_closed);
	server_wait(server, server->closed);
}

static inline int server_setup(void **state)
{
	struct server *server = calloc(1, sizeof(*server));

	strcpy(server->directory, "/tmp/test_inject.XXXXXX");
	assert_non_null(mkdtemp(server->directory));
	snprintf(server->path, sizeof(server->path), "%s/inject.sock", server->directory);
	server->in_order = true;
	server->config = (struct inject_config){
		.fd = -1, .path = server->path, .slots = SLOTS, .hello_ms = DEADLINE_MS
	};
	uv_loop_init(&server->loop);
	uv_timer_init(&server->loop, &server->alarm);
	assert_int_equal(turn_init(&server->turn, &server->loop, intake_sources, INTAKE_SOURCES),
			 0);
	server_start(server);
	*state = server;
	return 0;
}

static inline int server_teardown(void **state)
{
	struct server *server = *state;

	server_stop(server);
	turn_close(&server->turn);
	uv_close((uv_handle_t *)&server->alarm, NULL);
	uv_run(&server->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&server->loop), 0);
	rmdir(server->directory);
	free(server);
	return 0;
}

static inline struct library library_connect(const struct server *server)
{
	const struct timeval deadline = { .tv_sec = DEADLINE_MS / 1000 };
	struct library library = { .ring_fd = -1, .wake_fd = -1 };
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	strcpy(address.sun_path, server->path);
	library.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_true(library.fd >= 0);
	setsockopt(library.fd, SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof(deadline));
	assert_int_equal(connect(library.fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return library;
}

static inline void library_close(struct library *library)
{
	close(library->fd);
	if (library->ring.head)
		munmap(library->ring.head, ts_ring_bytes(library->ring.mask + 1));
	if (library->ring_fd >= 0)
		close(library->ring_fd);
	if (library->wake_fd >= 0)
		close(library->wake_fd);
}

static inline void library_send(struct library *library, const void *message, size_t size)
{
	assert_int_equal(send(library->fd, message, size, MSG_NOSIGNAL), size);
}

static inline void library_hello(struct library *library)
{
	const struct ts_hello hello = {
		.message = TS_MESSAGE_HELLO,
		.protocol = TS_HELLO_PROTOCOL,
		.how = TS_HELLO_RUN,
		.wanted.records = TS_RECORD_KERNELS,
		.version = "test",
	};

	library_send(library, &hello, sizeof(hello));
}

static inline bool library_has_message(const struct library *library)
{
	struct pollfd wait = { .fd = library->fd, .events = POLLIN };

	return poll(&wait, 1, 0) > 0;
}

/* Reads one message with what comes beside it; its size, 0 at the end. */
static inline ssize_t library_read(struct library *library, void *message, size_t size)
{
	_Alignas(8) char control[CMSG_SPACE(2 * sizeof(int))];
	struct iovec part = { message, size };
	struct msghdr header = { .msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(library->fd, &header, 0);
	struct cmsghdr *rights = n > 0 ? CMSG_FIRSTHDR(&header) : NULL;

	if (n < 0 && errno == ECONNRESET)
		return 0;
	if (n < 0) /* in a child nobody hears an assertion */
		abort();
	if (rights) {
		memcpy(&library->ring_fd, CMSG_DATA(rights), sizeof(int));
		memcpy(&library->wake_fd, CMSG_DATA(rights) + sizeof(int), sizeof(int));
	}
	return n;
}

static inline void library_map(struct library *library)
{
	void *memory;

	if (library_read(library, &library->welcome, sizeof(library->welcome)) !=
		    sizeof(library->welcome) ||
	    library->welcome.message != TS_MESSAGE_WELCOME || library->wake_fd < 0)
		abort();
	memory = mmap(NULL, ts_ring_bytes(library->welcome.slots), PROT_READ | PROT_WRITE,
		      MAP_SHARED, library->ring_fd, 0);
	if (memory == MAP_FAILED)
		abort();
	library->ring = ts_ring_at(memory, library->welcome.slots);
}

static inline struct library library_start(struct server *server)
{
	struct library library = library_connect(server);

	library_hello(&library);
	server_wait(server, library_has_message(&library));
	library_map(&library);
	return library;
}

static inline int library_put(const struct library *library, uint64_t number)
{
	const struct ts_event event = {
		.kind = TS_EVENT_KERNEL, .tgid = 4711, .tid = 12, .start_ns = number
	};

	return ts_ring_put(&library->ring, &event, sizeof(event));
}

static inline void library_wake(const struct library *library)
{
	const uint64_t one = 1;

	if (ts_ring_wake(&library->ring) &&
	    write(library->wake_fd, &one, sizeof(one)) != sizeof(one))
		abort();
}

/* A process that is a library; `run` never returns to the test. */
static inline pid_t child_start(struct server *server,
				void (*run)(struct server *server, struct library *library))
{
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		struct library library = library_connect(server);

		library_hello(&library);
		run(server, &library);
		_exit(0);
	}
	return child;
}

static inline void child_end(pid_t child)
{
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

#endif
