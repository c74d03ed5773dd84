/* What answers say of a time of which not all was seen: a process for each reason, which waited for
 * its device twice, and was recorded since the first time. */
#include "tests/unit/query_fixture.h"

#define PID 4000000
#define MS  1000000ull

static uint64_t at(uint64_t ms)
{
	return fixture_second() * SECOND_NS + ms * MS;
}

static void add_program(struct store *store, uint32_t id, uint8_t reason)
{
	add_process(store, id, PID + id, 0);
	for (uint64_t ms = 100; ms <= 300; ms += 200) {
		struct op op = { .process = id,
				 .kind = OP_SYNC,
				 .fn = FN_SYNC,
				 .start_ns = at(ms),
				 .end_ns = at(ms + 10),
				 .flags = OP_RETURNED };

		store_add_op(store, &op);
	}
	store_add(store, &(struct core_collect){
				 .process = id, .state = TS_COLLECT_CHANGED, .since_ns = at(100) });
	store_add(store, &(struct core_busy){ .second = fixture_second(),
					      .ns = 7,
					      .process = id,
					      .state = OP_STATE_IDLE });
	store_add(store, &(struct core_loss){ at(200), at(250), id, reason, 1 });
	/* Before anything was seen, or recorded, of it. */
	store_add(store, &(struct core_loss){ at(0), at(90), id, LOSS_GAP, 1 });
}

static int setup(void **state)
{
	struct fixture *fixture;

	fixture_setup(state);
	fixture = *state;
	assert_int_equal(fixture_open(fixture), 0);
	for (uint8_t reason = 1; reason <= LOSS_REASON_MAX; reason++)
		add_program(fixture->store, reason, reason);
	store_commit(fixture->store, fixture_now_ns);
	fixture->store = store_free(fixture->store);
	return 0;
}

static const char *const misses[LOSS_REASON_MAX + 1] = {
#define X(number, identifier, counts, alarm, misses, ...) [number] = #misses,
	LOSS_REASONS(X)
#undef X
};

/* An answer about the process of a reason has that text. */
static bool says(void **state, const char *name, uint8_t reason, const char *text)
{
	Tracesmith__V1__QueryRequest query = QUERY(.name = (char *)name, .pid = PID + reason,
						   .since_ns = at(0), .until_ns = at(2000));
	struct answer_text answer = { 0 };
	bool found;

	run_named(*state, &query, &answer);
	assert_true(answer.rows > 0);
	found = strstr(answer.text, text);
	answer_text_done(&answer);
	return found;
}

static void test_time_of_the_host_may_be_that_of_calls_that_were_not_seen(void **state)
{
	for (uint8_t reason = 1; reason <= LOSS_REASON_MAX; reason++) {
		bool hides =
			strcmp(misses[reason], "CALLS") == 0 || strcmp(misses[reason], "WORK") == 0;

		assert_true(says(state, "critical-path", reason, "\"what\":\"host\",\"count\":1,"));
		if (says(state, "critical-path", reason, "\"calls in this time may not") != hides)
			fail_msg("reason %u", reason);
	}
}

static void test_a_device_was_idle_only_as_far_as_anybody_saw(void **state)
{
	for (uint8_t reason = 1; reason <= LOSS_REASON_MAX; reason++) {
		bool hides = strcmp(misses[reason], "NOTHING") != 0 &&
			     strcmp(misses[reason], "TENSORS") != 0;

		if (says(state, "idle", reason, "\"nothing was submitted\"") == hides ||
		    says(state, "idle", reason, "\"no work was seen, but") != hides)
			fail_msg("reason %u", reason);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_time_of_the_host_may_be_that_of_calls_that_were_not_seen),
		cmocka_unit_test(test_a_device_was_idle_only_as_far_as_anybody_saw),
	};

	return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
