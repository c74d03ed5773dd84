/* Test graphs: stream capture and graphs. */
#include "test_fake.h"

#include <string.h>

static CUstream stream_new(void)
{
	CUstream stream;

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

static void run_once(CUgraph graph, CUstream stream)
{
	CUgraphExec exec;

	OK(cuGraphInstantiate(&exec, graph, 0));
	OK(cuGraphLaunch(exec, stream));
	OK(cuGraphExecDestroy(exec));
	FAILS(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);
	OK(cuStreamSynchronize(stream));
}

static size_t node_count(CUgraph graph)
{
	size_t count;

	OK(cuGraphGetNodes(graph, NULL, &count));
	return count;
}

static void captured_work_runs_when_the_graph_does(void **state)
{
	CUstreamCaptureStatus status;
	CUdeviceptr a = filled(1), b = filled(2);
	CUstream s = stream_new();
	CUgraph graph;

	(void)state;
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuStreamIsCapturing(s, &status));
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	OK(cuMemcpyDtoDAsync(b, a, BYTES, s));
	OK(cuMemsetD8Async(a, 3, BYTES, s));
	OK(launch(s));
	OK(cuStreamEndCapture(s, &graph));
	OK(cuStreamIsCapturing(s, &status));
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
	assert_int_equal(node_count(graph), 3);
	assert_int_equal(uniform(a), 1);
	assert_int_equal(uniform(b), 2);
	run_once(graph, s);
	assert_int_equal(uniform(a), 3);
	assert_int_equal(uniform(b), 1);
	OK(cuGraphDestroy(graph));
	FAILS(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
}

static void a_stream_joins_a_capture_by_an_event(void **state)
{
	CUdeviceptr a = filled(1);
	CUstream s = stream_new(), side = stream_new();
	CUevent fork, join;
	CUgraph graph;

	(void)state;
	OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
	OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(launch(s));
	OK(cuEventRecord(fork, s));
	OK(cuStreamWaitEvent(side, fork, 0));
	OK(cuMemsetD8Async(a, 2, BYTES, side));
	FAILS(cuEventQuery(fork), CUDA_ERROR_CAPTURED_EVENT);
	OK(cuEventRecord(join, side));
	OK(cuStreamWaitEvent(s, join, 0));
	OK(cuMemsetD8Async(a, 3, BYTES, s));
	OK(cuStreamEndCapture(s, &graph));
	assert_int_equal(node_count(graph), 3);
	assert_int_equal(uniform(a), 1);
	run_once(graph, s);
	assert_int_equal(uniform(a), 3);
	/* The side stream is free again. */
	OK(launch(side));
	OK(cuStreamSynchronize(side));
	OK(cuGraphDestroy(graph));
}

static void what_breaks_a_capture(void **state)
{
	CUstream s = stream_new(), side = stream_new();
	CUevent fork, outside;
	CUgraph graph;

	(void)state;
	OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
	OK(cuEventCreate(&outside, CU_EVENT_DISABLE_TIMING));
	FAILS(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL),
	      CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	FAILS(cuStreamEndCapture(s, &graph), CUDA_ERROR_ILLEGAL_STATE);
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	FAILS(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_ERROR_ILLEGAL_STATE);
	FAILS(cuStreamSynchronize(s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	FAILS(launch(s), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	FAILS(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	assert_null(graph);

	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuEventRecord(fork, s));
	OK(cuStreamWaitEvent(side, fork, 0));
	OK(launch(side));
	FAILS(cuStreamEndCapture(side, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
	FAILS(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuEventRecord(fork, s));
	OK(cuStreamWaitEvent(side, fork, 0));
	OK(launch(side));
	FAILS(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);

	/* An event that was never recorded is none to wait for. */
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuStreamWaitEvent(s, outside, 0));
	OK(cuStreamEndCapture(s, &graph));

	OK(cuEventRecord(outside, s));
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	FAILS(cuStreamWaitEvent(s, outside, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
	FAILS(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	OK(launch(s));
	OK(cuStreamSynchronize(s));
}

static void a_global_capture_forbids_dangerous_calls(void **state)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUstream s = stream_new();
	CUdeviceptr ptr;
	CUgraph graph;

	(void)state;
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	OK(cuMemAlloc(&ptr, 16));
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
	FAILS(cuMemAlloc(&ptr, 16), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	FAILS(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	OK(cuMemFree(ptr));
}

static void a_blocking_stream_in_capture_bars_the_legacy_one(void **state)
{
	CUstream s;
	CUgraph graph;

	(void)state;
	OK(cuStreamCreate(&s, CU_STREAM_DEFAULT));
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	FAILS(launch(NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	FAILS(cuStreamQuery(NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	OK(cuStreamEndCapture(s, &graph));
	OK(launch(NULL));
	OK(cuGraphDestroy(graph));
}

static void count_up(void *counter)
{
	++*(int *)counter;
}

static void nodes_run_after_what_they_depend_on(void **state)
{
	CUdeviceptr a = filled(0), b = filled(1);
	CUDA_MEMSET_NODE_PARAMS set = {
		.dst = a, .value = 8, .elementSize = 1, .width = BYTES, .height = 1
	};
	CUDA_MEMCPY3D copy = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = a,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = b,
		.WidthInBytes = BYTES,
		.Height = 1,
		.Depth = 1,
	};
	CUDA_HOST_NODE_PARAMS host = { .fn = count_up };
	int counter = 0;
	CUgraphNode copied, wiped, counted, nodes[3];
	CUgraphNodeType type;
	CUgraphExec exec;
	CUgraph graph;
	size_t count = 3;

	(void)state;
	host.userData = &counter;
	OK(cuGraphCreate(&graph, 0));
	/* Added first, but to run last */
	OK(cuGraphAddMemcpyNode(&copied, graph, NULL, 0, &copy, context));
	OK(cuGraphAddMemsetNode(&wiped, graph, NULL, 0, &set, context));
	OK(cuGraphAddHostNode(&counted, graph, &copied, 1, &host));
	OK(cuGraphAddDependencies(graph, &wiped, &copied, NULL, 1));
	OK(cuGraphNodeGetType(copied, &type));
	assert_int_equal(type, CU_GRAPH_NODE_TYPE_MEMCPY);
	OK(cuGraphGetNodes(graph, nodes, &count));
	assert_int_equal(count, 3);
	run_once(graph, stream_new());
	assert_int_equal(uniform(b), 8);
	assert_int_equal(counter, 1);
	OK(cuGraphAddDependencies(graph, &counted, &wiped, NULL, 1));
	FAILS(cuGraphInstantiate(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphDestroy(graph));
}

/* As with a driver of CUDA 13. */
static void a_graph_is_not_launched_into_a_capture(void **state)
{
	CUdeviceptr a = filled(1);
	CUstream s = stream_new();
	CUgraph graph;
	CUgraphExec exec;

	(void)state;
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemsetD8Async(a, 6, BYTES, s));
	OK(cuStreamEndCapture(s, &graph));
	OK(cuGraphInstantiate(&exec, graph, 0));
	OK(cuGraphDestroy(graph));
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	FAILS(cuGraphLaunch(exec, s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	FAILS(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	OK(cuGraphExecDestroy(exec));
	assert_int_equal(uniform(a), 1);
}

static void a_graph_is_a_node_of_another(void **state)
{
	CUdeviceptr a = filled(1), b = filled(1);
	CUstream s = stream_new();
	CUgraph inner, outer;
	CUgraphNode node, after;

	(void)state;
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemsetD8Async(a, 6, BYTES, s));
	OK(cuStreamEndCapture(s, &inner));
	OK(cuGraphCreate(&outer, 0));
	OK(cuGraphAddChildGraphNode(&node, outer, NULL, 0, inner));
	OK(cuGraphDestroy(inner));
	FAILS(cuGraphAddChildGraphNode(&node, outer, NULL, 0, inner), CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphAddEmptyNode(&after, outer, &node, 1));
	assert_int_equal(uniform(a), 1);
	run_once(outer, s);
	assert_int_equal(uniform(a), 6);
	assert_int_equal(uniform(b), 1);
	OK(cuGraphDestroy(outer));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, with_context, without_context)

int run_graph_tests(void)
{
	const struct CMUnitTest tests[] = {
		TEST(captured_work_runs_when_the_graph_does),
		TEST(a_stream_joins_a_capture_by_an_event),
		TEST(what_breaks_a_capture),
		TEST(a_global_capture_forbids_dangerous_calls),
		TEST(a_blocking_stream_in_capture_bars_the_legacy_one),
		TEST(nodes_run_after_what_they_depend_on),
		TEST(a_graph_is_not_launched_into_a_capture),
		TEST(a_graph_is_a_node_of_another),
	};

	return cmocka_run_group_tests_name("graphs", tests, NULL, NULL);
}
