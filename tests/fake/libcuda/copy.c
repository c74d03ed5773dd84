/* Copy: checks copies and sets and makes operations of them. */
#include "fake.h"

#define PITCH_MAX 2147483647u

/* Memory that a device can reach: its own, another's, or pinned host memory. */
static bool copy_reachable(CUdeviceptr ptr, size_t bytes)
{
	return region_holds(ptr, bytes) || vmm_holds(ptr, bytes) ||
	       host_is_pinned((void *)(uintptr_t)ptr, bytes);
}

/* The device that holds the address, or -1 for the host. */
static int copy_side(CUdeviceptr ptr)
{
	struct block *block = region_find(ptr);
	uint64_t bytes;
	CUdeviceptr base;
	int device = -1;

	if (block)
		return block->device;
	vmm_find(ptr, &base, &bytes, &device);
	return device;
}

static enum fake_copy_kind copy_kind(CUdeviceptr dst, CUdeviceptr src)
{
	int to = copy_side(dst), from = copy_side(src);

	if (from < 0)
		return to < 0 ? FAKE_COPY_HTOH : FAKE_COPY_HTOD;
	if (to < 0)
		return FAKE_COPY_DTOH;
	return from == to ? FAKE_COPY_DTOD : FAKE_COPY_PTOP;
}

