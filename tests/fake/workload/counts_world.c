/* Counts, world: the objects that the counted calls work on. */
#include "counts.h"

struct world w;

void host_function(void *user)
{
	(void)user;
}

void stream_callback(CUstream stream, CUresult status, void *user)
{
	(void)stream;
	(void)status;
	(void)user;
}

static void world_make_copies(void)
{
	w.copy_2d = (CUDA_MEMCPY2D){
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = w.a,
		.srcPitch = 64,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = w.b,
		.dstPitch = 64,
		.WidthInBytes = 32,
		.Height = 4,
	};
	w.copy_3d = (CUDA_MEMCPY3D){
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = w.a,
		.srcPitch = 64,
		.srcHeight = 4,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = w.b,
		.dstPitch = 64,
		.dstHeight = 4,
		.WidthInBytes = 32,
		.Height = 4,
		.Depth = 2,
	};
	w.copy_peer = (CUDA_MEMCPY3D_PEER){
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = w.a,
		.srcContext = w.main,
		.srcPitch = 64,
		.srcHeight = 4,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = w.b,
		.dstContext = w.main,
		.dstPitch = 64,
		.dstHeight = 4,
		.WidthInBytes = 32,
		.Height = 4,
		.Depth = 2,
	};
}

static void world_make_shapes(void)
{
	w.place = (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_DEVICE };
	w.access = (CUmemAccessDesc){ w.place, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	w.prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	w.prop.location = w.place;
	w.pool_props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	w.pool_props.location = w.place;
	w.attributes[0] = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
	w.capture_mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	w.config = (CUlaunchConfig){ 1, 1, 1, 32, 1, 1, 0, w.stream, NULL, 0 };
	w.kernel_node_v1 = (CUDA_KERNEL_NODE_PARAMS_v1){ .func = w.counted,
							 .gridDimX = 1,
							 .gridDimY = 1,
							 .gridDimZ = 1,
							 .blockDimX = 32,
							 .blockDimY = 1,
							 .blockDimZ = 1 };
	w.kernel_node = (CUDA_KERNEL_NODE_PARAMS_v2){ .func = w.counted,
						      .gridDimX = 1,
						      .gridDimY = 1,
						      .gridDimZ = 1,
						      .blockDimX = 32,
						      .blockDimY = 1,
						      .blockDimZ = 1 };
	w.set_node = (CUDA_MEMSET_NODE_PARAMS){
		.dst = w.a, .pitch = BYTES, .elementSize = 1, .width = BYTES, .height = 1
	};
	w.host_node = (CUDA_HOST_NODE_PARAMS){ .fn = host_function };
}

void world_make(void)
{
	static const char image[] = IMAGE_HEAD IMAGE_KERNEL("counted_kernel");

	TRY(cuInit, (0));
	TRY(cuDeviceGetCount, (&w.devices));
	TRY(cuCtxCreate_v2, (&w.main, 0, 0));
	TRY(cuModuleLoadData, (&w.image, image));
	TRY(cuModuleGetFunction, (&w.counted, w.image, "counted_kernel"));
	TRY(cuLibraryLoadData, (&w.shelf, image, NULL, NULL, 0, NULL, NULL, 0));
	TRY(cuLibraryGetKernel, (&w.counted_kernel, w.shelf, "counted_kernel"));
	TRY(cuStreamCreate, (&w.stream, CU_STREAM_NON_BLOCKING));
	TRY(cuStreamCreate, (&w.idle, CU_STREAM_NON_BLOCKING));
	TRY(cuEventCreate, (&w.event, CU_EVENT_DISABLE_TIMING));
	TRY(cuEventCreate, (&w.done, CU_EVENT_DEFAULT));
	TRY(cuEventRecord, (w.done, w.idle));
	TRY(cuEventSynchronize, (w.done));
	TRY(cuMemAlloc_v2, (&w.a, BYTES));
	TRY(cuMemAlloc_v2, (&w.b, BYTES));
	TRY(cuMemAllocManaged, (&w.managed, BYTES, CU_MEM_ATTACH_GLOBAL));
	TRY(cuMemHostAlloc, (&w.pinned, BYTES, CU_MEMHOSTALLOC_PORTABLE));
	world_make_copies();
	world_make_shapes();
	TRY(cuMemPoolCreate, (&w.pool, &w.pool_props));
	TRY(cuDeviceGetDefaultMemPool, (&w.default_pool, 0));
	TRY(cuGraphCreate, (&w.drawing, 0));
	TRY(cuGraphAddKernelNode_v2, (&w.node, w.drawing, NULL, 0, &w.kernel_node));
	TRY(cuGraphInstantiateWithFlags, (&w.exec, w.drawing, 0));
}

void world_end(void)
{
	TRY(cuCtxSynchronize, ());
	TRY(cuGraphExecDestroy, (w.exec));
	TRY(cuGraphDestroy, (w.drawing));
	TRY(cuMemPoolDestroy, (w.pool));
	TRY(cuMemFree_v2, (w.a));
	TRY(cuMemFree_v2, (w.b));
	TRY(cuMemFree_v2, (w.managed));
	TRY(cuMemFreeHost, (w.pinned));
	TRY(cuEventDestroy_v2, (w.event));
	TRY(cuEventDestroy_v2, (w.done));
	TRY(cuStreamDestroy_v2, (w.stream));
	TRY(cuStreamDestroy_v2, (w.idle));
	TRY(cuLibraryUnload, (w.shelf));
	TRY(cuModuleUnload, (w.image));
	TRY(cuCtxDestroy_v2, (w.main));
}
