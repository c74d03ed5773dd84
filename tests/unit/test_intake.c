/* Intake: whatever comes in which ring and when, it leaves in the order of time, and nothing stays.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/intake/intake.h"
#include "daemon/limits.h"

#define INPUTS	 3
#define LANES	 4 /* of an input */
#define RECORDS	 4096
#define HOLD_NS	 20000000ull
#define START_NS 1000000000ull
#define GRAIN_NS 10000 /* so that some records are of the same time */

struct record {
	uint64_t time_ns; /* as its writer says, 0: none */
	uint64_t due_ns;  /* its place: that, or that of the record before it */
	uint32_t input, lane, number;
	uint64_t published_ns;
};

struct ring {
	struct intake_lane lane;
	struct record record[RECORDS];
	uint32_t published, taken, given;
	uint64_t last_ns;
	struct world *world;
};

struct world {
	struct intake *intake;
	struct ring ring[INPUTS][LANES];
	uint64_t now_ns;
	uint64_t given_ns[INPUTS];		  /* the latest place that was given */
	uint32_t disorder, wakes, reads, stopped; /* stopped: the input that is not read, + 1 */
	unsigned int seed;
};

static const struct intake_input inputs[INPUTS] = {
	{ "first", HOLD_NS },
	{ "second", HOLD_NS },
	{ "third", HOLD_NS },
};

static uint32_t draw(struct world *world, uint32_t below)
{
	return (uint32_t)rand_r(&world->seed) % below;
}

static void on_give(void *data, const void *memory, size_t size)
{
	const struct record *record = memory;
	struct ring *ring = data;
	struct world *world = ring->world;

	assert_int_equal(size, sizeof(*record));
	assert_ptr_equal(ring, &world->ring[record->input][record->lane]);
	assert_int_equal(record->number, ring->given++);
	for (uint32_t i = 0; i < INPUTS; i++) {
		bool later = i < record->input ? world->given_ns[i] > record->due_ns
					       : world->given_ns[i] >= record->due_ns;

		world->disorder +=
			i != record->input && record->time_ns && world->given_ns[i] && later;
	}
	if (record->due_ns > world->given_ns[record->input])
		world->given_ns[record->input] = record->due_ns;
}

/* Reads a ring up to what was published when the turn began, or as far as it may. */
static bool ring_read(struct ring *ring, uint64_t now_ns, uint32_t budget)
{
	while (ring->taken < ring->published && budget--) {
		struct record copy = ring->record[ring->taken];
		bool on;

		if (copy.published_ns > now_ns)
			break;
		ring->taken++;
		on = intake_put(&ring->lane, copy.time_ns, &copy, sizeof(copy));
		memset(&copy, 0xff, sizeof(copy)); /* it was given, or copied */
		if (!on)
			return false;
	}
	if (ring->taken == ring->published || ring->record[ring->taken].published_ns > now_ns)
		intake_lane_done(&ring->lane);
	return ring->taken < ring->published;
}

static enum intake_state read_input(struct world *world, uint32_t input, uint64_t now_ns,
				    uint32_t budget)
{
	bool more = false;

	world->reads++;
	if (world->stopped == input + 1)
		return INTAKE_AWAKE;
	for (uint32_t i = 0; i < LANES; i++) {
		struct ring *ring = &world->ring[input][i];

		if (ring->lane.intake && !intake_lane_holds(&ring->lane))
			more |= ring_read(ring, now_ns,
					  budget == UINT32_MAX ? budget : draw(world, 20));
	}
	return more ? INTAKE_MORE : INTAKE_ASLEEP;
}

#define READER(name, number)                                                                       \
	static enum intake_state name(void *data, uint64_t now_ns, uint32_t budget)                \
	{                                                                                          \
		return read_input(data, number, now_ns, budget);                                   \
	}
READER(read_first, 0)
READER(read_second, 1)
READER(read_third, 2)
#undef READER

static void on_wake(void *data)
{
	((struct world *)data)->wakes++;
}

