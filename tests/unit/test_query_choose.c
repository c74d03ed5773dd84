/* Choose: whose rows a query has, which of them, and in which order. */
#include "tests/unit/query_fixture.h"

#define PID 4000000

static void add_calls(struct store *store, uint32_t process, uint16_t fn, uint8_t kind,
		      uint64_t calls, uint64_t ns)
{
	add_rollup(store, process, fn, kind, calls,
		   (struct core_rollup){
			   .timed = ns ? calls : 0, .total_ns = ns, .min_ns = ns, .max_ns = ns });
}

static int setup(void **state)
{
	const struct store_process_detail ann = { .command = "./job1", .user = "ann" };
	const struct core_process other = { .id = 3,
					    .pid = PID + 2,
					    .uid = 1001,
					    .first_ns = fixture_second() * SECOND_NS,
					    .comm = "other" };
	const struct core_loss losses[] = {
		{ .process = 1, .reason = LOSS_RING_FULL, .count = 5 },
		{ .process = 3, .reason = LOSS_RING_FULL, .count = 7 },
	};
	struct fixture *fixture;

	fixture_setup(state);
	fixture = *state;
	assert_int_equal(fixture_open(fixture), 0);
	add_process(fixture->store, 1, PID, 0);
	add_process(fixture->store, 2, PID + 1, 0);
	store_add(fixture->store, &other);
	store_add_process_detail(fixture->store, 1, &ann);
	add_calls(fixture->store, 1, FN_LAUNCH, OP_LAUNCH, 30, 0);
	add_calls(fixture->store, 1, FN_ALLOC, OP_ALLOC, 2, 900);
	add_calls(fixture->store, 2, FN_HTOD, OP_COPY, 10, 500);
	add_calls(fixture->store, 3, FN_SYNC, OP_SYNC, 20, 700);
	for (size_t i = 0; i < ARRAY_SIZE(losses); i++) {
		struct core_loss loss = losses[i];

		loss.start_ns = loss.end_ns = fixture_second() * SECOND_NS;
		store_add(fixture->store, &loss);
	}
	fixture_commit(fixture, fixture_now_ns);
	return 0;
}

/* The texts or numbers of a column of the answer, in their order. */
static void expect_column(void **state, Tracesmith__V1__QueryRequest query, const char *key,
			  const char *expected)
{
	struct answer_text answer = { 0 };
	char found[256] = "";
	const char *at;

	run_named(*state, &query, &answer);
	if (answer.error)
		fail_msg("%s", answer.text);
	for (at = answer.text; (at = strstr(at, key));) {
		at += strlen(key);
		snprintf(found + strlen(found), sizeof(found) - strlen(found), "%.*s ",
			 (int)strcspn(at, ",}"), at);
	}
	assert_string_equal(found, expected);
	answer_text_done(&answer);
}

