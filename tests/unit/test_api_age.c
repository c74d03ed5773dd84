/* test_api_age: what an answer says about how old it is, and who answers while the store holds data
 * in memory. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "daemon/helper/spawn.h"
#include "daemon/query/helper.h"
#include "tests/unit/api_fixture.h"

static int zygote;

/* Instead of the rows, the answer tells the order's age, as a number of rows. */
static void run_query(int socket)
{
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;
	Tracesmith__V1__Done done = TRACESMITH__V1__DONE__INIT;
	struct query_order order;
	uint8_t *bytes;
	uint32_t fds;
	int fd[SPAWN_FDS];
	size_t size;

	if (spawn_receive(socket, &order, sizeof(order), 0, fd, &fds) != sizeof(order) || fds != 1)
		return;
	reply.id = 1;
	reply.body_case = TRACESMITH__V1__REPLY__BODY_DONE;
	reply.done = &done;
	done.rows = (order.older_ns + 999999999) / 1000000000;
	if (ts_frame_pack(&reply.base, TS_FRAME_REPLY_MAX, &bytes, &size) == 0)
		send(fd[0], bytes, size, MSG_NOSIGNAL);
	/* Its end is the daemon's to choose. */
	while (read(fd[0], &order, sizeof(order)) > 0)
		;
}

static const struct spawn_role roles[] = { { "test-query", run_query } };

static Tracesmith__V1__Reply *read_done(struct peer *peer)
{
	Tracesmith__V1__Reply *reply = NULL;

	do {
		reply_done(reply);
		reply = peer_read(peer);
		assert_non_null(reply);
		assert_int_not_equal(reply->body_case, TRACESMITH__V1__REPLY__BODY_ERROR);
	} while (reply->body_case != TRACESMITH__V1__REPLY__BODY_DONE);
	return reply;
}

/* By the remark of the answer; NULL: there is none. */
static void expect_age(struct peer *peer, const char *seconds)
{
	Tracesmith__V1__Reply *reply = read_done(peer);

	assert_int_equal(reply->done->n_remark, seconds ? 1 : 0);
	if (seconds) {
		assert_int_equal(reply->done->remark[0]->reason, REASON(OLDER));
		assert_string_equal(reply->done->remark[0]->argument[0], seconds);
	}
	reply_done(reply);
}

static void send_list(struct peer *peer, uint64_t id)
{
	Tracesmith__V1__ListRequest list = TRACESMITH__V1__LIST_REQUEST__INIT;
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;

	request.id = id;
	request.body_case = TRACESMITH__V1__REQUEST__BODY_LIST;
	request.list = &list;
	peer_send(peer, &request);
}

/* Whatever keeps what came before it: it is not waited for any longer, and that is told. */
static void an_answer_says_how_old_it_is(void **state)
{
	struct server *server = *state;
	atomic_uint *const reasons[] = { &server->unread, &server->invisible, &server->unwritten };
	struct peer peer;

	server->config.read_ms = 20;
	assert_int_equal(server_start(server), 0);
	peer = peer_connect(server);
	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++) {
		*reasons[i] = UINT_MAX;
		server->later = i > 0;
		send_sql(&peer, i + 1, "SELECT 1", 0);
		expect_age(&peer, server->later ? "1" : "3");
		*reasons[i] = 0;
	}
	server->later = false;
	server->invisible = UINT_MAX;
	send_sql(&peer, 9, "SELECT 1", 0);
	expect_age(&peer, "3");
	peer_done(&peer);
	server_stop(server);
}

/* Others would wait for ever, since it takes that long to read. */
static void a_quick_answer_waits_for_no_reading_and_no_writing(void **state)
{
	struct server *server = *state;
	struct peer peer;

	server->config.read_ms = UINT_MAX;
	assert_int_equal(server_start(server), 0);
	peer = peer_connect(server);
	server->unread = UINT_MAX;
	send_list(&peer, 1);
	expect_age(&peer, "3");
	server->unread = 0;
	server->invisible = UINT_MAX;
	send_list(&peer, 2);
	expect_age(&peer, "3");
	server->invisible = 0;
	send_list(&peer, 3);
	expect_age(&peer, NULL);
	peer_done(&peer);
	server_stop(server);
}

static uint64_t rows_of(struct peer *peer)
{
	Tracesmith__V1__Reply *reply = read_done(peer);
	uint64_t rows = reply->done->rows;

	reply_done(reply);
	return rows;
}

/* What is held is in the daemon's memory: its own queries see it, a user's statement does not. */
static void sql_runs_in_a_process_while_data_is_held(void **state)
{
	struct server *server = *state;
	struct peer peer;

	server->config.zygote = zygote;
	assert_int_equal(server_start(server), 0);
	peer = peer_connect(server);
	send_sql(&peer, 1, "SELECT 1", 0);
	assert_int_equal(rows_of(&peer), 0);
	server->held_s = 5;
	send_sql(&peer, 1, "SELECT 1", 0);
	assert_in_range(rows_of(&peer), 5, 5 + DEADLINE_S);
	assert_int_equal(server->locked, 0);
	send_list(&peer, 1);
	expect_age(&peer, NULL);
	assert_int_equal(server->locked, 1);
	peer_done(&peer);
	server_stop(server);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_answer_says_how_old_it_is, setup_store,
						teardown_store),
		cmocka_unit_test_setup_teardown(a_quick_answer_waits_for_no_reading_and_no_writing,
						setup_store, teardown_store),
		cmocka_unit_test_setup_teardown(sql_runs_in_a_process_while_data_is_held,
						setup_store, teardown_store),
	};

	if (spawn_start(roles, ARRAY_SIZE(roles), &zygote) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
