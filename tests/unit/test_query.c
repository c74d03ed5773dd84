/* Queries over rows made by hand: exact answers, what they refuse, and where they stop. */
#include "tests/unit/query_fixture.h"

#define STACK_LEAK    0x8000000000000001ull /* does not fit a positive int64 */
#define STACK_HEALTHY 2ull
#define PID	      4000000

static void add_names(struct store *store)
{
	const struct frame leak[] = {
		FRAME(0x10, 0x10, "/lib/libcuda.so.1", "cuMemAlloc_v2"),
		{ .address = 0x20,
		  .offset = 0x20,
		  .module = "/opt/app",
		  .function = "leak_here",
		  .file = "/src/app/leak.cc",
		  .line = 12,
		  .inlined = true },
		FRAME(0x30, 0x31, "/opt/a\xff", NULL),
		{ .function = "train",
		  .file = "/home/ann/train.py",
		  .line = 31,
		  .kind = FRAME_PYTHON },
		FRAME(0x40, 0, NULL, NULL),
	};
	const struct frame healthy = FRAME(0x10, 0x10, "/lib/libcuda.so.1", "cuMemAlloc_v2");

	store_add_stack(store, &(struct store_stack){ STACK_LEAK, 1, leak, 5, TS_END_NO_RULE, 1 });
	store_add_stack(store, &(struct store_stack){ STACK_HEALTHY, 1, &healthy, 1, 0, 0 });
}

static void add_rollups(struct store *store)
{
	add_rollup(store, 1, FN_LAUNCH, OP_LAUNCH, 100, (struct core_rollup){ .stream = 1 });
	add_rollup(store, 1, FN_LAUNCH, OP_LAUNCH, 7,
		   (struct core_rollup){ .stream = 1, .stack_id = STACK_LEAK, .captured = 2 });
	add_rollup(store, 1, FN_ALLOC, OP_ALLOC, 5,
		   (struct core_rollup){ .stack_id = STACK_LEAK,
					 .detail = MEMORY_DEVICE,
					 .timed = 5,
					 .total_ns = 500,
					 .min_ns = 50,
					 .max_ns = 200,
					 .bytes = 5000 });
	add_rollup(store, 1, FN_ALLOC, OP_ALLOC, 2,
		   (struct core_rollup){ .result = 2,
					 .detail = MEMORY_DEVICE,
					 .timed = 2,
					 .total_ns = 20,
					 .min_ns = 9,
					 .max_ns = 11 });
	add_rollup(store, 1, FN_ALLOC, OP_ALLOC, 2,
		   (struct core_rollup){ .stack_id = STACK_LEAK,
					 .detail = MEMORY_DEVICE,
					 .freed = true,
					 .bytes = 2000 });
	add_rollup(store, 1, FN_HTOD, OP_COPY, 4,
		   (struct core_rollup){ .detail = COPY_HTOD,
					 .stream = 1,
					 .timed = 4,
					 .total_ns = 2000,
					 .min_ns = 400,
					 .max_ns = 700,
					 .captured = 1,
					 .bytes = 1000000 });
	add_rollup(store, 1, FN_SYNC, OP_SYNC, 3,
		   (struct core_rollup){ .stream = 1,
					 .timed = 3,
					 .total_ns = 900,
					 .min_ns = 100,
					 .max_ns = 500,
					 .stack_id = STACK_LEAK });
	add_rollup(store, 1, FN_SYNC, OP_SYNC, 1,
		   (struct core_rollup){ .stream = 1,
					 .timed = 1,
					 .result = 600,
					 .total_ns = 1,
					 .min_ns = 1,
					 .max_ns = 1 });
	/* Two seconds before, and another process. */
	add_rollup(store, 1, FN_LAUNCH, OP_LAUNCH, 1000,
		   (struct core_rollup){ .second = fixture_second() - 2, .stream = 1 });
	add_rollup(store, 2, FN_LAUNCH, OP_LAUNCH, 10, (struct core_rollup){ .device = 1 });
}

