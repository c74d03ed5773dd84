/* Function: questions about one function or kernel. */
#include "fake.h"

#define SM_THREADS	2048
#define SM_BLOCKS	32
#define SM_SHARED_BYTES 233472

CUresult kernel_get_library(CUlibrary *ret, CUkernel handle)
{
	struct function *kernel = arena_check(&arena_kernels, handle);

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!kernel)
		return CUDA_ERROR_INVALID_HANDLE;
	*ret = (CUlibrary)kernel->library;
	return CUDA_SUCCESS;
}

CUresult kernel_get_name(const char **name, CUkernel handle)
{
	struct function *kernel = arena_check(&arena_kernels, handle);

	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!kernel)
		return CUDA_ERROR_INVALID_HANDLE;
	*name = kernel->name;
	return CUDA_SUCCESS;
}

static CUresult attribute_get(int *value, CUfunction_attribute attribute, const struct function *f)
{
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	switch (attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*value = 1024;
		break;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		*value = 32;
		break;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION:
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		*value = 90;
		break;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*value = f->attributes[0];
		break;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		*value = f->attributes[1];
		break;
	default:
		*value = 0;
	}
	return CUDA_SUCCESS;
}

static CUresult attribute_set(struct function *f, CUfunction_attribute attribute, int value)
{
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
		f->attributes[0] = value;
	else if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
		f->attributes[1] = value;
	else
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult kernel_get_attribute(int *value, CUfunction_attribute attribute, CUkernel handle,
			      CUdevice dev)
{
	if (!device_check(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	return attribute_get(value, attribute, arena_check(&arena_kernels, handle));
}

CUresult kernel_set_attribute(CUfunction_attribute attribute, int value, CUkernel handle,
			      CUdevice dev)
{
	if (!device_check(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	return attribute_set(arena_check(&arena_kernels, handle), attribute, value);
}

CUresult function_get_attribute(int *value, CUfunction_attribute attribute, CUfunction handle)
{
	return attribute_get(value, attribute, arena_check(&arena_functions, handle));
}

CUresult function_set_attribute(CUfunction handle, CUfunction_attribute attribute, int value)
{
	return attribute_set(arena_check(&arena_functions, handle), attribute, value);
}

CUresult function_get_occupancy(int *blocks, CUfunction handle, int threads, size_t shared_bytes)
{
	int most;

	if (!blocks || threads <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!function_check(handle))
		return CUDA_ERROR_INVALID_HANDLE;
	*blocks = SM_THREADS / threads < SM_BLOCKS ? SM_THREADS / threads : SM_BLOCKS;
	most = shared_bytes ? (int)(SM_SHARED_BYTES / shared_bytes) : *blocks;
	*blocks = most < *blocks ? most : *blocks;
	return CUDA_SUCCESS;
}

/* As in the real driver, the cuFunc calls do not take a CUkernel. */
CUresult function_get_name(const char **name, CUfunction handle)
{
	struct function *f = arena_check(&arena_functions, handle);

	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	*name = f->name;
	return CUDA_SUCCESS;
}

CUresult function_get_module(CUmodule *ret, CUfunction handle)
{
	struct function *f = arena_check(&arena_functions, handle);

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	*ret = (CUmodule)f->module;
	return CUDA_SUCCESS;
}

CUresult function_set_cache(CUfunction handle, CUfunc_cache cache)
{
	if (!function_check(handle))
		return CUDA_ERROR_INVALID_HANDLE;
	if ((unsigned int)cache > CU_FUNC_CACHE_PREFER_EQUAL)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* Our functions have no parameters: every index is one too many. */
CUresult function_get_param(CUfunction handle, size_t index, size_t *offset, size_t *size)
{
	(void)index;
	(void)size;
	if (!offset)
		return CUDA_ERROR_INVALID_VALUE;
	if (!arena_check(&arena_functions, handle))
		return CUDA_ERROR_INVALID_HANDLE;
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult function_is_loaded(CUfunctionLoadingState *state, CUfunction handle)
{
	if (!state)
		return CUDA_ERROR_INVALID_VALUE;
	if (!function_check(handle))
		return CUDA_ERROR_INVALID_HANDLE;
	*state = CU_FUNCTION_LOADING_STATE_LOADED;
	return CUDA_SUCCESS;
}

CUresult function_load(CUfunction handle)
{
	return function_check(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
