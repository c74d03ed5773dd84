/* Test cupti records: what each kind of record says. */
#include "test_cupti.h"

#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CBID_LAUNCH 307 /* cuLaunchKernel */
#define CBID_ALLOC  243 /* cuMemAlloc_v2 */
#define CBID_GRAPH  514 /* cuGraphLaunch */

static void finish(void)
{
	OK(cuCtxSynchronize());
	OK(cuptiActivityFlushAll(0));
}

static void only_what_is_enabled_is_recorded(void **state)
{
	CUdeviceptr ptr;

	(void)state;
	OK(cuptiActivityEnable(CUPTI_KIND_SET));
	launch(stream);
	OK(cuMemAlloc_v2(&ptr, BYTES));
	OK(cuMemsetD8_v2(ptr, 7, BYTES));
	OK(cuptiActivityEnableDriverApi(CBID_ALLOC, 1));
	OK(cuMemFree_v2(ptr));
	OK(cuMemAlloc_v2(&ptr, BYTES));
	finish();
	assert_int_equal(client.count, 2);
	assert_int_equal(client_get(CUPTI_KIND_SET, 0)->set.bytes, BYTES);
	assert_int_equal(client_get(CUPTI_KIND_DRIVER, 0)->api.cbid, CBID_ALLOC);
	assert_int_equal(client_get(CUPTI_KIND_DRIVER, 0)->api.process, getpid());
	OK(cuMemFree_v2(ptr));
	FAILS(cuptiActivityEnable(99), CUPTI_E_INVALID_KIND);
}

static void a_kernel_is_joined_to_its_call(void **state)
{
	const struct cupti_kernel *k;
	const struct cupti_api *call;
	uint64_t before = client_clock(), after;
	uint32_t id;

	(void)state;
	OK(cuptiSetThreadIdType(CUPTI_THREAD_SYSTEM));
	OK(cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL));
	OK(cuptiActivityEnableDriverApi(CBID_LAUNCH, 1));
	launch(stream);
	finish();
	after = client_clock();
	k = &client_get(CUPTI_KIND_CONCURRENT_KERNEL, 0)->kernel;
	call = &client_get(CUPTI_KIND_DRIVER, 0)->api;
	assert_int_equal(client.count, 2);
	assert_int_equal(k->correlation, call->correlation);
	assert_int_equal(call->cbid, CBID_LAUNCH);
	assert_int_equal(call->thread, syscall(SYS_gettid));
	assert_int_equal(call->result, 0);
	assert_string_equal(k->name, "some_kernel");
	assert_int_equal(k->grid[1], 2);
	assert_int_equal(k->block[0], 64);
	assert_int_equal(k->dynamic_shared, 128);
	assert_int_equal(k->graph, 0);
	assert_true(before <= call->start && call->start <= call->end && call->end <= after);
	assert_true(call->start <= k->start && k->start <= k->end && k->end <= after);
	OK(cuptiGetStreamIdEx(context, stream, 0, &id));
	assert_int_equal(k->stream, id);
	OK(cuptiGetContextId(context, &id));
	assert_int_equal(k->context, id);
	OK(cuptiGetDeviceId(context, &id));
	assert_int_equal(k->device, id);
}

static void copies_have_kind_and_bytes(void **state)
{
	CUdeviceptr a, b;
	char host[BYTES];
	void *pinned;
	const struct cupti_copy *c;

	(void)state;
	OK(cuptiActivityEnable(CUPTI_KIND_COPY));
	OK(cuMemAlloc_v2(&a, BYTES));
	OK(cuMemAlloc_v2(&b, BYTES));
	OK(cuMemHostAlloc(&pinned, BYTES, 0));
	memset(host, 1, sizeof(host));
	OK(cuMemcpyHtoD_v2(a, host, 100));
	OK(cuMemcpyDtoDAsync_v2(b, a, 200, stream));
	OK(cuMemcpyDtoHAsync_v2(pinned, b, 300, stream));
	finish();
	assert_int_equal(client.count, 3);
	for (size_t i = 0; i < 3; i++) {
		c = &client_get(CUPTI_KIND_COPY, i)->copy;
		assert_int_equal(c->bytes % 100, 0);
		assert_int_equal(c->copy_kind, ((int[]){ 0, 1, 8, 2 })[c->bytes / 100]);
		assert_int_equal(c->flags, c->bytes == 100 ? 0 : CUPTI_FLAG_ASYNC);
		if (c->bytes == 300)
			assert_int_equal(c->dst_kind, CUPTI_MEMORY_PINNED);
		if (c->bytes == 100)
			assert_int_equal(c->src_kind, CUPTI_MEMORY_PAGEABLE);
	}
	OK(cuMemFreeHost(pinned));
	OK(cuMemFree_v2(a));
	OK(cuMemFree_v2(b));
}

