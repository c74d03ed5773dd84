/* What an answer says is missing from it: no loss that cannot matter, and each that can. */
#include "core/base/array.h"
#include "core/model/loss_said.h"
#include "tests/unit/query_fixture.h"

#define PID	4000000
#define NS_TICK 10000000ull /* of started_ticks */

/* The first runs since the second, the other one has ended a second later. */
static void add_processes(struct store *store)
{
	uint64_t first_ns = fixture_second() * SECOND_NS;
	struct core_process process = {
		.id = 1, .pid = PID, .started_ticks = first_ns / NS_TICK, .first_ns = first_ns
	};

	store_add(store, &process);
	process.id = 2;
	process.pid = PID + 1;
	process.exit_ns = first_ns + SECOND_NS;
	store_add(store, &process);
}

static void add_loss(struct store *store, enum loss_reason reason, uint32_t process, uint64_t count,
		     int64_t after_s)
{
	uint64_t start_ns = (uint64_t)((int64_t)fixture_second() + after_s) * SECOND_NS;
	struct core_loss loss = {
		.start_ns = start_ns,
		.end_ns = start_ns + SECOND_NS / 10,
		.process = process,
		.reason = (uint8_t)reason,
		.count = count,
	};

	store_add(store, &loss);
}

static int setup(void **state)
{
	struct fixture *fixture;

	fixture_setup(state);
	fixture = *state;
	assert_int_equal(fixture_open(fixture), 0);
	add_processes(fixture->store);
	return 0;
}

static void store_all(struct fixture *fixture)
{
	store_commit(fixture->store, fixture_now_ns);
	fixture->store = store_free(fixture->store);
}

/* The names of all reasons in an answer's loss, but for those whose number is in no bit. */
static void expect_loss(void **state, Tracesmith__V1__QueryRequest query, uint64_t bits)
{
	static const struct {
		int number;
		const char *name;
	} reasons[] = {
#define X(number, identifier, counts, alarm, misses, noun, name, text) { number, name },
		LOSS_REASONS(X)
#undef X
	};
	struct answer_text answer = { 0 };
	char key[48];

	run_named(*state, &query, &answer);
	for (size_t i = 0; i < LOSS_REASON_MAX; i++) {
		bool told;

		snprintf(key, sizeof(key), "\"%s\":", reasons[i].name);
		told = strstr(strstr(answer.text, "\"loss\":"), key);
		if (told != (bool)(bits >> reasons[i].number & 1))
			fail_msg("%s of %s: %s", reasons[i].name, query.name,
				 told ? "cannot matter" : "is hidden");
	}
	answer_text_done(&answer);
}

#define BIT(name) (UINT64_C(1) << LOSS_##name)

static void test_nobodys_loss_is_of_who_lived_then(void **state)
{
	struct fixture *fixture = *state;

	add_loss(fixture->store, LOSS_RING_FULL, 0, 3, -5);
	add_loss(fixture->store, LOSS_RATE_LIMIT, 0, 4, 0);
	add_loss(fixture->store, LOSS_GAP, 0, 5, 5);
	store_all(fixture);
	expect_loss(state, QUERY(.name = "apis", .pid = PID), BIT(RATE_LIMIT) | BIT(GAP));
	expect_loss(state, QUERY(.name = "apis", .pid = PID + 1), BIT(RATE_LIMIT));
	expect_loss(state, QUERY(.name = "loss", .pid = PID + 1), BIT(RATE_LIMIT));
	/* In it there may have been others, that nobody knows of. */
	expect_loss(state, QUERY(.name = "apis"), BIT(RING_FULL) | BIT(RATE_LIMIT) | BIT(GAP));
	/* These are of none that has ended. */
	expect_loss(state, QUERY(.name = "leaks"), BIT(GAP));
}

static void test_a_loss_of_one_is_no_others(void **state)
{
	struct fixture *fixture = *state;

	add_loss(fixture->store, LOSS_UNKNOWN_FREE, 1, 3, 0);
	add_loss(fixture->store, LOSS_RING_FULL, 2, 4, 0);
	store_all(fixture);
	expect_loss(state, QUERY(.name = "leaks", .pid = PID), BIT(UNKNOWN_FREE));
	expect_loss(state, QUERY(.name = "leaks"), BIT(UNKNOWN_FREE));
	expect_loss(state, QUERY(.name = "memory"), BIT(UNKNOWN_FREE) | BIT(RING_FULL));
	expect_loss(state, QUERY(.name = "memory", .pid = PID + 1), BIT(RING_FULL));
}