static void test_any_column_sorts_the_way_that_suits_it(void **state)
{
	static const struct {
		const char *sort, *calls;
	} cases[] = {
		{ "", "2 20 10 30 " }, /* by time: that of launches is not known */
		{ "calls", "30 20 10 2 " },
		{ "-calls", "30 20 10 2 " },
		{ "+calls", "2 10 20 30 " },
		{ "fn", "30 2 10 20 " },
		{ "-fn", "20 10 2 30 " },
		{ "+fn", "30 2 10 20 " },
		{ "errors", "2 20 10 30 " }, /* all alike: as without */
		{ "max_ns", "2 20 10 30 " },
		{ "+max_ns", "10 20 2 30 " }, /* what is unknown, last */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		expect_column(state, QUERY(.name = "apis", .sort = (char *)cases[i].sort),
			      "\"calls\":", cases[i].calls);
	expect_column(state, QUERY(.name = "ps", .sort = "pid"),
		      "\"pid\":", "4000000 4000001 4000002 ");
	expect_column(state, QUERY(.name = "ps", .sort = "-pid"),
		      "\"pid\":", "4000002 4000001 4000000 ");
}

static void test_every_column_of_every_query_sorts(void **state)
{
	const struct query *query;

	for (size_t i = 0; (query = query_at(i)); i++)
		for (const struct query_column *column = query->column; column->name; column++) {
			struct answer_text answer = { 0 };
			Tracesmith__V1__QueryRequest request =
				QUERY(.name = (char *)query->name, .sort = (char *)column->name);

			run_named(*state, &request, &answer);
			if ((column->type == TRACESMITH__V1__COLUMNS__TYPE__STACK) !=
			    (answer.error == TRACESMITH__V1__ERROR__CODE__BAD_REQUEST))
				fail_msg("%s by %s: %s", query->name, column->name, answer.text);
			answer_text_done(&answer);
		}
}

static void test_an_unknown_column_is_told_with_those_that_there_are(void **state)
{
	refuse(state, QUERY(.name = "syncs", .sort = "-nosuch"),
	       TRACESMITH__V1__ERROR__CODE__BAD_REQUEST,
	       "The query 'syncs' cannot be sorted by 'nosuch', only by: pid comm fn calls errors "
	       "total_ns mean_ns max_ns");
	refuse(state, QUERY(.name = "syncs", .sort = "stack"),
	       TRACESMITH__V1__ERROR__CODE__BAD_REQUEST, "cannot be sorted by 'stack'");
	refuse(state, QUERY(.name = "syncs", .sort = "1; DROP TABLE op"),
	       TRACESMITH__V1__ERROR__CODE__BAD_REQUEST, "cannot be sorted by");
}

static void test_names_match_anywhere_and_the_limit_comes_after(void **state)
{
	struct answer_text answer = { 0 };

	expect_column(state, QUERY(.name = "apis", .match = "Alloc|Sync"), "\"calls\":", "2 20 ");
	expect_column(state, QUERY(.name = "apis", .match = "cu*n*c", .sort = "-calls"),
		      "\"calls\":", "30 20 ");
	/* The first two by time do not match. */
	expect_column(state, QUERY(.name = "apis", .match = "Launch", .limit = 1),
		      "\"calls\":", "30 ");
	expect_column(state, QUERY(.name = "apis", .sort = "calls", .limit = 2),
		      "\"calls\":", "30 20 ");
	expect_column(state, QUERY(.name = "ps", .match = "oth"), "\"pid\":", "4000002 ");
	run_named(*state, &QUERY(.name = "apis", .match = "cu", .limit = 3), &answer);
	assert_int_equal(answer.rows, 3);
	assert_true(answer.truncated);
	answer_text_done(&answer);
	run_named(*state, &QUERY(.name = "apis", .match = "nosuch"), &answer);
	assert_int_equal(answer.rows, 0);
	assert_non_null(strstr(answer.text, "None of 4 names matches"));
	answer_text_done(&answer);
	refuse(state, QUERY(.name = "memory", .match = "x"),
	       TRACESMITH__V1__ERROR__CODE__BAD_REQUEST, "'memory' does not take 'name', only");
}

static void test_a_user_is_a_name_or_a_uid(void **state)
{
	expect_column(state, QUERY(.name = "ps", .user = "ann"), "\"pid\":", "4000000 ");
	expect_column(state, QUERY(.name = "ps", .user = "1000", .sort = "pid"),
		      "\"pid\":", "4000000 4000001 ");
	expect_column(state, QUERY(.name = "ps", .user = "1001"), "\"pid\":", "4000002 ");
	expect_column(state, QUERY(.name = "apis", .user = "ann"), "\"calls\":", "2 30 ");
	expect_column(state, QUERY(.name = "apis", .user = "1000"), "\"calls\":", "2 10 30 ");
	expect_column(state, QUERY(.name = "apis", .user = "1000", .pid = PID + 2),
		      "\"calls\":", "");
	expect_column(state, QUERY(.name = "loss", .user = "1001"), "\"count\":", "7 ");
	refuse(state, QUERY(.name = "ps", .user = "bob"), TRACESMITH__V1__ERROR__CODE__NOT_FOUND,
	       "No process of user 'bob' has used CUDA");
}

/* What was lost of other users' processes is missing from no answer about these. */
static void test_losses_are_those_of_the_users_processes(void **state)
{
	struct answer_text answer = { 0 };

	run_named(*state, &QUERY(.name = "apis", .user = "ann"), &answer);
	assert_non_null(strstr(answer.text, "\"loss\":{\"ring-full\":5}"));
	answer_text_done(&answer);
	run_named(*state, &QUERY(.name = "apis"), &answer);
	assert_non_null(strstr(answer.text, "\"loss\":{\"ring-full\":12}"));
	answer_text_done(&answer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_column_sorts_the_way_that_suits_it),
		cmocka_unit_test(test_every_column_of_every_query_sorts),
		cmocka_unit_test(test_an_unknown_column_is_told_with_those_that_there_are),
		cmocka_unit_test(test_names_match_anywhere_and_the_limit_comes_after),
		cmocka_unit_test(test_a_user_is_a_name_or_a_uid),
		cmocka_unit_test(test_losses_are_those_of_the_users_processes),
	};

	return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
