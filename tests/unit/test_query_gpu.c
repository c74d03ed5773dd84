/* Queries about exact times, over rows made by hand: the expected numbers are next to the rows. */
#include "tests/unit/query_fixture.h"

#define STACK 0x8000000000000001ull
#define PID   4000000

enum { FN_GRAPH = 6, FN_COUNT };
enum { NAME_ADD = 11, NAME_GEMM, NAME_STEP, NAME_MARK, NAME_DEVICE };
enum { EXACT = 1, ENDED, ONE_GRAPH, TWO_GRAPHS, WHOLE_GRAPH };

static struct function functions[FN_COUNT + 1];

/* `count` of equal length, but where total_ns is given. */
static void add_work(struct store *store, uint32_t process, uint8_t kind, uint64_t count,
		     uint64_t ns, struct core_work rest)
{
	rest.second = fixture_second();
	rest.process = process;
	rest.kind = kind;
	rest.count = count;
	rest.bucket = work_bucket(ns);
	rest.min_ns = ns;
	rest.max_ns = rest.max_ns ? rest.max_ns : ns;
	rest.total_ns = rest.total_ns ? rest.total_ns : count * ns;
	store_add(store, &rest);
}

/* Kernels 11,000 ns of `add` and 10,100 of `gemm`, copies 8,900: 30,000 in all. */
static void add_exact(struct store *store)
{
	add_work(store, EXACT, OP_KERNEL, 98, 100,
		 (struct core_work){ .name = NAME_ADD, .stream = 1, .delay_ns = 980 });
	add_work(store, EXACT, OP_KERNEL, 1, 200,
		 (struct core_work){ .name = NAME_ADD, .stream = 1, .delay_ns = 20 });
	add_work(store, EXACT, OP_KERNEL, 1, 1000,
		 (struct core_work){ .name = NAME_ADD, .stream = 2, .stack_id = STACK });
	add_work(store, EXACT, OP_KERNEL, 2, 5000,
		 (struct core_work){
			 .name = NAME_GEMM, .stream = 2, .max_ns = 5100, .total_ns = 10100 });
	add_work(store, EXACT, OP_COPY, 4, 2225,
		 (struct core_work){ .detail = COPY_HTOD, .stream = 1, .bytes = 1000000 });
	add_work(store, ENDED, OP_KERNEL, 1, 777,
		 (struct core_work){ .name = NAME_GEMM, .device = 1 });
}