/* A gap that started before a process did hides nothing of that process until its start. */
static void test_nobodys_time_begins_with_the_process(void **state)
{
	struct fixture *fixture = *state;
	const uint64_t start_ns = fixture_second() * SECOND_NS;
	const struct core_loss gap = { .start_ns = start_ns - 10 * SECOND_NS,
				       .end_ns = start_ns + SECOND_NS / 2,
				       .reason = LOSS_GAP,
				       .count = 1 };
	const struct {
		uint32_t pid;
		uint64_t lost_ns;
	} rows[] = { { PID, SECOND_NS / 2 }, { 0, gap.end_ns - gap.start_ns } };

	store_add(fixture->store, &gap);
	store_all(fixture);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		Tracesmith__V1__QueryRequest query = QUERY(.name = "apis", .pid = rows[i].pid);
		struct answer_text answer = { 0 };

		run_named(fixture, &query, &answer);
		assert_int_equal(answer.lost_ns, rows[i].lost_ns);
		answer_text_done(&answer);
	}
}

static void test_a_loss_outside_of_the_window_is_none(void **state)
{
	struct fixture *fixture = *state;
	uint64_t since_ns = (fixture_second() + 20) * SECOND_NS;

	add_loss(fixture->store, LOSS_RING_FULL, 1, 3, 0);
	store_all(fixture);
	expect_loss(state, QUERY(.name = "apis", .pid = PID), BIT(RING_FULL));
	expect_loss(state, QUERY(.name = "apis", .pid = PID, .since_ns = since_ns), 0);
}

static void test_a_reason_counts_where_it_can_matter(void **state)
{
	const uint64_t all = BIT(RING_FULL) | BIT(CALL_STATE) | BIT(PROCESS) | BIT(BAD_EVENT) |
			     BIT(STRAY) | BIT(LIMIT) | BIT(STORE) | BIT(STORE_ROWS) | BIT(GAP) |
			     BIT(UNREAD) | BIT(CUT_OFF) | BIT(BEHIND) | BIT(DAMAGED) |
			     BIT(SET_ASIDE) | BIT(LEFT_OUT) | BIT(NO_DAEMON) | BIT(FILTER);
	const uint64_t pools = all | BIT(EXACT_RING) | BIT(CUPTI) | BIT(BUFFERS) | BIT(RING_STUCK) |
			       BIT(UNKNOWN_RECORD) | BIT(PAUSED) | BIT(BUDGET) | BIT(DISCONNECTED) |
			       BIT(EXACT_WINDOWS) | BIT(LAST_RECORDS);
	const uint64_t times = pools | BIT(RATE_LIMIT) | BIT(UNTIMED) | BIT(NO_CALL) |
			       BIT(NO_RECORD) | BIT(BEFORE) | BIT(NO_NAME);
	const uint64_t stacks = BIT(STACK) | BIT(STACK_CUT) | BIT(MAPPING);
	const uint64_t hot = BIT(WINDOWS) | BIT(LEFT_OUT_HOT) | BIT(NO_RETURN) | BIT(NO_EFFECT);
	struct fixture *fixture = *state;

	for (int reason = 1; reason <= LOSS_REASON_MAX; reason++)
		add_loss(fixture->store, (enum loss_reason)reason, 1, 1, 0);
	store_all(fixture);
	expect_loss(state, QUERY(.name = "apis"), all | BIT(RATE_LIMIT) | hot);
	expect_loss(state, QUERY(.name = "launches"),
		    all | BIT(RATE_LIMIT) | stacks | BIT(STACK_SAMPLED) | hot);
	expect_loss(state, QUERY(.name = "leaks"),
		    all | BIT(UNKNOWN_FREE) | BIT(TENSORS) | BIT(TENSOR_MISMATCH) | BIT(GAP_TORCH) |
			    BIT(NO_EFFECT) | stacks);
	expect_loss(state, QUERY(.name = "pools"), pools);
	expect_loss(state, QUERY(.name = "kernels"), times);
	expect_loss(state, QUERY(.name = "collectives"), times | hot | BIT(GAP_NCCL));
	expect_loss(state, QUERY(.name = "ranges"), times | BIT(GAP_RANGE));
	expect_loss(state, QUERY(.name = "kernels", .by = QUERY_BY_IS_STACK),
		    times | stacks | BIT(STACK_SAMPLED));
	expect_loss(state, QUERY(.name = "idle"), (times & ~BIT(NO_NAME)) | BIT(LATE) | hot);
	expect_loss(state, QUERY(.name = "states", .since_ns = 1),
		    (times & ~BIT(NO_NAME)) | BIT(LATE) | BIT(UNBOUND) | hot);
	expect_loss(state, QUERY(.name = "loss"), UINT64_MAX);
}

