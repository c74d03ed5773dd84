/* Test hooks: what a simulated CUPTI gets to see. */
#include "test_fake.h"

#include "tests/fake/libcuda/hooks.h"

#include <stdatomic.h>
#include <string.h>

static const struct fake_driver *simulated;

static struct {
	_Atomic int enters, exits, queued, starts, ends, created, destroyed, loaded;
	struct fake_api_call last_exit;
	uint64_t last_argument; /* the arguments are gone when the call is */
	struct fake_op_info ended[8];
} seen;

static void on_enter(struct fake_api_call *call)
{
	seen.enters++;
	call->user = call->correlation;
}

static void on_exit_call(struct fake_api_call *call)
{
	assert_int_equal(call->user, call->correlation);
	seen.exits++;
	seen.last_exit = *call;
	seen.last_argument = call->args[0];
}

static void on_queued(const struct fake_op_info *op)
{
	(void)op;
	seen.queued++;
}

static void on_start(const struct fake_op_info *op)
{
	(void)op;
	seen.starts++;
}

static void on_end(const struct fake_op_info *op)
{
	if (seen.ends < (int)ARRAY_SIZE(seen.ended))
		seen.ended[seen.ends] = *op;
	seen.ends++;
}

static void on_module(uint32_t context_id, CUmodule loaded, const void *image, size_t size)
{
	(void)context_id;
	(void)loaded;
	(void)image;
	assert_int_equal(size, strlen(".version 7.0"));
	seen.loaded++;
}

static void on_stream(CUstream stream, uint32_t stream_id, uint32_t context_id)
{
	(void)stream;
	(void)stream_id;
	(void)context_id;
	seen.created++;
}

static void on_stream_end(CUstream stream, uint32_t stream_id, uint32_t context_id)
{
	(void)stream;
	(void)stream_id;
	(void)context_id;
	seen.destroyed++;
}

static const struct fake_hooks hooks = {
	.api_enter = on_enter,
	.api_exit = on_exit_call,
	.op_queued = on_queued,
	.op_start = on_start,
	.op_end = on_end,
	.module_loaded = on_module,
	.stream_created = on_stream,
	.stream_destroyed = on_stream_end,
};

static int hook_up(void **state)
{
	const CUuuid id = FAKE_DRIVER_UUID;

	if (with_context(state) || cuGetExportTable((const void **)&simulated, &id))
		return 1;
	memset(&seen, 0, sizeof(seen));
	simulated->set_hooks(&hooks);
	return 0;
}

static int unhook(void **state)
{
	simulated->set_hooks(NULL);
	return without_context(state);
}

static void calls_and_operations_are_joined(void **state)
{
	uint64_t before = simulated->now(), after;
	CUdeviceptr a;
	CUstream s;

	(void)state;
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc(&a, 100));
	OK(cuMemsetD32Async(a, 7, 20, s));
	OK(cuLaunchKernel(kernel, 4, 2, 1, 64, 1, 1, 128, s, NULL, NULL));
	assert_int_equal(seen.last_exit.function, FAKE_FN_cuLaunchKernel);
	assert_string_equal(seen.last_exit.name, "cuLaunchKernel");
	assert_int_equal(seen.last_exit.args_count, 11);
	assert_int_equal(seen.last_exit.result, CUDA_SUCCESS);
	OK(cuStreamSynchronize(s));
	after = simulated->now();
	assert_int_equal(seen.enters, 5);
	assert_int_equal(seen.exits, 5);
	assert_int_equal(seen.queued, 2);
	assert_int_equal(seen.starts, 2);
	assert_int_equal(seen.ends, 2);
	assert_int_equal(seen.ended[0].kind, FAKE_OP_SET);
	assert_int_equal(seen.ended[0].bytes, 80);
	assert_int_equal(seen.ended[1].kind, FAKE_OP_KERNEL);
	assert_string_equal(seen.ended[1].name, "some_kernel");
	assert_int_equal(seen.ended[1].grid[1], 2);
	assert_int_equal(seen.ended[1].shared_bytes, 128);
	assert_int_equal(seen.ended[1].correlation, seen.ended[0].correlation + 1);
	assert_true(before <= seen.ended[0].queued_ns);
	assert_true(seen.ended[0].queued_ns <= seen.ended[0].start_ns);
	assert_true(seen.ended[0].start_ns <= seen.ended[0].end_ns);
	assert_true(seen.ended[0].end_ns <= seen.ended[1].start_ns);
	assert_true(seen.ended[1].end_ns <= after);
}

static void failures_and_objects_are_told(void **state)
{
	CUmodule loaded;
	CUstream s;

	(void)state;
	FAILS(cuMemFree(NONSENSE), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(seen.last_exit.function, FAKE_FN_cuMemFree_v2);
	assert_int_equal(seen.last_argument, NONSENSE);
	assert_int_equal(seen.last_exit.result, CUDA_ERROR_INVALID_VALUE);
	OK(cuStreamCreate(&s, 0));
	OK(cuStreamDestroy(s));
	OK(cuModuleLoadData(&loaded, ".version 7.0"));
	assert_int_equal(seen.created, 1);
	assert_int_equal(seen.destroyed, 1);
	assert_int_equal(seen.loaded, 1);
	assert_string_equal(simulated->function_name(FAKE_FN_cuMemFree_v2), "cuMemFree_v2");
}

static void a_graphs_kernels_share_its_launch(void **state)
{
	CUgraphExec exec;
	CUgraph graph;
	CUstream s;

	(void)state;
	OK(cuStreamCreate(&s, 0));
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	for (int i = 0; i < 3; i++)
		OK(launch(s));
	OK(cuStreamEndCapture(s, &graph));
	OK(cuGraphInstantiate(&exec, graph, 0));
	assert_int_equal(seen.starts, 0);
	OK(cuGraphLaunch(exec, s));
	OK(cuStreamSynchronize(s));
	/* Three kernels and the graph around them */
	assert_int_equal(seen.ends, 4);
	for (int i = 1; i < 3; i++) {
		assert_int_equal(seen.ended[i].correlation, seen.ended[0].correlation);
		assert_int_equal(seen.ended[i].graph_id, seen.ended[0].graph_id);
		assert_int_not_equal(seen.ended[i].node_id, seen.ended[0].node_id);
		assert_true(seen.ended[i].start_ns >= seen.ended[i - 1].end_ns);
	}
	assert_int_equal(seen.ended[3].kind, FAKE_OP_GRAPH);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

int run_hook_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(calls_and_operations_are_joined, hook_up, unhook),
		cmocka_unit_test_setup_teardown(failures_and_objects_are_told, hook_up, unhook),
		cmocka_unit_test_setup_teardown(a_graphs_kernels_share_its_launch, hook_up, unhook),
	};

	return cmocka_run_group_tests_name("hooks", tests, NULL, NULL);
}
