/* Tensor calls: what a report of PyTorch's allocator costs, at the bottom of a stack as deep as is
 * asked for. For each line of its input "DEVICE TIMES", of which 0 is the host and 1 a GPU, it
 * reports that many blocks, passes the probe of libc10_cuda for each, gives each of them back, and
 * prints the nanoseconds of one report.
 * tensor_calls DEPTH */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "probed.h"
#include <cuda.h>

void report(void *address, int64_t bytes, size_t allocated, size_t reserved,
	    uint16_t device) __asm__("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");

#define BYTES	 4096
#define RESERVED (1ul << 30)

static __attribute__((noinline)) void call(unsigned depth, uint16_t device, unsigned long times)
{
	if (depth > 0) {
		call(depth - 1, device, times);
		__asm__ volatile("");
		return;
	}
	for (unsigned long i = 0; i < times; i++) {
		void *address = (void *)(0x7f0000000000 + i % 1024 * BYTES);

		report(address, BYTES, BYTES, RESERVED, device);
		if (device)
			c10_cuda_tell(address, BYTES - 8);
		report(address, -BYTES, 0, RESERVED, device);
	}
}

int main(int argc, char **argv)
{
	unsigned long depth = argc > 1 ? strtoul(argv[1], NULL, 10) : 20, device, times;
	CUcontext context;
	char line[64], *end;

	if (cuInit(0) || cuCtxCreate_v2(&context, 0, 0))
		return 1;
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		uint64_t begin_ns, took_ns;

		device = strtoul(line, &end, 10);
		times = strtoul(end, NULL, 10);
		begin_ns = clock_ns(CLOCK_MONOTONIC);
		call((unsigned)depth, (uint16_t)device, times);
		took_ns = clock_ns(CLOCK_MONOTONIC) - begin_ns;
		printf("%.1f\n", (double)took_ns / (2.0 * (double)(times ? times : 1)));
		fflush(stdout);
	}
	return 0;
}
