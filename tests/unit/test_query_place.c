/* Place: which frame of a stack is the user's, and rows grouped by its line, function or module, or
 * by the op of PyTorch. */
#include "core/store/op_name.h"
#include "tests/unit/query_fixture.h"

#define PID   4000000
#define TORCH "/usr/lib/python3/dist-packages/torch/"
#define PYTHON(of, in, at)                                                                         \
	{                                                                                          \
		.kind = FRAME_PYTHON, .function = (of), .file = (in), .line = (at)                 \
	}
#define DRIVER	FRAME(1, 1, "/lib/libcuda.so.1", "cuLaunchKernel")
#define RUNTIME FRAME(2, 2, "/opt/conda/lib/libcudart.so.12", "cudaLaunchKernel")
#define MM                                                                                         \
	FRAME(3, 3, TORCH "lib/libtorch_cpu.so",                                                   \
	      "at::_ops::mm::call(at::Tensor const&, at::Tensor const&)")
#define ADDMM                                                                                      \
	FRAME(4, 4, TORCH "lib/libtorch_cpu.so",                                                   \
	      "at::_ops::addmm::call(at::Tensor const&, at::Tensor const&)")
#define NODE                                                                                       \
	FRAME(5, 5, TORCH "lib/libtorch_cpu.so",                                                   \
	      "torch::autograd::generated::AddmmBackward0::apply(std::vector<at::Tensor>&&)")
#define LOOP   FRAME(6, 6, "/usr/bin/python3.11", "_PyEval_EvalFrameDefault")
#define LINEAR PYTHON("forward", TORCH "nn/linear.py", 114)
#define TIMER  PYTHON("timeit", "/usr/lib/python3.11/timeit.py", 180)

enum { STACK_FORWARD = 1, STACK_AGAIN, STACK_BACKWARD, STACK_NATIVE, STACK_STRIPPED };

#define ADD(stack, of, walked)                                                                     \
	store_add_stack(store, &(struct store_stack){ .id = (stack),                               \
						      .process = (of),                             \
						      .frame = (walked),                           \
						      .count = ARRAY_SIZE(walked) })

static void add_stacks(struct store *store)
{
	const struct frame forward[] = { DRIVER,
					 RUNTIME,
					 ADDMM,
					 LINEAR,
					 LOOP,
					 PYTHON("forward", "/home/ann/net.py", 31),
					 PYTHON("main", "/home/ann/train.py", 90) };
	const struct frame again[] = {
		DRIVER, RUNTIME, MM, ADDMM, LINEAR, TIMER, PYTHON("forward", "/home/ann/net.py", 33)
	};
	const struct frame backward[] = { DRIVER, RUNTIME, MM, NODE };
	const struct frame native[] = { DRIVER,
					{ .module = "/opt/app/solver",
					  .function = "step(Grid&)",
					  .file = "/src/solver/step.cc",
					  .line = 12,
					  .inlined = true },
					FRAME(7, 7, "/opt/app/solver", "main") };
	const struct frame stripped[] = { DRIVER, FRAME(0x99, 0, NULL, NULL),
					  FRAME(8, 0x3a0, "/opt/app/libgrid.so", NULL) };

	ADD(STACK_FORWARD, 1, forward);
	ADD(STACK_AGAIN, 1, again);
	ADD(STACK_BACKWARD, 1, backward);
	ADD(STACK_NATIVE, 2, native);
	ADD(STACK_STRIPPED, 2, stripped);
}

static void add_calls(struct store *store)
{
	static const struct {
		uint32_t process;
		uint64_t stack, calls;
	} calls[] = { { 1, 0, 1000 },	      { 1, STACK_FORWARD, 50 },
		      { 1, STACK_AGAIN, 20 }, { 1, STACK_BACKWARD, 40 },
		      { 2, STACK_NATIVE, 5 }, { 2, STACK_STRIPPED, 3 } };

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		struct core_rollup rest = { .stack_id = calls[i].stack };
		struct core_work work = { .second = fixture_second(),
					  .process = calls[i].process,
					  .kind = OP_KERNEL,
					  .name = 7,
					  .stack_id = calls[i].stack,
					  .count = calls[i].calls,
					  .total_ns = 10 * calls[i].calls,
					  .min_ns = 10,
					  .max_ns = 10 };

		add_rollup(store, calls[i].process, FN_LAUNCH, OP_LAUNCH, calls[i].calls, rest);
		rest.detail = COPY_HTOD;
		rest.bytes = calls[i].calls;
		add_rollup(store, calls[i].process, FN_HTOD, OP_COPY, calls[i].calls, rest);
		store_add(store, &work);
	}
}

