/* Cupti rest: what CUPTI costs a program that it does not record any more, by how it was switched
 * off, and what device memory that leaves behind. Without TraceSmith: one process launches empty
 * kernels; CUPTI is switched on and off in one of several ways, in random order, and finalized
 * before and after each.
 *
 *   gcc -O2 -I. tests/gpu/cupti_rest.c -o /tmp/cupti_rest -ldl -lpthread
 *   /tmp/cupti_rest [ROUNDS [LIBCUPTI [LIBCUDA [WAY...]]]]
 *
 * WAY: a row of `ways`, counted from 0; all, without any. 12 rounds of all take three minutes.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "inject/cupti_abi.h"

#define LAUNCHES      40000 /* of a turn */
#define SYNC	      500
#define SETTLE	      4000
#define ROUNDS	      12
#define BUFFER	      (4u << 20)
#define COUNT_CBID    4 /* cuDeviceGetCount */
#define LAUNCH_CBID   307
#define MEMORY_ROUNDS 16

enum {
	SUBSCRIBE = 1,
	SETUP = 2, /* buffers, clock, thread ids */
	CALLS = 4, /* callbacks of launches */
	KERNELS = 8,
	COPIES = 16,
	OTHERS = 32,	   /* markers, overhead, memory, pools, contexts, synchronizations */
	STAY = 64,	   /* all of it stays on */
	LEAVE = 128,	   /* unsubscribed, not finalized */
	HERE = 256,	   /* switched by the thread that launches */
	IDLE = 512,	   /* device idle before it is switched off */
	OF_CONTEXT = 1024, /* kinds by context */
	LEGACY = 2048,
	AGAIN = 4096, /* on and off twice */
	UNSET = 8192, /* buffer callbacks, clock and attributes taken back */
	ALL = SUBSCRIBE | SETUP | CALLS | KERNELS | COPIES | OTHERS,
};

static const struct way {
	const char *name;
	unsigned what;
} ways[] = {
	{ "finalized before (no change)", 0 },
	{ "subscribed", SUBSCRIBE },
	{ "subscribed, set up", SUBSCRIBE | SETUP },
	{ "callbacks, off again", SUBSCRIBE | SETUP | CALLS },
	{ "kernels, off again", SUBSCRIBE | SETUP | KERNELS },
	{ "copies, off again", SUBSCRIBE | SETUP | COPIES },
	{ "others, off again", SUBSCRIBE | SETUP | OTHERS },
	{ "all, off again", ALL },
	{ "all, off again, unsubscribed", ALL | LEAVE },
	{ "kernels, off again, here", SUBSCRIBE | SETUP | KERNELS | HERE },
	{ "kernels, off again, here, idle", SUBSCRIBE | SETUP | KERNELS | HERE | IDLE },
	{ "kernels, off again, of context, here, idle",
	  SUBSCRIBE | SETUP | KERNELS | HERE | IDLE | OF_CONTEXT },
	{ "legacy kernels, off again", SUBSCRIBE | SETUP | LEGACY | HERE | IDLE },
	{ "kernels, off again, unset", SUBSCRIBE | SETUP | KERNELS | HERE | IDLE | UNSET },
	{ "kernels, off again, unset, unsubscribed",
	  SUBSCRIBE | SETUP | KERNELS | HERE | IDLE | UNSET | LEAVE },
	{ "kernels, off, without subscription", SETUP | KERNELS | HERE | IDLE },
	{ "kernels, on", SUBSCRIBE | SETUP | KERNELS | STAY },
	{ "all, on", ALL | STAY },
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static struct {
	int (*subscribe)(void **, void *, void *);
	int (*unsubscribe)(void *);
	int (*enable_callback)(uint32_t, void *, uint32_t, uint32_t);
	int (*enable)(uint32_t);
	int (*disable)(uint32_t);
	int (*enable_context)(void *, uint32_t);
	int (*disable_context)(void *, uint32_t);
	int (*callbacks)(void *, void *);
	int (*flush)(uint32_t);
	int (*clock)(uint64_t (*)(void));
	int (*thread_ids)(uint32_t);
	int (*attribute)(uint32_t, size_t *, void *);
	int (*finalize)(void);
	int (*version)(uint32_t *);
} cupti;

static struct {
	int (*init)(unsigned);
	int (*device)(int *, int);
	int (*retain)(void **, int);
	int (*current)(void *);
	int (*count)(int *);
	int (*load)(void **, const void *);
	int (*function)(void **, void *, const char *);
	int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
		      void *, void **, void **);
	int (*synchronize)(void *);
	int (*info)(size_t *, size_t *);
} cuda;

