/* api_fixture.h: a daemon of nothing but its api on a thread of its own, and a client to talk to
 * it. */
#ifndef API_FIXTURE_H
#define API_FIXTURE_H

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "core/base/cleanup.h"
#include "daemon/api/api.h"
#include "daemon/limits.h"
#include "proto/control.pb-c.h"
#include "proto/frame.h"
#include "tests/unit/store_fixture.h"

#define DEADLINE_S 60
#define GROUP	   "daemon" /* gid 1 on every Debian */
#define ENDLESS	   "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "

/* A daemon of nothing but its api, on a thread of its own. */
struct server {
	struct fixture *store;
	char path[128];
	struct api_config config;
	uv_loop_t loop;
	uv_async_t stop;
	uv_async_t act;
	void (*action)(struct server *server);
	sem_t acted;
	struct api *api;
	pthread_t thread;
	/* Asked for and not answered yet; the test answers. */
	struct api_ticket *ticket[LIMIT_TICKETS];
	atomic_uint ticket_count;
	struct api_attach attach; /* the last one */
	struct api_target detach;
	atomic_uint unread;	/* so often a query is told that its data is being read, */
	atomic_uint invisible;	/* and then to wait, */
	atomic_uint unwritten;	/* and that it is being written; */
	atomic_bool later;	/* a later commit has been written, without all of it */
	char live_text[200000]; /* in each message of a subscription */
	atomic_uint live_count, live_ends;
	/* No more messages than this; 0: no end. */
	atomic_uint live_most;
	atomic_uint held_s; /* for this long the store has held data, 0: it does not */
	atomic_uint locked; /* how often it was kept from going on */
};

struct peer {
	int fd;
	struct ts_frame_reader reader;
};

static inline void on_status(void *data, struct status_builder *builder)
{
	status_text(builder, "daemon", "name", true, "test %d", 1);
}

static inline void on_attach(void *data, struct api_ticket *ticket,
			     const struct api_attach *request)
{
	struct server *server = data;

	server->attach = *request;
	server->ticket[server->ticket_count] = ticket;
	server->ticket_count++;
}

static inline void on_detach(void *data, struct api_ticket *ticket, const struct api_target *target)
{
	struct server *server = data;

	server->detach = *target;
	server->ticket[server->ticket_count] = ticket;
	server->ticket_count++;
}

static inline void on_stack(void *data, struct api_ticket *ticket, const struct api_target *target,
			    const struct api_stack *wanted)
{
	on_detach(data, ticket, target);
}

static inline bool on_live(void *data, struct api_live *ret)
{
	static Tracesmith__V1__LiveReply__Process process;
	static Tracesmith__V1__LiveReply__Process *processes[] = { &process };
	static Tracesmith__V1__LiveReply whole, changed;
	struct server *server = data;

	if (server->live_most && server->live_count >= server->live_most)
		return false;
	process = (Tracesmith__V1__LiveReply__Process)TRACESMITH__V1__LIVE_REPLY__PROCESS__INIT;
	process.comm = server->live_text;
	whole = changed = (Tracesmith__V1__LiveReply)TRACESMITH__V1__LIVE_REPLY__INIT;
	whole.whole = true;
	changed.process = whole.process = processes;
	changed.n_process = whole.n_process = 1;
	whole.span_ns = changed.span_ns = ++server->live_count;
	*ret = (struct api_live){ &whole, &changed };
	return true;
}

static inline void on_live_end(void *data)
{
	struct server *server = data;

	server->live_ends++;
}

static inline enum api_visible on_make_visible(void *data, uint64_t time_ns, uint64_t *ret_up_to_ns)
{
	struct server *server = data;

	assert_in_range(time_ns, 1, uv_hrtime());
	*ret_up_to_ns = server->later ? time_ns + 1000000 : time_ns - 2500000000; /* 2.5 s */
	if (server->unread) {
		server->unread--;
		return API_READING;
	}
	if (server->invisible) {
		server->invisible--;
		return API_WAITING;
	}
	if (server->unwritten) {
		server->unwritten--;
		return API_WRITING;
	}
	return API_VISIBLE;
}

static inline uint64_t on_held_since(void *data)
{
	struct server *server = data;
	uint64_t held_s = server->held_s;

	return held_s ? uv_hrtime() - held_s * 1000000000 + 500000000 : 0;
}

static inline void on_held_lock(void *data, bool locked)
{
	struct server *server = data;

	if (locked)
		server->locked++;
}