static void open_store(struct fixture *fixture)
{
	assert_int_equal(fixture_open(fixture), 0);
	add_process(fixture->store, 1, PID, 0);
	add_process(fixture->store, 2, PID + 1, 0);
	add_stacks(fixture->store);
	add_calls(fixture->store);
	for (uint64_t id = 1; id <= STACK_BACKWARD; id++)
		add_allocation(fixture->store, id, 1, 100 * id, id, MEMORY_DEVICE, SECOND_NS);
	store_add_name(fixture->store, 7, "gemm", 4);
	fixture_commit(fixture, fixture_now_ns);
}

static int setup(void **state)
{
	int r = fixture_setup(state);

	open_store(*state);
	return r;
}

/* Each row's number and place, in the order of the answer. */
static void expect_places(void **state, Tracesmith__V1__QueryRequest query, const char *key,
			  const char *expected)
{
	struct answer_text answer = { 0 };
	char found[1024] = "", place[128];
	const char *at;
	long number;

	run_named(*state, &query, &answer);
	if (answer.error)
		fail_msg("%s", answer.text);
	for (at = answer.text; (at = strstr(at, key));) {
		number = strtol(at + strlen(key), NULL, 10);
		at = strstr(at, "\"where\":") + strlen("\"where\":");
		if (sscanf(at, "\"%127[^\"]\"", place) != 1)
			strcpy(place, "-");
		snprintf(found + strlen(found), sizeof(found) - strlen(found), "%ld %s|", number,
			 place);
	}
	assert_string_equal(found, expected);
	answer_text_done(&answer);
}

#define LAUNCHES(split, of)                                                                        \
	state, QUERY(.name = "launches", .by = (split), .pid = PID + (of)), "\"calls\":"

static void the_innermost_frame_of_the_user_says_where(void **state)
{
	expect_places(LAUNCHES(QUERY_BY_NOTHING, 0),
		      "1000 -|50 forward (net.py:31)|40 [no user frame]|20 forward (net.py:33)|");
	expect_places(LAUNCHES(QUERY_BY_NOTHING, 1), "5 step(Grid&) (step.cc:12)|"
						     "3 libgrid.so+0x3a0|");
}

static void rows_are_grouped_by_what_the_frame_tells(void **state)
{
	expect_places(LAUNCHES(QUERY_BY_IS_LINE, 0),
		      "1000 -|50 /home/ann/net.py:31|40 [no user frame]|20 /home/ann/net.py:33|");
	expect_places(LAUNCHES(QUERY_BY_IS_FUNCTION, 0), "1000 -|70 forward|40 [no user frame]|");
	expect_places(LAUNCHES(QUERY_BY_IS_MODULE, 0),
		      "1000 -|70 /home/ann/net.py|40 [no user frame]|");
	expect_places(LAUNCHES(QUERY_BY_IS_MODULE, 1), "5 /opt/app/solver|3 /opt/app/libgrid.so|");
	expect_places(LAUNCHES(QUERY_BY_IS_OP, 0), "1000 -|50 addmm|40 AddmmBackward0: mm|20 mm|");
	expect_places(LAUNCHES(QUERY_BY_IS_OP, 1), "8 [no op]|");
}

static void all_that_have_stacks_can_be_grouped(void **state)
{
	expect_places(state, QUERY(.name = "leaks", .by = QUERY_BY_IS_FUNCTION, .min_age_ns = 1),
		      "\"bytes\":", "300 forward|300 [no user frame]|");
	expect_places(state, QUERY(.name = "transfers", .by = QUERY_BY_IS_FUNCTION, .pid = PID),
		      "\"calls\":", "1000 -|70 forward|40 [no user frame]|");
	expect_places(state, QUERY(.name = "kernels", .by = QUERY_BY_IS_FUNCTION, .pid = PID + 1),
		      "\"count\":", "5 step(Grid&)|3 libgrid.so+0x3a0|");
	refuse(state, QUERY(.name = "apis", .by = QUERY_BY_IS_LINE),
	       TRACESMITH__V1__ERROR__CODE__BAD_REQUEST, "does not take 'by'");
}

/* The samples of a thousand launches stand for all. */
static void kernels_by_place_are_estimated_as_those_by_stack(void **state)
{
	expect_places(state, QUERY(.name = "kernels", .by = QUERY_BY_IS_FUNCTION, .pid = PID),
		      "\"count\":", "706 forward|404 [no user frame]|");
}