static const uint32_t kernels[] = { CUPTI_KIND_CONCURRENT_KERNEL };
static const uint32_t copies[] = { CUPTI_KIND_MEMCPY, CUPTI_KIND_MEMCPY2, CUPTI_KIND_MEMSET };
static const uint32_t others[] = { CUPTI_KIND_MARKER,  CUPTI_KIND_OVERHEAD,
				   CUPTI_KIND_MEMORY2, CUPTI_KIND_MEMORY_POOL,
				   CUPTI_KIND_CONTEXT, CUPTI_KIND_SYNCHRONIZATION };
static void *context, *kernel, *handle;
static volatile long out;
static volatile int finalizing, finalized;
static volatile uint64_t callback_count;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void request(uint8_t **buffer, size_t *size, size_t *records)
{
	*buffer = aligned_alloc(4096, BUFFER);
	*size = BUFFER;
	*records = 0;
	__atomic_fetch_add(&out, 1, __ATOMIC_SEQ_CST);
}

static void complete(void *of, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	(void)of, (void)stream, (void)size, (void)valid;
	free(buffer);
	__atomic_fetch_sub(&out, 1, __ATOMIC_SEQ_CST);
}

struct call {
	uint32_t site;
};

static void callback(void *data, uint32_t domain, uint32_t id, const struct call *call)
{
	(void)data, (void)domain;
	callback_count++;
	if (id != COUNT_CBID || call->site != CUPTI_SITE_EXIT ||
	    finalizing != (int)syscall(SYS_gettid))
		return;
	cupti.unsubscribe(handle);
	handle = NULL;
	finalized = cupti.finalize() == 0;
}

static void kinds(const uint32_t *kind, size_t count, bool on)
{
	for (size_t i = 0; i < count; i++)
		if (on)
			cupti.enable(kind[i]);
		else
			cupti.disable(kind[i]);
}

static void switch_all(unsigned what, bool on)
{
	if (what & CALLS && on)
		cupti.enable_callback(1, handle, CUPTI_DOMAIN_DRIVER, LAUNCH_CBID);
	if (what & LEGACY && on)
		cupti.enable(CUPTI_KIND_KERNEL);
	if (what & LEGACY && !on)
		cupti.disable(CUPTI_KIND_KERNEL);
	if (what & KERNELS && what & OF_CONTEXT) {
		int r = on ? cupti.enable_context(context, 10) : cupti.disable_context(context, 10);
		if (r)
			printf("  of context: %d\n", r);
	} else if (what & KERNELS)
		kinds(kernels, sizeof(kernels) / sizeof(kernels[0]), on);
	if (what & COPIES)
		kinds(copies, sizeof(copies) / sizeof(copies[0]), on);
	if (what & OTHERS)
		kinds(others, sizeof(others) / sizeof(others[0]), on);
	if (what & CALLS && !on)
		cupti.enable_callback(0, handle, CUPTI_DOMAIN_DRIVER, LAUNCH_CBID);
}

