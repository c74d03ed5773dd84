/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* stack_id.h: the id of a call stack: a hash over its process and its frames, the same whoever
 * walks it.
 */
#ifndef TS_STACK_ID_H
#define TS_STACK_ID_H

#include "proto/event.h"
#include "proto/python.h"

/* Over the seed of a process and the frames of a stack: its id. */
static inline __u64 stack_hash_frame(__u64 hash, __u64 frame)
{
	hash = (hash ^ frame) * 0xff51afd7ed558ccd;
	return hash ^ hash >> 32;
}

/* A stack that was cut short is not one that ends there. 0 stands for none. */
static inline __u64 stack_hash_end(__u64 hash, __u32 end)
{
	if (end == TS_END_MISSED)
		hash = stack_hash_frame(hash, end);
	return hash ? hash : 1;
}

/* Words of 8 bytes, of whichever type: __u64 is not the uint64_t of C. */
static inline __u64 stack_id_of(__u64 seed, const void *frames, __u32 count, __u32 end)
{
	__u64 hash = seed, frame;

	for (__u32 i = 0; i < TS_STACK_FRAMES_MAX && i < count; i++) {
		__builtin_memcpy(&frame, (const char *)frames + i * sizeof(frame), sizeof(frame));
		hash = stack_hash_frame(hash, frame);
	}
	return stack_hash_end(hash, end);
}

/* Its flags are not part of it. */
#define TS_PYTHON_SEED 1
static inline __u64 stack_hash_python(__u64 hash, const struct ts_python_frame *frame)
{
	return stack_hash_frame(hash, frame->code ^ frame->position << 16 ^ frame->check);
}

/* Of what tells a code object apart. */
static inline __u64 stack_hash_code(const __u64 word[TS_PYTHON_CHECK])
{
	__u64 even = 0, odd = 0;

	for (int i = 0; i + 1 < TS_PYTHON_CHECK; i += 2) {
		even = (even ^ word[i]) * 0x9e3779b97f4a7c15;
		odd = (odd ^ word[i + 1]) * 0xc4ceb9fe1a85ec53;
	}
	return stack_hash_frame(even ^ word[TS_PYTHON_CHECK - 1], odd ^ odd >> 32);
}

/* The id of a stack with frames of Python, by the one without. */
static inline __u64 stack_id_with_python(__u64 id, const void *frames, __u32 count)
{
	const struct ts_python_frame *frame = frames;
	__u64 hash = TS_PYTHON_SEED;

	for (__u32 i = 0; i < TS_STACK_PYTHON_MAX && i < count; i++)
		hash = stack_hash_python(hash, &frame[i]);
	hash = count ? stack_hash_frame(id, hash) : id;
	return hash ? hash : 1;
}

/* Of a stack of PyTorch's backward pass, with that of the forward pass. */
static inline __u64 stack_id_backward(__u64 id, __u64 forward, __u64 passed)
{
	return stack_hash_frame(id, forward + passed);
}

#endif