static void a_peer_copy_has_both_devices(void **state)
{
	CUcontext other;
	CUdeviceptr here, there;
	const struct cupti_peer_copy *c;

	(void)state;
	OK(cuptiActivityEnable(CUPTI_KIND_PEER_COPY));
	OK(cuptiActivityEnable(CUPTI_KIND_COPY));
	OK(cuMemAlloc_v2(&here, BYTES));
	OK(cuCtxCreate_v2(&other, 0, 1));
	OK(cuMemAlloc_v2(&there, BYTES));
	OK(cuCtxSetCurrent(context));
	OK(cuMemcpyPeerAsync(there, other, here, context, BYTES, stream));
	finish();
	assert_int_equal(client.count, 1);
	c = &client_get(CUPTI_KIND_PEER_COPY, 0)->peer;
	assert_int_equal(c->src_device, 0);
	assert_int_equal(c->dst_device, 1);
	assert_int_equal(c->bytes, BYTES);
	OK(cuMemFree_v2(here));
	OK(cuCtxDestroy_v2(other));
}

/* A graph of two kernels and a set, captured. */
static CUgraphExec graph_make(CUdeviceptr ptr)
{
	CUgraphExec exec;
	CUgraph graph;

	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	launch(stream);
	OK(cuMemsetD8Async(ptr, 1, BYTES, stream));
	launch(stream);
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphDestroy(graph));
	return exec;
}

static void graph_nodes_share_the_launch(void **state)
{
	const struct cupti_kernel *first, *second;
	const struct cupti_api *call;
	CUgraphExec exec;
	CUdeviceptr ptr;
	uint32_t id;

	(void)state;
	OK(cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL));
	OK(cuptiActivityEnable(CUPTI_KIND_SET));
	OK(cuptiActivityEnableDriverApi(CBID_GRAPH, 1));
	OK(cuMemAlloc_v2(&ptr, BYTES));
	exec = graph_make(ptr);
	OK(cuGraphLaunch(exec, stream));
	finish();
	assert_int_equal(client.count, 4);
	first = &client_get(CUPTI_KIND_CONCURRENT_KERNEL, 0)->kernel;
	second = &client_get(CUPTI_KIND_CONCURRENT_KERNEL, 1)->kernel;
	call = &client_get(CUPTI_KIND_DRIVER, 0)->api;
	assert_int_equal(first->correlation, call->correlation);
	assert_int_equal(second->correlation, call->correlation);
	assert_int_not_equal(first->node, second->node);
	OK(cuptiGetGraphExecId(exec, &id));
	assert_int_equal(first->graph, id);
	assert_int_equal(client_get(CUPTI_KIND_SET, 0)->set.graph, id);
	assert_int_equal(client_get(CUPTI_KIND_SET, 0)->set.correlation, call->correlation);
	OK(cuGraphExecDestroy(exec));
	OK(cuMemFree_v2(ptr));
}

static void graph_trace_takes_the_place_of_nodes(void **state)
{
	const struct cupti_graph_trace *trace;
	CUgraphExec exec;
	CUdeviceptr ptr;

	(void)state;
	OK(cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL));
	OK(cuptiActivityEnable(CUPTI_KIND_SET));
	OK(cuptiActivityEnable(CUPTI_KIND_GRAPH_TRACE));
	OK(cuMemAlloc_v2(&ptr, BYTES));
	exec = graph_make(ptr);
	OK(cuGraphLaunch(exec, stream));
	finish();
	assert_int_equal(client.count, 1);
	trace = &client_get(CUPTI_KIND_GRAPH_TRACE, 0)->graph;
	assert_true(trace->start && trace->start <= trace->end);
	OK(cuGraphExecDestroy(exec));
	OK(cuMemFree_v2(ptr));
}