static void one_row_for_all_tells_the_most_frequent_place(void **state)
{
	expect_places(state, QUERY(.name = "kernels", .pid = PID),
		      "\"count\":", "1110 forward (net.py:31)|");
	expect_places(state, QUERY(.name = "transfers", .pid = PID),
		      "\"calls\":", "1110 forward (net.py:31)|");
}

static void the_setting_says_what_is_the_users(void **state)
{
	struct fixture *fixture = *state;

	store_stop(fixture->store);
	fixture->store = store_free(fixture->store);
	fixture->config.library_code = "lib.so /net.py libcuda.so !*torch/nn";
	assert_int_equal(fixture_open(fixture), 0);
	expect_places(LAUNCHES(QUERY_BY_NOTHING, 0),
		      "1000 -|50 cudaLaunchKernel|40 cudaLaunchKernel|20 cudaLaunchKernel|");
	fixture->store = store_free(fixture->store);
	fixture->config.library_code = "/usr/ /opt/ !torch/nn/ /net.py";
	assert_int_equal(fixture_open(fixture), 0);
	expect_places(LAUNCHES(QUERY_BY_NOTHING, 0),
		      "1000 -|50 forward (linear.py:114)|40 [no user frame]|"
		      "20 forward (linear.py:114)|");
}

static void sql_can_ask_as_well(void **state)
{
	struct answer_text answer = { 0 };

	run_sql_text(*state,
		     "SELECT stack_where(id) AS w FROM stack WHERE id IN (1, 4) ORDER BY id", 0, 0,
		     &answer);
	assert_non_null(strstr(answer.text, "{\"w\":\"forward (net.py:31)\"},\n"
					    "{\"w\":\"step(Grid&) (step.cc:12)\"}"));
	answer_text_done(&answer);
}

/* As torch.compile(), a kernel of Triton, and `python -c` leave them. */
static void code_that_was_made_is_passed_over_for_the_users(void **state)
{
	const struct frame compiled[] = {
		DRIVER,
		FRAME(1, 1, "/root/.triton/cache/X2/__triton_launcher.cpython-312.so", "launch"),
		PYTHON("launcher", "<string>", 5),
		PYTHON("run", TORCH "_inductor/runtime/triton_heuristics.py", 1286),
		PYTHON("call", "/tmp/torchinductor_ann/4f/c4fbn.py", 93),
		PYTHON("forward", "<eval_with_key>.1", 7),
		PYTHON("step", "/home/ann/train.py", 40)
	};
	const struct frame triton[] = {
		DRIVER, FRAME(1, 1, "/tmp/torchinductor_ann/triton/0/X2/launcher.so", "launch"),
		PYTHON("run", "/opt/lib/python3.12/site-packages/triton/runtime/jit.py", 757),
		PYTHON("add", "/home/ann/add.py", 20)
	};
	const struct frame text[] = { DRIVER, PYTHON("f", "<string>", 2),
				      PYTHON("<module>", "<string>", 3) };
	struct fixture *fixture = *state;
	struct store *store = fixture->store;
	struct answer_text answer = { 0 };

	ADD(100, 1, compiled);
	ADD(101, 1, triton);
	ADD(102, 1, text);
	fixture_commit(fixture, fixture_now_ns);
	run_sql_text(*state,
		     "SELECT stack_where(id) AS w FROM stack WHERE id >= 100 UNION ALL"
		     " SELECT stack_key(100, 6)",
		     0, 0, &answer);
	assert_non_null(strstr(answer.text, "{\"w\":\"call (c4fbn.py:93)\"},\n"
					    "{\"w\":\"add (add.py:20)\"},\n"
					    "{\"w\":\"f (<string>:2)\"},\n"
					    "{\"w\":\"call (c4fbn.py:93)\"}"));
	answer_text_done(&answer);
}

