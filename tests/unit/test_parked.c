/* Parked: who waits keeps the order of its records and nobody else's, within its time and its room.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/limits.h"
#include "daemon/probe/parked.h"

#define START_NS 1000000000ull
#define WAIT_NS	 1000000ull
#define BYTES	 1000
#define RECORD	 100 /* bytes */
#define PID	 7
#define UID	 1000

enum { OTHERS, PROBES, INPUTS };

static const struct intake_input inputs[INPUTS] = { { "others", WAIT_NS }, { "probes", WAIT_NS } };

struct world {
	struct intake *intake;
	struct intake_lane others;
	struct parking parking;
	char given[16]; /* the first byte of each record, in order */
	size_t count;
};

static void on_give(void *data, const void *record, size_t size)
{
	struct world *world = data;

	assert_int_equal(size, RECORD);
	world->given[world->count++] = *(const char *)record;
}

static void on_wake(void *data)
{
}

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	const struct intake_config config = { inputs, INPUTS, on_wake, world };

	assert_int_equal(intake_new(&config, &world->intake), 0);
	parking_init(&world->parking, BYTES, WAIT_NS);
	world->others.give = on_give;
	world->others.data = world;
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;

	parking_clear(&world->parking);
	assert_int_equal(world->parking.count, 0);
	intake_lane_close(&world->others);
	intake_free(world->intake);
	free(world);
	return 0;
}

static struct parked *park(struct world *world, uint32_t pid, uint32_t uid)
{
	struct parked *parked =
		parking_begin(&world->parking, pid, uid, world->intake, PROBES, START_NS, START_NS);

	if (parked) {
		parked->lane.give = on_give;
		parked->lane.data = world;
	}
	return parked;
}

static void put(struct world *world, struct parked *parked, char name)
{
	char record[RECORD] = { name };

	assert_int_equal(parking_put(&world->parking, parked, record, sizeof(record)), 0);
}

/* As the reader of a ring does it; says what has gone. */
static const char *take(struct world *world, struct parked *parked)
{
	const void *record;
	size_t size;

	while ((record = parked_first(parked, &size))) {
		intake_put(&parked->lane, START_NS, record, size);
		parked_drop_first(&world->parking, parked);
	}
	parked_end_if_done(&world->parking, parked);
	return world->given;
}

static void records_wait_for_their_process_and_keep_their_order(void **state)
{
	struct world *world = *state;
	struct parked *parked = park(world, PID, UID);

	put(world, parked, 'a');
	put(world, parked, 'b');
	parking_go_on(&world->parking, PID + 1, false);
	assert_string_equal(take(world, parked), "");
	assert_ptr_equal(parking_find(&world->parking, PID), parked);
	assert_null(parking_find(&world->parking, PID + 1));
	parking_go_on(&world->parking, PID, false);
	put(world, parked, 'c');
	assert_false(parked->in_vain);
	assert_string_equal(take(world, parked), "abc");
	assert_null(parking_find(&world->parking, PID));
	assert_int_equal(world->parking.bytes.used, 0);
}

static void other_inputs_wait_for_what_is_parked(void **state)
{
	struct world *world = *state;
	struct parked *parked = park(world, PID, UID);
	char record[RECORD] = "z";

	put(world, parked, 'a');
	intake_lane_open(&world->others, world->intake, OTHERS, START_NS);
	intake_turn(world->intake, START_NS + 1);
	assert_false(intake_put(&world->others, START_NS + 1, record, sizeof(record)));
	parking_go_on(&world->parking, PID, false);
	assert_string_equal(take(world, parked), "a");
	intake_turn(world->intake, START_NS + 1);
	assert_string_equal(world->given, "az");
}

static void a_process_waits_so_long_and_then_goes_on_in_vain(void **state)
{
	struct world *world = *state;
	struct parked *parked = park(world, PID, UID);

	put(world, parked, 'a');
	parking_look(&world->parking, START_NS + WAIT_NS - 1);
	assert_string_equal(take(world, parked), "");
	parking_look(&world->parking, START_NS + WAIT_NS);
	assert_true(parked->in_vain);
	assert_string_equal(take(world, parked), "a");
}

static void who_has_filled_his_share_waits_no_longer_and_loses_nothing(void **state)
{
	struct world *world = *state;
	struct parked *parked = park(world, PID, UID), *other;
	size_t count = 0;

	while (!parked->goes_on && count < 10)
		put(world, parked, (char)('a' + count++));
	assert_int_equal(count, BYTES / 2 / RECORD + 1);
	assert_true(parked->in_vain);
	other = park(world, PID + 1, UID + 1);
	put(world, other, 'z');
	assert_false(other->goes_on);
	while (!parking_is_full(&world->parking))
		put(world, parked, (char)('a' + count++));
	assert_int_equal(count, BYTES / RECORD - 1);
	assert_string_equal(take(world, parked), "abcdefghi");
	assert_false(parking_is_full(&world->parking));
	assert_false(other->goes_on);
}

static void as_many_wait_as_may(void **state)
{
	struct world *world = *state;

	for (uint32_t i = 0; i < LIMIT_PROBE_PARKED; i++)
		assert_non_null(park(world, PID + i, UID));
	assert_null(park(world, PID + LIMIT_PROBE_PARKED, UID));
	parking_all_go_on(&world->parking);
	take(world, parking_find(&world->parking, PID));
	assert_non_null(park(world, PID + LIMIT_PROBE_PARKED, UID));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(records_wait_for_their_process_and_keep_their_order),
		TEST(other_inputs_wait_for_what_is_parked),
		TEST(a_process_waits_so_long_and_then_goes_on_in_vain),
		TEST(who_has_filled_his_share_waits_no_longer_and_loses_nothing),
		TEST(as_many_wait_as_may),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