static void memory_operations_have_their_pool(void **state)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	const struct cupti_memory *m;
	CUdeviceptr plain, pooled;
	CUmemoryPool pool;

	(void)state;
	OK(cuptiActivityEnable(CUPTI_KIND_MEMORY2));
	OK(cuptiActivityEnable(CUPTI_KIND_POOL));
	OK(cuMemAlloc_v2(&plain, 1000));
	OK(cuMemPoolCreate(&pool, &props));
	OK(cuMemAllocFromPoolAsync(&pooled, 2000, pool, stream));
	OK(cuMemFreeAsync(pooled, stream));
	OK(cuMemFree_v2(plain));
	OK(cuStreamSynchronize(stream));
	OK(cuMemPoolDestroy(pool));
	finish();
	assert_int_equal(client_kind(CUPTI_KIND_MEMORY2), 4);
	assert_int_equal(client_kind(CUPTI_KIND_POOL), 2);
	m = &client_get(CUPTI_KIND_MEMORY2, 0)->memory;
	assert_int_equal(m->operation, CUPTI_OPERATION_ALLOCATION);
	assert_int_equal(m->bytes, 1000);
	assert_int_equal(m->pool.type, 0);
	m = &client_get(CUPTI_KIND_MEMORY2, 1)->memory;
	assert_int_equal(m->address, pooled);
	assert_int_equal(m->async, 1);
	assert_int_equal(m->pool.address, (uintptr_t)pool);
	m = &client_get(CUPTI_KIND_MEMORY2, 3)->memory;
	assert_int_equal(m->operation, CUPTI_OPERATION_RELEASE);
	assert_int_equal(m->bytes, 1000);
	assert_int_equal(client_get(CUPTI_KIND_POOL, 0)->pool.operation, CUPTI_POOL_CREATED);
}

static void waits_name_stream_and_event(void **state)
{
	const struct cupti_sync *s;
	uint32_t id, event;
	CUevent e;

	(void)state;
	OK(cuptiActivityEnable(CUPTI_KIND_SYNC));
	OK(cuptiActivityEnable(CUPTI_KIND_CUDA_EVENT));
	OK(cuEventCreate(&e, 0));
	OK(cuEventRecord(e, stream));
	OK(cuStreamWaitEvent(stream, e, 0));
	OK(cuEventSynchronize(e));
	OK(cuStreamSynchronize(stream));
	finish();
	assert_int_equal(client_kind(CUPTI_KIND_SYNC), 4);
	event = client_get(CUPTI_KIND_CUDA_EVENT, 0)->event.event;
	OK(cuptiGetStreamIdEx(context, stream, 0, &id));
	s = &client_get(CUPTI_KIND_SYNC, 0)->sync;
	assert_int_equal(s->type, CUPTI_SYNC_STREAM_WAIT);
	assert_int_equal(s->event, event);
	assert_int_equal(s->stream, id);
	s = &client_get(CUPTI_KIND_SYNC, 1)->sync;
	assert_int_equal(s->type, CUPTI_SYNC_EVENT);
	assert_int_equal(s->stream, CUPTI_NONE);
#if FAKE_CUPTI_MAJOR >= 13
	assert_int_equal(s->event_sync, client_get(CUPTI_KIND_CUDA_EVENT, 0)->event.event_sync);
#endif
	assert_int_equal(client_get(CUPTI_KIND_SYNC, 2)->sync.type, CUPTI_SYNC_STREAM);
	assert_int_equal(client_get(CUPTI_KIND_SYNC, 3)->sync.type, CUPTI_SYNC_CONTEXT);
	OK(cuEventDestroy_v2(e));
}

static void new_contexts_and_streams_are_told(void **state)
{
	CUcontext other;
	CUstream made;

	(void)state;
	OK(cuptiActivityEnable(CUPTI_KIND_CONTEXT));
	OK(cuptiActivityEnable(CUPTI_KIND_STREAM));
	OK(cuCtxCreate_v2(&other, 0, 1));
	OK(cuStreamCreateWithPriority(&made, CU_STREAM_NON_BLOCKING, -3));
	finish();
	assert_int_equal(client_kind(CUPTI_KIND_CONTEXT), 1);
	assert_int_equal(client_kind(CUPTI_KIND_STREAM), 2);
	assert_int_equal(client_get(CUPTI_KIND_CONTEXT, 0)->context.device, 1);
	assert_int_equal(client_get(CUPTI_KIND_STREAM, 0)->stream.stream,
			 client_get(CUPTI_KIND_CONTEXT, 0)->context.null_stream);
	assert_int_equal(client_get(CUPTI_KIND_STREAM, 0)->stream.flag, CUPTI_STREAM_NULL);
	assert_int_equal((int)client_get(CUPTI_KIND_STREAM, 1)->stream.priority, -3);
	assert_int_equal(client_get(CUPTI_KIND_STREAM, 1)->stream.flag, CUPTI_STREAM_NON_BLOCKING);
	OK(cuCtxDestroy_v2(other));
}

