/* Counts, stories: successful uses of everything that has a start and an end. */
#include "counts.h"

#include <stdlib.h>

static void story_contexts(void)
{
	CUcontext made;

	TRY(cuCtxCreate, (&made, 0, 0));
	TRY(cuCtxDestroy, (made));
	TRY(cuCtxCreate_v2, (&made, 0, 0));
	TRY(cuCtxDestroy_v2, (made));
	TRY(cuCtxCreate_v3, (&made, NULL, 0, 0, 0));
	TRY(cuCtxDestroy_v2, (made));
	TRY(cuCtxCreate_v4, (&made, NULL, 0, 0));
	TRY(cuCtxPopCurrent, (&w.context));
	TRY(cuCtxPushCurrent, (made));
	TRY(cuCtxPopCurrent_v2, (&w.context));
	TRY(cuCtxPushCurrent_v2, (made));
	TRY(cuCtxDestroy_v2, (made));
}

static void story_primary(void)
{
	TRY(cuDevicePrimaryCtxSetFlags, (0, CU_CTX_SCHED_AUTO));
	TRY(cuDevicePrimaryCtxSetFlags_v2, (0, CU_CTX_SCHED_AUTO));
	TRY(cuDevicePrimaryCtxRetain, (&w.context, 0));
	TRY(cuDevicePrimaryCtxRetain, (&w.context, 0));
	TRY(cuDevicePrimaryCtxRelease, (0));
	TRY(cuDevicePrimaryCtxRelease_v2, (0));
	TRY(cuDevicePrimaryCtxReset, (0));
	TRY(cuDevicePrimaryCtxReset_v2, (0));
}

static void story_modules(void)
{
	static const char image[] = IMAGE_HEAD IMAGE_KERNEL("counted_kernel");

	TRY(cuModuleLoadData, (&w.module, image));
	TRY(cuModuleUnload, (w.module));
	TRY(cuModuleLoadDataEx, (&w.module, image, 0, NULL, NULL));
	TRY(cuModuleUnload, (w.module));
	TRY(cuLibraryLoadData, (&w.library, image, NULL, NULL, 0, NULL, NULL, 0));
	TRY(cuLibraryUnload, (w.library));
}

static void story_memory(void)
{
	TRY(cuMemAlloc_v2, (&w.ptr, 1000));
	TRY(cuMemFree_v2, (w.ptr));
	TRY(cuMemAllocPitch_v2, (&w.ptr, &w.size, 100, 10, 4));
	TRY(cuMemFree_v2, (w.ptr));
	TRY(cuMemAllocManaged, (&w.ptr, 2000, CU_MEM_ATTACH_GLOBAL));
	TRY(cuMemFree_v2, (w.ptr));
	TRY(cuMemAllocHost_v2, (&w.p, 3000));
	TRY(cuMemFreeHost, (w.p));
	TRY(cuMemHostAlloc, (&w.p, 4000, CU_MEMHOSTALLOC_DEVICEMAP));
	TRY(cuMemFreeHost, (w.p));
}

static void story_registration(void)
{
	void *page = aligned_alloc(4096, 4096);

	TRY(cuMemHostRegister_v2, (page, 4096, 0));
	TRY(cuMemHostUnregister, (page));
	TRY(cuMemHostRegister, (page, 4096, 0));
	TRY(cuMemHostUnregister, (page));
	free(page);
}

static void story_pools(void)
{
	CUmemoryPool pool;

	TRY(cuMemPoolCreate, (&pool, &w.pool_props));
	TRY(cuMemAllocFromPoolAsync, (&w.ptr, 5000, pool, w.stream));
	TRY(cuMemFreeAsync, (w.ptr, w.stream));
	TRY(cuMemAllocFromPoolAsync_ptsz, (&w.ptr, 5000, pool, w.stream));
	TRY(cuMemFreeAsync_ptsz, (w.ptr, w.stream));
	TRY(cuMemAllocAsync, (&w.ptr, 6000, w.stream));
	TRY(cuMemFreeAsync, (w.ptr, w.stream));
	TRY(cuMemAllocAsync_ptsz, (&w.ptr, 6000, w.stream));
	TRY(cuMemFree_v2, (w.ptr));
	TRY(cuStreamSynchronize, (w.stream));
	TRY(cuMemPoolDestroy, (pool));
}

static void story_virtual_memory(void)
{
	CUmemGenericAllocationHandle again;

	TRY(cuMemAddressReserve, (&w.ptr, CHUNK, 0, 0, 0));
	TRY(cuMemCreate, (&w.handle, CHUNK, &w.prop, 0));
	TRY(cuMemMap, (w.ptr, CHUNK, 0, w.handle, 0));
	TRY(cuMemSetAccess, (w.ptr, CHUNK, &w.access, 1));
	TRY(cuMemGetAccess, (&w.id, &w.place, w.ptr));
	TRY(cuMemRetainAllocationHandle, (&again, (void *)(uintptr_t)w.ptr));
	TRY(cuMemRelease, (again));
	TRY(cuMemRelease, (w.handle));
	TRY(cuMemUnmap, (w.ptr, CHUNK));
	TRY(cuMemAddressFree, (w.ptr, CHUNK));
}