static void open_ring(struct world *world, uint32_t input, uint32_t lane)
{
	struct ring *ring = &world->ring[input][lane];

	ring->world = world;
	ring->lane.give = on_give;
	ring->lane.data = ring;
	intake_lane_open(&ring->lane, world->intake, input, world->now_ns);
}

static int setup(void **state)
{
	static intake_drain *const reader[INPUTS] = { read_first, read_second, read_third };
	struct world *world = calloc(1, sizeof(*world));
	const struct intake_config config = { inputs, INPUTS, on_wake, world };

	world->now_ns = START_NS;
	assert_int_equal(intake_new(&config, &world->intake), 0);
	for (uint32_t i = 0; i < INPUTS; i++)
		intake_attach(world->intake, i, reader[i], world);
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;

	for (uint32_t i = 0; i < INPUTS; i++)
		for (uint32_t k = 0; k < LANES; k++)
			intake_lane_close(&world->ring[i][k].lane);
	intake_free(world->intake);
	free(world);
	return 0;
}

/* A record that was stamped at `time_ns` is in its ring now. */
static void publish(struct world *world, uint32_t input, uint32_t lane, uint64_t time_ns)
{
	struct ring *ring = &world->ring[input][lane];
	struct record *record = &ring->record[ring->published];

	assert_true(ring->published < RECORDS);
	if (time_ns > ring->last_ns)
		ring->last_ns = time_ns;
	*record = (struct record){
		.time_ns = time_ns,
		.due_ns = ring->last_ns,
		.input = input,
		.lane = lane,
		.number = ring->published++,
		.published_ns = world->now_ns,
	};
}

static struct intake_stats stats_of(const struct world *world)
{
	struct intake_stats stats;

	intake_stats(world->intake, &stats);
	return stats;
}

static enum intake_state turn(struct world *world, uint64_t now_ns)
{
	world->now_ns = now_ns;
	return intake_turn(world->intake, now_ns);
}

static uint32_t left(const struct world *world)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < INPUTS; i++)
		for (uint32_t k = 0; k < LANES; k++)
			count += world->ring[i][k].published - world->ring[i][k].given;
	return count;
}

/* Some records of some rings, each stamped a little before it is there. */
static void publish_some(struct world *world)
{
	for (uint32_t n = draw(world, 40); n > 0; n--) {
		uint32_t input = draw(world, INPUTS), lane = draw(world, LANES);
		uint64_t ago_ns = draw(world, (uint32_t)LIMIT_INTAKE_SLACK_NS / 2);

		if (!world->ring[input][lane].lane.intake)
			continue;
		world->now_ns += draw(world, 100000);
		publish(world, input, lane,
			draw(world, 4) ? (world->now_ns - ago_ns) / GRAIN_NS * GRAIN_NS : 0);
	}
}

static void random_records_leave_in_order_of_time(void **state)
{
	struct world *world = *state;

	world->seed = 1;
	for (uint32_t i = 0; i < INPUTS; i++)
		for (uint32_t k = 0; k < i + 2; k++)
			open_ring(world, i, k);
	for (int i = 0; i < 200; i++) {
		publish_some(world);
		for (int k = 0; k < 50 && turn(world, world->now_ns) == INTAKE_MORE; k++)
			;
		world->now_ns += draw(world, 2000000);
	}
	assert_true(stats_of(world).held > 100);
	world->now_ns += 2 * LIMIT_INTAKE_SLACK_NS;
	for (int k = 0; k < 1000 && left(world); k++)
		turn(world, world->now_ns += LIMIT_INTAKE_SLACK_NS);
	assert_int_equal(left(world), 0);
	assert_int_equal(world->disorder, 0);
	assert_int_equal(stats_of(world).unordered, 0);
	assert_int_equal(stats_of(world).late, 0);
	assert_int_equal(stats_of(world).holding, 0);
}

