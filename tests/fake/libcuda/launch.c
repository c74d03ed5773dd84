/* Launch: checks launches of kernels and host functions and makes operations of them. */
#include "fake.h"

#include <string.h>

#define BLOCK_THREADS_MAX 1024
#define BLOCK_Z_MAX	  64
#define GRID_X_MAX	  2147483647u
#define GRID_YZ_MAX	  65535
#define SHARED_BYTES_MAX  232448

CUresult launch_shape(struct op *op, struct function *function, const uint32_t grid[3],
		      const uint32_t block[3], uint32_t shared_bytes)
{
	if (!grid[0] || !grid[1] || !grid[2] || !block[0] || !block[1] || !block[2])
		return CUDA_ERROR_INVALID_VALUE;
	if (grid[0] > GRID_X_MAX || grid[1] > GRID_YZ_MAX || grid[2] > GRID_YZ_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (block[0] > BLOCK_THREADS_MAX || block[1] > BLOCK_THREADS_MAX ||
	    block[2] > BLOCK_Z_MAX || block[0] * block[1] * block[2] > BLOCK_THREADS_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (shared_bytes > SHARED_BYTES_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	op->kind = FAKE_OP_KERNEL;
	op->kernel.function = function;
	memcpy(op->kernel.grid, grid, sizeof(op->kernel.grid));
	memcpy(op->kernel.block, block, sizeof(op->kernel.block));
	op->kernel.shared_bytes = shared_bytes;
	op->kernel.asked_ns = 0;
	return CUDA_SUCCESS;
}

CUresult launch_kernel(CUfunction handle, uint32_t grid_x, uint32_t grid_y, uint32_t grid_z,
		       uint32_t block_x, uint32_t block_y, uint32_t block_z, uint32_t shared_bytes,
		       CUstream stream_handle, void **parameter)
{
	struct function *function = function_check(handle);
	struct stream *stream = stream_resolve(stream_handle);
	const uint32_t grid[3] = { grid_x, grid_y, grid_z };
	const uint32_t block[3] = { block_x, block_y, block_z };
	struct op op;
	CUresult r;

	if (unlikely(!function || !stream))
		return CUDA_ERROR_INVALID_HANDLE;
	if (unlikely(function->context && function->context != stream->context))
		return CUDA_ERROR_INVALID_HANDLE;
	r = launch_shape(&op, function, grid, block, shared_bytes);
	if (unlikely(r != CUDA_SUCCESS))
		return r;
	if (function->timed && parameter)
		op.kernel.asked_ns = *(const uint64_t *)parameter[0];
	return stream_submit(stream, &op, false);
}

CUresult launch_config(const CUlaunchConfig *c, CUfunction function, CUstream stream_default)
{
	if (!c || (c->numAttrs && !c->attrs))
		return CUDA_ERROR_INVALID_VALUE;
	return launch_kernel(function, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX,
			     c->blockDimY, c->blockDimZ, c->sharedMemBytes,
			     c->hStream ? c->hStream : stream_default, NULL);
}

CUresult launch_host(CUstream handle, CUhostFn fn, void *user)
{
	struct stream *stream = stream_resolve(handle);
	struct op op = { .kind = FAKE_OP_HOST, .host = { .fn = fn, .user = user } };

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!fn)
		return CUDA_ERROR_INVALID_VALUE;
	return stream_submit(stream, &op, false);
}