static inline void on_act(uv_async_t *act)
{
	struct server *server = act->data;
	void (*action)(struct server * server) =
		__atomic_exchange_n(&server->action, NULL, __ATOMIC_ACQUIRE);

	if (!action)
		return;
	action(server);
	sem_post(&server->acted);
}

/* Has something done on the loop. */
static inline void server_act(struct server *server, void (*action)(struct server *server))
{
	/* How libuv hands over, the thread sanitizer does not see. */
	__atomic_store_n(&server->action, action, __ATOMIC_RELEASE);
	uv_async_send(&server->act);
	sem_wait(&server->acted);
}

static inline void on_closed(void *data)
{
	struct server *server = data;

	uv_close((uv_handle_t *)&server->act, NULL);
	uv_close((uv_handle_t *)&server->stop, NULL);
}

static inline void on_stop(uv_async_t *stop)
{
	struct server *server = stop->data;

	api_close(server->api, on_closed);
}

static inline void *run_loop(void *data)
{
	struct server *server = data;

	uv_run(&server->loop, UV_RUN_DEFAULT);
	return NULL;
}

static inline int server_start(struct server *server)
{
	const struct api_callbacks callbacks = {
		.status = on_status,
		.attach = on_attach,
		.detach = on_detach,
		.stack = on_stack,
		.live = on_live,
		.live_end = on_live_end,
		.make_visible = on_make_visible,
		.held_since = on_held_since,
		.held_lock = on_held_lock,
	};
	int r;

	uv_loop_init(&server->loop);
	r = api_new(&server->loop, &server->config, &callbacks, server, &server->api);
	if (r < 0) {
		uv_run(&server->loop, UV_RUN_DEFAULT);
		uv_loop_close(&server->loop);
		return r;
	}
	uv_async_init(&server->loop, &server->stop, on_stop);
	uv_async_init(&server->loop, &server->act, on_act);
	sem_init(&server->acted, 0, 0);
	server->stop.data = server->act.data = server;
	return -pthread_create(&server->thread, NULL, run_loop, server);
}

/* Only a loop without any handle left can be closed. */
static inline void server_stop(struct server *server)
{
	uv_async_send(&server->stop);
	pthread_join(server->thread, NULL);
	assert_int_equal(uv_loop_close(&server->loop), 0);
}

static inline int setup_store(void **state)
{
	struct server *server = calloc(1, sizeof(*server));
	void *store;

	signal(SIGPIPE, SIG_IGN); /* as the daemon does */
	fixture_setup(&store);
	server->store = store;
	memset(server->live_text, 'x', sizeof(server->live_text) - 1);
	assert_int_equal(fixture_open(server->store), 0);
	server->store->store = store_free(server->store->store);
	snprintf(server->path, sizeof(server->path), "%s/control.sock", server->store->directory);
	server->config = (struct api_config){
		.fd = -1,
		.path = server->path,
		.group = GROUP,
		.database = server->store->path,
		.boot_id = "first-boot",
		.zygote = -1,
		.half_ms = DEADLINE_S * 1000,
		.beat_ms = 10,
		.stall_ms = 10 * DEADLINE_S * 1000,
	};
	*state = server;
	return 0;
}

static inline int setup(void **state)
{
	setup_store(state);
	assert_int_equal(server_start(*state), 0);
	return 0;
}

static inline int teardown_store(void **state)
{
	struct server *server = *state;
	void *store = server->store;

	fixture_teardown(&store);
	free(server);
	return 0;
}

static inline int teardown(void **state)
{
	server_stop(*state);
	return teardown_store(state);
}

