/* test_stamp: CUPTI's times are put on our clock, whichever clock they are of. */
#include "cupti_fixture.h"

#include "core/base/clock.h"
#include "inject/launcher.h"
#include "inject/stamp.h"

#define SECOND_NS 1000000000ull
#define DAY_NS	  (86400 * SECOND_NS)

static uint64_t wall_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

static struct ts_event event_at(enum ts_event_kind kind, uint64_t start_ns, uint64_t end_ns)
{
	return (struct ts_event){ .kind = (uint16_t)kind, .start_ns = start_ns, .end_ns = end_ns };
}

static int setup(void **state)
{
	stamp_begin();
	return 0;
}

static void our_clock_is_left_alone(void **state)
{
	struct stamp stamp = stamp_now();
	struct ts_event event = event_at(TS_EVENT_KERNEL, stamp.now_ns - 10, stamp.now_ns - 5);

	assert_true(stamp_mend(&stamp, &event));
	assert_int_equal(event.start_ns, stamp.now_ns - 10);
	assert_int_equal(event.end_ns, stamp.now_ns - 5);
	/* The device's times are only so good. */
	event.end_ns = stamp.now_ns + SECOND_NS / 2;
	assert_true(stamp_mend(&stamp, &event));
	assert_int_equal(event.start_ns, stamp.now_ns - 10);
}

static void the_wall_clock_is_converted(void **state)
{
	uint64_t before_ns = clock_ns(CLOCK_MONOTONIC), wall = wall_ns(),
		 after_ns = clock_ns(CLOCK_MONOTONIC);
	struct stamp stamp = stamp_now();
	struct ts_event event = event_at(TS_EVENT_COPY, wall, wall + 7);

	assert_true(stamp_mend(&stamp, &event));
	assert_int_equal(event.end_ns - event.start_ns, 7);
	/* To what a pair of readings may be apart, on a busy machine too. */
	assert_true(event.start_ns + SECOND_NS > before_ns);
	assert_true(event.start_ns < after_ns + SECOND_NS);
}

static void a_time_that_is_none_says_nothing_of_the_clock(void **state)
{
	struct stamp stamp = stamp_now();
	struct ts_event none = event_at(TS_EVENT_KERNEL, 0, 0), reversed;

	reversed = event_at(TS_EVENT_KERNEL, stamp.now_ns + DAY_NS, stamp.now_ns);
	for (int i = 0; i < 100; i++) {
		assert_true(stamp_mend(&stamp, &none));
		assert_true(stamp_mend(&stamp, &reversed));
	}
	assert_int_equal(reversed.start_ns, stamp.now_ns + DAY_NS);
	assert_false(stamp_is_foreign());
}

static void a_clock_that_is_neither_is_known_from_a_few_works(void **state)
{
	struct stamp stamp = stamp_now();
	int count = 0;

	while (!stamp_is_foreign()) {
		uint64_t at_ns = stamp.now_ns + DAY_NS;
		struct ts_event event = event_at(TS_EVENT_SYNC, at_ns, at_ns + 1);

		assert_false(stamp_mend(&stamp, &event));
		event = event_at(TS_EVENT_GRAPH, at_ns, at_ns + 1);
		assert_false(stamp_mend(&stamp, &event));
		assert_int_equal(event.start_ns, 0);
		assert_int_equal(event.end_ns, 0);
		assert_true(++count <= 16);
	}
	assert_int_equal(count, 16);
	stamp_begin();
	assert_false(stamp_is_foreign());
}

static void one_time_that_can_be_shows_that_others_are_odd(void **state)
{
	struct stamp stamp = stamp_now();
	struct ts_event good = event_at(TS_EVENT_KERNEL, stamp.now_ns, stamp.now_ns);

	assert_true(stamp_mend(&stamp, &good));
	for (int i = 0; i < 100; i++) {
		struct ts_event event =
			event_at(TS_EVENT_KERNEL, stamp.now_ns + DAY_NS, stamp.now_ns + DAY_NS);

		assert_false(stamp_mend(&stamp, &event));
	}
	assert_false(stamp_is_foreign());
}

static void long_before_collection_nothing_ran(void **state)
{
	struct stamp stamp = stamp_now();
	struct ts_event event = event_at(TS_EVENT_KERNEL, 1, 2);

	if (stamp.now_ns < 100 * SECOND_NS)
		skip(); /* the machine has just booted */
	assert_false(stamp_mend(&stamp, &event));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup(name, setup)
		TEST(our_clock_is_left_alone),
		TEST(the_wall_clock_is_converted),
		TEST(a_time_that_is_none_says_nothing_of_the_clock),
		TEST(a_clock_that_is_neither_is_known_from_a_few_works),
		TEST(one_time_that_can_be_shows_that_others_are_odd),
		TEST(long_before_collection_nothing_ran),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
