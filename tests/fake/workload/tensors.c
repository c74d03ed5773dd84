/* Tensors: blocks of the simulated libc10, taken and given back at random, with reports of host
 * memory among them; a few are kept by keep_tensor(). Says after each line of its input what is
 * allocated, and goes on; with `cuda`, also what was asked for; ends with its input. Before a line
 * that starts with an f, a child frees what it has of the first thread's blocks. */
#include "workload.h"

#include <stdlib.h>

#include "allocator.h"
#include "probed.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLOTS	    64
#define THREADS_MAX 16
#define BOARD_BYTES 65536
#define CUDA_MAX    2

static struct {
	uint64_t steps, seed, kept_bytes, threads, board, raw;
	const char *second, *cuda;
} settings = { .steps = 1000, .seed = 1, .kept_bytes = 12345, .threads = 1 };

static const struct option_row options[] = {
	{ "steps", "blocks taken or given back, each time (1000)", OPTION_NUMBER, &settings.steps },
	{ "seed", "of what is taken when (1)", OPTION_NUMBER, &settings.seed },
	{ "kept-bytes", "size of a block that is kept (12345)", OPTION_NUMBER,
	  &settings.kept_bytes },
	{ "threads", "that do so at the same time (1)", OPTION_NUMBER, &settings.threads },
	{ "second", "another copy of the library, of which one block is kept each time",
	  OPTION_TEXT, &settings.second },
	{ "cuda", "libraries that blocks are taken from in turns, separated by colons: libc10_cuda",
	  OPTION_TEXT, &settings.cuda },
	{ "raw", "1: those that are kept come from the allocator itself (0)", OPTION_NUMBER,
	  &settings.raw },
	{ "board", "blocks of 64 KiB taken first, of which every other is given back (0)",
	  OPTION_NUMBER, &settings.board },
};

/* The exported function, called as a DataLoader's memory is told. */
void report_host(void *address, int64_t bytes, size_t allocated, size_t reserved,
		 uint16_t device) __asm__("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");

static _Thread_local void *slot[SLOTS];
static _Thread_local size_t slot_bytes[SLOTS];
static _Thread_local uint64_t seed;
static _Atomic uint64_t live, asked, turns;
static uint64_t kept, held_by_second;

static uint64_t draw(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return seed >> 33;
}

static struct {
	void *(*take)(size_t bytes);
	void (*give)(void *address);
} cuda[CUDA_MAX];
static size_t cuda_count;

static void *take(size_t bytes)
{
	void *address = cuda_count ? cuda[turns++ % cuda_count].take(bytes) : c10_malloc(bytes);

	if (address)
		asked += bytes;
	return address;
}

static void give(void *address, size_t bytes)
{
	if (cuda_count)
		cuda[turns++ % cuda_count].give(address);
	else
		c10_free(address);
	asked -= bytes;
}

static NOINLINE void keep_tensor(void)
{
	if (settings.raw ? c10_malloc(settings.kept_bytes) : take(settings.kept_bytes))
		kept++;
}

static NOINLINE void train_step(void)
{
	uint64_t n = draw() % SLOTS, what = draw() % 100;

	if (!slot[n]) {
		slot_bytes[n] = 1 + draw() % (what < 90 ? 100000 : 4000000);
		slot[n] = take(slot_bytes[n]);
		live += slot[n] != NULL;
		return;
	}
	if (what < 20) {
		c10_free_later(slot[n]);
		asked -= slot_bytes[n];
	} else {
		give(slot[n], slot_bytes[n]);
	}
	slot[n] = NULL;
	live--;
	if (what < 25)
		c10_synchronize();
	if (what < 27)
		c10_empty_cache();
	report_host(&slot[n], 4097, 1, 1, 0);
}

/* Each thread has blocks of its own, which it keeps from turn to turn. */
static pthread_barrier_t turn, rest;
static CUcontext context;

static void take_turn(void)
{
	for (uint64_t i = 0; i < settings.steps; i++)
		train_step();
}

static void *work(void *which)
{
	seed = settings.seed + (uintptr_t)which;
	TRY(cuCtxSetCurrent, (context));
	for (;;) {
		pthread_barrier_wait(&turn);
		take_turn();
		pthread_barrier_wait(&rest);
	}
	return NULL;
}

