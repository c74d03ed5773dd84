/* Api against a real loop: good clients are served whatever bad ones do. */
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "core/base/cleanup.h"
#include "daemon/api/api.h"
#include "daemon/limits.h"
#include "proto/control.pb-c.h"
#include "proto/frame.h"
#include "tests/unit/store_fixture.h"

#define DEADLINE_S 20
#define GROUP	   "daemon" /* gid 1 on every Debian */
#define ENDLESS	   "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "

/* A daemon of nothing but its api, on a thread of its own. */
struct server {
	struct fixture *store;
	char path[128];
	struct api_config config;
	uv_loop_t loop;
	uv_async_t stop;
	struct api *api;
	pthread_t thread;
};

struct peer {
	int fd;
	struct ts_frame_reader reader;
};

static void on_status(void *data, struct status_builder *builder)
{
	status_text(builder, "daemon", "name", true, "test %d", 1);
}

static void on_closed(void *data)
{
	struct server *server = data;

	uv_close((uv_handle_t *)&server->stop, NULL);
}

static void on_stop(uv_async_t *stop)
{
	struct server *server = stop->data;

	api_close(server->api, on_closed);
}

static void *run_loop(void *data)
{
	struct server *server = data;

	uv_run(&server->loop, UV_RUN_DEFAULT);
	return NULL;
}

static int server_start(struct server *server)
{
	const struct api_callbacks callbacks = { on_status };
	int r;

	uv_loop_init(&server->loop);
	r = api_new(&server->loop, &server->config, &callbacks, server, &server->api);
	if (r < 0) {
		uv_run(&server->loop, UV_RUN_DEFAULT);
		uv_loop_close(&server->loop);
		return r;
	}
	uv_async_init(&server->loop, &server->stop, on_stop);
	server->stop.data = server;
	return -pthread_create(&server->thread, NULL, run_loop, server);
}

/* Only a loop without any handle left can be closed. */
static void server_stop(struct server *server)
{
	uv_async_send(&server->stop);
	pthread_join(server->thread, NULL);
	assert_int_equal(uv_loop_close(&server->loop), 0);
}

static int setup_store(void **state)
{
	struct server *server = calloc(1, sizeof(*server));
	void *store;

	fixture_setup(&store);
	server->store = store;
	assert_int_equal(fixture_open(server->store), 0);
	server->store->store = store_free(server->store->store);
	snprintf(server->path, sizeof(server->path), "%s/control.sock", server->store->directory);
	server->config = (struct api_config){
		.fd = -1,
		.path = server->path,
		.group = GROUP,
		.database = server->store->path,
		.boot_id = "first-boot",
		.half_ms = 100,
		.stall_ms = 60000,
	};
	*state = server;
	return 0;
}

static int setup(void **state)
{
	setup_store(state);
	assert_int_equal(server_start(*state), 0);
	return 0;
}

static int teardown_store(void **state)
{
	struct server *server = *state;
	void *store = server->store;

	fixture_teardown(&store);
	free(server);
	return 0;
}

static int teardown(void **state)
{
	server_stop(*state);
	return teardown_store(state);
}

static struct peer peer_connect(const struct server *server)
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

static void peer_done(struct peer *peer)
{
	close(peer->fd);
	ts_frame_reader_done(&peer->reader);
}

static void peer_write(struct peer *peer, const void *data, size_t size)
{
	assert_int_equal(send(peer->fd, data, size, MSG_NOSIGNAL), size);
}

static void peer_send(struct peer *peer, const Tracesmith__V1__Request *request)
{
	_cleanup_(freep) uint8_t *data = NULL;
	size_t size;

	assert_int_equal(ts_frame_pack(&request->base, TS_FRAME_REQUEST_MAX, &data, &size), 0);
	peer_write(peer, data, size);
}