/* Done, as the client reads it. */
static int check_nouns(void *data, const Tracesmith__V1__Reply *reply)
{
	if (reply->body_case != TRACESMITH__V1__REPLY__BODY_DONE)
		return 0;
	assert_int_equal(reply->done->n_loss, LOSS_REASON_MAX);
	for (size_t i = 0; i < reply->done->n_loss; i++) {
		const Tracesmith__V1__Loss *loss = reply->done->loss[i];
		bool timed = strncmp(loss->reason, "gap", 3) == 0 ||
			     strcmp(loss->reason, "no-daemon") == 0 ||
			     strcmp(loss->reason, "last-records") == 0 ||
			     strcmp(loss->reason, "filter") == 0 ||
			     strcmp(loss->reason, "paused") == 0 ||
			     strcmp(loss->reason, "budget") == 0 ||
			     strcmp(loss->reason, "windows") == 0 ||
			     strcmp(loss->reason, "exact-windows") == 0 ||
			     strncmp(loss->reason, "left-out", 8) == 0 ||
			     strcmp(loss->reason, "tensors") == 0 ||
			     strcmp(loss->reason, "disconnected") == 0;

		assert_true(loss->noun[0]);
		if (strcmp(loss->reason, "limit") != 0)
			assert_string_not_equal(loss->noun, "thing");
		/* Of the first half second of each. */
		assert_int_equal(loss->time_ns, timed ? SECOND_NS / 20 : 0);
	}
	return 0;
}

/* What was not watched, as it is said of a process that was asked for, and of all. */
static void expect_said(void **state, const char *name, uint32_t pid, const char *said)
{
	Tracesmith__V1__QueryRequest query = QUERY(.name = (char *)name, .pid = pid);
	struct answer_text answer = { 0 };

	run_named(*state, &query, &answer);
	if (!strstr(answer.text, said))
		fail_msg("'%s' is not in %s", said, answer.text);
	assert_null(strstr(answer.text, "(windows)"));
	answer_text_done(&answer);
}

static void test_windows_are_said_by_the_share_that_was_seen(void **state)
{
	struct fixture *fixture = *state;
	const uint64_t start_ns = fixture_second() * SECOND_NS;
	const struct core_loss windows = { .start_ns = start_ns + SECOND_NS / 2,
					   .end_ns = start_ns + SECOND_NS,
					   .process = 2,
					   .reason = LOSS_WINDOWS,
					   .count = 0 };
	const struct core_watch watch = { .process = 2,
					  .part = PRICE_PROBES,
					  .second = fixture_second(),
					  .windows = 1,
					  .watched_ns = SECOND_NS / 10,
					  .all_ns = SECOND_NS / 2 };

	store_add(fixture->store, &windows);
	store_add(fixture->store, &watch);
	store_all(fixture);
	/* It lived for a second: half of it whole, the other half by a fifth. */
	expect_said(state, "apis", PID + 1,
		    "\"sampled: frequent calls were seen 60 % of the time; counts are estimates\"");
	expect_said(state, "apis", 0, "frequent calls were seen 60 % of the time");
}

