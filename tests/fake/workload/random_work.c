/* Random, work: contexts, streams, launches, copies, captures and graphs in graphs. */
#include "random.h"

#include <stddef.h>

static const char image[] = IMAGE_HEAD IMAGE_KERNEL(KERNEL);

static void *pointer(uint64_t value)
{
	return (void *)(uintptr_t)value;
}

static CUstream some_stream(void)
{
	if (w.capturing && random_below(2))
		return w.capturing;
	return random_below(5) ? pointer(slots_any(&w.streams)) : NULL;
}

static void create(void)
{
	CUcontext made;

	if (w.depth == DEPTH_MAX ||
	    T(cuCtxCreate_v2, (&made, 0, (CUdevice)random_below(3))) != CUDA_SUCCESS)
		return;
	w.depth++;
	slots_add(&w.contexts, (uint64_t)(uintptr_t)made, 0);
}

/* It leaves the stack if it is on top of it. */
static void destroy(void)
{
	CUcontext gone = pointer(slots_take(&w.contexts, NULL)), top = NULL;

	T(cuCtxGetCurrent, (&top));
	if (T(cuCtxDestroy_v2, (gone)) == CUDA_SUCCESS && top == gone && w.depth)
		w.depth--;
}

static void push(void)
{
	if (w.depth < DEPTH_MAX &&
	    T(cuCtxPushCurrent_v2, (pointer(slots_any(&w.contexts)))) == CUDA_SUCCESS)
		w.depth++;
}

static void pop(void)
{
	CUcontext top;

	if (T(cuCtxPopCurrent_v2, (&top)) == CUDA_SUCCESS && w.depth)
		w.depth--;
}

static void set(void)
{
	CUcontext to = random_below(20) ? pointer(slots_any(&w.contexts)) : NULL;

	if (T(cuCtxSetCurrent, (to)) != CUDA_SUCCESS) {
		slots_failed(&w.contexts, (uint64_t)(uintptr_t)to);
		return;
	}
	if (to && w.depth == 0)
		w.depth = 1;
	else if (!to && w.depth)
		w.depth--;
}

static void retain(void)
{
	CUcontext primary;

	if (T(cuDevicePrimaryCtxRetain, (&primary, (CUdevice)random_below(3))) == CUDA_SUCCESS)
		slots_add(&w.contexts, (uint64_t)(uintptr_t)primary, 0);
}

static void release(void)
{
	T(cuDevicePrimaryCtxRelease_v2, ((CUdevice)random_below(3)));
}

static void reset(void)
{
	T(cuDevicePrimaryCtxReset_v2, ((CUdevice)random_below(3)));
}

const struct step context_steps[] = {
	{ create, 3 }, { destroy, 2 }, { push, 6 },  { pop, 5 },  { set, 30 },
	{ retain, 4 }, { release, 4 }, { reset, 1 }, { NULL, 0 },
};

static void stream_create(void)
{
	CUstream made;

	if (T(cuStreamCreate, (&made, random_below(2))) == CUDA_SUCCESS)
		slots_add(&w.streams, (uint64_t)(uintptr_t)made, 0);
}

static void stream_destroy(void)
{
	T(cuStreamDestroy_v2, (pointer(slots_take(&w.streams, NULL))));
}

/* A function is of one context, and is looked up where another one is current. */
static CUfunction function(void)
{
	CUcontext now = NULL;
	CUmodule module;

	T(cuCtxGetCurrent, (&now));
	if (w.function && now == w.function_context)
		return w.function;
	if (T(cuModuleLoadData, (&module, image)) != CUDA_SUCCESS ||
	    T(cuModuleGetFunction, (&w.function, module, KERNEL)) != CUDA_SUCCESS)
		return NULL;
	w.function_context = now;
	return w.function;
}

static void launch(void)
{
	CUfunction f = function();
	CUstream stream = some_stream();
	unsigned int grid = random_below(50) ? 1 : 0;

	if (f && T(cuLaunchKernel, (f, grid, 1, 1, 32, 1, 1, 0, stream, NULL, NULL)) ==
			 CUDA_ERROR_INVALID_HANDLE)
		slots_failed(&w.streams, (uint64_t)(uintptr_t)stream);
}

static void copy(void)
{
	char bytes[256] = { 0 };
	CUdeviceptr to = slots_any(&w.blocks), from = slots_any(&w.blocks);

	switch (random_below(3)) {
	case 0:
		T(cuMemcpyHtoDAsync_v2, (to, bytes, 1 + random_below(255), some_stream()));
		break;
	case 1:
		T(cuMemcpyDtoDAsync_v2, (to, from, 1 + random_below(255), some_stream()));
		break;
	default:
		T(cuMemsetD8Async, (to, 1, 1 + random_below(255), some_stream()));
	}
}

static void synchronize(void)
{
	if (random_below(3))
		T(cuStreamSynchronize, (some_stream()));
	else
		T(cuCtxSynchronize, ());
}

static void event_use(void)
{
	CUevent event = pointer(slots_any(&w.events));

	switch (random_below(5)) {
	case 0:
		if (T(cuEventCreate, (&event, 0)) == CUDA_SUCCESS)
			slots_add(&w.events, (uint64_t)(uintptr_t)event, 0);
		break;
	case 1:
		T(cuEventDestroy_v2, (pointer(slots_take(&w.events, NULL))));
		break;
	case 2:
		T(cuStreamWaitEvent, (some_stream(), event, 0));
		break;
	case 3:
		T(cuEventSynchronize, (event));
		break;
	default:
		T(cuEventRecord, (event, some_stream()));
	}
}

/* One at a time. What may not be called meanwhile ends it with an error. */
static void capture(void)
{
	const CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUstream stream = pointer(slots_any(&w.streams));
	CUgraph graph;

	if (!w.capturing) {
		if (T(cuStreamBeginCapture_v2, (stream, relaxed)) == CUDA_SUCCESS)
			w.capturing = stream;
		return;
	}
	if (random_below(3))
		return;
	if (T(cuStreamEndCapture, (w.capturing, &graph)) == CUDA_SUCCESS && graph)
		slots_add(&w.graphs, (uint64_t)(uintptr_t)graph, 0);
	w.capturing = NULL;
}

static void graph_make(void)
{
	CUgraphExec exec;

	if (T(cuGraphInstantiateWithFlags, (&exec, pointer(slots_any(&w.graphs)), 0)) ==
	    CUDA_SUCCESS)
		slots_add(&w.execs, (uint64_t)(uintptr_t)exec, 0);
}

static void graph_destroy(void)
{
	if (random_below(2))
		T(cuGraphDestroy, (pointer(slots_take(&w.graphs, NULL))));
	else
		T(cuGraphExecDestroy, (pointer(slots_take(&w.execs, NULL))));
}

/* Into a stream that is captured it becomes a graph in a graph. */
static void graph_launch(void)
{
	CUgraphExec exec = pointer(slots_any(&w.execs));

	if (T(cuGraphLaunch, (exec, some_stream())) == CUDA_ERROR_INVALID_VALUE)
		slots_failed(&w.execs, (uint64_t)(uintptr_t)exec);
}

const struct step work_steps[] = {
	{ stream_create, 12 }, { stream_destroy, 8 }, { launch, 60 },  { copy, 50 },
	{ synchronize, 25 },   { event_use, 25 },     { capture, 30 }, { graph_make, 10 },
	{ graph_destroy, 12 }, { graph_launch, 25 },  { NULL, 0 },
};