/* NULL: the daemon closed the connection. */
static Tracesmith__V1__Reply *peer_read(struct peer *peer)
{
	const uint8_t *data;
	Tracesmith__V1__Reply *reply;
	size_t size;
	ssize_t n;
	int r;

	while ((r = ts_frame_reader_next(&peer->reader, &data, &size)) == 0) {
		void *room = ts_frame_reader_room(&peer->reader, &size);

		n = recv(peer->fd, room, size, 0);
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

static void reply_done(Tracesmith__V1__Reply *reply)
{
	tracesmith__v1__reply__free_unpacked(reply, NULL);
}

static void send_sql(struct peer *peer, uint64_t id, const char *text, uint64_t limit)
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

static void send_status(struct peer *peer, uint64_t id)
{
	Tracesmith__V1__StatusRequest status = TRACESMITH__V1__STATUS_REQUEST__INIT;
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;

	request.id = id;
	request.body_case = TRACESMITH__V1__REQUEST__BODY_STATUS;
	request.status = &status;
	peer_send(peer, &request);
}

static void expect_error(struct peer *peer, uint64_t id, Tracesmith__V1__Error__Code code)
{
	Tracesmith__V1__Reply *reply = peer_read(peer);

	assert_non_null(reply);
	assert_int_equal(reply->id, id);
	assert_int_equal(reply->body_case, TRACESMITH__V1__REPLY__BODY_ERROR);
	assert_int_equal(reply->error->code, code);
	reply_done(reply);
}

static void expect_end(struct peer *peer)
{
	assert_null(peer_read(peer));
}

/* The number of one of the api's own status lines, as a client of its own sees it. */
static int64_t status_of(const struct server *server, const char *name)
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

static void wait_for(const struct server *server, const char *name, int64_t number)
{
	int tries = 0;

	while (status_of(server, name) != number) {
		assert_true(++tries < DEADLINE_S * 100);
		pause_ms(10);
	}
}

/* Reads a whole answer and returns its rows. */
static uint64_t count_rows(struct peer *peer, uint64_t id)
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

static void test_hello_tells_version_and_clock(void **state)
{
	Tracesmith__V1__HelloRequest hello = TRACESMITH__V1__HELLO_REQUEST__INIT;
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;
	struct peer peer = peer_connect(*state);
	Tracesmith__V1__Reply *reply;

	hello.protocol = 1;
	request.id = 5;
	request.body_case = TRACESMITH__V1__REQUEST__BODY_HELLO;
	request.hello = &hello;
	peer_send(&peer, &request);
	reply = peer_read(&peer);
	assert_non_null(reply);
	assert_int_equal(reply->body_case, TRACESMITH__V1__REPLY__BODY_HELLO);
	assert_string_equal(reply->hello->version, TS_VERSION);
	assert_string_equal(reply->hello->boot_id, "first-boot");
	assert_true(reply->hello->now_ns > 0);
	reply_done(reply);
	hello.protocol = 99;
	peer_send(&peer, &request);
	expect_error(&peer, 0, TRACESMITH__V1__ERROR__CODE__BAD_REQUEST);
	expect_end(&peer);
	peer_done(&peer);
}

static void test_garbage_ends_only_its_own_connection(void **state)
{
	static const char garbage[] = "\x08\x00\x00\x00GET / HTTP/1.1\r\n\r\n";
	struct peer peer = peer_connect(*state), other = peer_connect(*state);

	peer_write(&peer, garbage, sizeof(garbage) - 1);
	expect_error(&peer, 0, TRACESMITH__V1__ERROR__CODE__BAD_REQUEST);
	expect_end(&peer);
	send_sql(&other, 1, "SELECT 1", 0);
	assert_int_equal(count_rows(&other, 1), 1);
	peer_done(&peer);
	peer_done(&other);
}

static void test_huge_length_is_refused_at_once(void **state)
{
	struct peer peer = peer_connect(*state);

	peer_write(&peer, "\xff\xff\xff\xff", 4);
	expect_error(&peer, 0, TRACESMITH__V1__ERROR__CODE__BAD_REQUEST);
	expect_end(&peer);
	peer_done(&peer);
}

static void test_half_message_times_out(void **state)
{
	struct peer peer = peer_connect(*state);

	peer_write(&peer, "\x10\x00\x00\x00\x08", 5);
	expect_error(&peer, 0, TRACESMITH__V1__ERROR__CODE__BAD_REQUEST);
	expect_end(&peer);
	peer_done(&peer);
}

static void test_message_in_single_bytes_is_understood(void **state)
{
	static const uint8_t status[] = { 4, 0, 0, 0, 0x08, 0x09, 0x1a, 0x00 };
	struct peer peer = peer_connect(*state);
	Tracesmith__V1__Reply *reply;

	for (size_t i = 0; i < sizeof(status); i++)
		peer_write(&peer, status + i, 1);
	reply = peer_read(&peer);
	assert_non_null(reply);
	assert_int_equal(reply->id, 9);
	assert_int_equal(reply->body_case, TRACESMITH__V1__REPLY__BODY_STATUS);
	reply_done(reply);
	peer_done(&peer);
}

static void test_requests_that_make_no_sense_are_answered(void **state)
{
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;
	struct peer peer = peer_connect(*state);

	request.id = 3; /* no body */
	peer_send(&peer, &request);
	expect_error(&peer, 3, TRACESMITH__V1__ERROR__CODE__BAD_REQUEST);
	send_status(&peer, 0);
	expect_error(&peer, 0, TRACESMITH__V1__ERROR__CODE__BAD_REQUEST);
	expect_end(&peer);
	peer_done(&peer);
}

static void test_two_hundred_idle_connections_keep_nobody_out(void **state)
{
	struct peer idle[200];

	for (int i = 0; i < 200; i++)
		idle[i] = peer_connect(*state);
	assert_in_range(status_of(*state, "clients"), 1, LIMIT_CLIENTS_PER_UID);
	/* The oldest had to go, the newest is still served. */
	expect_error(&idle[0], 0, TRACESMITH__V1__ERROR__CODE__LIMIT);
	send_sql(&idle[199], 1, "SELECT 1", 0);
	assert_int_equal(count_rows(&idle[199], 1), 1);
	for (int i = 0; i < 200; i++)
		peer_done(&idle[i]);
	wait_for(*state, "clients", 1);
}

static void test_slow_reader_makes_only_its_own_query_wait(void **state)
{
	struct peer slow = peer_connect(*state), other = peer_connect(*state);

	/* About 20 MB, several times of what may wait for a reader. */
	send_sql(&slow, 1, ENDLESS "SELECT i, 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' FROM n", 400000);
	for (uint64_t id = 1; id <= 20; id++) {
		send_sql(&other, id, ENDLESS "SELECT i FROM n", 100);
		assert_int_equal(count_rows(&other, id), 100);
	}
	wait_for(*state, "queries", 1);
	assert_int_equal(count_rows(&slow, 1), 400000);
	peer_done(&slow);
	peer_done(&other);
}

static void test_client_that_takes_nothing_is_closed(void **state)
{
	struct server *server = *state;
	struct peer peer;

	server->config.stall_ms = 50;
	assert_int_equal(server_start(server), 0);
	peer = peer_connect(server);
	send_sql(&peer, 1, ENDLESS "SELECT i FROM n", 1000000);
	wait_for(server, "clients", 1);
	wait_for(server, "queries", 0);
	peer_done(&peer);
	server_stop(server);
}

static void test_query_of_a_client_that_left_stops(void **state)
{
	struct peer peer = peer_connect(*state);

	send_sql(&peer, 1, ENDLESS "SELECT count(*) FROM n", 0);
	wait_for(*state, "queries", 1);
	peer_done(&peer);
	wait_for(*state, "queries", 0);
}

static void test_cancelled_query_says_so(void **state)
{
	Tracesmith__V1__CancelRequest cancel = TRACESMITH__V1__CANCEL_REQUEST__INIT;
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;
	struct peer peer = peer_connect(*state);
	Tracesmith__V1__Reply *reply;

	send_sql(&peer, 1, ENDLESS "SELECT count(*) FROM n", 0);
	cancel.request = 1;
	request.id = 2;
	request.body_case = TRACESMITH__V1__REQUEST__BODY_CANCEL;
	request.cancel = &cancel;
	peer_send(&peer, &request);
	reply = peer_read(&peer);
	assert_non_null(reply);
	assert_int_equal(reply->id, 2);
	assert_int_equal(reply->body_case, TRACESMITH__V1__REPLY__BODY_DONE);
	reply_done(reply);
	expect_error(&peer, 1, TRACESMITH__V1__ERROR__CODE__CANCELLED);
	peer_done(&peer);
}

static void test_requests_of_one_client_are_bounded(void **state)
{
	struct peer peer = peer_connect(*state), other = peer_connect(*state);

	for (uint64_t id = 1; id <= LIMIT_CLIENT_REQUESTS + 1; id++)
		send_sql(&peer, id, ENDLESS "SELECT count(*) FROM n", 0);
	expect_error(&peer, LIMIT_CLIENT_REQUESTS + 1, TRACESMITH__V1__ERROR__CODE__LIMIT);
	assert_int_equal(status_of(*state, "queries"), LIMIT_CLIENT_REQUESTS);
	/* Another connection does not have to wait for them. */
	send_sql(&other, 1, "SELECT 1", 0);
	assert_int_equal(count_rows(&other, 1), 1);
	peer_done(&other);
	peer_done(&peer);
	wait_for(*state, "queries", 0);
}

/* In a child, where nothing may be asserted. */
static int try_as_other_user(const struct server *server)
{
	static const uint8_t status[] = { 4, 0, 0, 0, 0x08, 0x09, 0x1a, 0x00 };
	struct peer peer = peer_connect(server);
	Tracesmith__V1__Reply *reply;

	/* Who is refused may find the connection closed already. */
	send(peer.fd, status, sizeof(status), MSG_NOSIGNAL);
	reply = peer_read(&peer);
	if (reply && reply->body_case == TRACESMITH__V1__REPLY__BODY_STATUS)
		return 0;
	if (reply && reply->body_case == TRACESMITH__V1__REPLY__BODY_ERROR &&
	    reply->error->code == TRACESMITH__V1__ERROR__CODE__DENIED &&
	    strstr(reply->error->message, "group '" GROUP "'"))
		return 1;
	return 2;
}

/* Connects as another user and returns 0 where the daemon serves it, 1 where it denies. */
static int serve_user(const struct server *server, uid_t uid, gid_t gid, gid_t supplementary)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (setgroups(1, &supplementary) < 0 || setgid(gid) < 0 || setuid(uid) < 0)
			_exit(3);
		_exit(try_as_other_user(server));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void test_only_root_and_the_group_may(void **state)
{
	struct server *server = *state;
	const gid_t member = getgrnam(GROUP)->gr_gid;

	if (geteuid() != 0)
		skip();
	/* So that it is the daemon that decides, and not the file's mode. */
	chmod(server->store->directory, 0755);
	chmod(server->path, 0666);
	assert_int_equal(serve_user(server, 0, 0, 0), 0);
	assert_int_equal(serve_user(server, 65534, 65534, 65534), 1);
	assert_int_equal(serve_user(server, 65534, member, 65534), 0);
	assert_int_equal(serve_user(server, 65534, 65534, member), 0);
}

static void test_socket_is_for_the_group_and_goes_with_the_daemon(void **state)
{
	struct server *server = *state, second = { 0 };
	struct stat st;

	assert_int_equal(server_start(server), 0);
	assert_int_equal(stat(server->path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0660);
	assert_int_equal(st.st_gid, getgrnam(GROUP)->gr_gid);
	second.config = server->config;
	assert_int_equal(server_start(&second), -EADDRINUSE);
	server_stop(server);
	assert_int_equal(stat(server->path, &st), -1);
}

static void test_stale_socket_is_replaced(void **state)
{
	struct server *server = *state;
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	strcpy(address.sun_path, server->path);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
	assert_int_equal(server_start(server), 0);
	assert_int_equal(status_of(server, "clients"), 1);
	server_stop(server);
}

static void test_socket_handed_over_stays(void **state)
{
	struct server *server = *state;
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct stat st;

	strcpy(address.sun_path, server->path);
	server->config.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	server->config.path = NULL;
	assert_int_equal(bind(server->config.fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(server->config.fd, 8), 0);
	assert_int_equal(server_start(server), 0);
	assert_int_equal(status_of(server, "clients"), 1);
	server_stop(server);
	assert_int_equal(stat(server->path, &st), 0);
}

static void test_close_ends_clients_and_queries(void **state)
{
	struct server *server = *state;
	struct peer busy, idle, slow;

	assert_int_equal(server_start(server), 0);
	busy = peer_connect(server);
	idle = peer_connect(server);
	slow = peer_connect(server);
	for (uint64_t id = 1; id <= 4; id++)
		send_sql(&busy, id, ENDLESS "SELECT count(*) FROM n", 0);
	send_sql(&slow, 1, ENDLESS "SELECT i FROM n", 1000000);
	wait_for(server, "queries", 5);
	server_stop(server);
	expect_end(&busy);
	expect_end(&idle);
	peer_done(&busy);
	peer_done(&idle);
	peer_done(&slow);
}

#define WITH_SERVER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
#define WITH_STORE(test)  cmocka_unit_test_setup_teardown(test, setup_store, teardown_store)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_SERVER(test_hello_tells_version_and_clock),
		WITH_SERVER(test_garbage_ends_only_its_own_connection),
		WITH_SERVER(test_huge_length_is_refused_at_once),
		WITH_SERVER(test_half_message_times_out),
		WITH_SERVER(test_message_in_single_bytes_is_understood),
		WITH_SERVER(test_requests_that_make_no_sense_are_answered),
		WITH_SERVER(test_two_hundred_idle_connections_keep_nobody_out),
		WITH_SERVER(test_slow_reader_makes_only_its_own_query_wait),
		WITH_STORE(test_client_that_takes_nothing_is_closed),
		WITH_SERVER(test_query_of_a_client_that_left_stops),
		WITH_SERVER(test_cancelled_query_says_so),
		WITH_SERVER(test_requests_of_one_client_are_bounded),
		WITH_SERVER(test_only_root_and_the_group_may),
		WITH_STORE(test_socket_is_for_the_group_and_goes_with_the_daemon),
		WITH_STORE(test_stale_socket_is_replaced),
		WITH_STORE(test_socket_handed_over_stays),
		WITH_STORE(test_close_ends_clients_and_queries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