static void add_pool(struct store *store, uint64_t address, uint8_t kind, uint64_t bytes,
		     uint64_t used_bytes)
{
	store_add(store, &(struct core_pool){ .process = 2,
					      .device = 1,
					      .kind = kind,
					      .address = address,
					      .bytes = bytes,
					      .used_bytes = used_bytes,
					      .threshold_bytes = 4096,
					      .peak_bytes = 100,
					      .peak_used_bytes = 90,
					      .told_ns = fixture_now_ns });
}

static void add_memory(struct store *store)
{
	const uint64_t now_ns = fixture_now_ns;
	const struct core_memory rows[] = {
		{ 1, 0, MEMORY_DEVICE, 3000, 3, 4000, 0, 0 },
		{ 1, 0, MEMORY_HOST, 64, 1, 64, 0, 0 },
		{ 2, 1, MEMORY_MANAGED, 0, 0, 128, 0, 0 },
	};

	for (size_t i = 0; i < 3; i++)
		store_add(store, &rows[i]);
	add_pool(store, 0xa000, CORE_POOL_OWN, 64, 16);
	add_pool(store, 0xb000, CORE_POOL_OWN, 32, 32);
	add_pool(store, 0xc000, CORE_POOL_IMPORTED, 0, 8);
	add_allocation(store, 1, 1, 1000, STACK_LEAK, MEMORY_DEVICE, now_ns - 90 * SECOND_NS);
	add_allocation(store, 2, 1, 1500, STACK_LEAK, MEMORY_DEVICE, now_ns - 80 * SECOND_NS);
	/* Not leaks: too young, address space only, of a process that has ended. */
	add_allocation(store, 3, 1, 500, STACK_LEAK, MEMORY_DEVICE, now_ns - SECOND_NS);
	add_allocation(store, 4, 1, 1 << 30, STACK_HEALTHY, MEMORY_RESERVED,
		       now_ns - 90 * SECOND_NS);
	add_allocation(store, 5, 2, 77, STACK_HEALTHY, MEMORY_DEVICE, now_ns - 90 * SECOND_NS);
}

static int setup(void **state)
{
	const struct core_stream stream = {
		.id = 1, .process = 1, .handle = 0xabc, .device = 0, .non_blocking = true
	};
	const struct store_process_detail detail = { .command = "./job1 --x",
						     .user = "ann",
						     .cgroup = "/user.slice",
						     .container = "c0ffee" };
	struct fixture *fixture;
	struct core_loss loss = { .reason = LOSS_RING_FULL, .count = 12 };
	struct op op = { .process = 1, .stream = 1, .kind = OP_STATE, .detail = OP_STATE_PENDING };

	fixture_setup(state);
	fixture = *state;
	assert_int_equal(fixture_open(fixture), 0);
	add_process(fixture->store, 1, PID, 0);
	add_process(fixture->store, 2, PID + 1, (fixture_second() + 1) * SECOND_NS);
	store_add_process_detail(fixture->store, 1, &detail);
	store_add(fixture->store, &stream);
	add_names(fixture->store);
	add_rollups(fixture->store);
	add_memory(fixture->store);
	loss.start_ns = loss.end_ns = fixture_second() * SECOND_NS;
	store_add(fixture->store, &loss);
	loss.reason = LOSS_STACK_SAMPLED;
	loss.count = 34;
	store_add(fixture->store, &loss);
	op.start_ns = fixture_second() * SECOND_NS + 5;
	op.end_ns = op.start_ns + 95;
	op.start_ns += (AGO_S - 10) * SECOND_NS;
	op.end_ns += (AGO_S - 10) * SECOND_NS;
	store_add_op(fixture->store, &op);
	store_commit(fixture->store, fixture_now_ns);
	fixture->store = store_free(fixture->store);
	return 0;
}

#define LOSS	    "\"loss\":{\"ring-full\":12}}\n"
#define LOSS_STACKS "\"loss\":{\"ring-full\":12,\"stack-sampled\":34}"