static double launch(int count)
{
	uint64_t begin = now_ns();

	for (int i = 1; i <= count; i++) {
		cuda.launch(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
		if (i % SYNC == 0)
			cuda.synchronize(NULL);
	}
	return (double)(now_ns() - begin) / count;
}

static const struct way *now;
static bool going_on;

/* On a thread without a context, as the library's. */
static void *control(void *unused)
{
	unsigned what = now->what;
	int count;
	size_t one = 1;
	uint8_t zeroed = 1;

	(void)unused;
	if (going_on && what) {
		int r = handle || !(what & SUBSCRIBE) ? 0
						      : cupti.subscribe(&handle, callback, NULL);

		if (r)
			printf("  subscribe: %d\n", r);
		if (what & SETUP) {
			cupti.thread_ids(CUPTI_THREAD_ID_SYSTEM);
			cupti.clock(now_ns);
			cupti.attribute(CUPTI_ATTRIBUTE_ZEROED_BUFFER, &one, &zeroed);
			cupti.callbacks(request, complete);
		}
		switch_all(what, true);
	} else if (!going_on && what) {
		if (what & IDLE)
			cuda.synchronize(NULL);
		switch_all(what, false);
		for (int i = 0; i < 100 && (i == 0 || out); i++) {
			cupti.flush(i < 50 ? 0 : CUPTI_FLUSH_FORCED);
			usleep(1000);
		}
		if (what & UNSET) {
			zeroed = 0;
			cupti.attribute(CUPTI_ATTRIBUTE_ZEROED_BUFFER, &one, &zeroed);
			cupti.clock(NULL);
			cupti.thread_ids(0);
		}
		if (what & LEAVE) {
			cupti.unsubscribe(handle);
			handle = NULL;
		}
	}
	if (!going_on && !now->what) {
		if (!handle)
			cupti.subscribe(&handle, callback, NULL);
		finalizing = (int)syscall(SYS_gettid), finalized = 0;
		cupti.enable_callback(1, handle, CUPTI_DOMAIN_DRIVER, COUNT_CBID);
		cuda.count(&count);
		finalizing = 0;
		if (!finalized)
			printf("  not finalized\n");
	}
	return NULL;
}

static void go(const struct way *way, bool on)
{
	pthread_t thread;

	now = way, going_on = on;
	if (way->what & HERE) {
		control(NULL);
		return;
	}
	pthread_create(&thread, NULL, control, NULL);
	pthread_join(thread, NULL);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double used_mib(void)
{
	size_t free_bytes = 0, total = 0;

	cuda.synchronize(NULL);
	cuda.info(&free_bytes, &total);
	return (double)(total - free_bytes) / (1 << 20);
}

/* The turn that counts is the one after the way was gone, or, where it stays on, in it. */
static double turn(const struct way *way)
{
	double before, after, mine;

	launch(SETTLE);
	before = launch(LAUNCHES);
	if (way->what) {
		go(way, true);
		launch(SETTLE);
		if (!(way->what & STAY))
			go(way, false);
	}
	launch(SETTLE);
	mine = launch(LAUNCHES);
	if (way->what & STAY)
		go(way, false);
	if (way->what)
		go(&ways[0], false);
	launch(SETTLE);
	after = launch(LAUNCHES);
	return mine - (before + after) / 2;
}

static const struct {
	void *to;
	const char *symbol;
} of_cuda[] = {
	{ &cuda.init, "cuInit" },
	{ &cuda.device, "cuDeviceGet" },
	{ &cuda.retain, "cuDevicePrimaryCtxRetain" },
	{ &cuda.current, "cuCtxSetCurrent" },
	{ &cuda.count, "cuDeviceGetCount" },
	{ &cuda.load, "cuModuleLoadData" },
	{ &cuda.function, "cuModuleGetFunction" },
	{ &cuda.launch, "cuLaunchKernel" },
	{ &cuda.synchronize, "cuStreamSynchronize" },
	{ &cuda.info, "cuMemGetInfo_v2" },
}, of_cupti[] = {
	{ &cupti.subscribe, "cuptiSubscribe" },
	{ &cupti.unsubscribe, "cuptiUnsubscribe" },
	{ &cupti.enable_callback, "cuptiEnableCallback" },
	{ &cupti.enable, "cuptiActivityEnable" },
	{ &cupti.disable, "cuptiActivityDisable" },
	{ &cupti.enable_context, "cuptiActivityEnableContext" },
	{ &cupti.disable_context, "cuptiActivityDisableContext" },
	{ &cupti.callbacks, "cuptiActivityRegisterCallbacks" },
	{ &cupti.flush, "cuptiActivityFlushAll" },
	{ &cupti.clock, "cuptiActivityRegisterTimestampCallback" },
	{ &cupti.thread_ids, "cuptiSetThreadIdType" },
	{ &cupti.attribute, "cuptiActivitySetAttribute" },
	{ &cupti.finalize, "cuptiFinalize" },
	{ &cupti.version, "cuptiGetVersion" },
};

static bool find(void *library, void *to, const char *symbol)
{
	void *found = library ? dlsym(library, symbol) : NULL;

	memcpy(to, &found, sizeof(found));
	if (!found)
		printf("no %s\n", symbol);
	return found;
}

static bool open_all(const char *cupti_path, const char *cuda_path)
{
	void *driver = dlopen(cuda_path, RTLD_NOW), *library = dlopen(cupti_path, RTLD_NOW);
	bool all = true;

	for (size_t i = 0; i < sizeof(of_cuda) / sizeof(of_cuda[0]); i++)
		all &= find(driver, of_cuda[i].to, of_cuda[i].symbol);
	for (size_t i = 0; i < sizeof(of_cupti) / sizeof(of_cupti[0]); i++)
		all &= find(library, of_cupti[i].to, of_cupti[i].symbol);
	return all;
}

int main(int argc, char **argv)
{
	static const char ptx[] =
		".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n";
	static double found[WAYS][64];
	static int chosen[WAYS];
	int rounds = argc > 1 ? atoi(argv[1]) : ROUNDS, count = 0, device;
	uint32_t version = 0;
	void *module;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!open_all(argc > 2 ? argv[2] : "libcupti.so.13", argc > 3 ? argv[3] : "libcuda.so.1"))
		return 1;
	rounds = rounds > 64 ? 64 : rounds;
	for (int i = 4; i < argc; i++)
		chosen[count++] = atoi(argv[i]);
	for (unsigned i = 0; argc <= 4 && i < WAYS; i++)
		chosen[count++] = (int)i;
	if (cuda.init(0) || cuda.device(&device, 0) || cuda.retain(&context, device) ||
	    cuda.current(context) || cuda.load(&module, ptx) || cuda.function(&kernel, module, "k"))
		return printf("no kernel\n"), 1;
	cupti.version(&version);
	launch(100000);
	go(&ways[0], false);
	printf("CUPTI %u, empty kernels: %.0f ns a launch without it; %d rounds\n", version,
	       launch(100000), rounds);
	for (int round = 0; round < rounds; round++) {
		int order[WAYS];

		memcpy(order, chosen, sizeof(order));
		for (int i = count - 1; i > 0; i--) {
			int j = rand() % (i + 1), at = order[i];

			order[i] = order[j], order[j] = at;
		}
		for (int i = 0; i < count; i++)
			found[order[i]][round] = turn(&ways[order[i]]);
	}
	for (int i = 0; i < count; i++) {
		double *mine = found[chosen[i]];

		qsort(mine, (size_t)rounds, sizeof(*mine), compare);
		printf("%-32s %+7.0f ns a launch (%+.0f to %+.0f)\n", ways[chosen[i]].name,
		       mine[rounds / 2], mine[rounds / 8], mine[rounds - 1 - rounds / 8]);
	}
	/* Device memory: cycles that rest, and cycles that finalize. */
	for (int finalize = 0; finalize < 2; finalize++) {
		double before = 0;

		for (int i = -2; i < MEMORY_ROUNDS; i++) {
			if (i == 0)
				before = used_mib();
			go(&ways[7], true);
			launch(2000);
			go(&ways[7], false);
			if (finalize)
				go(&ways[0], false);
		}
		printf("%s: %+.3f MiB of device memory a cycle, %d cycles\n",
		       finalize ? "finalized" : "resting", (used_mib() - before) / MEMORY_ROUNDS,
		       MEMORY_ROUNDS);
	}
	fflush(stdout);
	_exit(0);
}