/* What started the interpreter, a program or a thread is folded. */
static void tables_end_stacks_with_the_users_outermost_frame(void **state)
{
	const struct frame python[] = {
		DRIVER,
		PYTHON("step", "/home/ann/train.py", 40),
		PYTHON("__call__", "/usr/lib/python3.11/functools.py", 3),
		PYTHON("main", "/home/ann/train.py", 90),
		FRAME(1, 1, "/usr/bin/python3.11", "PyEval_EvalCode"),
		FRAME(2, 2, "/usr/bin/python3.11", "Py_RunMain"),
		FRAME(3, 3, "/lib/x86_64-linux-gnu/libc.so.6", "__libc_start_main"),
		FRAME(4, 4, "/usr/bin/python3.11", "_start"),
	};
	const struct frame program[] = {
		DRIVER,
		FRAME(1, 1, "/opt/app/solver", "main"),
		FRAME(2, 2, "/lib/x86_64-linux-gnu/libc.so.6", "__libc_start_call_main"),
		FRAME(3, 3, "/lib/x86_64-linux-gnu/libc.so.6", "__libc_start_main"),
		FRAME(4, 4, "/opt/app/solver", "_start"),
	};
	const struct frame text[] = { DRIVER, PYTHON("<module>", "<string>", 3),
				      FRAME(1, 1, "/usr/bin/python3.11", "PyEval_EvalCode"),
				      FRAME(2, 2, "/usr/bin/python3.11", "_start") };
	const struct frame nobodys[] = { DRIVER, NODE,
					 FRAME(1, 1, "/lib/libc.so.6", "start_thread"),
					 FRAME(2, 2, "/lib/libc.so.6", "clone3") };
	struct fixture *fixture = *state;
	struct store *store = fixture->store;
	Tracesmith__V1__QueryRequest query = QUERY(.name = "launches", .pid = PID + 2);
	struct answer_text answer = { .for_people = true };
	char found[512] = "";

	ADD(200, 3, python);
	ADD(201, 3, program);
	ADD(202, 3, text);
	ADD(203, 3, nobodys);
	add_process(store, 3, PID + 2, 0);
	for (uint64_t stack = 200; stack < 204; stack++)
		add_rollup(store, 3, FN_LAUNCH, OP_LAUNCH, 1000 - stack,
			   (struct core_rollup){ .stack_id = stack });
	fixture_commit(fixture, fixture_now_ns);
	run_named(fixture, &query, &answer);
	for (char *line = strtok(answer.text, "\n"); line; line = strtok(NULL, "\n"))
		if (strncmp(line, "      ", 6) == 0)
			snprintf(found + strlen(found), sizeof(found) - strlen(found), "%s|",
				 line + 6);
	assert_string_equal(found, "step (train.py:40)|__call__ (functools.py:3)|"
				   "main (train.py:90)|and 4 more|main|and 3 more|"
				   "<module> (<string>:3)|and 2 more|"
				   "torch::autograd::generated::AddmmBackward0::apply("
				   "std::vector<at::Tensor>&&)|start_thread|clone3|");
	answer_text_done(&answer);
}

/* The parts of a stack of the backward pass may be stored before it and after. */
static void the_backward_pass_is_where_its_forward_pass_was(void **state)
{
	const struct frame engine[] = { DRIVER,
					RUNTIME,
					MM,
					NODE,
					FRAME(6, 6, TORCH "lib/libtorch_cpu.so",
					      "torch::autograd::Engine::evaluate_function(x)"),
					PYTHON("main", "/home/ann/train.py", 91) };
	const struct frame own[] = { DRIVER, PYTHON("backward", "/home/ann/op.py", 4), NODE };
	const struct frame other[] = {
		DRIVER, FRAME(9, 9, TORCH "lib/libtorch_cpu.so", "at::_ops::add_Tensor::call(x)"),
		PYTHON("mask", "/home/ann/net.py", 50)
	};
	const struct core_backward joined[] = {
		{ .id = 400, .process = 1, .stack_id = 300, .forward_id = STACK_FORWARD },
		{ .id = 401, .process = 1, .stack_id = 301, .forward_id = STACK_FORWARD },
		{ .id = 402, .process = 1, .stack_id = 300, .forward_id = 302 },
		{ .id = 403,
		  .process = 1,
		  .stack_id = 300,
		  .forward_id = STACK_FORWARD,
		  .passed = 1 },
		{ .id = 404, .process = 1, .stack_id = 300, .forward_id = 999 },
	};
	struct fixture *fixture = *state;
	struct store *store = fixture->store;
	struct answer_text answer = { 0 };

	store_add(store, &joined[0]);
	ADD(300, 1, engine);
	ADD(301, 1, own);
	ADD(302, 1, other);
	for (size_t i = 1; i < ARRAY_SIZE(joined); i++)
		store_add(store, &joined[i]);
	ADD(300, 1, engine); /* as if lines had been found */
	fixture_commit(fixture, fixture_now_ns);
	run_sql_text(*state,
		     "SELECT id AS i, stack_where(id) AS w, stack_key(id, 3) AS l,"
		     " stack_key(id, 6) AS o, (SELECT count(*) FROM frame WHERE stack = stack.id)"
		     " AS n FROM stack WHERE id >= 400 ORDER BY id",
		     0, 0, &answer);
	assert_non_null(strstr(
		answer.text,
		"{\"i\":400,\"w\":\"forward (net.py:31) [backward]\","
		"\"l\":\"/home/ann/net.py:31 [backward]\",\"o\":\"AddmmBackward0: mm\",\"n\":12},\n"
		"{\"i\":401,\"w\":\"backward (op.py:4)\",\"l\":\"/home/ann/op.py:4\","
		"\"o\":\"AddmmBackward0\",\"n\":10},\n"
		"{\"i\":402,\"w\":\"mask (net.py:50) [backward, before]\","
		"\"l\":\"/home/ann/net.py:50 [backward, before]\",\"o\":\"AddmmBackward0: "
		"mm\",\"n\":8},\n"
		"{\"i\":403,\"w\":\"forward (net.py:31) [backward, before]\","
		"\"l\":\"/home/ann/net.py:31 [backward, before]\",\"o\":\"AddmmBackward0: "
		"mm\",\"n\":12}\n]"));
	answer_text_done(&answer);
}

