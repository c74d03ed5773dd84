/* test_api_share: who gets a place for a query, where there are more queries than places. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/api_fixture.h"

#define FOREVER ENDLESS "SELECT count(*) FROM n"
#define GID	1 /* of GROUP */
#define PEERS	16
/* Several times what may wait for a reader, of 10 KB each. */
#define ROWS_UNREAD_MAX 500

static struct peer peers[PEERS];
static size_t peer_count;

/* Of this thread alone: libc would change the server's too. */
static void become(uid_t uid, gid_t gid)
{
	assert_int_equal(syscall(SYS_setresgid, -1, gid, -1), 0);
	assert_int_equal(syscall(SYS_setresuid, -1, uid, -1), 0);
}

static struct peer *add_peer(void **state, uid_t uid)
{
	struct peer *peer = &peers[peer_count++];

	if (uid != getuid())
		become(uid, GID);
	*peer = peer_connect(*state);
	if (uid != getuid()) {
		assert_int_equal(syscall(SYS_setresuid, -1, getuid(), -1), 0);
		become(getuid(), getgid());
	}
	return peer;
}

static void ask_forever(void **state, uid_t uid, int count)
{
	for (int i = 0; i < count; i++)
		send_sql(add_peer(state, uid), 1, FOREVER, 0);
}

static void peers_done(void **state)
{
	while (peer_count)
		peer_done(&peers[--peer_count]);
	wait_for(*state, "queries", 0);
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

static void a_quick_query_waits_for_no_other(void **state)
{
	struct peer *quick;

	ask_forever(state, getuid(), LIMIT_QUERIES_PER_UID + 4);
	wait_for(*state, "queries", LIMIT_QUERIES_PER_UID + 4);
	quick = add_peer(state, getuid());
	for (uint64_t id = 1; id <= 20; id++) {
		send_list(quick, id);
		assert_true(count_rows(quick, id) > 0);
	}
	peers_done(state);
}

/* All places are taken, and the first one that is free goes to who has none, though he came last.
 */
static void a_place_goes_to_the_user_who_has_fewest(void **state)
{
	const struct server *server = *state;
	struct peer *last;

	if (geteuid() != 0)
		skip();
	assert_int_equal(chmod(server->store->directory, 0755), 0);
	ask_forever(state, 0, LIMIT_QUERIES_PER_UID + 2);
	ask_forever(state, 1001, LIMIT_QUERIES - LIMIT_QUERIES_PER_UID + 2);
	wait_for(*state, "queries", LIMIT_QUERIES + 4);
	last = add_peer(state, 1002);
	send_sql(last, 1, "SELECT 1", 0);
	wait_for(*state, "queries", LIMIT_QUERIES + 5);
	peer_done(&peers[0]); /* the first of those that run */
	assert_int_equal(count_rows(last, 1), 1);
	memmove(peers, peers + 1, --peer_count * sizeof(*peers));
	peers_done(state);
}

/* By what comes behind all that was queued while the client did not read. */
static bool has_given_way(struct peer *peer)
{
	Tracesmith__V1__Reply *reply;
	bool has = false;

	for (size_t rows = 0; !has && rows < ROWS_UNREAD_MAX;) {
		reply = peer_read(peer);
		assert_non_null(reply);
		has = reply->body_case == TRACESMITH__V1__REPLY__BODY_ERROR;
		if (has)
			assert_int_equal(reply->error->remark[0]->reason, REASON(QUERY_UNREAD));
		else if (reply->body_case == TRACESMITH__V1__REPLY__BODY_ROWS)
			rows += reply->rows->n_row;
		reply_done(reply);
	}
	return has;
}

/* Those who do not read lose their places to one who waits, and are told why when they read. */
static void who_does_not_read_gives_way(void **state)
{
	size_t given_way = 0;
	struct peer *honest;

	for (int i = 0; i < LIMIT_QUERIES_PER_UID; i++)
		send_sql(add_peer(state, getuid()), 1,
			 ENDLESS "SELECT i, hex(zeroblob(5000)) FROM n", 1000000);
	wait_for(*state, "queries", LIMIT_QUERIES_PER_UID);
	honest = add_peer(state, getuid());
	send_sql(honest, 1, "SELECT 1", 0);
	assert_int_equal(count_rows(honest, 1), 1);
	for (size_t i = 0; i < LIMIT_QUERIES_PER_UID; i++)
		given_way += has_given_way(&peers[i]);
	assert_in_range(given_way, 1, LIMIT_QUERIES_PER_UID);
	peers_done(state);
}

/* A query that only waits for its data to be read needs no place. */
static void who_does_not_read_keeps_a_place_that_nobody_needs(void **state)
{
	struct server *server = *state;
	struct peer *slow, *other;

	server->config.read_ms = 4000;
	assert_int_equal(server_start(server), 0);
	slow = add_peer(state, getuid());
	send_sql(slow, 1, ENDLESS "SELECT i, hex(zeroblob(5000)) FROM n LIMIT 1000", 1000000);
	wait_for(server, "queries", 1);
	server->unread = UINT_MAX;
	other = add_peer(state, getuid());
	send_sql(other, 1, "SELECT 1", 0);
	assert_int_equal(count_rows(other, 1), 1);
	server->unread = 0;
	assert_int_equal(count_rows(slow, 1), 1000);
	peers_done(state);
	server_stop(server);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_quick_query_waits_for_no_other, setup, teardown),
		cmocka_unit_test_setup_teardown(a_place_goes_to_the_user_who_has_fewest, setup,
						teardown),
		cmocka_unit_test_setup_teardown(who_does_not_read_gives_way, setup, teardown),
		cmocka_unit_test_setup_teardown(who_does_not_read_keeps_a_place_that_nobody_needs,
						setup_store, teardown_store),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
