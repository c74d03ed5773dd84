/* kernel.h: what stands in for the kernels of a recording: one for each name, all of
 * which wait until a time has passed.
 *
 * The first block of a launch notes the time in the launch's slot, so that all of its blocks know
 * when it began. Blocks that the device cannot hold at once come in waves: those of a wave leave
 * together, and the last when the duration is over. Where a wave is too short to look there, its
 * blocks count from when they began themselves.
 */
#ifndef TS_CLIENT_REPLAY_GPU_KERNEL_H
#define TS_CLIENT_REPLAY_GPU_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is launched without a name, or with one that is none for PTX. */
#define GPU_KERNEL_NAMELESS "tracesmith_kernel"

/* Arguments of each of them, in this order: */
struct gpu_kernel_arguments {
	uint64_t duration_ns;
	uint64_t slot;	   /* address of GPU_KERNEL_SLOT bytes that are 0 */
	uint64_t old_ns;   /* what began longer ago was another run of it, in a graph */
	float block_waves; /* how much of a wave a block is: 1 by how many the device holds */
	float wave_part;   /* how much of the duration a wave is */
};
#define GPU_KERNEL_SLOT 8

/* Whether a symbol can be the name of a kernel in PTX. */
bool gpu_kernel_named(const char *symbol);
/* The text of a module with kernels of these names, to be freed; NULL: no memory. */
char *gpu_kernel_text(const char *const *symbol, size_t count);

#endif
