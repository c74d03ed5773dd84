/* test_api_live: those who subscribe get messages, and none of them harms the others. */
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

#include "tests/unit/api_fixture.h"

static void subscribe(struct peer *peer, uint64_t id)
{
	Tracesmith__V1__SubscribeRequest subscribe = TRACESMITH__V1__SUBSCRIBE_REQUEST__INIT;
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;

	request.id = id;
	request.body_case = TRACESMITH__V1__REQUEST__BODY_SUBSCRIBE;
	request.subscribe = &subscribe;
	peer_send(peer, &request);
}

static void cancel(struct peer *peer, uint64_t id)
{
	Tracesmith__V1__CancelRequest body = TRACESMITH__V1__CANCEL_REQUEST__INIT;
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;

	body.request = id;
	request.id = id + 1;
	request.body_case = TRACESMITH__V1__REQUEST__BODY_CANCEL;
	request.cancel = &body;
	peer_send(peer, &request);
}

/* The next message: its number, and whether it is whole. */
static uint64_t next(struct peer *peer, uint64_t id, bool *ret_whole)
{
	Tracesmith__V1__Reply *reply = peer_read(peer);
	uint64_t number;

	assert_non_null(reply);
	assert_int_equal(reply->id, id);
	assert_int_equal(reply->body_case, TRACESMITH__V1__REPLY__BODY_LIVE);
	*ret_whole = reply->live->whole;
	number = reply->live->span_ns;
	reply_done(reply);
	return number;
}

static void the_first_message_is_whole_and_then_come_changes(void **state)
{
	struct peer peer = peer_connect(*state);
	struct server *server = *state;
	Tracesmith__V1__Reply *reply;
	bool whole;

	subscribe(&peer, 5);
	assert_int_equal(next(&peer, 5, &whole), 1);
	assert_true(whole);
	assert_int_equal(next(&peer, 5, &whole), 2);
	assert_false(whole);
	subscribe(&peer, 6); /* one is enough */
	do
		reply = peer_read(&peer);
	while (reply->body_case == TRACESMITH__V1__REPLY__BODY_LIVE && (reply_done(reply), true));
	assert_int_equal(reply->id, 6);
	assert_int_equal(reply->error->code, TRACESMITH__V1__ERROR__CODE__LIMIT);
	reply_done(reply);
	cancel(&peer, 5);
	do
		reply = peer_read(&peer);
	while (reply->body_case == TRACESMITH__V1__REPLY__BODY_LIVE && (reply_done(reply), true));
	assert_int_equal(reply->error->code, TRACESMITH__V1__ERROR__CODE__CANCELLED);
	reply_done(reply);
	assert_int_equal(server->live_ends, 1);
	peer_done(&peer);
}

/* Who does not read misses messages, and gets a whole one when he reads again; nobody else does.
 * Each message waits for the honest one to have read the one before, however slow he is. */
static void who_does_not_read_misses_some(void **state)
{
	struct peer idle = peer_connect(*state), honest = peer_connect(*state);
	struct server *server = *state;
	uint64_t number, last = 0, queued = 0;
	bool whole = false, missed = false;
	Tracesmith__V1__Reply *reply;

	server->live_most = 1;
	subscribe(&idle, 1);
	next(&idle, 1, &whole);
	subscribe(&honest, 1);
	subscribe(&honest, 2); /* refused once the first one has been granted */
	reply = peer_read(&honest);
	assert_int_equal(reply->error->code, TRACESMITH__V1__ERROR__CODE__LIMIT);
	reply_done(reply);
	for (uint64_t i = 2; i < 33; i++) {
		server->live_most = i;
		assert_int_equal(next(&honest, 1, &whole), i);
		assert_true(whole == (i == 2));
	}
	server->live_most = 0;
	for (last = 0; !missed; last = number, queued++) {
		number = next(&idle, 1, &whole);
		missed = last && number != last + 1;
		assert_true(missed == whole);
		assert_in_range(queued, 0, 20);
	}
	peer_done(&idle);
	next(&honest, 1, &whole);
	peer_done(&honest);
	while (server->live_ends == 0)
		status_of(server, "clients");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_first_message_is_whole_and_then_come_changes,
						setup, teardown),
		cmocka_unit_test_setup_teardown(who_does_not_read_misses_some, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