static void story_streams(void)
{
	CUstream made;

	TRY(cuStreamCreate, (&made, CU_STREAM_DEFAULT));
	TRY(cuStreamDestroy, (made));
	TRY(cuStreamCreateWithPriority, (&made, CU_STREAM_NON_BLOCKING, -1));
	TRY(cuStreamDestroy_v2, (made));
}

static void story_events(void)
{
	CUevent made;

	TRY(cuEventCreate, (&made, CU_EVENT_DEFAULT));
	TRY(cuEventDestroy, (made));
	TRY(cuEventCreate, (&made, CU_EVENT_DISABLE_TIMING));
	TRY(cuEventDestroy_v2, (made));
}

/* Four captured launches that do not run, then two runs of the graph. */
static void story_capture(void)
{
	const CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUgraph graph;
	CUgraphExec exec;

	TRY(cuStreamBeginCapture_v2, (w.stream, relaxed));
	for (int i = 0; i < 4; i++)
		TRY(cuLaunchKernel, (w.counted, 1, 1, 1, 32, 1, 1, 0, w.stream, NULL, NULL));
	TRY(cuStreamEndCapture, (w.stream, &graph));
	TRY(cuGraphInstantiateWithFlags, (&exec, graph, 0));
	TRY(cuGraphLaunch, (exec, w.stream));
	TRY(cuGraphLaunch_ptsz, (exec, w.stream));
	TRY(cuStreamSynchronize, (w.stream));
	TRY(cuGraphExecDestroy, (exec));
	TRY(cuGraphDestroy, (graph));
	TRY(cuStreamBeginCapture_v2_ptsz, (w.stream, relaxed));
	TRY(cuStreamEndCapture_ptsz, (w.stream, &graph));
	TRY(cuGraphDestroy, (graph));
	TRY(cuStreamBeginCapture, (w.stream));
	TRY(cuStreamEndCapture, (w.stream, &graph));
	TRY(cuGraphDestroy, (graph));
	TRY(cuStreamBeginCapture_ptsz, (w.stream));
	TRY(cuStreamEndCapture_ptsz, (w.stream, &graph));
	TRY(cuGraphDestroy, (graph));
}

static void story_graph(void)
{
	CUgraphNode nodes[6];
	CUgraphExec exec;
	CUgraph graph;

	TRY(cuGraphCreate, (&graph, 0));
	TRY(cuGraphAddKernelNode, (&nodes[0], graph, NULL, 0, &w.kernel_node_v1));
	TRY(cuGraphAddKernelNode_v2, (&nodes[1], graph, NULL, 0, &w.kernel_node));
	TRY(cuGraphAddMemcpyNode, (&nodes[2], graph, nodes, 2, &w.copy_3d, w.main));
	TRY(cuGraphAddMemsetNode, (&nodes[3], graph, nodes, 1, &w.set_node, w.main));
	TRY(cuGraphAddHostNode, (&nodes[4], graph, &nodes[3], 1, &w.host_node));
	TRY(cuGraphAddEmptyNode, (&nodes[5], graph, NULL, 0));
	TRY(cuGraphAddDependencies_v2, (graph, &nodes[4], &nodes[5], NULL, 1));
	TRY(cuGraphAddDependencies, (graph, &nodes[2], &nodes[5], 1));
	TRY(cuGraphInstantiate_v2, (&exec, graph, NULL, NULL, 0));
	TRY(cuGraphExecDestroy, (exec));
	TRY(cuGraphInstantiate, (&exec, graph, NULL, NULL, 0));
	TRY(cuGraphExecDestroy, (exec));
	TRY(cuGraphInstantiateWithParams, (&exec, graph, &w.instantiate));
	TRY(cuGraphExecDestroy, (exec));
	TRY(cuGraphInstantiateWithParams_ptsz, (&exec, graph, &w.instantiate));
	TRY(cuGraphLaunch, (exec, w.stream));
	TRY(cuStreamSynchronize, (w.stream));
	TRY(cuGraphExecDestroy, (exec));
	TRY(cuGraphDestroy, (graph));
}

static void story_peers(void)
{
	CUcontext other;

	if (w.devices < 2)
		return;
	TRY(cuCtxCreate_v2, (&other, 0, 1));
	TRY(cuCtxPopCurrent_v2, (NULL));
	TRY(cuCtxEnablePeerAccess, (other, 0));
	TRY(cuCtxDisablePeerAccess, (other));
	TRY(cuCtxDestroy_v2, (other));
}

/* Failing on purpose, each with a code of its own */
static void story_errors(void)
{
	T(cuMemAlloc_v2, (&w.ptr, (size_t)1 << 60));
	T(cuDeviceGet, (&w.i, 99));
	T(cuStreamSynchronize, ((CUstream)BAD));
	T(cuLaunchKernel, (w.counted, 0, 1, 1, 32, 1, 1, 0, w.stream, NULL, NULL));
	T(cuModuleGetFunction, (&w.function, w.image, "no such name"));
	T(cuMemcpyHtoD_v2, (BAD, w.pinned, 16));
}

static void (*const stories[])(void) = {
	story_contexts,	    story_primary,	  story_modules, story_memory,	story_pools,
	story_events,	    story_virtual_memory, story_streams, story_capture, story_graph,
	story_registration, story_peers,	  story_errors,
};

void stories_tell(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(stories); i++)
		for (size_t times = 0; times <= i; times++)
			stories[i]();
}
