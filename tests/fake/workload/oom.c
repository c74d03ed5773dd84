/* Oom: fails to get memory as its input says, a line each, and says after each what it got:
 * `take BYTES` from the driver, for good; `loop N BYTES` the same many times; `free`: what was
 * taken last; `info`: asks how much is free; `tensor BYTES` from the simulated libc10, `holes`:
 * gives every other tensor back, `empty`: its cache. */
#include "workload.h"

#include <string.h>

#include "allocator.h"

#define KEPT 4096

static CUdeviceptr taken[KEPT];
static void *tensor[KEPT];
static unsigned int taken_count, tensor_count;

static NOINLINE int take(size_t bytes)
{
	CUdeviceptr address;
	int code = (int)cuMemAlloc_v2(&address, bytes);

	if (code == 0 && taken_count < KEPT)
		taken[taken_count++] = address;
	return code;
}

static NOINLINE int take_tensor(size_t bytes)
{
	void *address = c10_malloc(bytes);

	if (address && tensor_count < KEPT)
		tensor[tensor_count++] = address;
	return !address;
}

static int holes(void)
{
	unsigned int given = 0;

	for (unsigned int i = 0; i < tensor_count; i += 2) {
		if (!tensor[i])
			continue;
		c10_free(tensor[i]);
		tensor[i] = NULL;
		given++;
	}
	return (int)given;
}

static int obey(const char *line)
{
	size_t bytes, left, total, count;
	int code = 0;

	if (sscanf(line, "take %zu", &bytes) == 1)
		return take(bytes);
	if (sscanf(line, "tensor %zu", &bytes) == 1)
		return take_tensor(bytes);
	if (sscanf(line, "loop %zu %zu", &count, &bytes) == 2) {
		/* Sizes differ, so that no failure is one that was tried again. */
		while (count--)
			code = take(bytes + count);
		return code;
	}
	if (strncmp(line, "holes", 5) == 0)
		return holes();
	if (strncmp(line, "info", 4) == 0)
		return (int)cuMemGetInfo_v2(&left, &total);
	if (strncmp(line, "free", 4) == 0 && taken_count)
		return (int)cuMemFree_v2(taken[--taken_count]);
	if (strncmp(line, "empty", 5) == 0)
		c10_empty_cache();
	return 0;
}

int main(int argc, char **argv)
{
	CUcontext context;
	char line[64];

	workload_options(argc, argv, NULL, 0);
	TRY(cuInit, (0));
	TRY(cuCtxCreate_v2, (&context, 0, 0));
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		printf("%d\n", obey(line));
		fflush(stdout);
	}
	return 0;
}
