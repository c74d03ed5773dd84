/* Handful: a fixed small number of calls that several programs make. */
#pragma once

#include "workload.h"

/* Sets up device 0, makes `launches` launches and half as many pairs of alloc and free, and
 * leaves the context in *ret for the caller to destroy, or destroys it if ret is NULL. */
static inline void handful(uint64_t launches, CUcontext *ret)
{
	static const char image[] = IMAGE_HEAD IMAGE_KERNEL("handful_kernel");
	CUcontext context;
	CUmodule module;
	CUfunction kernel;
	CUdeviceptr ptr;

	TRY(cuInit, (0));
	TRY(cuCtxCreate_v2, (&context, 0, 0));
	TRY(cuModuleLoadData, (&module, image));
	TRY(cuModuleGetFunction, (&kernel, module, "handful_kernel"));
	for (uint64_t i = 0; i < launches; i++)
		TRY(cuLaunchKernel, (kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
	for (uint64_t i = 0; i < launches / 2; i++) {
		TRY(cuMemAlloc_v2, (&ptr, 1024 + i));
		TRY(cuMemFree_v2, (ptr));
	}
	TRY(cuCtxSynchronize, ());
	if (ret)
		*ret = context;
	else
		TRY(cuCtxDestroy_v2, (context));
}