static void test_leaks_are_old_live_allocations_by_stack(void **state)
{
	expect(state, QUERY(.name = "leaks"),
	       "{\"query\":\"leaks\",\"rows\":[\n"
	       "{\"pid\":4000000,\"comm\":\"job1\",\"verdict\":\"not yet\",\"kind\":\"device\","
	       "\"fn\":\"cuMemAlloc_v2\",\"device\":0,\"bytes\":2500,\"count\":2,"
	       "\"bytes_per_hour\":null,\"bytes_per_step\":null,\"full_ns\":null,\"oldest_ns\":X,"
	       "\"allocations\":5,"
	       "\"frees\":2,\"confidence\":null,\"laplace\":null," WHERE_LEAK
	       "\"why\":\"its blocks were not followed one by one\"," LEAK_FRAMES "}\n"
	       "]," LOSS);
}

static void test_leaks_without_minimum_age_count_the_young_too(void **state)
{
	struct answer_text answer = { 0 };
	Tracesmith__V1__QueryRequest query = QUERY(.name = "leaks", .min_age_ns = 1);

	run_named(*state, &query, &answer);
	assert_non_null(strstr(answer.text, "\"bytes\":3000,\"count\":3,"));
	answer_text_done(&answer);
}

static void test_apis_sum_calls_errors_and_times(void **state)
{
	expect(state, QUERY(.name = "apis", .pid = PID, .since_ns = fixture_second() * SECOND_NS),
	       "{\"query\":\"apis\",\"rows\":[\n"
	       "{\"fn\":\"cuMemcpyHtoD_v2\",\"kind\":\"copy\",\"calls\":4,\"plus_minus\":null,"
	       "\"watched\":null,\"errors\":0,"
	       "\"total_ns\":2000,\"mean_ns\":500,\"min_ns\":400,\"max_ns\":700,"
	       "\"bytes\":1000000},\n"
	       "{\"fn\":\"cuStreamSynchronize\",\"kind\":\"sync\",\"calls\":4,\"plus_minus\":null,"
	       "\"watched\":null,\"errors\":0,"
	       "\"total_ns\":901,\"mean_ns\":225,\"min_ns\":1,\"max_ns\":500,\"bytes\":0},\n"
	       "{\"fn\":\"cuMemAlloc_v2\",\"kind\":\"alloc\",\"calls\":7,\"plus_minus\":null,"
	       "\"watched\":null,\"errors\":2,"
	       "\"total_ns\":520,\"mean_ns\":74,\"min_ns\":9,\"max_ns\":200,\"bytes\":5000},\n"
	       "{\"fn\":\"cuLaunchKernel\",\"kind\":\"launch\",\"calls\":107,\"plus_minus\":null,"
	       "\"watched\":null,\"errors\":0,"
	       "\"total_ns\":null,\"mean_ns\":null,\"min_ns\":null,\"max_ns\":null,\"bytes\":0}\n"
	       "]," LOSS);
}

static void test_launches_are_by_stack(void **state)
{
	expect(state, QUERY(.name = "launches"),
	       "{\"query\":\"launches\",\"rows\":[\n"
	       "{\"pid\":4000000,\"comm\":\"job1\",\"fn\":\"cuLaunchKernel\",\"device\":0,"
	       "\"calls\":1100,\"plus_minus\":null,\"watched\":null,\"errors\":0,\"captured\":0,"
	       "\"where\":null,\"stack\":null},\n"
	       "{\"pid\":4000001,\"comm\":\"job2\",\"fn\":\"cuLaunchKernel\",\"device\":1,"
	       "\"calls\":10,\"plus_minus\":null,\"watched\":null,\"errors\":0,\"captured\":0,"
	       "\"where\":null,\"stack\":null},\n"
	       "{\"pid\":4000000,\"comm\":\"job1\",\"fn\":\"cuLaunchKernel\",\"device\":0,"
	       "\"calls\":7,\"plus_minus\":null,\"watched\":null,\"errors\":0,\"captured\":2,"
	       "" WHERE_LEAK LEAK_FRAMES "}\n"
	       "]," LOSS_STACKS "}\n");
}

