/* driver.h: the GPU's driver library, loaded at run time. The parts of its stable interface that we
 * need are declared here, so building needs no CUDA toolkit. */
#ifndef TS_CLIENT_REPLAY_GPU_DRIVER_H
#define TS_CLIENT_REPLAY_GPU_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/cleanup.h"

typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef uint64_t CUdeviceptr;

#define CU_STREAM_NON_BLOCKING	     1
#define CU_STREAM_LEGACY	     ((CUstream)1)
#define CU_STREAM_PER_THREAD	     ((CUstream)2)
#define CU_EVENT_DISABLE_TIMING	     2
#define CU_MEM_ATTACH_GLOBAL	     1
#define CU_CAPTURE_MODE_RELAXED	     2
#define CU_ATTRIBUTE_MULTIPROCESSORS 16
#define CU_FUNC_MAX_DYNAMIC_SHARED   8

/* name, parameters */
#define REPLAY_GPU_DRIVER(X)                                                                       \
	X(cuInit, (unsigned int flags))                                                            \
	X(cuGetErrorName, (int result, const char **ret))                                          \
	X(cuDeviceGetCount, (int *ret))                                                            \
	X(cuDeviceGetAttribute, (int *ret, int attribute, int device))                             \
	X(cuDevicePrimaryCtxRetain, (CUcontext * ret, int device))                                 \
	X(cuCtxSetCurrent, (CUcontext context))                                                    \
	X(cuCtxSynchronize, (void))                                                                \
	X(cuMemGetInfo_v2, (size_t * ret_free, size_t * ret_total))                                \
	X(cuModuleLoadData, (CUmodule * ret, const void *image))                                   \
	X(cuModuleGetFunction, (CUfunction * ret, CUmodule module, const char *name))              \
	X(cuFuncSetAttribute, (CUfunction function, int attribute, int value))                     \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessor,                                             \
	  (int *ret, CUfunction function, int threads, size_t shared_bytes))                       \
	X(cuLaunchKernel,                                                                          \
	  (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,     \
	   unsigned int block_x, unsigned int block_y, unsigned int block_z,                       \
	   unsigned int shared_bytes, CUstream stream, void **parameter, void **extra))            \
	X(cuStreamCreate, (CUstream * ret, unsigned int flags))                                    \
	X(cuStreamSynchronize, (CUstream stream))                                                  \
	X(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags))                 \
	X(cuStreamBeginCapture_v2, (CUstream stream, int mode))                                    \
	X(cuStreamEndCapture, (CUstream stream, CUgraph * ret))                                    \
	X(cuGraphInstantiateWithFlags,                                                             \
	  (CUgraphExec * ret, CUgraph graph, unsigned long long flags))                            \
	X(cuGraphLaunch, (CUgraphExec exec, CUstream stream))                                      \
	X(cuEventCreate, (CUevent * ret, unsigned int flags))                                      \
	X(cuEventRecord, (CUevent event, CUstream stream))                                         \
	X(cuEventSynchronize, (CUevent event))                                                     \
	X(cuMemAlloc_v2, (CUdeviceptr * ret, size_t size))                                         \
	X(cuMemFree_v2, (CUdeviceptr address))                                                     \
	X(cuMemAllocManaged, (CUdeviceptr * ret, size_t size, unsigned int flags))                 \
	X(cuMemAllocAsync, (CUdeviceptr * ret, size_t size, CUstream stream))                      \
	X(cuMemFreeAsync, (CUdeviceptr address, CUstream stream))                                  \
	X(cuMemHostAlloc, (void **ret, size_t size, unsigned int flags))                           \
	X(cuMemFreeHost, (void *address))                                                          \
	X(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t size))                        \
	X(cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t size))                              \
	X(cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t size))                        \
	X(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t size, CUstream stream))  \
	X(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t size, CUstream stream))        \
	X(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream))  \
	X(cuMemsetD8_v2, (CUdeviceptr to, unsigned char value, size_t count))                      \
	X(cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t count, CUstream stream))

/* Each returns a CUresult, 0 on success. */
struct gpu_driver {
	void *library;
#define X(name, parameters) int(*name) parameters;
	REPLAY_GPU_DRIVER(X)
#undef X
};

/* Prints an error if something is missing. */
int gpu_driver_open(struct gpu_driver **ret);
struct gpu_driver *gpu_driver_free(struct gpu_driver *driver);
/* "CUDA_ERROR_OUT_OF_MEMORY" */
const char *gpu_driver_error(const struct gpu_driver *driver, int result);

CLEANUP_DEFINE(struct gpu_driver, gpu_driver_free)

#endif
