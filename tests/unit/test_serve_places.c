/* Places at `tsctl serve`: who holds them without the token loses them, the peer with most first.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/serve/places.h"

struct visit {
	int ours, theirs;
	struct place *place;
};

static struct visit come(struct places *places, const char *address)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6 };
	struct sockaddr_in four = { .sin_family = AF_INET };
	const struct sockaddr *peer = (const struct sockaddr *)&four;
	int pair[2];

	if (inet_pton(AF_INET6, address, &six.sin6_addr) == 1)
		peer = (const struct sockaddr *)&six;
	else
		assert_int_equal(inet_pton(AF_INET, address, &four.sin_addr), 1);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	return (struct visit){ pair[0], pair[1], places_take(places, pair[0], peer) };
}

static void go(struct places *places, struct visit *visit)
{
	places_give_back(places, visit->place);
	close(visit->ours);
	close(visit->theirs);
}

static bool is_shut(const struct visit *visit)
{
	struct pollfd poll_of = { .fd = visit->theirs, .events = POLLIN };

	return poll(&poll_of, 1, 0) == 1;
}

static void fill(struct places *places, struct visit visit[], int from, int until,
		 const char *address)
{
	for (int i = from; i < until; i++)
		visit[i] = come(places, address);
}

static void the_oldest_half_request_goes_first(void **state)
{
	struct places *places = places_new();
	struct visit visit[PLACES + 2];

	fill(places, visit, 0, PLACES, "127.0.0.1");
	places_keep(places, visit[0].place);
	places_keep(places, visit[1].place);
	places_start(places, visit[1].place); /* of its next request */
	for (int i = 0; i < PLACES; i++)
		assert_false(is_shut(&visit[i]));
	fill(places, visit, PLACES, PLACES + 2, "127.0.0.1");
	for (int i = 0; i < PLACES + 2; i++)
		assert_int_equal(is_shut(&visit[i]), i == 2 || i == 3);
	for (int i = 0; i < PLACES + 2; i++)
		go(places, &visit[i]);
	places_free(places);
}

static void a_peer_with_few_keeps_its_own(void **state)
{
	static const char *const many[] = { "10.0.0.2", "2001:db8::2", "::ffff:10.0.0.2" };
	static const char *const few[] = { "10.0.0.1", "2001:db8:0:1::1", "::ffff:10.0.0.1" };

	for (int k = 0; k < 3; k++) {
		struct places *places = places_new();
		struct visit visit[PLACES + 1];

		fill(places, visit, 0, 1, few[k]);
		fill(places, visit, 1, PLACES + 1, many[k]);
		for (int i = 0; i < PLACES + 1; i++)
			assert_int_equal(is_shut(&visit[i]), i == 1);
		for (int i = 0; i < PLACES + 1; i++)
			go(places, &visit[i]);
		places_free(places);
	}
}

static void many_addresses_of_one_network_are_one_peer(void **state)
{
	static const char *const few[] = { "10.0.0.1", "2001:db8:0:1::1", "::ffff:10.0.0.1" };
	static const char *const many[][2] = { { "127.0.0.1", "127.1.2.3" },
					       { "2001:db8::1", "2001:db8::1:2" },
					       { "127.0.0.1", "::ffff:127.1.2.3" } };

	for (int k = 0; k < 3; k++) {
		struct places *places = places_new();
		struct visit visit[PLACES + 1];

		fill(places, visit, 0, PLACES / 2 - 1, few[k]);
		fill(places, visit, PLACES / 2 - 1, PLACES - 10, many[k][0]);
		fill(places, visit, PLACES - 10, PLACES + 1, many[k][1]);
		for (int i = 0; i < PLACES + 1; i++)
			assert_int_equal(is_shut(&visit[i]), i == PLACES / 2 - 1);
		for (int i = 0; i < PLACES + 1; i++)
			go(places, &visit[i]);
		places_free(places);
	}
}

static void where_all_are_answered_the_new_one_is_refused(void **state)
{
	struct places *places = places_new();
	struct visit visit[PLACES_AND_SHUT + 1];

	fill(places, visit, 0, PLACES, "127.0.0.1");
	for (int i = 0; i < PLACES; i++)
		places_keep(places, visit[i].place);
	fill(places, visit, PLACES, PLACES_AND_SHUT + 1, "127.0.0.1");
	for (int i = 0; i < PLACES_AND_SHUT; i++)
		assert_int_equal(is_shut(&visit[i]), i >= PLACES);
	assert_null(visit[PLACES_AND_SHUT].place);
	go(places, &visit[0]);
	visit[0] = come(places, "127.0.0.1");
	assert_false(is_shut(&visit[0]));
	for (int i = 0; i < PLACES_AND_SHUT + 1; i++)
		go(places, &visit[i]);
	places_free(places);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_oldest_half_request_goes_first),
		cmocka_unit_test(a_peer_with_few_keeps_its_own),
		cmocka_unit_test(many_addresses_of_one_network_are_one_peer),
		cmocka_unit_test(where_all_are_answered_the_new_one_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