static inline struct peer peer_connect(const struct server *server)
{
	const struct timeval deadline = { .tv_sec = DEADLINE_S };
	struct peer peer = { .reader.max = TS_FRAME_REPLY_MAX };
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	strcpy(address.sun_path, server->path);
	peer.fd = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_true(peer.fd >= 0);
	setsockopt(peer.fd, SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof(deadline));
	assert_int_equal(connect(peer.fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return peer;
}

static inline void peer_done(struct peer *peer)
{
	close(peer->fd);
	ts_frame_reader_done(&peer->reader);
}

static inline void peer_write(struct peer *peer, const void *data, size_t size)
{
	assert_int_equal(send(peer->fd, data, size, MSG_NOSIGNAL), size);
}

static inline void peer_send(struct peer *peer, const Tracesmith__V1__Request *request)
{
	_cleanup_(freep) uint8_t *data = NULL;
	size_t size;

	assert_int_equal(ts_frame_pack(&request->base, TS_FRAME_REQUEST_MAX, &data, &size), 0);
	peer_write(peer, data, size);
}

/* NULL: the daemon closed the connection. */
static inline Tracesmith__V1__Reply *peer_read(struct peer *peer)
{
	const uint8_t *data;
	Tracesmith__V1__Reply *reply;
	size_t size;
	ssize_t n;
	int r;

	while ((r = ts_frame_reader_next(&peer->reader, &data, &size)) == 0) {
		void *room = ts_frame_reader_room(&peer->reader, &size);

		do /* with a deadline it is interrupted by a stop, too */
			n = recv(peer->fd, room, size, 0);
		while (n < 0 && errno == EINTR);
		if (n < 0 && errno != ECONNRESET)
			fail_msg("no reply: %s", strerror(errno));
		if (n <= 0)
			return NULL;
		ts_frame_reader_fill(&peer->reader, n);
	}
	assert_int_equal(r, 1);
	reply = tracesmith__v1__reply__unpack(NULL, size, data);
	assert_non_null(reply);
	return reply;
}

static inline void reply_done(Tracesmith__V1__Reply *reply)
{
	tracesmith__v1__reply__free_unpacked(reply, NULL);
}

static inline void send_sql(struct peer *peer, uint64_t id, const char *text, uint64_t limit)
{
	Tracesmith__V1__SqlRequest sql = TRACESMITH__V1__SQL_REQUEST__INIT;
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;

	sql.text = (char *)text;
	sql.limit = limit;
	request.id = id;
	request.body_case = TRACESMITH__V1__REQUEST__BODY_SQL;
	request.sql = &sql;
	peer_send(peer, &request);
}

static inline void send_status(struct peer *peer, uint64_t id)
{
	Tracesmith__V1__StatusRequest status = TRACESMITH__V1__STATUS_REQUEST__INIT;
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;

	request.id = id;
	request.body_case = TRACESMITH__V1__REQUEST__BODY_STATUS;
	request.status = &status;
	peer_send(peer, &request);
}

static inline void expect_error(struct peer *peer, uint64_t id, Tracesmith__V1__Error__Code code)
{
	Tracesmith__V1__Reply *reply = peer_read(peer);

	assert_non_null(reply);
	assert_int_equal(reply->id, id);
	assert_int_equal(reply->body_case, TRACESMITH__V1__REPLY__BODY_ERROR);
	assert_int_equal(reply->error->code, code);
	reply_done(reply);
}

static inline void expect_end(struct peer *peer)
{
	assert_null(peer_read(peer));
}

/* The number of one of the api's own status lines, as a client of its own sees it. */
static inline int64_t status_of(const struct server *server, const char *name)
{
	struct peer peer = peer_connect(server);
	Tracesmith__V1__Reply *reply;
	int64_t number = -1;

	send_status(&peer, 7);
	reply = peer_read(&peer);
	assert_non_null(reply);
	assert_int_equal(reply->body_case, TRACESMITH__V1__REPLY__BODY_STATUS);
	assert_string_equal(reply->status->item[0]->value, "test 1");
	assert_true(reply->status->item[0]->warning);
	for (size_t i = 0; i < reply->status->n_item; i++)
		if (strcmp(reply->status->item[i]->name, name) == 0)
			number = reply->status->item[i]->number;
	reply_done(reply);
	peer_done(&peer);
	return number;
}

static inline void wait_for(const struct server *server, const char *name, int64_t number)
{
	int tries = 0;

	while (status_of(server, name) != number) {
		assert_true(++tries < DEADLINE_S * 100);
		pause_ms(10);
	}
}

/* Reads a whole answer and returns its rows. */
static inline uint64_t count_rows(struct peer *peer, uint64_t id)
{
	Tracesmith__V1__Reply *reply;
	uint64_t rows = 0;
	bool done = false;

	while (!done) {
		reply = peer_read(peer);
		assert_non_null(reply);
		assert_int_equal(reply->id, id);
		assert_int_not_equal(reply->body_case, TRACESMITH__V1__REPLY__BODY_ERROR);
		done = reply->body_case == TRACESMITH__V1__REPLY__BODY_DONE;
		if (reply->body_case == TRACESMITH__V1__REPLY__BODY_ROWS)
			rows += reply->rows->n_row;
		if (done)
			assert_int_equal(reply->done->rows, rows);
		reply_done(reply);
	}
	return rows;
}

#endif