static void what_was_there_before_a_flush_is_given(void **state)
{
	struct world *world = *state;

	world->seed = 7;
	for (uint32_t i = 0; i < INPUTS; i++)
		for (uint32_t k = 0; k < LANES; k++)
			open_ring(world, i, k);
	for (int i = 0; i < 40; i++) {
		publish_some(world);
		world->now_ns++;
		for (int turn = 0; turn < 16; turn++)
			if (intake_reach(world->intake, world->now_ns) == world->now_ns)
				break;
		assert_int_equal(left(world), 0);
		world->now_ns += LIMIT_INTAKE_SLACK_NS;
	}
	assert_int_equal(world->disorder, 0);
	assert_int_equal(stats_of(world).unordered, 0);
}

/* Records that were stamped before that time, or without a stamp were there before it. */
static uint32_t left_before(const struct world *world, uint64_t time_ns)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < INPUTS; i++)
		for (uint32_t k = 0; k < LANES; k++) {
			const struct ring *ring = &world->ring[i][k];

			for (uint32_t n = ring->given; n < ring->published; n++) {
				const struct record *record = &ring->record[n];

				count += (record->time_ns ? record->due_ns : record->published_ns) <
					 time_ns;
			}
		}
	return count;
}

/* However much comes meanwhile. */
static void a_time_is_reached_a_turn_at_a_time(void **state)
{
	struct world *world = *state;
	uint32_t turns = 0;

	world->seed = 11;
	for (uint32_t i = 0; i < INPUTS; i++)
		for (uint32_t k = 0; k < LANES; k++)
			open_ring(world, i, k);
	for (int i = 0; i < 40; i++) {
		uint64_t asked_ns, reached_ns;

		for (int k = 0; k < 4; k++)
			publish_some(world);
		asked_ns = world->now_ns;
		do {
			world->now_ns++;
			if (!draw(world, 16)) {
				world->now_ns += LIMIT_INTAKE_SLACK_NS;
				publish_some(world);
			}
			reached_ns = intake_reach(world->intake, world->now_ns);
			assert_true(reached_ns <= world->now_ns);
			assert_int_equal(left_before(world, reached_ns), 0);
			assert_true(++turns < 10000);
		} while (reached_ns < asked_ns);
		world->now_ns += LIMIT_INTAKE_SLACK_NS;
	}
	assert_true(turns > 80); /* the readers take a few records a turn */
	assert_int_equal(world->disorder, 0);
	assert_int_equal(stats_of(world).unordered, 0);
}

static void who_is_alone_waits_for_nobody(void **state)
{
	struct world *world = *state;

	open_ring(world, 2, 0);
	for (int i = 0; i < 100; i++)
		publish(world, 2, 0, world->now_ns + 1000000000);
	for (int i = 0; i < 50 && left(world); i++)
		turn(world, world->now_ns);
	assert_int_equal(left(world), 0);
	assert_int_equal(stats_of(world).held, 0);
}

/* An input without progress delays the others up to a bound; then they leave, and are counted. */
static void nobody_waits_longer_than_the_bound(void **state)
{
	struct world *world = *state;
	uint64_t start_ns = world->now_ns;

	open_ring(world, 0, 0);
	open_ring(world, 1, 0);
	open_ring(world, 1, 1);
	world->stopped = 1;
	for (uint32_t i = 0; i < 20; i++)
		publish(world, 1, i % 2, world->now_ns += 10);
	for (int i = 0; i < 50; i++)
		turn(world, start_ns + HOLD_NS / 2);
	assert_int_equal(left(world), 20);
	assert_int_equal(stats_of(world).holding, 2);
	for (int i = 0; i < 50 && left(world); i++)
		turn(world, start_ns + HOLD_NS / 2 + HOLD_NS + 1000);
	assert_int_equal(left(world), 0);
	assert_int_equal(stats_of(world).unordered, 20);
	assert_int_equal(stats_of(world).longest_hold_ns, HOLD_NS + 1000);

	/* What it brings then comes too late for its place, but it does come. */
	world->stopped = 0;
	publish(world, 0, 0, start_ns + 5);
	for (int i = 0; i < 50 && left(world); i++)
		turn(world, world->now_ns + 1000);
	assert_int_equal(left(world), 0);
	assert_int_equal(stats_of(world).late, 1);
}

