/* kernel.h: the stand-ins for the kernels of a recording: one for each name, and all just wait for
 * a given time.
 *
 * The first block of a launch stores the time in the launch's slot, so that all blocks know when it
 * started. Blocks that do not fit the device at once run in waves: the blocks of a wave exit
 * together, the last wave when the duration is over. If a wave is too short to look at the slot,
 * its blocks count from their own start. */
#ifndef TS_CLIENT_REPLAY_GPU_KERNEL_H
#define TS_CLIENT_REPLAY_GPU_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* For kernels without a name, or with one that is invalid in PTX. */
#define GPU_KERNEL_NAMELESS "tracesmith_kernel"

/* Arguments of each kernel, in this order: */
struct gpu_kernel_arguments {
	uint64_t duration_ns;
	uint64_t slot;	   /* address of GPU_KERNEL_SLOT zero bytes */
	uint64_t old_ns;   /* an older start was another run of it, in a graph */
	float block_waves; /* a block's share of a wave: 1 / blocks that the device holds */
	float wave_part;   /* a wave's share of the duration */
};
#define GPU_KERNEL_SLOT 8

/* Whether a symbol can be the name of a kernel in PTX. */
bool gpu_kernel_named(const char *symbol);
/* The source of a module with kernels of these names, to be freed; NULL: no memory. */
char *gpu_kernel_text(const char *const *symbol, size_t count);

#endif