static void test_what_was_never_seen_is_not_sampled(void **state)
{
	struct fixture *fixture = *state;
	const uint64_t start_ns = fixture_second() * SECOND_NS;
	const struct core_loss losses[] = {
		{ start_ns, start_ns + SECOND_NS, 2, LOSS_WINDOWS, 1 },
		{ start_ns, start_ns + SECOND_NS / 4, 2, LOSS_GAP, 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(losses); i++)
		store_add(fixture->store, &losses[i]);
	store_all(fixture);
	expect_said(state, "apis", PID + 1, "frequent calls were not watched for 1.00 s");
	expect_said(state, "apis", PID + 1,
		    "not watched for 250 ms (probes were not attached yet)");
}

static void test_no_launch_is_no_claim_where_launches_were_not_watched(void **state)
{
	struct fixture *fixture = *state;

	add_loss(fixture->store, LOSS_WINDOWS, 2, 1, 0);
	add_loss(fixture->store, LOSS_LEFT_OUT, 1, 1, 0);
	store_all(fixture);
	expect_said(state, "launches", PID + 1,
		    "Not known of process 4000001: not all of the time");
	expect_said(state, "launches", PID, "Not known of process 4000000: not all of the time");
	expect_said(state, "memory", PID + 1, "No memory");
}

static void test_none_is_no_claim_where_probes_were_not_on(void **state)
{
	struct fixture *fixture = *state;

	/* Neither had started then. */
	add_loss(fixture->store, LOSS_GAP, 0, 1, -5);
	add_loss(fixture->store, LOSS_GAP, 2, 1, 0);
	add_loss(fixture->store, LOSS_EXACT_RING, 1, 1, 0);
	store_all(fixture);
	expect_said(state, "launches", PID + 1,
		    "Not known of process 4000001: not all of the time");
	expect_said(state, "memory", PID + 1, "Not known of process 4000001: not all of the time");
	expect_said(state, "launches", PID, "Nothing was launched in process 4000000");
	expect_said(state, "memory", PID, "No memory");
}

static void test_none_is_no_claim_while_there_was_no_daemon(void **state)
{
	struct fixture *fixture = *state;

	add_loss(fixture->store, LOSS_GAP, 0, 1, 0);
	store_all(fixture);
	expect_said(state, "launches", PID, "Not known of process 4000000: not all of the time");
	expect_said(state, "syncs", 0, "Not known: not all of the time");
}

/* No answer shows the name of a reason in place of words. */
static void test_each_period_is_said_in_words(void **state)
{
	static const enum loss_counts counts[LOSS_REASON_MAX + 1] = {
#define X(number, identifier, counts, ...) [number] = LOSS_COUNTS_##counts,
		LOSS_REASONS(X)
#undef X
	};

	for (int reason = 1; reason <= LOSS_REASON_MAX; reason++) {
		const struct loss_time time = { .reason = (enum loss_reason)reason };
		char *said;

		assert_int_equal(loss_said(&time, &said), 0);
		assert_int_equal(said != NULL, counts[reason] == LOSS_COUNTS_PERIOD);
		free(said);
	}
}

static bool goes_on(void *data)
{
	return false;
}

static void test_each_reason_says_what_it_counts_and_how_long(void **state)
{
	Tracesmith__V1__QueryRequest query =
		QUERY(.name = "loss", .since_ns = fixture_second() * SECOND_NS + SECOND_NS / 20);
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;
	struct fixture *fixture = *state;
	struct query_job job = {
		.request = &request,
		.database = fixture->path,
		.boot_id = BOOT,
		.now_ns = fixture_now_ns,
		.send = check_nouns,
		.cancelled = goes_on,
	};

	for (int reason = 1; reason <= LOSS_REASON_MAX; reason++)
		add_loss(fixture->store, (enum loss_reason)reason, 1, 2, 0);
	store_all(fixture);
	request.body_case = TRACESMITH__V1__REQUEST__BODY_QUERY;
	request.query = &query;
	query_run(&job);
}

/* By its flags in LOSS_REASONS, and not by a list of somebody's own. */
static void test_a_reason_is_lost_or_an_alarm_as_its_row_says(void **state)
{
	static const struct {
		const char *name;
		bool missing, alarm;
	} reasons[] = {
#define X(number, identifier, counts, alarm, misses, noun, name, text)                             \
	{ name, LOSS_COUNTS_##counts == LOSS_COUNTS_MISSING, !strcmp(#alarm, "ALARM") },
		LOSS_REASONS(X)
#undef X
	};
	Tracesmith__V1__QueryRequest recent = QUERY(.name = "recent-losses");
	Tracesmith__V1__QueryRequest ps = QUERY(.name = "ps", .pid = PID);
	struct fixture *fixture = *state;
	struct answer_text answer = { 0 };
	char lost[32];
	int missing = 0;

	for (int reason = 1; reason <= LOSS_REASON_MAX; reason++)
		add_loss(fixture->store, (enum loss_reason)reason, 1, 1, 0);
	store_all(fixture);
	run_named(*state, &recent, &answer);
	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++) {
		char key[48];
		bool told;

		missing += reasons[i].missing;
		snprintf(key, sizeof(key), "\"reason\":\"%s\"", reasons[i].name);
		told = strstr(answer.text, key);
		if (told != reasons[i].alarm)
			fail_msg("%s: %s", reasons[i].name, answer.text);
	}
	answer_text_done(&answer);
	assert_true(missing > 10 && missing < LOSS_REASON_MAX - 10);
	snprintf(lost, sizeof(lost), "\"lost\":%d,", missing);
	answer = (struct answer_text){ 0 };
	run_named(*state, &ps, &answer);
	if (!strstr(answer.text, lost))
		fail_msg("no %s in %s", lost, answer.text);
	answer_text_done(&answer);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_nobodys_loss_is_of_who_lived_then),
		TEST(test_a_loss_of_one_is_no_others),
		TEST(test_nobodys_time_begins_with_the_process),
		TEST(test_a_loss_outside_of_the_window_is_none),
		TEST(test_a_reason_counts_where_it_can_matter),
		TEST(test_each_reason_says_what_it_counts_and_how_long),
		TEST(test_windows_are_said_by_the_share_that_was_seen),
		TEST(test_what_was_never_seen_is_not_sampled),
		TEST(test_no_launch_is_no_claim_where_launches_were_not_watched),
		TEST(test_none_is_no_claim_where_probes_were_not_on),
		TEST(test_none_is_no_claim_while_there_was_no_daemon),
		TEST(test_each_period_is_said_in_words),
		TEST(test_a_reason_is_lost_or_an_alarm_as_its_row_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