/* A writer lost its processor: with room in their ring, the records of others wait until it goes
 * on, and leave in order; with little room, or for ever, they do not. */
static void what_is_stuck_is_waited_for_where_there_is_room(void **state)
{
	struct world *world = *state;
	uint64_t start_ns = world->now_ns;

	open_ring(world, 0, 0);
	open_ring(world, 1, 0);
	world->stopped = 1;
	publish(world, 1, 0, start_ns + 10);
	intake_lane_roomy(&world->ring[1][0].lane, true);
	for (uint64_t ms = 0; ms < LIMIT_INTAKE_ROOMY_HOLD_NS; ms += HOLD_NS / 2)
		turn(world, start_ns + ms);
	assert_int_equal(left(world), 1);
	world->stopped = 0;
	publish(world, 0, 0, start_ns + 5);
	for (int i = 0; i < 50 && left(world); i++)
		turn(world, world->now_ns + 1);
	assert_int_equal(left(world), 0);
	assert_int_equal(world->disorder, 0);
	assert_int_equal(stats_of(world).unordered, 0);

	world->stopped = 1;
	start_ns = world->now_ns;
	publish(world, 1, 0, start_ns + 10);
	for (int i = 0; i < 4; i++)
		turn(world, start_ns + HOLD_NS + i);
	assert_int_equal(left(world), 1);
	intake_lane_roomy(&world->ring[1][0].lane, false);
	turn(world, start_ns + 2 * HOLD_NS);
	assert_int_equal(left(world), 0);

	intake_lane_roomy(&world->ring[1][0].lane, true);
	publish(world, 1, 0, world->now_ns);
	for (int i = 0; i < 4; i++)
		turn(world, world->now_ns);
	turn(world, world->now_ns + LIMIT_INTAKE_ROOMY_HOLD_NS + 1);
	assert_int_equal(left(world), 0);
}

/* A daemon that did not run for long finds old records in all rings. */
static void old_records_of_all_inputs_leave_in_order(void **state)
{
	struct world *world = *state;
	uint64_t start_ns = world->now_ns;

	open_ring(world, 0, 0);
	open_ring(world, 1, 0);
	turn(world, start_ns);
	for (uint32_t i = 0; i < 100; i++)
		publish(world, i % 2, 0, world->now_ns += 10);
	for (int i = 0; i < 500 && left(world); i++)
		turn(world, start_ns + 2 * HOLD_NS);
	assert_int_equal(left(world), 0);
	assert_int_equal(world->disorder, 0);
	assert_int_equal(stats_of(world).unordered, 0);
}

/* As while a stack is unwound, before which nothing of its ring may be taken. */
static void what_may_not_be_read_yet_is_waited_for(void **state)
{
	struct world *world = *state;
	uint64_t start_ns = world->now_ns;

	open_ring(world, 0, 0);
	open_ring(world, 1, 0);
	turn(world, start_ns);
	world->stopped = 1;
	intake_lane_stall(&world->ring[0][0].lane, true);
	publish(world, 0, 0, start_ns + 10);
	assert_true(intake_reach(world->intake, start_ns + 1000) < start_ns + 10);
	publish(world, 1, 0, start_ns + 20);
	for (uint64_t i = 0; i < 10; i++)
		turn(world, start_ns + HOLD_NS + HOLD_NS / 10 * i);
	assert_int_equal(world->ring[1][0].given, 0);
	intake_lane_stall(&world->ring[0][0].lane, false);
	world->stopped = 0;
	for (int i = 0; i < 100 && left(world); i++)
		turn(world, start_ns + 2 * HOLD_NS);
	assert_int_equal(left(world), 0);
	assert_int_equal(world->disorder, 0);
	assert_int_equal(stats_of(world).unordered, 0);
	assert_int_equal(intake_reach(world->intake, start_ns + 3 * HOLD_NS),
			 start_ns + 3 * HOLD_NS);
}

