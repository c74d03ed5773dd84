/* Op: what an operation does, how long it takes, and how it is told to the hooks. */
#include "fake.h"

#include <stdlib.h>
#include <string.h>

#define COPY_LATENCY_NS 1500
/* To get going: kernels of up to a block for each multiprocessor, and larger ones. */
#define MULTIPROCESSORS	   132
#define LAUNCH_OWN_NS	   700
#define LAUNCH_FULL_OWN_NS 1000
/* Bytes a nanosecond, about what an H200 moves over its links and within itself */
#define RATE_HOST   25
#define RATE_PEER   200
#define RATE_DEVICE 2000

uint64_t op_scaled(uint64_t ns)
{
	return (uint64_t)((double)ns * driver.time_scale);
}

uint64_t op_copy_bytes(const struct copy *copy)
{
	return copy->width * copy->height * copy->depth;
}

uint64_t op_duration(const struct op *op)
{
	uint64_t blocks, threads, rate;

	if (driver.time_scale == 0)
		return 0;
	switch (op->kind) {
	case FAKE_OP_KERNEL:
		blocks = (uint64_t)op->kernel.grid[0] * op->kernel.grid[1] * op->kernel.grid[2];
		threads = (uint64_t)op->kernel.block[0] * op->kernel.block[1] * op->kernel.block[2];
		if (op->kernel.function->timed)
			return op->kernel.asked_ns +
			       (blocks > MULTIPROCESSORS ? LAUNCH_FULL_OWN_NS : LAUNCH_OWN_NS);
		return op_scaled(function_cost(op->kernel.function, blocks, threads));
	case FAKE_OP_COPY:
		rate = op->copy_kind == FAKE_COPY_DTOD	 ? RATE_DEVICE
		       : op->copy_kind == FAKE_COPY_PTOP ? RATE_PEER
							 : RATE_HOST;
		return op_scaled(COPY_LATENCY_NS + op_copy_bytes(&op->copy.shape) / rate);
	case FAKE_OP_SET:
		return op_scaled(COPY_LATENCY_NS + op->set.width * op->set.height *
							   op->set.element_bytes / RATE_DEVICE);
	case FAKE_OP_GRAPH:
		return exec_duration(op->graph.exec);
	default:
		return 0;
	}
}

static void copy_apply(struct op *op)
{
	const struct copy *c = &op->copy.shape;

	for (size_t z = 0; z < c->depth; z++) {
		for (size_t y = 0; y < c->height; y++) {
			CUdeviceptr dst = c->dst + z * c->dst_slice + y * c->dst_pitch;
			CUdeviceptr src = c->src + z * c->src_slice + y * c->src_pitch;

			memmove((void *)(uintptr_t)dst, (void *)(uintptr_t)src, c->width);
		}
	}
	free(op->copy.staging);
	op->copy.staging = NULL;
}

static void set_apply(const struct op *op)
{
	for (size_t y = 0; y < op->set.height; y++) {
		char *row = (char *)(uintptr_t)(op->set.dst + y * op->set.pitch);

		if (op->set.element_bytes == 1) {
			memset(row, (int)op->set.value, op->set.width);
			continue;
		}
		for (size_t x = 0; x < op->set.width; x++)
			memcpy(row + x * op->set.element_bytes, &op->set.value,
			       op->set.element_bytes);
	}
}

void op_apply(struct op *op, uint64_t end_ns)
{
	books_count(op->kind);
	switch (op->kind) {
	case FAKE_OP_COPY:
		copy_apply(op);
		break;
	case FAKE_OP_SET:
		set_apply(op);
		break;
	case FAKE_OP_RECORD:
		event_reach(op->event.event, op->event.generation, end_ns);
		event_put(op->event.event);
		break;
	case FAKE_OP_WAIT:
		event_put(op->event.event);
		break;
	case FAKE_OP_FREE:
		memory_release(op->release.ptr, ~0u);
		break;
	default:
		break;
	}
}

void op_describe(struct fake_op_info *info, const struct op *op, const struct stream *stream)
{
	*info = (struct fake_op_info){
		.kind = op->kind,
		.correlation = op->correlation,
		.context_id = (uint32_t)stream->context->object.id,
		.stream_id = (uint32_t)stream->object.id,
		.device = stream->context->device->ordinal,
		.queued_ns = op->queued_ns,
	};
	switch (op->kind) {
	case FAKE_OP_KERNEL:
		info->name = op->kernel.function->name;
		memcpy(info->grid, op->kernel.grid, sizeof(info->grid));
		memcpy(info->block, op->kernel.block, sizeof(info->block));
		info->shared_bytes = op->kernel.shared_bytes;
		break;
	case FAKE_OP_COPY:
		info->copy_kind = op->copy_kind;
		info->bytes = op_copy_bytes(&op->copy.shape);
		break;
	case FAKE_OP_SET:
		info->value = op->set.value;
		info->bytes = op->set.width * op->set.height * op->set.element_bytes;
		break;
	case FAKE_OP_GRAPH:
		info->graph_id = exec_id(op->graph.exec);
		break;
	default:
		break;
	}
}