static void test_window_is_exact_to_the_second(void **state)
{
	struct answer_text answer = { 0 };
	uint64_t second_ns = fixture_second() * SECOND_NS;
	Tracesmith__V1__QueryRequest query =
		QUERY(.name = "launches", .since_ns = second_ns - 2 * SECOND_NS,
		      .until_ns = second_ns - 1);

	run_named(*state, &query, &answer);
	assert_int_equal(answer.rows, 1);
	assert_non_null(strstr(answer.text, "\"calls\":1000,"));
	assert_non_null(strstr(answer.text, "\"loss\":{}}"));
	answer_text_done(&answer);
}

#define NO_TENSOR "\"unknown_bytes\":null,\"requested_bytes\":null,\"rounding_bytes\":null,"

static void test_memory_is_by_device_and_kind(void **state)
{
	expect(state, QUERY(.name = "memory"),
	       "{\"query\":\"memory\",\"rows\":[\n"
	       "{\"pid\":4000000,\"comm\":\"job1\",\"state\":\"running\",\"device\":0,"
	       "\"kind\":\"device\",\"live_bytes\":3000,\"live_count\":3,\"peak_bytes\":4000,"
	       "\"reserved_bytes\":null,\"cached_bytes\":null," NO_TENSOR "\"stack\":null},\n"
	       "{\"pid\":4000000,\"comm\":\"job1\",\"state\":\"running\",\"device\":0,"
	       "\"kind\":\"host\",\"live_bytes\":64,\"live_count\":1,\"peak_bytes\":64,"
	       "\"reserved_bytes\":null,\"cached_bytes\":null," NO_TENSOR "\"stack\":null},\n"
	       "{\"pid\":4000001,\"comm\":\"job2\",\"state\":\"ended\",\"device\":1,"
	       "\"kind\":\"managed\",\"live_bytes\":0,\"live_count\":0,\"peak_bytes\":128,"
	       "\"reserved_bytes\":null,\"cached_bytes\":null," NO_TENSOR "\"stack\":null},\n"
	       "{\"pid\":4000001,\"comm\":\"job2\",\"state\":\"ended\",\"device\":1,"
	       "\"kind\":\"pool\",\"live_bytes\":0,\"live_count\":0,\"peak_bytes\":0,"
	       "\"reserved_bytes\":96,\"cached_bytes\":48," NO_TENSOR "\"stack\":null}\n"
	       "]," LOSS);
}

/* What no stack is known of has a row of its own; peaks are those of all. */
static void test_memory_by_stack_is_what_is_live(void **state)
{
	expect(state, QUERY(.name = "memory", .by = QUERY_BY_IS_STACK, .pid = PID),
	       "{\"query\":\"memory\",\"rows\":[\n"
	       "{\"pid\":4000000,\"comm\":\"job1\",\"state\":\"running\",\"device\":0,"
	       "\"kind\":\"reserved\",\"live_bytes\":1073741824,\"live_count\":1,"
	       "\"peak_bytes\":null,\"reserved_bytes\":null,\"cached_bytes\":null," NO_TENSOR
	       "\"stack\":null},\n"
	       "{\"pid\":4000000,\"comm\":\"job1\",\"state\":\"running\",\"device\":0,"
	       "\"kind\":\"device\",\"live_bytes\":3000,\"live_count\":3,"
	       "\"peak_bytes\":null,\"reserved_bytes\":null,\"cached_bytes\":null," NO_TENSOR
		       LEAK_FRAMES "}\n"
	       "]," LOSS);
}

static void test_pools_are_by_what_they_hold(void **state)
{
	expect(state, QUERY(.name = "pools", .limit = 1),
	       "{\"query\":\"pools\",\"rows\":[\n"
	       "{\"pid\":4000001,\"comm\":\"job2\",\"state\":\"ended\",\"device\":1,"
	       "\"pool\":40960,\"kind\":\"own\",\"reserved_bytes\":64,\"used_bytes\":16,"
	       "\"used\":250000,\"threshold_bytes\":4096,\"peak_bytes\":100,"
	       "\"peak_used_bytes\":90,\"told_ns\":X}\n"
	       "],\"loss\":{\"ring-full\":12},\"truncated\":true}\n");
}