/* Asks for a side to be reachable memory unless the call says that it is the host's. */
static CUresult copy_check(CUdeviceptr ptr, size_t bytes, bool host)
{
	if (!ptr)
		return CUDA_ERROR_INVALID_VALUE;
	return host || copy_reachable(ptr, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult copy_submit(struct op *op, CUstream handle, bool wait)
{
	struct stream *stream = stream_resolve(handle);

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	return stream_submit(stream, op, wait);
}

CUresult copy_linear(CUdeviceptr dst, CUdeviceptr src, size_t bytes, enum fake_copy_kind kind,
		     CUstream handle, bool wait)
{
	struct op op = {
		.kind = FAKE_OP_COPY,
		.copy.shape = { dst, src, bytes, bytes, bytes, bytes, bytes, 1, 1 },
	};
	CUresult r;

	if (bytes == 0)
		return CUDA_SUCCESS;
	r = copy_check(dst, bytes, kind == FAKE_COPY_ANY || kind == FAKE_COPY_DTOH);
	if (r == CUDA_SUCCESS)
		r = copy_check(src, bytes, kind == FAKE_COPY_ANY || kind == FAKE_COPY_HTOD);
	if (r != CUDA_SUCCESS)
		return r;
	/* "Device to device" between two devices is a peer copy, whatever the call's name. */
	op.copy_kind = (uint8_t)copy_kind(dst, src);
	return copy_submit(&op, handle, wait);
}

CUresult copy_peer(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context,
		   size_t bytes, CUstream stream, bool wait)
{
	if (!context_check(dst_context) || !context_check(src_context))
		return CUDA_ERROR_INVALID_CONTEXT;
	return copy_linear(dst, src, bytes, FAKE_COPY_DTOD, stream, wait);
}

static CUresult copy_base(CUdeviceptr *base, bool *host, CUmemorytype type, CUdeviceptr device,
			  const void *host_ptr)
{
	*host = type == CU_MEMORYTYPE_HOST;
	if (type == CU_MEMORYTYPE_HOST)
		*base = (CUdeviceptr)(uintptr_t)host_ptr;
	else if (type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED)
		*base = device;
	else
		return CUDA_ERROR_INVALID_VALUE; /* arrays are not simulated */
	return *base ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Where the last byte of a side ends, seen from its base. */
static size_t copy_extent(const struct copy *c, size_t pitch, size_t slice)
{
	return (c->depth - 1) * slice + (c->height - 1) * pitch + c->width;
}

CUresult copy_shape_3d(struct op *op, const CUDA_MEMCPY3D *p)
{
	struct copy *c = &op->copy.shape;
	bool dst_host, src_host;
	CUresult r;

	*op = (struct op){ .kind = FAKE_OP_COPY };
	r = copy_base(&c->dst, &dst_host, p->dstMemoryType, p->dstDevice, p->dstHost);
	if (r == CUDA_SUCCESS)
		r = copy_base(&c->src, &src_host, p->srcMemoryType, p->srcDevice, p->srcHost);
	if (r != CUDA_SUCCESS)
		return r;
	c->width = p->WidthInBytes;
	c->height = p->Height;
	c->depth = p->Depth;
	c->dst_pitch = p->dstPitch ? p->dstPitch : p->dstXInBytes + c->width;
	c->src_pitch = p->srcPitch ? p->srcPitch : p->srcXInBytes + c->width;
	if (c->dst_pitch < p->dstXInBytes + c->width || c->src_pitch < p->srcXInBytes + c->width ||
	    c->dst_pitch > PITCH_MAX || c->src_pitch > PITCH_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	c->dst_slice = c->dst_pitch * (p->dstHeight ? p->dstHeight : c->height);
	c->src_slice = c->src_pitch * (p->srcHeight ? p->srcHeight : c->height);
	c->dst += p->dstXInBytes + p->dstY * c->dst_pitch + p->dstZ * c->dst_slice;
	c->src += p->srcXInBytes + p->srcY * c->src_pitch + p->srcZ * c->src_slice;
	if (op_copy_bytes(c) == 0)
		return CUDA_SUCCESS;
	r = copy_check(c->dst, copy_extent(c, c->dst_pitch, c->dst_slice), dst_host);
	if (r == CUDA_SUCCESS)
		r = copy_check(c->src, copy_extent(c, c->src_pitch, c->src_slice), src_host);
	op->copy_kind = (uint8_t)copy_kind(c->dst, c->src);
	return r;
}

CUresult copy_3d(const CUDA_MEMCPY3D *params, CUstream stream, bool wait)
{
	struct op op;
	CUresult r;

	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	r = copy_shape_3d(&op, params);
	if (r != CUDA_SUCCESS || op_copy_bytes(&op.copy.shape) == 0)
		return r;
	return copy_submit(&op, stream, wait);
}

CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER *p, CUstream stream, bool wait)
{
	CUDA_MEMCPY3D plain;

	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	if (!context_check(p->srcContext) || !context_check(p->dstContext))
		return CUDA_ERROR_INVALID_CONTEXT;
	plain = (CUDA_MEMCPY3D){
		.srcXInBytes = p->srcXInBytes,
		.srcY = p->srcY,
		.srcZ = p->srcZ,
		.srcMemoryType = p->srcMemoryType,
		.srcHost = p->srcHost,
		.srcDevice = p->srcDevice,
		.srcPitch = p->srcPitch,
		.srcHeight = p->srcHeight,
		.dstXInBytes = p->dstXInBytes,
		.dstY = p->dstY,
		.dstZ = p->dstZ,
		.dstMemoryType = p->dstMemoryType,
		.dstHost = p->dstHost,
		.dstDevice = p->dstDevice,
		.dstPitch = p->dstPitch,
		.dstHeight = p->dstHeight,
		.WidthInBytes = p->WidthInBytes,
		.Height = p->Height,
		.Depth = p->Depth,
	};
	return copy_3d(&plain, stream, wait);
}

CUresult copy_2d(const CUDA_MEMCPY2D *p, CUstream stream, bool wait)
{
	CUDA_MEMCPY3D flat;

	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	flat = (CUDA_MEMCPY3D){
		.srcXInBytes = p->srcXInBytes,
		.srcY = p->srcY,
		.srcMemoryType = p->srcMemoryType,
		.srcHost = p->srcHost,
		.srcDevice = p->srcDevice,
		.srcPitch = p->srcPitch,
		.dstXInBytes = p->dstXInBytes,
		.dstY = p->dstY,
		.dstMemoryType = p->dstMemoryType,
		.dstHost = p->dstHost,
		.dstDevice = p->dstDevice,
		.dstPitch = p->dstPitch,
		.WidthInBytes = p->WidthInBytes,
		.Height = p->Height,
		.Depth = 1,
	};
	return copy_3d(&flat, stream, wait);
}

CUresult set_shape(struct op *op, CUdeviceptr dst, size_t pitch, uint32_t value,
		   uint32_t element_bytes, size_t width, size_t height)
{
	size_t row = width * element_bytes;

	*op = (struct op){
		.kind = FAKE_OP_SET,
		.set = { dst, pitch ? pitch : row, width, height, value, element_bytes },
	};
	if (element_bytes != 1 && element_bytes != 2 && element_bytes != 4)
		return CUDA_ERROR_INVALID_VALUE;
	if (dst % element_bytes || (height > 1 && op->set.pitch < row))
		return CUDA_ERROR_INVALID_VALUE;
	if (row == 0 || height == 0)
		return CUDA_SUCCESS;
	return copy_check(dst, (height - 1) * op->set.pitch + row, false);
}

CUresult set_2d(CUdeviceptr dst, size_t pitch, uint32_t value, uint32_t element_bytes, size_t width,
		size_t height, CUstream stream, bool wait)
{
	struct op op;
	CUresult r = set_shape(&op, dst, pitch, value, element_bytes, width, height);

	if (r != CUDA_SUCCESS || width == 0 || height == 0)
		return r;
	return copy_submit(&op, stream, wait);
}

CUresult set_linear(CUdeviceptr dst, uint32_t value, uint32_t element_bytes, size_t count,
		    CUstream stream, bool wait)
{
	return set_2d(dst, 0, value, element_bytes, count, 1, stream, wait);
}
