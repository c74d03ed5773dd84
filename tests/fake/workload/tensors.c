/* Tensors: blocks of the simulated libc10, taken and given back at random, with reports of host
 * memory among them; a few are kept by keep_tensor(). Says after each line of its input what is
 * allocated, and goes on; ends with its input. */
#include "workload.h"

#include "allocator.h"

#define SLOTS 64

static struct {
	uint64_t steps, seed, kept_bytes;
} settings = { .steps = 1000, .seed = 1, .kept_bytes = 12345 };

static const struct option_row options[] = {
	{ "steps", "blocks taken or given back, each time (1000)", OPTION_NUMBER, &settings.steps },
	{ "seed", "of what is taken when (1)", OPTION_NUMBER, &settings.seed },
	{ "kept-bytes", "size of a block that is kept (12345)", OPTION_NUMBER,
	  &settings.kept_bytes },
};

/* The exported function, called as a DataLoader's memory is told. */
void report_host(void *address, int64_t bytes, size_t allocated, size_t reserved,
		 uint16_t device) __asm__("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");

static void *slot[SLOTS];
static uint64_t kept, live;

static uint64_t draw(void)
{
	settings.seed = settings.seed * 6364136223846793005u + 1442695040888963407u;
	return settings.seed >> 33;
}

static NOINLINE void keep_tensor(void)
{
	if (c10_malloc(settings.kept_bytes))
		kept++;
}

static NOINLINE void train_step(void)
{
	uint64_t n = draw() % SLOTS, what = draw() % 100;

	if (!slot[n]) {
		slot[n] = c10_malloc(1 + draw() % (what < 90 ? 100000 : 4000000));
		live += slot[n] != NULL;
		return;
	}
	if (what < 20)
		c10_free_later(slot[n]);
	else
		c10_free(slot[n]);
	slot[n] = NULL;
	live--;
	if (what < 25)
		c10_synchronize();
	if (what < 27)
		c10_empty_cache();
	report_host(&slot[n], 4097, 1, 1, 0);
}

int main(int argc, char **argv)
{
	CUcontext context;
	char line[16];

	workload_options(argc, argv, options, ARRAY_SIZE(options));
	TRY(cuInit, (0));
	TRY(cuCtxCreate_v2, (&context, 0, 0));
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		for (uint64_t i = 0; i < settings.steps; i++)
			train_step();
		keep_tensor();
		keep_tensor();
		printf("{\"allocated\": %zu, \"reserved\": %zu, \"live\": %llu, \"kept\": %llu}\n",
		       c10_allocated(), c10_reserved(), (unsigned long long)(live + kept),
		       (unsigned long long)kept);
		fflush(stdout);
	}
	return 0;
}