static void test_processes_tell_the_ended_from_the_running(void **state)
{
	expect(state, QUERY(.name = "processes"),
	       "{\"query\":\"processes\",\"rows\":[\n"
	       "{\"pid\":4000000,\"ns_pid\":4000001,\"ppid\":1,\"user\":\"ann\",\"comm\":\"job1\","
	       "\"state\":\"running\",\"tier\":\"probe\",\"first_ns\":X,\"exit_ns\":null,\"exit_"
	       "code\":null,"
	       "\"container\":\"c0ffee\",\"cgroup\":\"/user.slice\",\"live_bytes\":3000,"
	       "\"peak_bytes\":4000,\"calls\":1122,\"errors\":2,\"command\":\"./job1 --x\"},\n"
	       "{\"pid\":4000001,\"ns_pid\":4000002,\"ppid\":1,\"user\":\"1000\",\"comm\":\"job2\","
	       "\"state\":\"ended\",\"tier\":null,\"first_ns\":X,\"exit_ns\":X,\"exit_code\":9,"
	       "\"container\":null,\"cgroup\":null,\"live_bytes\":0,\"peak_bytes\":128,"
	       "\"calls\":10,\"errors\":0,\"command\":null}\n"
	       "]," LOSS);
}

static void test_ps_shows_only_the_running(void **state)
{
	expect(state, QUERY(.name = "ps"),
	       "{\"query\":\"ps\",\"rows\":[\n"
	       "{\"pid\":4000000,\"user\":\"ann\",\"comm\":\"job1\",\"container\":\"c0ffee\","
	       "\"tier\":\"probe\",\"inside\":null,\"since_ns\":null,\"cost\":null,"
	       "\"cost_low\":null,\"cost_high\":null,\"budget\":null,\"callback_cost\":null,"
	       "\"thread_cost\":null,"
	       "\"records\":null,\"lost\":0,\"live_bytes\":3000,\"peak_bytes\":4000,\"calls\":1122,"
	       "\"errors\":2,\"command\":\"./job1 --x\"}\n"
	       "]," LOSS);
}

static void test_transfers_have_the_rate_of_what_waited(void **state)
{
	expect(state, QUERY(.name = "transfers"),
	       "{\"query\":\"transfers\",\"rows\":[\n"
	       "{\"pid\":4000000,\"comm\":\"job1\",\"kind\":\"HtoD\",\"calls\":4,\"errors\":0,"
	       "\"captured\":1,\"bytes\":1000000,\"total_ns\":2000,\"bytes_per_s\":500000000000,"
	       "\"times\":"
	       "\"call\",\"exact\":0,\"where\":null,\"stack\":null}\n"
	       "]," LOSS);
}

static void test_syncs_say_who_waits_where(void **state)
{
	expect(state, QUERY(.name = "syncs", .limit = 1),
	       "{\"query\":\"syncs\",\"rows\":[\n"
	       "{\"pid\":4000000,\"comm\":\"job1\",\"fn\":\"cuStreamSynchronize\",\"calls\":3,"
	       "\"errors\":0,\"total_ns\":900,\"mean_ns\":300,\"max_ns\":500,"
	       "" WHERE_LEAK LEAK_FRAMES "}\n"
	       "]," LOSS_STACKS ",\"truncated\":true}\n");
}

static void test_streams_count_what_was_put_on_them(void **state)
{
	expect(state, QUERY(.name = "streams"),
	       "{\"query\":\"streams\",\"rows\":[\n"
	       "{\"stream\":1,\"pid\":4000000,\"comm\":\"job1\",\"device\":0,\"handle\":2748,"
	       "\"tid\":null,\"non_blocking\":1,\"created_ns\":null,\"destroyed_ns\":null,"
	       "\"launches\":1105,\"transfers\":3,\"bytes\":1000000,\"calls\":1115}\n"
	       "]," LOSS);
}

static void test_states_come_from_the_chunks(void **state)
{
	expect(state, QUERY(.name = "states", .stream = 1),
	       "{\"query\":\"states\",\"rows\":[\n"
	       "{\"pid\":4000000,\"comm\":\"job1\",\"device\":0,\"stream\":1,"
	       "\"state\":\"pending\",\"start_ns\":X,\"end_ns\":X,\"duration_ns\":95}\n"
	       "],\"loss\":{}}\n");
}

