/* An answer without rows says why it has none. */
#include "proto/event.h"
#include "tests/unit/query_fixture.h"

#define ON_DEVICE(number)                                                                          \
	.device_given_case = TRACESMITH__V1__QUERY_REQUEST__DEVICE_GIVEN_DEVICE, .device = (number)

enum { PROBE = 4000000, EXACT, ENDED, PAUSED, FEW };

static void add_collect(struct store *store, uint32_t process, uint32_t state, uint32_t records)
{
	struct core_collect row = {
		.process = process,
		.state = state,
		.records = records,
		.since_ns = fixture_second() * SECOND_NS + SECOND_NS / 2,
	};

	store_add(store, &row);
}

static int setup_empty(void **state)
{
	struct fixture *fixture;

	fixture_setup(state);
	fixture = *state;
	assert_int_equal(fixture_open(fixture), 0);
	store_commit(fixture->store, fixture_now_ns);
	fixture->store = store_free(fixture->store);
	return 0;
}

static int setup(void **state)
{
	uint64_t ended_ns = (fixture_second() + 1) * SECOND_NS;
	struct fixture *fixture;

	fixture_setup(state);
	fixture = *state;
	assert_int_equal(fixture_open(fixture), 0);
	add_process(fixture->store, 1, PROBE, 0);
	add_process(fixture->store, 2, EXACT, 0);
	add_process(fixture->store, 3, ENDED, ended_ns);
	add_process(fixture->store, 4, PAUSED, 0);
	add_process(fixture->store, 5, FEW, 0);
	add_collect(fixture->store, 2, TS_COLLECT_STARTED, TS_RECORDS_DEFAULT);
	add_collect(fixture->store, 4, TS_COLLECT_PAUSED, TS_RECORDS_DEFAULT);
	add_collect(fixture->store, 5, TS_COLLECT_CHANGED, TS_RECORD_CALLS);
	add_allocation(fixture->store, 1, 1, 1000, 0, MEMORY_DEVICE, fixture_now_ns - SECOND_NS);
	add_allocation(fixture->store, 2, 5, 1000, 0, MEMORY_DEVICE, fixture_now_ns - SECOND_NS);
	store_commit(fixture->store, fixture_now_ns);
	fixture->store = store_free(fixture->store);
	return 0;
}

static void expect_note(void **state, Tracesmith__V1__QueryRequest query, const char *note)
{
	struct answer_text answer = { 0 };
	char key[400];

	run_named(*state, &query, &answer);
	assert_int_equal(answer.rows, 0);
	snprintf(key, sizeof(key), ",\"note\":\"%s\"}", note);
	if (!strstr(answer.text, key))
		fail_msg("%s: '%s' in %s", query.name, note, answer.text);
	answer_text_done(&answer);
}

static void test_the_probe_tier_knows_nothing_of_the_device(void **state)
{
	static const char *const names[] = { "kernels", "idle",	 "overlap", "graphs",
					     "ranges",	"pools", "devices", "pageable" };
	const char *note = "Process 4000000 is in the probe tier, which does not see this";

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		expect_note(state, QUERY(.name = (char *)names[i], .pid = PROBE), note);
	expect_note(state, QUERY(.name = "kernels", .pid = ENDED),
		    "Process 4000002 was in the probe tier, which does not see this");
}

static void test_an_attach_after_the_window_is_said(void **state)
{
	uint64_t until_ns = fixture_second() * SECOND_NS + SECOND_NS / 4;

	expect_note(state, QUERY(.name = "kernels", .pid = EXACT, .until_ns = until_ns),
		    "The exact tier did not cover process 4000001 in the window");
	expect_note(state, QUERY(.name = "idle", .until_ns = until_ns),
		    "The exact tier did not cover the window");
}

static void test_what_is_not_collected_is_said(void **state)
{
	expect_note(state, QUERY(.name = "kernels", .pid = PAUSED),
		    "Another profiler uses CUPTI in process 4000003: collection resumes when it is "
		    "done");
	expect_note(state, QUERY(.name = "kernels", .pid = FEW),
		    "These records were not collected from process 4000004: kernels");
	expect_note(state, QUERY(.name = "ranges", .pid = FEW),
		    "These records were not collected from process 4000004: nvtx");
}