static void start_threads(void)
{
	pthread_t thread;

	if (settings.threads < 1 || settings.threads > THREADS_MAX ||
	    pthread_barrier_init(&turn, NULL, (unsigned)settings.threads) != 0 ||
	    pthread_barrier_init(&rest, NULL, (unsigned)settings.threads) != 0)
		abort();
	seed = settings.seed;
	for (uintptr_t i = 1; i < settings.threads; i++)
		if (pthread_create(&thread, NULL, work, (void *)i) != 0)
			abort();
}

/* A child gives back what is its parent's. */
static void fork_and_free(void)
{
	pid_t child = fork();

	if (child == 0) {
		for (int i = 0; i < SLOTS; i++)
			if (slot[i])
				c10_free(slot[i]);
		_exit(0);
	}
	if (child < 0 || waitpid(child, NULL, 0) != child)
		abort();
}

/* Its calls stay in itself. */
static void *(*second_malloc)(size_t bytes);
static size_t (*second_reserved)(void);

static void open_second(void)
{
	void *library = dlopen(settings.second, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);

	if (!library)
		abort();
	*(void **)&second_malloc = dlsym(library, "c10_malloc");
	*(void **)&second_reserved = dlsym(library, "c10_reserved");
	if (!second_malloc || (void *)second_malloc == (void *)c10_malloc)
		abort();
}

static void open_cuda(void)
{
	char *names = strdup(settings.cuda), *left = NULL;

	for (char *name = strtok_r(names, ":", &left); name && cuda_count < CUDA_MAX;
	     name = strtok_r(NULL, ":", &left)) {
		void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);

		if (!library)
			abort();
		*(void **)&cuda[cuda_count].take = dlsym(library, "c10_cuda_malloc");
		*(void **)&cuda[cuda_count].give = dlsym(library, "c10_cuda_free");
		if (!cuda[cuda_count].take || !cuda[cuda_count].give)
			abort();
		cuda_count++;
	}
	free(names);
}

static void keep_in_second(void)
{
	if (second_malloc(512))
		held_by_second++;
}

static NOINLINE void lay_board(void)
{
	void **block = calloc(settings.board + 1, sizeof(*block));

	for (uint64_t i = 0; block && i < settings.board; i++)
		block[i] = c10_malloc(BOARD_BYTES);
	for (uint64_t i = 0; block && i < settings.board; i++)
		if (i % 2)
			c10_free(block[i]);
	live += (settings.board + 1) / 2;
	free(block);
}

static void say_free(const char *name, int small)
{
	struct c10_free free_memory;

	c10_measure(small, &free_memory);
	printf(", \"%s\": {\"segments\": %zu, \"held\": %zu, \"free\": %zu, \"pieces\": %zu, "
	       "\"largest\": %zu, \"index\": %.9f}",
	       name, free_memory.segments, free_memory.held, free_memory.bytes, free_memory.pieces,
	       free_memory.largest, free_memory.index);
}

int main(int argc, char **argv)
{
	char line[16];

	workload_options(argc, argv, options, ARRAY_SIZE(options));
	TRY(cuInit, (0));
	TRY(cuCtxCreate_v2, (&context, 0, 0));
	if (settings.second)
		open_second();
	if (settings.cuda)
		open_cuda();
	start_threads();
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (!kept)
			lay_board();
		if (*line == 'f')
			fork_and_free();
		if (settings.threads > 1)
			pthread_barrier_wait(&turn);
		take_turn();
		if (settings.threads > 1)
			pthread_barrier_wait(&rest);
		keep_tensor();
		keep_tensor();
		if (settings.second)
			keep_in_second();
		printf("{\"allocated\": %zu, \"reserved\": %zu, \"live\": %llu, \"kept\": %llu",
		       c10_allocated() + 512 * held_by_second,
		       c10_reserved() + (settings.second ? second_reserved() : 0),
		       (unsigned long long)(live + kept + held_by_second),
		       (unsigned long long)kept);
		printf(", \"asked\": %llu", (unsigned long long)asked);
		say_free("small", 1);
		say_free("large", 0);
		puts("}");
		fflush(stdout);
	}
	return 0;
}
