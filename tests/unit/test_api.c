/* Api against a real loop: good clients are served whatever bad ones do. */
#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/unit/api_fixture.h"

/* The address sanitizer keeps what is freed. */
#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if __has_feature(address_sanitizer) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

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
	struct server *server = *state;
	struct peer peer;

	server->config.half_ms = 100;
	assert_int_equal(server_start(server), 0);
	peer = peer_connect(server);
	peer_write(&peer, "\x10\x00\x00\x00\x08", 5);
	expect_error(&peer, 0, TRACESMITH__V1__ERROR__CODE__BAD_REQUEST);
	expect_end(&peer);
	peer_done(&peer);
	server_stop(server);
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

static void test_three_hundred_idle_connections_keep_nobody_out(void **state)
{
	struct peer idle[300];

	for (int i = 0; i < 300; i++)
		idle[i] = peer_connect(*state);
	assert_in_range(status_of(*state, "clients"), 1, LIMIT_CLIENTS / 2);
	/* The oldest had to go, the newest is still served. */
	expect_error(&idle[0], 0, TRACESMITH__V1__ERROR__CODE__LIMIT);
	send_sql(&idle[299], 1, "SELECT 1", 0);
	assert_int_equal(count_rows(&idle[299], 1), 1);
	for (int i = 0; i < 300; i++)
		peer_done(&idle[i]);
	wait_for(*state, "clients", 1);
}

static size_t resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	size_t pages = 0;

	assert_int_equal(fscanf(file, "%*u %zu", &pages), 1);
	fclose(file);
	return pages * 4096;
}

static void test_slow_reader_makes_only_its_own_query_wait(void **state)
{
	struct peer slow = peer_connect(*state), other = peer_connect(*state);
	const uint64_t rows = SANITIZED ? 20000 : 100000;
	const size_t before = resident_bytes();

	/* 1 KB each: many times what may wait for a reader, and soon enough made that the time
	 * that a query may take does not end it. */
	send_sql(&slow, 1, ENDLESS "SELECT i, hex(zeroblob(500)) FROM n", rows);
	for (uint64_t id = 1; id <= 200; id++) {
		send_sql(&other, id, ENDLESS "SELECT i FROM n", 100);
		assert_int_equal(count_rows(&other, id), 100);
	}
	assert_true(status_of(*state, "queries") > 0);
	assert_true(SANITIZED || resident_bytes() < before + (64 << 20));
	assert_int_equal(count_rows(&slow, 1), rows);
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

static void test_query_waits_for_what_came_before_it(void **state)
{
	struct server *server = *state;
	const uint64_t limit_ns = LIMIT_QUERY_WAIT_MS * 1000000ull;
	uint64_t id = 0, begin_ns;
	struct peer peer;

	server->config.read_ms = DEADLINE_S * 1000;
	assert_int_equal(server_start(server), 0);
	peer = peer_connect(server);
	/* Where the loop gets no processor for that long, the limit comes first. */
	do {
		assert_true(++id < 100);
		server->invisible = 5;
		begin_ns = uv_hrtime();
		send_sql(&peer, id, "SELECT 1", 0);
		assert_int_equal(count_rows(&peer, id), 1);
		assert_true(server->invisible == 0 || uv_hrtime() - begin_ns >= limit_ns);
	} while (server->invisible);
	/* But not for ever. */
	server->invisible = UINT_MAX;
	begin_ns = uv_hrtime();
	send_sql(&peer, ++id, "SELECT 1", 0);
	assert_int_equal(count_rows(&peer, id), 1);
	assert_true(uv_hrtime() - begin_ns >= limit_ns);
	/* As long as data is read or written, the limit is another. */
	server->invisible = 0;
	server->unread = server->unwritten = 2 * LIMIT_QUERY_WAIT_MS / 5;
	send_sql(&peer, ++id, "SELECT 1", 0);
	assert_int_equal(count_rows(&peer, id), 1);
	assert_int_equal(server->unread, 0);
	assert_int_equal(server->unwritten, 0);
	peer_done(&peer);
	server_stop(server);
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

static void test_a_file_that_is_no_socket_stays(void **state)
{
	struct server *server = *state;
	int fd = open(server->path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(server_start(server), -EEXIST);
	assert_int_equal(unlink(server->path), 0);
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
		WITH_STORE(test_half_message_times_out),
		WITH_SERVER(test_message_in_single_bytes_is_understood),
		WITH_SERVER(test_requests_that_make_no_sense_are_answered),
		WITH_SERVER(test_three_hundred_idle_connections_keep_nobody_out),
		WITH_SERVER(test_slow_reader_makes_only_its_own_query_wait),
		WITH_STORE(test_client_that_takes_nothing_is_closed),
		WITH_SERVER(test_query_of_a_client_that_left_stops),
		WITH_SERVER(test_cancelled_query_says_so),
		WITH_STORE(test_query_waits_for_what_came_before_it),
		WITH_SERVER(test_requests_of_one_client_are_bounded),
		WITH_SERVER(test_only_root_and_the_group_may),
		WITH_STORE(test_socket_is_for_the_group_and_goes_with_the_daemon),
		WITH_STORE(test_a_file_that_is_no_socket_stays),
		WITH_STORE(test_stale_socket_is_replaced),
		WITH_STORE(test_socket_handed_over_stays),
		WITH_STORE(test_close_ends_clients_and_queries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
