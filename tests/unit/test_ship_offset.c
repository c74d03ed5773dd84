/* How far a server's clock is ahead: always within the bound that is told, whatever the network
 * does, and the bound is no larger than it must be. Clocks and network are made up. */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/ship/offset.h"

#define SECOND 1000000000ll
#define MS     1000000ll

/* A server whose clock was at `base_ns` when ours was at 0, and gains `drift_ppb`. */
static struct world {
	int64_t base_ns, drift_ppb, resolution_ns;
	int64_t now_ns;
	uint64_t random;
} world;

static int64_t any(int64_t below)
{
	world.random = world.random * 6364136223846793005u + 1442695040888963407u;
	return (int64_t)((world.random >> 33) % (uint64_t)below);
}

static int64_t truth(int64_t at_ns)
{
	return world.base_ns + (int64_t)((__int128)at_ns * world.drift_ppb / SECOND);
}

/* The way there and back take their own time, now and then a long one. */
static struct offset_exchange ask(void)
{
	struct offset_exchange exchange = { .sent_ns = world.now_ns };
	int64_t told;

	world.now_ns += 100000 + any(any(4) ? MS / 5 : 20 * MS);
	told = world.now_ns + truth(world.now_ns);
	if (world.resolution_ns == SECOND) { /* by the tick before */
		told -= (told + 3333333) % OFFSET_TICK_NS;
		exchange.from_ns = told - told % SECOND;
		exchange.to_ns = exchange.from_ns + SECOND + OFFSET_TICK_NS;
	} else {
		exchange.from_ns = exchange.to_ns = told;
	}
	world.now_ns += 100000 + any(any(4) ? MS / 5 : 20 * MS);
	exchange.got_ns = world.now_ns;
	return exchange;
}

static void round_of(struct offset *offset, size_t exchanges)
{
	struct offset_round round =
		world.resolution_ns == SECOND ? offset_expect(offset, world.now_ns) : offset_open();

	for (size_t i = 0; i < exchanges; i++) {
		struct offset_exchange exchange;

		if (world.resolution_ns == SECOND && offset_known(&round))
			world.now_ns = offset_edge(&round, world.now_ns);
		exchange = ask();
		assert_int_equal(offset_narrow(&round, &exchange), 0);
	}
	offset_add(offset, "server", &round);
}

/* Now, and a minute later, when the next round is due. */
static int64_t expect_within(const struct offset *offset)
{
	struct offset_estimate estimate;

	assert_true(offset_estimate(offset, &estimate));
	for (int64_t at_ns = world.now_ns; at_ns <= world.now_ns + 60 * SECOND; at_ns += SECOND) {
		struct offset_round round = offset_expect(offset, at_ns);

		assert_true(round.low_ns <= truth(at_ns));
		assert_true(round.high_ns >= truth(at_ns));
	}
	return estimate.bound_ns;
}

static void start(int64_t drift_ppb, int64_t resolution_ns, uint64_t seed)
{
	world = (struct world){ 1700000000 * SECOND + 123456789, drift_ppb, resolution_ns,
				5000 * SECOND, seed };
}

static void the_offset_is_within_its_bound(void **state)
{
	static const int64_t drifts[] = { 0, 37000, -95000 };

	for (size_t i = 0; i < 3; i++) {
		for (uint64_t seed = 1; seed < 20; seed++) {
			struct offset offset = { 0 };
			struct offset_estimate estimate;
			int64_t bound_ns;

			start(drifts[i], 1, seed);
			round_of(&offset, 8);
			assert_true(expect_within(&offset) < 12 * MS);
			for (int minute = 0; minute < 100; minute++) {
				world.now_ns += 60 * SECOND;
				round_of(&offset, 4);
				bound_ns = expect_within(&offset);
			}
			assert_int_equal(offset.count, OFFSET_ROUNDS);
			/* Half of a usual round trip, and a minute of drift. */
			assert_true(bound_ns < 3 * MS / 2);
			assert_true(offset_estimate(&offset, &estimate));
			assert_true(llabs(estimate.drift_ppb - drifts[i]) <
				    estimate.drift_bound_ppb);
			assert_true(estimate.drift_bound_ppb < 20000);
		}
	}
}

static void whole_seconds_are_enough(void **state)
{
	for (uint64_t seed = 1; seed < 20; seed++) {
		struct offset offset = { 0 };

		start(52000, SECOND, seed);
		round_of(&offset, 1);
		assert_true(expect_within(&offset) > 400 * MS);
		round_of(&offset, 14);
		assert_true(expect_within(&offset) < 30 * MS);
		for (int minute = 0; minute < 20; minute++) {
			world.now_ns += 55 * SECOND;
			round_of(&offset, 5);
			expect_within(&offset);
		}
		assert_true(expect_within(&offset) < 9 * MS);
	}
}

static void a_clock_that_is_set_starts_anew(void **state)
{
	struct offset offset = { 0 };

	start(10000, 1, 7);
	for (int minute = 0; minute < 10; minute++) {
		round_of(&offset, 4);
		world.now_ns += 60 * SECOND;
	}
	assert_int_equal(offset.count, 10);
	world.base_ns -= 3 * SECOND;
	round_of(&offset, 4);
	assert_int_equal(offset.count, 1);
	expect_within(&offset);
	/* In the middle of a round, too. */
	{
		struct offset_round round = offset_open();
		struct offset_exchange exchange = ask();

		assert_int_equal(offset_narrow(&round, &exchange), 0);
		world.base_ns += 3 * SECOND;
		exchange = ask();
		assert_int_equal(offset_narrow(&round, &exchange), -ESTALE);
		offset_add(&offset, "server", &round);
	}
	assert_int_equal(offset.count, 1);
	expect_within(&offset);
}

static void another_server_has_another_clock(void **state)
{
	struct offset offset = { 0 };
	struct offset_round round = offset_open();
	struct offset_exchange exchange;

	start(0, 1, 3);
	round_of(&offset, 4);
	exchange = ask();
	assert_int_equal(offset_narrow(&round, &exchange), 0);
	offset_add(&offset, "other", &round);
	assert_int_equal(offset.count, 1);
	assert_string_equal(offset.server, "other");
}

static void nonsense_is_refused(void **state)
{
	static const struct offset_exchange nonsense[] = {
		{ 2, 1, 5, 5 },		{ 1, 2, 6, 5 },		{ -1, 2, 5, 5 },
		{ 1, INT64_MAX, 5, 5 }, { 1, 2, 5, INT64_MAX }, { 1, 2, INT64_MIN, 5 },
	};
	struct offset_round round = offset_open();
	struct offset offset = { 0 };
	struct offset_estimate estimate;

	for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++)
		assert_int_equal(offset_narrow(&round, &nonsense[i]), -EBADMSG);
	assert_false(offset_known(&round));
	assert_false(offset_estimate(&offset, &estimate));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_offset_is_within_its_bound),
		cmocka_unit_test(whole_seconds_are_enough),
		cmocka_unit_test(a_clock_that_is_set_starts_anew),
		cmocka_unit_test(another_server_has_another_clock),
		cmocka_unit_test(nonsense_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
