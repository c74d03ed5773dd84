/* Counts: what the calls of the counts program work on. */
#pragma once

#include "workload.h"

#define BYTES 4096
#define CHUNK (2 << 20) /* the granularity of virtual memory */
#define BAD   0xdead0000

/* Objects that live as long as the program, and places for results that nobody reads */
struct world {
	CUcontext main;
	CUmodule image;
	CUlibrary shelf;
	CUfunction counted;
	CUkernel counted_kernel;
	CUstream stream, idle;
	CUevent event, done;
	CUdeviceptr a, b, managed;
	void *pinned;
	CUmemoryPool pool, default_pool;
	CUgraph drawing;
	CUgraphNode node;
	CUgraphExec exec;
	CUlaunchConfig config;
	CUDA_MEMCPY2D copy_2d;
	CUDA_MEMCPY3D copy_3d;
	CUDA_MEMCPY3D_PEER copy_peer;
	CUmemLocation place;
	CUmemAccessDesc access;
	CUmemAllocationProp prop;
	CUmemPoolProps pool_props;
	CUDA_KERNEL_NODE_PARAMS_v1 kernel_node_v1;
	CUDA_KERNEL_NODE_PARAMS_v2 kernel_node;
	CUDA_MEMSET_NODE_PARAMS set_node;
	CUDA_HOST_NODE_PARAMS host_node;
	cuuint64_t zero;
	int devices;

	int i, j;
	unsigned int u;
	size_t size, size2;
	unsigned long long id;
	cuuint64_t capture_id;
	float ms;
	const char *text;
	char chars[64];
	void *p;
	CUuuid uuid;
	CUcontext context;
	CUmodule module;
	CUlibrary library;
	CUfunction function;
	CUkernel kernel;
	CUdeviceptr ptr;
	CUmemoryPool some_pool;
	CUmemGenericAllocationHandle handle;
	CUgraph graph;
	CUgraphNodeType node_type;
	CUDA_GRAPH_INSTANTIATE_PARAMS instantiate;
	CUfunc_cache cache;
	CUmoduleLoadingMode mode;
	CUfunctionLoadingState loading;
	CUstreamCaptureStatus status;
	CUstreamCaptureMode capture_mode;
	CUpointer_attribute attributes[1];
};

extern struct world w;

void host_function(void *user);
void stream_callback(CUstream stream, CUresult status, void *user);
void world_make(void);
void world_end(void);

/* Successful uses of everything that has a start and an end. Each story is told another
 * number of times, so that its calls have another number. */
void stories_tell(void);