static void test_errors_have_names_and_not_ready_is_none(void **state)
{
	expect(state, QUERY(.name = "errors"),
	       "{\"query\":\"errors\",\"rows\":[\n"
	       "{\"pid\":4000000,\"comm\":\"job1\",\"fn\":\"cuMemAlloc_v2\",\"code\":2,"
	       "\"name\":\"CUDA_ERROR_OUT_OF_MEMORY\",\"calls\":2,\"last_ns\":X,\"where\":null,"
	       "\"stack\":null}\n"
	       "]," LOSS);
}

static void test_loss_is_told_by_reason(void **state)
{
	expect(state, QUERY(.name = "loss"),
	       "{\"query\":\"loss\",\"rows\":[\n"
	       "{\"reason\":\"ring-full\",\"pid\":null,\"count\":12,\"first_ns\":X,\"last_ns\":X,"
	       "\"text\":\"events lost because the BPF ring was full\"},\n"
	       "{\"reason\":\"stack-sampled\",\"pid\":null,\"count\":34,\"first_ns\":X,"
	       "\"last_ns\":X,"
	       "\"text\":\"launches, copies, sets and waits whose stack was not sampled\"}\n"
	       "]," LOSS_STACKS "}\n");
}

static void test_mistakes_are_answered_with_what_to_do(void **state)
{
	refuse(state, QUERY(.name = "leak"), TRACESMITH__V1__ERROR__CODE__NOT_FOUND,
	       "did you mean 'leaks'?");
	refuse(state, QUERY(.name = "nonsense"), TRACESMITH__V1__ERROR__CODE__NOT_FOUND,
	       "Unknown query 'nonsense'");
	refuse(state, QUERY(.name = "leaks", .pid = 12), TRACESMITH__V1__ERROR__CODE__NOT_FOUND,
	       "Process 12 has not used CUDA");
	refuse(state, QUERY(.name = "apis", .min_age_ns = 1),
	       TRACESMITH__V1__ERROR__CODE__BAD_REQUEST,
	       "does not take 'min_age', only: limit sort name pid user since until");
	refuse(state,
	       QUERY(.name = "apis",
		     .after_given_case = TRACESMITH__V1__QUERY_REQUEST__AFTER_GIVEN_AFTER),
	       TRACESMITH__V1__ERROR__CODE__BAD_REQUEST, "does not take 'after'");
	refuse(state, QUERY(.name = "apis", .since_ns = 9, .until_ns = 8),
	       TRACESMITH__V1__ERROR__CODE__BAD_REQUEST, "ends before it starts");
	refuse(state, QUERY(.name = "\xff"), TRACESMITH__V1__ERROR__CODE__NOT_FOUND,
	       "\xef\xbf\xbd");
}

static void test_limit_is_told_when_it_cuts(void **state)
{
	struct answer_text answer = { 0 };
	Tracesmith__V1__QueryRequest query = QUERY(.name = "memory", .limit = 3);

	run_named(*state, &query, &answer);
	assert_int_equal(answer.rows, 3);
	assert_true(answer.truncated);
	answer_text_done(&answer);
	query.limit = 4;
	run_named(*state, &query, &answer);
	assert_int_equal(answer.rows, 4);
	assert_false(answer.truncated);
	answer_text_done(&answer);
}

static void expect_sql(void **state, const char *sql, Tracesmith__V1__Error__Code code,
		       const char *text)
{
	struct answer_text answer = { 0 };

	run_sql_text(*state, sql, 0, 0, &answer);
	if (answer.error != code || !strstr(answer.text, text))
		fail_msg("%s: %d %s", sql, answer.error, answer.text);
	answer_text_done(&answer);
}