static void nodes_have_the_names_of_ops(void **state)
{
	static const struct {
		const char *function, *node;
		bool makes;
	} cases[] = {
		{ "at::_ops::mm::call(x)", "MmBackward0", true },
		{ "at::_ops::sum_dim_IntList::redispatch(x)", "SumBackward1", true },
		{ "at::_ops::add__Tensor::call(x)", "AddBackward0", true },
		{ "at::_ops::_log_softmax::call(x)", "LogSoftmaxBackward0", true },
		{ "at::_ops::nll_loss_forward::call(x)", "NllLossBackward0", true },
		{ "at::_ops::max_pool2d_with_indices::call(x)", "MaxPool2DWithIndicesBackward0",
		  true },
		{ "at::_ops::tanh::call(x)", "TBackward0", false },
		{ "at::_ops::t::call(x)", "TanhBackward0", false },
		{ "at::_ops::addmm::call(x)", "MmBackward0", false },
		{ "main", "MmBackward0", false },
		{ "main", "CopySlices", true },
		{ "main", "PyNode", true },
		{ "main", "", true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(op_name_makes(cases[i].function, cases[i].node), cases[i].makes);
}

static void ops_are_read_from_names(void **state)
{
	static const struct {
		const char *function, *text;
		bool ends;
	} cases[] = {
		{ "at::_ops::add_Tensor::redispatch(c10::DispatchKeySet)", "add_Tensor", false },
		{ "torch::autograd::AccumulateGrad::apply(x&&)", "AccumulateGrad", true },
		{ "torch::autograd::generated::::apply(x)", "none", false },
		{ "torch::autograd::Engine::evaluate_function(x)", "none", false },
		{ "at::_ops::", "none", false },
		{ "at::_ops::x", "none", false },
		{ "main", "none", false },
	};
	char text[64], name[600];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct op_name op = { .name = "" };

		assert_int_equal(op_name_add(&op, cases[i].function), cases[i].ends);
		op_name_text(&op, "none", text, sizeof(text));
		assert_string_equal(text, cases[i].text);
	}
	memset(name, 'x', sizeof(name));
	memcpy(name, "at::_ops::", 10);
	strcpy(name + sizeof(name) - 8, "::call(");
	for (size_t i = 0; i < 2; i++) {
		struct op_name op = { .name = "" };

		assert_false(op_name_add(&op, name));
		assert_string_equal(op.name, "");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_innermost_frame_of_the_user_says_where),
		cmocka_unit_test(rows_are_grouped_by_what_the_frame_tells),
		cmocka_unit_test(all_that_have_stacks_can_be_grouped),
		cmocka_unit_test(kernels_by_place_are_estimated_as_those_by_stack),
		cmocka_unit_test(one_row_for_all_tells_the_most_frequent_place),
		cmocka_unit_test(sql_can_ask_as_well),
		cmocka_unit_test(code_that_was_made_is_passed_over_for_the_users),
		cmocka_unit_test(tables_end_stacks_with_the_users_outermost_frame),
		cmocka_unit_test(the_backward_pass_is_where_its_forward_pass_was),
		cmocka_unit_test(nodes_have_the_names_of_ops),
		cmocka_unit_test(ops_are_read_from_names),
		cmocka_unit_test(the_setting_says_what_is_the_users),
	};

	return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