/* 1,000 ns, in 800 of which a kernel ran. */
static void add_busy(struct store *store)
{
	static const struct {
		uint64_t ns;
		uint8_t state, kernels, copies;
	} rows[] = {
		{ 500, OP_STATE_RUNNING, 1, 0 }, { 200, OP_STATE_RUNNING, 2, 0 },
		{ 100, OP_STATE_RUNNING, 3, 1 }, { 50, OP_STATE_COPYING, 0, 1 },
		{ 20, OP_STATE_WAITING, 0, 0 },	 { 30, OP_STATE_PENDING, 0, 0 },
		{ 40, OP_STATE_SYNCING, 0, 0 },	 { 60, OP_STATE_IDLE, 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		store_add(store, &(struct core_busy){ .second = fixture_second(),
						      .ns = rows[i].ns,
						      .process = EXACT,
						      .state = rows[i].state,
						      .kernels = rows[i].kernels,
						      .copies = rows[i].copies });
	store_add(store, &(struct core_busy){ .second = fixture_second(),
					      .ns = 7,
					      .process = ENDED,
					      .device = 1,
					      .state = OP_STATE_IDLE });
}

static void add_graphs(struct store *store)
{
	const struct core_work seven = { .name = NAME_GEMM, .graph = 7 };
	struct core_work launch = { .graph = 7, .detail = WORK_GRAPH_PARTS };
	struct core_work nine = { .graph = 9, .stack_id = STACK, .detail = WORK_GRAPH_PARTS };

	add_rollup(store, ONE_GRAPH, FN_GRAPH, OP_LAUNCH, 10, (struct core_rollup){ .stream = 5 });
	add_rollup(store, ONE_GRAPH, FN_LAUNCH, OP_LAUNCH, 99, (struct core_rollup){ .stream = 5 });
	add_work(store, ONE_GRAPH, OP_KERNEL, 30, 100, seven);
	add_work(store, ONE_GRAPH, OP_KERNEL, 3, 100, (struct core_work){ .name = NAME_GEMM });
	add_work(store, ONE_GRAPH, OP_COPY, 10, 50,
		 (struct core_work){ .graph = 7, .detail = COPY_DTOD, .bytes = 40960 });
	add_rollup(store, ONE_GRAPH, FN_HTOD, OP_COPY, 6,
		   (struct core_rollup){ .detail = COPY_DTOD, .captured = 2, .bytes = 4096 });
	add_work(store, ONE_GRAPH, OP_GRAPH, 8, 400, launch);
	add_work(store, ONE_GRAPH, OP_GRAPH, 1, 900, launch);
	add_work(store, ONE_GRAPH, OP_SET, 5, 10, (struct core_work){ .graph = 7, .bytes = 512 });
	add_rollup(store, TWO_GRAPHS, FN_GRAPH, OP_LAUNCH, 20, (struct core_rollup){ .stream = 6 });
	add_rollup(store, TWO_GRAPHS, FN_GRAPH, OP_LAUNCH, 4,
		   (struct core_rollup){ .stream = 6, .stack_id = STACK });
	launch.graph = 8;
	add_work(store, TWO_GRAPHS, OP_GRAPH, 20, 30, launch);
	add_work(store, TWO_GRAPHS, OP_GRAPH, 4, 40, nine);
	add_work(store, TWO_GRAPHS, OP_KERNEL, 20, 10, (struct core_work){ .graph = 8 });
	nine.detail = 0;
	add_work(store, TWO_GRAPHS, OP_KERNEL, 8, 10, nine);
	add_rollup(store, WHOLE_GRAPH, FN_GRAPH, OP_LAUNCH, 7, (struct core_rollup){ .stream = 6 });
	add_work(store, WHOLE_GRAPH, OP_GRAPH, 6, 1000, (struct core_work){ .graph = 5 });
}

static void add_ranges(struct store *store)
{
	struct op op = { .process = EXACT, .kind = OP_RANGE, .name = NAME_STEP, .device = -1 };

	op.start_ns = fixture_second() * SECOND_NS;
	op.end_ns = op.start_ns + 100;
	store_add_op(store, &op);
	op.end_ns = op.start_ns + 301;
	store_add_op(store, &op);
	op.name = NAME_MARK;
	op.end_ns = op.start_ns;
	store_add_op(store, &op);
	/* Before the window of an hour. */
	op.start_ns -= 4000 * SECOND_NS;
	op.end_ns = op.start_ns + 5;
	store_add_op(store, &op);
}

static void add_names(struct store *store)
{
	static const struct {
		uint64_t id;
		const char *text;
	} names[] = { { NAME_ADD, "_Z3addPfi" },
		      { NAME_GEMM, "gemm" },
		      { NAME_STEP, "step" },
		      { NAME_MARK, "mark" },
		      { NAME_DEVICE, "NVIDIA H200" } };
	const struct frame frames[] = { FRAME(0x10, 0x10, "/lib/libcuda.so.1", "cuLaunchKernel"),
					FRAME(0x20, 0x20, "/opt/app", "forward") };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		store_add_name(store, names[i].id, names[i].text, strlen(names[i].text));
	store_add_stack(store,
			&(struct store_stack){ STACK, EXACT, frames, 2, TS_END_COMPLETE, 0 });
}

static void add_devices(struct store *store)
{
	struct core_device device = { .ordinal = 0,
				      .uuid = { 1 },
				      .memory_bytes = 1000,
				      .name = NAME_DEVICE,
				      .multiprocessors = 132,
				      .clock_khz = 1980000 };

	for (uint32_t process = EXACT; process <= ONE_GRAPH; process++) {
		device.process = process;
		store_add(store, &device);
	}
	/* The same number for another device, and one without a name. */
	device.process = TWO_GRAPHS;
	device.uuid[0] = 2;
	device.name = 0;
	store_add(store, &device);
}

static void add_collects(struct store *store)
{
	struct core_collect collect = {
		.process = EXACT,
		.state = TS_COLLECT_CHANGED,
		.since_ns = fixture_second() * SECOND_NS,
		.busy_ns = 30,
		.own_ns = 10,
		.wall_ns = 1000,
		.taken = 500,
	};

	store_add(store, &collect);
	collect.process = ONE_GRAPH;
	collect.state = TS_COLLECT_PAUSED;
	collect.wall_ns = 0;
	store_add(store, &collect);
	collect.process = TWO_GRAPHS;
	collect.state = TS_COLLECT_STOPPED;
	collect.until_ns = collect.changed_ns = collect.since_ns + 1;
	store_add(store, &collect);
}

static void add_losses(struct store *store)
{
	static const struct {
		uint8_t reason;
		uint32_t process;
		uint64_t count;
	} rows[] = { { LOSS_EXACT_RING, EXACT, 3 },
		     { LOSS_CUPTI, EXACT, 4 },
		     { LOSS_PAUSED, EXACT, 1 },
		     { LOSS_STACK_SAMPLED, EXACT, 900 },
		     { LOSS_CUPTI, TWO_GRAPHS, 50 } };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		store_add(store, &(struct core_loss){ .start_ns = fixture_second() * SECOND_NS,
						      .end_ns = fixture_second() * SECOND_NS,
						      .process = rows[i].process,
						      .reason = rows[i].reason,
						      .count = rows[i].count });
}

static void add_calls(struct store *store)
{
	/* Asynchronous: of the calls no time is known. */
	add_rollup(store, EXACT, FN_HTOD, OP_COPY, 4,
		   (struct core_rollup){ .detail = COPY_HTOD, .stream = 1, .bytes = 1000000 });
	add_rollup(store, EXACT, FN_HTOD, OP_COPY, 2,
		   (struct core_rollup){ .detail = COPY_DTOH,
					 .timed = 2,
					 .total_ns = 40,
					 .min_ns = 20,
					 .max_ns = 20,
					 .bytes = 80 });
}

static int setup(void **state)
{
	struct fixture *fixture;

	fixture_setup(state);
	fixture = *state;
	memcpy(functions, fixture_functions, sizeof(fixture_functions));
	functions[FN_GRAPH] = (struct function){ .name = "cuGraphLaunch",
						 .kind = OP_LAUNCH,
						 .effect = EFFECT_SUBMIT };
	fixture->config.functions = (struct function_table){ functions, FN_COUNT };
	assert_int_equal(fixture_open(fixture), 0);
	for (uint32_t id = EXACT; id <= WHOLE_GRAPH; id++)
		add_process(fixture->store, id, PID + id,
			    id == ENDED ? (fixture_second() + 1) * SECOND_NS : 0);
	add_names(fixture->store);
	add_exact(fixture->store);
	add_busy(fixture->store);
	add_graphs(fixture->store);
	add_ranges(fixture->store);
	add_devices(fixture->store);
	add_collects(fixture->store);
	add_losses(fixture->store);
	add_calls(fixture->store);
	store_commit(fixture->store, fixture_now_ns);
	fixture->store = store_free(fixture->store);
	return 0;
}

#define LOSSES	      "\"exact-ring\":3,\"cupti\":4,\"paused\":1}}\n"
#define LOSS_OF_EXACT "\"loss\":{" LOSSES
#define LOSS_STACKS   "\"loss\":{\"stack-sampled\":900," LOSSES

/* Nothing of it was estimated. */
#define TOTAL(ns)                                                                                  \
	"\"plus_minus\":null,\"total_ns\":" #ns ",\"plus_minus_ns\":null,\"watched\":null,"
#define KERNEL(stream, count, total, share, mean, min, p50, p99, max, delay, sampled, name, where) \
	"{\"pid\":4000001,\"comm\":\"job1\",\"stream\":" #stream ",\"count\":" #count              \
	"," TOTAL(total) "\"share\":" #share ",\"mean_ns\":" #mean ",\"min_ns\":" #min             \
			 ",\"p50_ns\":" #p50 ",\"p99_ns\":" #p99 ",\"max_ns\":" #max               \
			 ",\"delay_ns\":" #delay ",\"sampled\":" #sampled ",\"name\":\"" name      \
			 "\",\"where\":" where "}"
#define ADD "add(float*, int)"

/* clang-format off */
static void test_kernels_are_by_name_with_share_and_percentiles(void **state)
{
	expect(state, QUERY(.name = "kernels", .pid = PID + EXACT),
	       "{\"query\":\"kernels\",\"rows\":[\n"
	       KERNEL(null, 100, 11000, 366667, 110, 100, 100, 200, 1000, 10, null,
		      ADD, IN_FORWARD "null") ",\n"
	       KERNEL(null, 2, 10100, 336667, 5050, 5000, 5000, 5100, 5100, 0, null,
		      "gemm", NOWHERE) "\n"
	       "]," LOSS_OF_EXACT);
}

static void test_kernels_by_stream(void **state)
{
	expect(state, QUERY(.name = "kernels", .pid = PID + EXACT, .by = 2),
	       "{\"query\":\"kernels\",\"rows\":[\n"
	       KERNEL(2, 2, 10100, 336667, 5050, 5000, 5000, 5100, 5100, 0, null,
		      "gemm", NOWHERE) ",\n"
	       KERNEL(1, 99, 10000, 333333, 101, 100, 100, 200, 200, 10, null,
		      ADD, IN_FORWARD "null") ",\n"
	       KERNEL(2, 1, 1000, 33333, 1000, 1000, 1000, 1000, 1000, 0, null,
		      ADD, IN_FORWARD "null") "\n"
	       "]," LOSS_OF_EXACT);
}

/* Of a hundred one was sampled: it stands for all. Of the other kernel none was. */
static void test_kernels_by_stack(void **state)
{
	expect(state, QUERY(.name = "kernels", .pid = PID + EXACT, .by = 1),
	       "{\"query\":\"kernels\",\"rows\":[\n"
	       KERNEL(null, 100, 11000, 366667, 1000, 1000, 1000, 1000, 1000, 0, 1, ADD,
		      IN_FORWARD FORWARD) ",\n"
	       KERNEL(null, 2, 10100, 336667, 5050, 5000, 5000, 5100, 5100, 0, 0,
		      "gemm", NOWHERE) "\n"
	       "]," LOSS_STACKS);
}
/* clang-format on */

static void test_kernels_of_one_device(void **state)
{
	struct answer_text answer = { 0 };
	Tracesmith__V1__QueryRequest query =
		QUERY(.name = "kernels",
		      .device_given_case = TRACESMITH__V1__QUERY_REQUEST__DEVICE_GIVEN_DEVICE,
		      .device = 1);

	run_named(*state, &query, &answer);
	assert_int_equal(answer.rows, 1);
	assert_non_null(strstr(answer.text, "\"pid\":4000002,"));
	assert_non_null(strstr(answer.text, TOTAL(777) "\"share\":1000000,"));
	answer_text_done(&answer);
}

#define IDLE(state, total, share, text)                                                            \
	"{\"pid\":4000001,\"comm\":\"job1\",\"device\":0,\"state\":\"" state                       \
	"\",\"total_ns\":" total ",\"plus_minus_ns\":null,\"watched\":null,\"share\":" share       \
	",\"observed_ns\":1000,\"text\":\"" text "\"}"

#define UNSURE "no work was seen, but not all of the time was watched"
/* clang-format off */
static void test_idle_says_why_no_kernel_ran(void **state)
{
	expect(state, QUERY(.name = "idle", .pid = PID + EXACT),
	       "{\"query\":\"idle\",\"rows\":[\n"
	       IDLE("running", "800", "800000", "a kernel ran") ",\n"
	       IDLE("copying", "50", "50000", "no kernel ran, a copy or set did") ",\n"
	       IDLE("pending", "30", "30000", "work was submitted and had not started") ",\n"
	       IDLE("waiting", "20", "20000", "work waited for an event or another stream") ",\n"
	       IDLE("syncing", "40", "40000", UNSURE) ",\n"
	       IDLE("idle", "60", "60000", UNSURE) "\n"
	       "]," LOSS_OF_EXACT);
}
/* clang-format on */

static void test_overlap_tells_what_ran_at_once(void **state)
{
	expect(state, QUERY(.name = "overlap"),
	       "{\"query\":\"overlap\",\"rows\":[\n"
	       "{\"pid\":4000001,\"comm\":\"job1\",\"device\":0,\"observed_ns\":1000,"
	       "\"both_ns\":100,\"kernels_ns\":700,\"copies_ns\":50,\"neither_ns\":150,"
	       "\"hidden\":666667,\"concurrent_ns\":300,\"mean_kernels\":1.5,\"max_kernels\":3},\n"
	       "{\"pid\":4000002,\"comm\":\"job2\",\"device\":1,\"observed_ns\":7,"
	       "\"both_ns\":0,\"kernels_ns\":0,\"copies_ns\":0,\"neither_ns\":7,"
	       "\"hidden\":null,\"concurrent_ns\":0,\"mean_kernels\":null,\"max_kernels\":0}\n"
	       "],\"loss\":{\"exact-ring\":3,\"cupti\":54,\"paused\":1}}\n");
}

#define GRAPH(job, graph, launches, mean, p50, p99, max, kernels, copies, sets, total, bytes, at)  \
	"{\"pid\":400000" #job ",\"comm\":\"job" #job "\",\"graph\":" #graph                       \
	",\"launches\":" #launches ",\"mean_ns\":" #mean ",\"p50_ns\":" #p50 ",\"p99_ns\":" #p99   \
	",\"max_ns\":" #max ",\"kernels\":" #kernels ",\"copies\":" #copies ",\"sets\":" #sets     \
	",\"total_ns\":" #total ",\"bytes\":" #bytes ",\"stack\":" at "}"
#define NOT_RUN(job, launches)                                                                     \
	GRAPH(job, null, launches, null, null, null, null, null, null, null, null, null, "null")

/* clang-format off */
static void test_graphs_are_by_number(void **state)
{
	expect(state, QUERY(.name = "graphs"),
	       "{\"query\":\"graphs\",\"rows\":[\n"
	       GRAPH(5, 5, 6, 1000, 1000, 1000, 1000, 0, 0, 0, 6000, 0, "null") ",\n"
	       GRAPH(3, 7, 9, 455, 400, 900, 900, 30, 10, 5, 3550, 41472, "null") ",\n"
	       GRAPH(4, 8, 20, 30, 30, 30, 30, 20, 0, 0, 200, 0, "null") ",\n"
	       GRAPH(4, 9, 4, 40, 40, 40, 40, 8, 0, 0, 80, 0, "null") ",\n"
	       NOT_RUN(3, 1) ",\n" NOT_RUN(5, 1) "\n"
	       "],\"loss\":{\"exact-ring\":3,\"cupti\":54,\"paused\":1}}\n");
}

static void test_graphs_by_stack_tell_whose_launches(void **state)
{
	expect(state, QUERY(.name = "graphs", .pid = PID + TWO_GRAPHS, .by = 1),
	       "{\"query\":\"graphs\",\"rows\":[\n"
	       GRAPH(4, 8, 20, 30, 30, 30, 30, 20, 0, 0, 200, 0, "null") ",\n"
	       GRAPH(4, 9, 4, 40, 40, 40, 40, 8, 0, 0, 80, 0, FORWARD) "\n"
	       "],\"loss\":{\"cupti\":50}}\n");
}
/* clang-format on */

static void test_ranges_are_by_name(void **state)
{
	expect(state, QUERY(.name = "ranges"),
	       "{\"query\":\"ranges\",\"rows\":[\n"
	       "{\"pid\":4000001,\"comm\":\"job1\",\"count\":2,\"total_ns\":401,\"mean_ns\":200,"
	       "\"min_ns\":100,\"max_ns\":301,\"name\":\"step\"},\n"
	       "{\"pid\":4000001,\"comm\":\"job1\",\"count\":1,\"total_ns\":0,\"mean_ns\":0,"
	       "\"min_ns\":0,\"max_ns\":0,\"name\":\"mark\"}\n"
	       "],\"loss\":{\"exact-ring\":3,\"cupti\":54,\"paused\":1}}\n");
}

#define DEVICE(name, uuid, pids)                                                                   \
	"{\"device\":0,\"name\":" name ",\"uuid\":\"GPU-" uuid                                     \
	"000000-0000-0000-0000-000000000000\",\"memory_bytes\":1000,\"multiprocessors\":132,"      \
	"\"clock_khz\":1980000," pids "}"

static void test_devices_are_told_apart_by_uuid(void **state)
{
	expect(state, QUERY(.name = "devices"),
	       "{\"query\":\"devices\",\"rows\":[\n" DEVICE("\"NVIDIA H200\"", "01",
							    "\"processes\":2,\"pids\":\"4000001 "
							    "4000003\"") ",\n" DEVICE("null", "02",
										      "\"processes"
										      "\":1,"
										      "\"pids\":"
										      "\"4000004"
										      "\"") "\n"
											    "],"
											    "\"los"
											    "s\":{"
											    "\"exa"
											    "ct-"
											    "ring"
											    "\":3,"
											    "\"cup"
											    "ti\":"
											    "54,"
											    "\"pau"
											    "sed\""
											    ":1}}"
											    "\n");
}

static void expect_part(void **state, Tracesmith__V1__QueryRequest query, const char *part)
{
	struct answer_text answer = { 0 };

	run_named(*state, &query, &answer);
	mask(answer.text, "since_ns\":");
	if (!strstr(answer.text, part))
		fail_msg("%s\nis not in\n%s", part, answer.text);
	answer_text_done(&answer);
}

static void test_kernels_of_a_graph_have_their_share_of_the_parts(void **state)
{
	expect_part(state, QUERY(.name = "kernels", .pid = PID + ONE_GRAPH),
		    "\"count\":33," TOTAL(3300) "\"share\":857143,");
}

static void test_ps_tells_tier_cost_and_loss(void **state)
{
	expect_part(state, QUERY(.name = "ps", .pid = PID + EXACT),
		    "\"callback_cost\":20000,\"thread_cost\":10000,\"records\":500,\"lost\":7,");
	expect_part(state, QUERY(.name = "ps", .pid = PID + EXACT),
		    "\"tier\":\"exact\",\"inside\":null,\"since_ns\":X,\"cost\":null,\"cost_low\":"
		    "null,");
	expect_part(state, QUERY(.name = "ps", .pid = PID + ONE_GRAPH),
		    "\"callback_cost\":null,\"thread_cost\":null,\"records\":500,\"lost\":0,");
	expect_part(state, QUERY(.name = "ps", .pid = PID + ONE_GRAPH), "\"tier\":\"paused\",");
	expect_part(state, QUERY(.name = "ps", .pid = PID + TWO_GRAPHS), "\"lost\":50,");
	expect_part(state, QUERY(.name = "ps", .pid = PID + WHOLE_GRAPH), "\"tier\":\"probe\",");
	expect_part(state, QUERY(.name = "processes", .pid = PID + EXACT), "\"tier\":\"exact\",");
	expect_part(state, QUERY(.name = "processes", .pid = PID + ENDED), "\"tier\":null,");
}

static void test_transfers_use_exact_times_where_there_are_any(void **state)
{
	expect(state, QUERY(.name = "transfers", .pid = PID + EXACT),
	       "{\"query\":\"transfers\",\"rows\":[\n"
	       "{\"pid\":4000001,\"comm\":\"job1\",\"kind\":\"HtoD\",\"calls\":4,\"errors\":0,"
	       "\"captured\":0,\"bytes\":1000000,\"total_ns\":8900,\"bytes_per_s\":112359550561,"
	       "\"times\":\"exact\",\"exact\":4,\"where\":" NOWHERE "},\n"
	       "{\"pid\":4000001,\"comm\":\"job1\",\"kind\":\"DtoH\",\"calls\":2,\"errors\":0,"
	       "\"captured\":0,\"bytes\":80,\"total_ns\":40,\"bytes_per_s\":2000000000,"
	       "\"times\":\"call\",\"exact\":0,\"where\":" NOWHERE "}\n"
	       "]," LOSS_OF_EXACT);
}

/* Copies and sets of graphs have no calls: theirs add to those of calls. */
static void test_transfers_of_graphs_are_there(void **state)
{
	expect(state, QUERY(.name = "transfers", .pid = PID + ONE_GRAPH),
	       "{\"query\":\"transfers\",\"rows\":[\n"
	       "{\"pid\":4000003,\"comm\":\"job3\",\"kind\":\"DtoD\",\"calls\":6,\"errors\":0,"
	       "\"captured\":2,\"bytes\":45056,\"total_ns\":500,\"bytes_per_s\":81920000000,"
	       "\"times\":\"exact\",\"exact\":10,\"where\":" NOWHERE "},\n"
	       "{\"pid\":4000003,\"comm\":\"job3\",\"kind\":\"set\",\"calls\":0,\"errors\":0,"
	       "\"captured\":0,\"bytes\":512,\"total_ns\":50,\"bytes_per_s\":10240000000,"
	       "\"times\":\"exact\",\"exact\":5,\"where\":" NOWHERE "}\n"
	       "],\"loss\":{}}\n");
}

static void test_windows_and_limits_cut(void **state)
{
	static const char *const names[] = { "kernels", "idle", "overlap", "graphs", "ranges" };
	uint64_t before_ns = (fixture_second() - 5) * SECOND_NS;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct answer_text answer = { 0 };
		Tracesmith__V1__QueryRequest query = QUERY(.name = (char *)names[i], .limit = 1);

		run_named(*state, &query, &answer);
		assert_int_equal(answer.rows, 1);
		assert_true(answer.truncated);
		answer_text_done(&answer);
		query.until_ns = before_ns;
		query.since_ns = before_ns - 100 * SECOND_NS;
		run_named(*state, &query, &answer);
		assert_int_equal(answer.rows, 0);
		assert_int_equal(answer.error, 0);
		answer_text_done(&answer);
	}
}

static void test_rows_are_split_only_where_they_can_be(void **state)
{
	refuse(state, QUERY(.name = "idle", .by = 1), TRACESMITH__V1__ERROR__CODE__BAD_REQUEST,
	       "does not take 'by_stack', only: limit sort pid user since until device");
	refuse(state, QUERY(.name = "graphs", .by = 2), TRACESMITH__V1__ERROR__CODE__BAD_REQUEST,
	       "does not take 'by_stream'");
	refuse(state, QUERY(.name = "kernels", .by = 7), TRACESMITH__V1__ERROR__CODE__BAD_REQUEST,
	       "not by 7");
}

static void test_an_empty_database_has_no_rows(void **state)
{
	struct fixture *fixture;
	void *empty;

	fixture_setup(&empty);
	fixture = empty;
	assert_int_equal(fixture_open(fixture), 0);
	fixture_commit(fixture, fixture_now_ns);
	for (size_t i = 0; query_at(i); i++) {
		struct answer_text answer = { 0 };
		Tracesmith__V1__QueryRequest query = QUERY(.name = (char *)query_at(i)->name);

		run_named(fixture, &query, &answer);
		if (answer.error || answer.rows)
			fail_msg("%s: %s", query.name, answer.text);
		answer_text_done(&answer);
	}
	fixture_teardown(&empty);
}

/* Against a plain sort: durations over four powers of ten, each in its bucket. */
static void test_percentiles_are_within_a_sixteenth(void **state)
{
	enum { COUNT = 5000 };
	uint64_t seed = 7, sorted[COUNT], low, p50, p99, high;
	struct answer_text answer = { 0 };
	Tracesmith__V1__QueryRequest query = QUERY(.name = "kernels");
	struct fixture *fixture;
	void *other;

	fixture_setup(&other);
	fixture = other;
	assert_int_equal(fixture_open(fixture), 0);
	add_process(fixture->store, EXACT, PID, 0);
	for (int i = 0; i < COUNT; i++) {
		uint64_t ns = 1000 + fixture_random(&seed) % (64ull << fixture_random(&seed) % 18);
		int at = i;

		for (; at && sorted[at - 1] > ns; at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = ns;
		add_work(fixture->store, EXACT, OP_KERNEL, 1, ns,
			 (struct core_work){ .name = 9, .stream = 1 + i % 7 });
	}
	fixture_commit(fixture, fixture_now_ns);
	run_named(fixture, &query, &answer);
	assert_int_equal(sscanf(strstr(answer.text, "\"min_ns\""),
				"\"min_ns\":%lu,\"p50_ns\":%lu,\"p99_ns\":%lu,\"max_ns\":%lu", &low,
				&p50, &p99, &high),
			 4);
	assert_int_equal(low, sorted[0]);
	assert_int_equal(high, sorted[COUNT - 1]);
	assert_true(p50 * 16 >= sorted[COUNT / 2 - 1] * 15 && p50 * 16 <= sorted[COUNT / 2] * 17);
	assert_true(p99 * 16 >= sorted[COUNT * 99 / 100 - 1] * 15 &&
		    p99 * 16 <= sorted[COUNT * 99 / 100 - 1] * 17);
	/* The name is not known. */
	assert_non_null(strstr(answer.text, "\"name\":\"kernel 0000000000000009\""));
	answer_text_done(&answer);
	fixture_teardown(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kernels_are_by_name_with_share_and_percentiles),
		cmocka_unit_test(test_kernels_by_stream),
		cmocka_unit_test(test_kernels_by_stack),
		cmocka_unit_test(test_kernels_of_one_device),
		cmocka_unit_test(test_idle_says_why_no_kernel_ran),
		cmocka_unit_test(test_overlap_tells_what_ran_at_once),
		cmocka_unit_test(test_graphs_are_by_number),
		cmocka_unit_test(test_graphs_by_stack_tell_whose_launches),
		cmocka_unit_test(test_kernels_of_a_graph_have_their_share_of_the_parts),
		cmocka_unit_test(test_ranges_are_by_name),
		cmocka_unit_test(test_devices_are_told_apart_by_uuid),
		cmocka_unit_test(test_ps_tells_tier_cost_and_loss),
		cmocka_unit_test(test_transfers_use_exact_times_where_there_are_any),
		cmocka_unit_test(test_transfers_of_graphs_are_there),
		cmocka_unit_test(test_windows_and_limits_cut),
		cmocka_unit_test(test_rows_are_split_only_where_they_can_be),
		cmocka_unit_test(test_an_empty_database_has_no_rows),
		cmocka_unit_test(test_percentiles_are_within_a_sixteenth),
	};

	return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