static void test_sql_reads_and_does_nothing_else(void **state)
{
	const Tracesmith__V1__Error__Code denied = TRACESMITH__V1__ERROR__CODE__DENIED;
	const Tracesmith__V1__Error__Code bad = TRACESMITH__V1__ERROR__CODE__BAD_REQUEST;

	expect_sql(state, "SELECT pid, 1.5, NULL, x'00ff' AS b FROM process ORDER BY pid; -- end",
		   0, "{\"pid\":4000000,\"1.5\":1.5,\"NULL\":null,\"b\":\"00ff\"}");
	expect_sql(state, "SELECT kind, detail FROM op", 0, "\"detail\":\"pending\"");
	expect_sql(state, "SELECT count(*) AS n FROM state", 0, "{\"n\":1}");
	expect_sql(state, "PRAGMA table_info(process)", 0, "\"name\":\"exit_code\"");
	expect_sql(state, "DELETE FROM process", denied, "Only reading");
	expect_sql(state, "CREATE TEMP TABLE t(a)", denied, "Only reading");
	expect_sql(state, "ATTACH '/etc/passwd' AS p", denied, "Only reading");
	expect_sql(state, "PRAGMA query_only = 0", denied, "Only reading");
	expect_sql(state, "PRAGMA journal_mode = DELETE", denied, "Only reading");
	expect_sql(state, "VACUUM INTO '/tmp/x'", denied, "Only reading");
	expect_sql(state, "BEGIN", denied, "Only reading");
	expect_sql(state, "SELECT load_extension('x')", bad, "not authorized to use function");
	expect_sql(state, "SELECT 1; SELECT 2", bad, "one statement");
	expect_sql(state, " -- nothing", bad, "no statement");
	expect_sql(state, "SELECT nonsense FROM process", bad, "no such column: nonsense");
	expect_sql(state, "SELECT '\xff'", bad, "UTF-8");
}

static void test_sql_ends_at_its_time_and_rows(void **state)
{
	const char *endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) ";
	struct answer_text answer = { 0 };
	char sql[256];

	snprintf(sql, sizeof(sql), "%sSELECT count(*) FROM n", endless);
	run_sql_text(*state, sql, 0, 50000000, &answer);
	assert_int_equal(answer.error, TRACESMITH__V1__ERROR__CODE__LIMIT);
	assert_non_null(strstr(answer.text, "took too long"));
	answer_text_done(&answer);
	snprintf(sql, sizeof(sql), "%sSELECT i FROM n", endless);
	run_sql_text(*state, sql, 1000, 0, &answer);
	assert_int_equal(answer.rows, 1000);
	assert_true(answer.truncated);
	answer_text_done(&answer);
}

static void test_cancelled_query_stops(void **state)
{
	struct answer_text answer = { .cancel_after = 3 };

	run_sql_text(*state,
		     "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
		     "SELECT i FROM n",
		     1000000, 0, &answer);
	assert_false(answer.ended);
	assert_int_equal(answer.replies, 4);
	answer_text_done(&answer);
}

static void test_list_names_every_query(void **state)
{
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;
	Tracesmith__V1__ListRequest list = TRACESMITH__V1__LIST_REQUEST__INIT;
	struct answer_text answer = { 0 };

	request.body_case = TRACESMITH__V1__REQUEST__BODY_LIST;
	request.list = &list;
	run_request(*state, &request, "list", &answer);
	assert_int_equal(answer.rows, 28);
	assert_non_null(strstr(answer.text, "\"loss\":{}}"));
	assert_non_null(strstr(answer.text,
			       "{\"name\":\"leaks\",\"text\":\"what leaks or grows, by "
			       "stack; with --all or --min-age all that is old\","
			       "\"options\":\"limit sort name pid user min_age device by all\"}"));
	answer_text_done(&answer);
}

static void test_export_gives_the_chunks_of_a_process(void **state)
{
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;
	Tracesmith__V1__ExportRequest export = TRACESMITH__V1__EXPORT_REQUEST__INIT;
	struct answer_text answer = { 0 };

	request.body_case = TRACESMITH__V1__REQUEST__BODY_EXPORT;
	request.export = &export;
	export.pid = PID;
	run_request(*state, &request, "export", &answer);
	assert_int_equal(answer.rows, 1);
	answer_text_done(&answer);
	export.pid = PID + 1;
	run_request(*state, &request, "export", &answer);
	assert_int_equal(answer.rows, 0);
	answer_text_done(&answer);
}