static void a_time_that_has_not_come_is_no_reason_to_wait_for_ever(void **state)
{
	struct world *world = *state;

	open_ring(world, 0, 0);
	open_ring(world, 1, 0);
	publish(world, 1, 0, UINT64_MAX);
	publish(world, 1, 0, 0);
	turn(world, world->now_ns);
	turn(world, world->now_ns + 1);
	assert_int_equal(left(world), 2);
	for (int i = 0; i < 100 && left(world); i++)
		turn(world, world->now_ns + HOLD_NS);
	assert_int_equal(left(world), 0);
}

static void a_lane_that_holds_is_not_read(void **state)
{
	struct world *world = *state;

	open_ring(world, 0, 0);
	open_ring(world, 1, 0);
	world->stopped = 1;
	for (int i = 0; i < 100; i++)
		publish(world, 1, 0, world->now_ns + 1);
	for (int i = 0; i < 50; i++)
		turn(world, world->now_ns + 2);
	assert_int_equal(world->ring[1][0].taken, 1);
	assert_int_equal(stats_of(world).holding, 1);
}

static void an_end_has_passed_when_the_others_have_come_to_it(void **state)
{
	struct world *world = *state;
	uint64_t end_ns = world->now_ns + 10;

	open_ring(world, 0, 0);
	open_ring(world, 1, 0);
	publish(world, 1, 0, end_ns - 1);
	assert_false(intake_lane_passed(&world->ring[0][0].lane, end_ns));
	world->stopped = 2;
	turn(world, end_ns + 2 * LIMIT_INTAKE_SLACK_NS);
	assert_false(intake_lane_passed(&world->ring[0][0].lane, end_ns));
	world->stopped = 0;
	for (int i = 0; i < 50 && left(world); i++)
		turn(world, world->now_ns + 1);
	for (int i = 0; i < 50 && !intake_lane_passed(&world->ring[0][0].lane, end_ns); i++)
		turn(world, world->now_ns + 1);
	assert_int_equal(world->ring[1][0].given, 1);
	assert_true(intake_lane_passed(&world->ring[0][0].lane, end_ns));
}

static void what_a_lane_holds_is_given_when_it_is_closed(void **state)
{
	struct world *world = *state;

	open_ring(world, 0, 0);
	open_ring(world, 1, 0);
	world->stopped = 1;
	publish(world, 1, 0, world->now_ns + 1);
	for (int i = 0; i < 50 && !stats_of(world).holding; i++)
		turn(world, world->now_ns + 2);
	intake_lane_close(&world->ring[1][0].lane);
	assert_int_equal(left(world), 0);
	assert_int_equal(stats_of(world).holding, 0);

	open_ring(world, 1, 1);
	intake_lane_straight(&world->ring[1][1].lane);
	publish(world, 1, 1, world->now_ns + 1000000);
	for (int i = 0; i < 50 && left(world); i++)
		turn(world, world->now_ns + 2);
	assert_int_equal(left(world), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(random_records_leave_in_order_of_time),
		TEST(what_was_there_before_a_flush_is_given),
		TEST(a_time_is_reached_a_turn_at_a_time),
		TEST(who_is_alone_waits_for_nobody),
		TEST(nobody_waits_longer_than_the_bound),
		TEST(what_is_stuck_is_waited_for_where_there_is_room),
		TEST(old_records_of_all_inputs_leave_in_order),
		TEST(what_may_not_be_read_yet_is_waited_for),
		TEST(a_time_that_has_not_come_is_no_reason_to_wait_for_ever),
		TEST(a_lane_that_holds_is_not_read),
		TEST(an_end_has_passed_when_the_others_have_come_to_it),
		TEST(what_a_lane_holds_is_given_when_it_is_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