static void what_is_there_is_told_to_who_asks(void **state)
{
	(void)state;
#if FAKE_CUPTI_MAJOR >= 13
	OK(cuptiActivityEnable(CUPTI_KIND_DEVICE));
	finish();
	assert_int_equal(client_kind(CUPTI_KIND_DEVICE), 0);
	OK(cuptiActivityEnableAndDump(CUPTI_KIND_DEVICE));
	OK(cuptiActivityEnableAndDump(CUPTI_KIND_CONTEXT));
	OK(cuptiActivityEnableAndDump(CUPTI_KIND_STREAM));
	finish();
	assert_int_equal(client_kind(CUPTI_KIND_CONTEXT), 1);
	assert_int_equal(client_kind(CUPTI_KIND_STREAM), 2);
#else
	OK(cuptiActivityEnable(CUPTI_KIND_DEVICE));
	finish();
#endif
	assert_int_equal(client_kind(CUPTI_KIND_DEVICE), 2);
	assert_string_equal(client_get(CUPTI_KIND_DEVICE, 1)->device.name, "Simulated GPU 1");
	assert_int_equal(client_get(CUPTI_KIND_DEVICE, 1)->device.uuid[15], 1);
}

static void external_ids_come_before_their_call(void **state)
{
	uint64_t last;

	(void)state;
	OK(cuptiActivityEnable(CUPTI_KIND_EXTERNAL));
	OK(cuptiActivityEnableDriverApi(CBID_LAUNCH, 1));
	OK(cuptiActivityPushExternalCorrelationId(3, 4711));
	launch(stream);
	OK(cuptiActivityPopExternalCorrelationId(3, &last));
	assert_int_equal(last, 4711);
	FAILS(cuptiActivityPopExternalCorrelationId(3, &last), CUPTI_E_QUEUE_EMPTY);
	launch(stream);
	finish();
	assert_int_equal(client.count, 3);
	assert_int_equal(client.got[0].external.external, 4711);
	assert_int_equal(client.got[0].external.correlation, client.got[1].api.correlation);
}

static void contexts_can_be_left_out(void **state)
{
	(void)state;
	OK(cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL));
	OK(cuptiActivityDisableContext(context, CUPTI_KIND_CONCURRENT_KERNEL));
	launch(stream);
	finish();
	assert_int_equal(client.count, 0);
	OK(cuptiActivityEnableContext(context, CUPTI_KIND_CONCURRENT_KERNEL));
	launch(stream);
	finish();
	assert_int_equal(client.count, 1);
}

static void overhead_is_told(void **state)
{
	(void)state;
	OK(cuptiActivityEnable(CUPTI_KIND_OVERHEAD));
	OK(cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL));
	launch(stream);
	finish();
	finish();
	assert_int_equal(client_get(CUPTI_KIND_OVERHEAD, 0)->overhead.overhead_kind,
			 CUPTI_OVERHEAD_FLUSH);
}

static void streams_from_before_are_known(void **state)
{
	CUstream blocking;
	uint32_t id;

	(void)state;
	OK(cuStreamCreate(&blocking, 0));
	OK(cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL));
	launch(blocking);
	launch(NULL);
	finish();
	OK(cuptiGetStreamIdEx(context, blocking, 0, &id));
	assert_int_equal(client_get(CUPTI_KIND_CONCURRENT_KERNEL, 0)->kernel.stream, id);
	OK(cuptiGetStreamIdEx(context, NULL, 0, &id));
	assert_int_equal(client_get(CUPTI_KIND_CONCURRENT_KERNEL, 1)->kernel.stream, id);
	OK(cuStreamDestroy_v2(blocking));
}

int run_record_tests(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, cupti_up, cupti_down)
		TEST(only_what_is_enabled_is_recorded),
		TEST(a_kernel_is_joined_to_its_call),
		TEST(copies_have_kind_and_bytes),
		TEST(a_peer_copy_has_both_devices),
		TEST(graph_nodes_share_the_launch),
		TEST(graph_trace_takes_the_place_of_nodes),
		TEST(memory_operations_have_their_pool),
		TEST(waits_name_stream_and_event),
		TEST(new_contexts_and_streams_are_told),
		TEST(what_is_there_is_told_to_who_asks),
		TEST(external_ids_come_before_their_call),
		TEST(contexts_can_be_left_out),
		TEST(overhead_is_told),
		TEST(streams_from_before_are_known),
	};

	return cmocka_run_group_tests_name("records", tests, NULL, NULL);
}
