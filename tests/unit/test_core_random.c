/* The invariant of the exact tier, with random orders and losses: a launch is in exactly one place.
 */
#include "exact_fixture.h"

static uint64_t seed;

static uint32_t random_below(uint32_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(seed >> 33) % below;
}

#define LAUNCHES 300

/* The CALL of a call and the event of the next one are not lost together: see correlate.c. */
static bool is_lost(uint32_t n, int part, uint32_t percent)
{
	if (part != 2 && (n % 50 >= 40 || (int)(n / 50 % 2) != part))
		return false;
	return random_below(100) < percent;
}

static void give_part(uint32_t n, int part)
{
	uint64_t start_ns = 1010 * MS + n * 10000;

	tid = 100 + n % 3;
	if (part == 0)
		launch(start_ns, n % 2 ? S1 : S2);
	else if (part == 1)
		call_record(n + 1, FN_LAUNCH, start_ns + 100, start_ns + 200);
	else
		kernel(n + 1, start_ns + 400 * MS, start_ns + 400 * MS + 5000, n % 2 ? N1 : N2);
	tid = 100;
}

/* Events and CALLs each in their order, device records in any; of the three any may be ahead. */
static void give_all(const uint8_t *has)
{
	uint32_t order[3][LAUNCHES], next[3] = { 0 };

	for (uint32_t i = 0; i < 3 * LAUNCHES; i++)
		order[i / LAUNCHES][i % LAUNCHES] = i % LAUNCHES;
	for (uint32_t i = 0; i + 40 < LAUNCHES; i++) {
		uint32_t j = i + random_below(40), swap = order[2][i];

		order[2][i] = order[2][j];
		order[2][j] = swap;
	}
	while (next[0] + next[1] + next[2] < 3 * LAUNCHES) {
		uint32_t part = random_below(3), burst = random_below(30);

		for (; burst && next[part] < LAUNCHES; burst--) {
			uint32_t n = order[part][next[part]++];

			if (has[n] & 1 << part)
				give_part(n, (int)part);
		}
	}
}

/* Every launch and every record of the device is in exactly one op, whatever comes when. */
static void correlate_random(uint64_t number)
{
	uint32_t calls = 0, records = 0, joined = 0, percent = number % 3 * 10;
	uint8_t has[LAUNCHES] = { 0 };

	seed = number;
	for (uint32_t n = 0; n < LAUNCHES; n++) {
		for (int part = 0; part < 3; part++)
			has[n] |= (uint8_t)(!is_lost(n, part, percent) << part);
		calls += has[n] & 1;
		records += has[n] >> 2;
		joined += has[n] == 7;
	}
	give_all(has);
	if (number % 2)
		pass_until(40000 * MS);
	core_flush(core, 40000 * MS);
	assert_int_equal(seen.ops, calls + records - joined);
	assert_int_equal(ops_with(OP_EXACT), records);
	assert_int_equal(ops_with(OP_NO_CALL), records - joined);
	assert_int_equal(stats().joined, joined);
	assert_int_equal(lost(LOSS_NO_RECORD), calls - joined);
	assert_int_equal(stats().pending + stats().waiting + stats().edges, 0);
	for (uint32_t n = 0; n < LAUNCHES; n++) {
		uint64_t start_ns = 1010 * MS + n * 10000;

		if (has[n] & 4)
			assert_int_equal(op_that_ran_at(start_ns + 400 * MS)->start_ns,
					 has[n] == 7 ? start_ns : start_ns + 400 * MS);
	}
}

static void correlate_has_each_in_exactly_one_place(void **state)
{
	struct core_config config = fixture_config();

	config.max_pending = config.max_waiting = config.max_edges = 4096;
	for (uint64_t number = 1; number <= 60; number++) {
		fixture_restart(&config);
		begin_exact();
		correlate_random(number);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORY(correlate_has_each_in_exactly_one_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