static void test_damaged_database_is_said(void **state)
{
	struct fixture broken = { 0 };
	struct answer_text answer = { 0 };
	Tracesmith__V1__QueryRequest query = QUERY(.name = "apis");

	snprintf(broken.path, sizeof(broken.path), "%s/none",
		 ((struct fixture *)*state)->directory);
	run_named(&broken, &query, &answer);
	assert_int_equal(answer.error, TRACESMITH__V1__ERROR__CODE__UNAVAILABLE);
	answer_text_done(&answer);
}

/* Three seconds after the boot, when no window of a query nor its minimum age has passed. */
static void test_window_may_begin_before_the_boot(void **state)
{
	const uint64_t now_ns = fixture_now_ns;
	struct core_process process = {
		.id = 1, .pid = PID, .first_ns = SECOND_NS, .comm = "job1"
	};
	struct answer_text answer = { 0 };
	struct fixture *young;

	fixture_now_ns = 3 * SECOND_NS;
	fixture_setup((void **)&young);
	assert_int_equal(fixture_open(young), 0);
	store_add(young->store, &process);
	add_rollup(young->store, 1, FN_LAUNCH, OP_LAUNCH, 9, (struct core_rollup){ .second = 1 });
	add_allocation(young->store, 1, 1, 64, STACK_LEAK, MEMORY_DEVICE, SECOND_NS);
	fixture_commit(young, fixture_now_ns);
	for (size_t i = 0; query_at(i); i++) {
		Tracesmith__V1__QueryRequest query = QUERY(.name = (char *)query_at(i)->name);

		run_named(young, &query, &answer);
		assert_int_equal(answer.error, TRACESMITH__V1__ERROR__CODE__UNSPECIFIED);
		if (strcmp(query.name, "leaks") == 0)
			assert_int_equal(answer.rows, 0);
		if (strcmp(query.name, "apis") == 0)
			assert_non_null(strstr(answer.text, "\"calls\":9,"));
		answer_text_done(&answer);
	}
	run_named(young, &QUERY(.name = "leaks", .min_age_ns = SECOND_NS), &answer);
	assert_non_null(strstr(answer.text, "\"oldest_ns\":2000000000,"));
	answer_text_done(&answer);
	fixture_teardown((void **)&young);
	fixture_now_ns = now_ns;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_leaks_are_old_live_allocations_by_stack),
		cmocka_unit_test(test_leaks_without_minimum_age_count_the_young_too),
		cmocka_unit_test(test_apis_sum_calls_errors_and_times),
		cmocka_unit_test(test_launches_are_by_stack),
		cmocka_unit_test(test_window_is_exact_to_the_second),
		cmocka_unit_test(test_memory_is_by_device_and_kind),
		cmocka_unit_test(test_memory_by_stack_is_what_is_live),
		cmocka_unit_test(test_pools_are_by_what_they_hold),
		cmocka_unit_test(test_processes_tell_the_ended_from_the_running),
		cmocka_unit_test(test_ps_shows_only_the_running),
		cmocka_unit_test(test_transfers_have_the_rate_of_what_waited),
		cmocka_unit_test(test_syncs_say_who_waits_where),
		cmocka_unit_test(test_streams_count_what_was_put_on_them),
		cmocka_unit_test(test_states_come_from_the_chunks),
		cmocka_unit_test(test_errors_have_names_and_not_ready_is_none),
		cmocka_unit_test(test_loss_is_told_by_reason),
		cmocka_unit_test(test_mistakes_are_answered_with_what_to_do),
		cmocka_unit_test(test_limit_is_told_when_it_cuts),
		cmocka_unit_test(test_sql_reads_and_does_nothing_else),
		cmocka_unit_test(test_sql_ends_at_its_time_and_rows),
		cmocka_unit_test(test_cancelled_query_stops),
		cmocka_unit_test(test_list_names_every_query),
		cmocka_unit_test(test_export_gives_the_chunks_of_a_process),
		cmocka_unit_test(test_damaged_database_is_said),
		cmocka_unit_test(test_window_may_begin_before_the_boot),
	};

	return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