static void test_what_did_not_happen_is_said(void **state)
{
	expect_note(state, QUERY(.name = "kernels", .pid = EXACT),
		    "No kernel ran in process 4000001 in the last 1 h");
	expect_note(state, QUERY(.name = "kernels"), "No kernel ran in the last 1 h");
	expect_note(state, QUERY(.name = "kernels", ON_DEVICE(3)),
		    "No kernel ran on device 3 in the last 1 h");
	expect_note(state, QUERY(.name = "pools", .pid = EXACT),
		    "No memory pool was used in process 4000001");
	expect_note(state, QUERY(.name = "memory", .pid = EXACT),
		    "No memory was allocated in process 4000001");
	expect_note(state, QUERY(.name = "memory", .pid = EXACT, .by = QUERY_BY_IS_STACK),
		    "No memory is live in process 4000001");
	expect_note(state, QUERY(.name = "apis", .pid = PROBE, .until_ns = fixture_now_ns - 1),
		    "No call was made in process 4000000 in the window");
}

static void test_the_time_of_a_process_is_said(void **state)
{
	uint64_t before_ns = (fixture_second() - 10) * SECOND_NS;

	expect_note(state, QUERY(.name = "ps", .pid = ENDED),
		    "Process 4000002 has ended, and this query covers running processes");
	expect_note(state, QUERY(.name = "apis", .pid = ENDED, .since_ns = fixture_now_ns - 1),
		    "Process 4000002 ended before the window");
	expect_note(state,
		    QUERY(.name = "apis", .pid = ENDED, .since_ns = 1, .until_ns = before_ns),
		    "Process 4000002 was first seen after the window");
	expect_note(state, QUERY(.name = "apis", .since_ns = 1, .until_ns = before_ns),
		    "No process used CUDA in the window");
}

static void test_the_young_are_no_leaks(void **state)
{
	expect_note(state, QUERY(.name = "leaks", .pid = PROBE),
		    "No live allocation of process 4000000 is at least 1 min old; younger ones: 1");
	expect_note(state, QUERY(.name = "leaks", .min_age_ns = 90 * SECOND_NS),
		    "No live allocation is at least 1.50 min old; younger ones: 2");
	expect_note(state, QUERY(.name = "leaks", .pid = PROBE, ON_DEVICE(3)),
		    "No memory is live in process 4000000 on device 3");
	expect_note(state, QUERY(.name = "leaks", .pid = EXACT),
		    "No memory is live in process 4000001");
}

static void test_nothing_at_all_is_said(void **state)
{
	expect_note(state, QUERY(.name = "ps"), "No process has used CUDA");
	expect_note(state, QUERY(.name = "kernels"), "No process has used CUDA");
}

static void test_what_was_not_looked_at_yet_is_said(void **state)
{
	const char *still = "still looking at the processes that were there before tracesmithd, 3 "
			    "to go: ask again in a few seconds";
	char note[400];

	fixture_unlooked = 3;
	snprintf(note, sizeof(note), "No process has used CUDA; %s", still);
	expect_note(state, QUERY(.name = "kernels"), note);
	refuse(state, QUERY(.name = "apis", .pid = PROBE), TRACESMITH__V1__ERROR__CODE__NOT_FOUND,
	       still);
	fixture_unlooked = 0;
}

static void test_a_database_set_aside_is_said(void **state)
{
	const struct core_loss lost = { .end_ns = fixture_now_ns,
					.reason = LOSS_SET_ASIDE,
					.count = 1 };
	const char *aside = "what was before is in tracesmith.db.damaged, since the database was "
			    "too damaged to be used";
	struct fixture *fixture = *state;
	char note[400];

	assert_int_equal(fixture_open(fixture), 0);
	store_add(fixture->store, &lost);
	store_commit(fixture->store, fixture_now_ns);
	fixture->store = store_free(fixture->store);
	snprintf(note, sizeof(note), "No process has used CUDA; %s", aside);
	expect_note(state, QUERY(.name = "kernels"), note);
	refuse(state, QUERY(.name = "apis", .pid = PROBE), TRACESMITH__V1__ERROR__CODE__NOT_FOUND,
	       aside);
}

#define TEST(name, setup) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_the_probe_tier_knows_nothing_of_the_device, setup),
		TEST(test_an_attach_after_the_window_is_said, setup),
		TEST(test_what_is_not_collected_is_said, setup),
		TEST(test_what_did_not_happen_is_said, setup),
		TEST(test_the_time_of_a_process_is_said, setup),
		TEST(test_the_young_are_no_leaks, setup),
		TEST(test_nothing_at_all_is_said, setup_empty),
		TEST(test_what_was_not_looked_at_yet_is_said, setup_empty),
		TEST(test_a_database_set_aside_is_said, setup_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
