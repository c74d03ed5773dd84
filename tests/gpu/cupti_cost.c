/* Cupti cost: what tests/gpu/cupti_cost.py cannot do in Python: CUPTI's callbacks, which run on any
 * thread, cuptiFinalize(), which wants to be called in one of them, and loops that launch empty
 * kernels. The rest of CUPTI's API the script calls itself.
 *
 * Buffers and the callback `ours` do what inject/ does, without the ring to the daemon.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "inject/cupti_abi.h"

#define EXPORT	     __attribute__((visibility("default")))
#define BUFFERS	     64
#define BUFFER_BYTES (4u << 20)
#define IDS	     (1u << 23)
#define THREADS_MAX  16
#define SYNC_EVERY   1000
#define KIND_RUNTIME 5
#define COUNT_CBID   4 /* cuDeviceGetCount */
#define RECORD_CALLS 64

struct api {
	uint32_t kind, cbid;
	uint64_t start, end;
	uint32_t process, thread, correlation, result;
};

EXPORT struct {
	uint64_t kernels, apis, others, callbacks;
	uint64_t untimed;	   /* kernels with a stamp of 0, or an end before the start */
	uint64_t start_ns, end_ns; /* the earliest and the latest stamp of a kernel */
	uint64_t joined;	   /* kernels whose id an API record has too */
	uint64_t buffers, bytes;
	uint64_t thread; /* of the latest API record */
} cost_seen;
EXPORT int cost_zeroed; /* buffers are cleared when they come back */

static struct {
	int (*next)(uint8_t *, size_t, void **);
	int (*subscribe)(void **, void *, void *);
	int (*unsubscribe)(void *);
	int (*enable_callback)(uint32_t, void *, uint32_t, uint32_t);
	int (*finalize)(void);
} cupti;
static struct {
	int (*count)(int *);
	int (*load)(void **, const void *);
	int (*function)(void **, void *, const char *);
	int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
		      void *, void **, void **);
	int (*synchronize)(void *);
	int (*stream)(void **, unsigned);
	int (*current)(void *);
	int (*get_current)(void **);
} cuda;
static uint8_t *buffers[BUFFERS];
static int lent[BUFFERS];
static uint8_t id_seen[IDS]; /* 1: a kernel's, 2: an API record's */
static void *subscriber, *kernel;
static int finalizing, finalized;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

EXPORT uint64_t cost_clock(void)
{
	return now_ns();
}

EXPORT int cost_open(const char *cupti_path, const char *cuda_path)
{
	void *handle = dlopen(cupti_path, RTLD_NOW), *driver = dlopen(cuda_path, RTLD_NOW);

	if (!handle || !driver)
		return -1;
	cupti.next = dlsym(handle, "cuptiActivityGetNextRecord");
	cupti.subscribe = dlsym(handle, "cuptiSubscribe");
	cupti.unsubscribe = dlsym(handle, "cuptiUnsubscribe");
	cupti.enable_callback = dlsym(handle, "cuptiEnableCallback");
	cupti.finalize = dlsym(handle, "cuptiFinalize");
	cuda.count = dlsym(driver, "cuDeviceGetCount");
	cuda.load = dlsym(driver, "cuModuleLoadData");
	cuda.function = dlsym(driver, "cuModuleGetFunction");
	cuda.launch = dlsym(driver, "cuLaunchKernel");
	cuda.synchronize = dlsym(driver, "cuStreamSynchronize");
	cuda.stream = dlsym(driver, "cuStreamCreate");
	cuda.current = dlsym(driver, "cuCtxSetCurrent");
	cuda.get_current = dlsym(driver, "cuCtxGetCurrent");
	return 0;
}

static void record_take(const void *record)
{
	const struct cupti_kernel *k = record;
	const struct api *api = record;

	if (api->kind == CUPTI_KIND_DRIVER || api->kind == KIND_RUNTIME) {
		cost_seen.apis++;
		cost_seen.thread = api->thread;
		__atomic_fetch_or(&id_seen[api->correlation % IDS], 2, __ATOMIC_RELAXED);
		return;
	}
	if (k->kind != CUPTI_KIND_KERNEL && k->kind != CUPTI_KIND_CONCURRENT_KERNEL) {
		cost_seen.others++;
		return;
	}
	cost_seen.kernels++;
	__atomic_fetch_or(&id_seen[k->correlation % IDS], 1, __ATOMIC_RELAXED);
	if (!k->start || k->end < k->start) {
		cost_seen.untimed++;
		return;
	}
	if (!cost_seen.start_ns || k->start < cost_seen.start_ns)
		cost_seen.start_ns = k->start;
	if (k->end > cost_seen.end_ns)
		cost_seen.end_ns = k->end;
}

EXPORT void cost_request(uint8_t **buffer, size_t *size, size_t *records)
{
	*records = 0;
	*size = BUFFER_BYTES;
	for (int i = 0; i < BUFFERS; i++) {
		if (__atomic_exchange_n(&lent[i], 1, __ATOMIC_ACQUIRE))
			continue;
		if (!buffers[i])
			buffers[i] = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		*buffer = buffers[i];
		return;
	}
	*buffer = NULL;
	*size = 0;
}

EXPORT void cost_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size,
			  size_t valid)
{
	void *record = NULL;

	(void)context;
	(void)stream;
	(void)size;
	while (valid && !cupti.next(buffer, valid, &record) && record)
		record_take(record);
	cost_seen.buffers++;
	cost_seen.bytes += valid;
	if (cost_zeroed)
		memset(buffer, 0, BUFFER_BYTES);
	for (int i = 0; i < BUFFERS; i++)
		if (buffers[i] == buffer)
			__atomic_store_n(&lent[i], 0, __ATOMIC_RELEASE);
}

/* Counts the kernels that an API record answers, and forgets all ids. */
EXPORT void cost_join(void)
{
	for (uint32_t i = 0; i < IDS; i++)
		cost_seen.joined += id_seen[i] == 3;
	memset(id_seen, 0, sizeof(id_seen));
}

static void finalize_here(const struct cupti_call *call, uint32_t cbid)
{
	if (!finalizing || cbid != COUNT_CBID || call->site != CUPTI_SITE_EXIT)
		return;
	finalizing = 0;
	cupti.unsubscribe(subscriber);
	subscriber = NULL;
	finalized = cupti.finalize() == 0;
}

static void callback_empty(void *data, uint32_t domain, uint32_t cbid, const void *call)
{
	(void)data;
	if (domain == CUPTI_DOMAIN_DRIVER && cbid == COUNT_CBID)
		finalize_here(call, cbid);
}

/* What inject/cupti_call.c does: two readings of the clock and a record in a queue of the thread.
 */
static void callback_ours(void *data, uint32_t domain, uint32_t cbid, const void *argument)
{
	static __thread struct {
		uint64_t start_ns, count;
		uint32_t open, depth;
		struct {
			uint64_t start_ns, end_ns;
			uint32_t correlation, cbid;
			int32_t result, padding;
		} calls[RECORD_CALLS];
	} self;
	const struct cupti_call *call = argument;

	(void)data;
	if (domain != CUPTI_DOMAIN_DRIVER)
		return;
	if (cbid == COUNT_CBID) {
		finalize_here(call, cbid);
		return;
	}
	if (call->site != CUPTI_SITE_EXIT) {
		self.open = call->correlation;
		self.start_ns = now_ns();
		return;
	}
	if (self.open != call->correlation)
		return;
	self.calls[self.count % RECORD_CALLS].start_ns = self.start_ns;
	self.calls[self.count % RECORD_CALLS].end_ns = now_ns();
	self.calls[self.count % RECORD_CALLS].correlation = call->correlation;
	self.calls[self.count % RECORD_CALLS].cbid = cbid;
	self.calls[self.count % RECORD_CALLS].result = *(const int32_t *)call->result;
	self.count++;
	__atomic_fetch_add(&cost_seen.callbacks, 1, __ATOMIC_RELAXED);
}

EXPORT int cost_subscribe(int ours)
{
	return cupti.subscribe(&subscriber, ours ? (void *)callback_ours : (void *)callback_empty,
			       NULL);
}

EXPORT int cost_callback(int on, uint32_t cbid)
{
	return cupti.enable_callback((uint32_t)on, subscriber, CUPTI_DOMAIN_DRIVER, cbid);
}

EXPORT int cost_unsubscribe(void)
{
	int r = subscriber ? cupti.unsubscribe(subscriber) : 0;

	subscriber = NULL;
	return r;
}

/* Takes CUPTI out, where a driver call returns. 0: done. */
EXPORT int cost_finalize(void)
{
	int count, r = 0;

	finalized = 0;
	if (!subscriber)
		r = cost_subscribe(0);
	if (r)
		return r;
	finalizing = 1;
	r = cost_callback(1, COUNT_CBID);
	if (!r)
		cuda.count(&count);
	finalizing = 0;
	return r ? r : !finalized;
}

static int kernel_make(void)
{
	static const char text[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
				   ".visible .entry empty()\n{\n\tret;\n}\n";
	void *module;

	if (kernel)
		return 0;
	return cuda.load(&module, text) || cuda.function(&kernel, module, "empty");
}

static int launch_many(void *stream, uint64_t launches)
{
	for (uint64_t i = 1; i <= launches; i++)
		if (cuda.launch(kernel, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL) ||
		    (i % SYNC_EVERY == 0 && cuda.synchronize(stream)))
			return -1;
	return cuda.synchronize(stream);
}

/* Nanoseconds a launch, or less than 0. */
EXPORT double cost_empty(uint64_t launches)
{
	uint64_t since_ns;

	if (kernel_make() || launch_many(NULL, SYNC_EVERY))
		return -1;
	since_ns = now_ns();
	if (launch_many(NULL, launches))
		return -1;
	return (double)(now_ns() - since_ns) / (double)launches;
}

struct part {
	pthread_t thread;
	pthread_barrier_t *barrier;
	void *context, *stream;
	uint64_t launches;
	int failed;
};

static void *part_run(void *argument)
{
	struct part *part = argument;

	part->failed = cuda.current(part->context);
	pthread_barrier_wait(part->barrier);
	part->failed |= launch_many(part->stream, part->launches);
	return NULL;
}

/* The same from several threads, each with its own stream: nanoseconds for a launch of each. */
EXPORT double cost_empty_threads(uint64_t launches, int threads)
{
	static void *streams[THREADS_MAX];
	struct part part[THREADS_MAX];
	pthread_barrier_t barrier;
	uint64_t since_ns;
	void *context;
	int failed = 0;

	if (kernel_make() || threads > THREADS_MAX || cuda.get_current(&context))
		return -1;
	pthread_barrier_init(&barrier, NULL, (unsigned)threads + 1);
	for (int i = 0; i < threads; i++) {
		if (!streams[i] && cuda.stream(&streams[i], 1))
			return -1;
		part[i] = (struct part){ .barrier = &barrier,
					 .context = context,
					 .stream = streams[i],
					 .launches = launches };
		if (pthread_create(&part[i].thread, NULL, part_run, &part[i]))
			abort();
	}
	pthread_barrier_wait(&barrier);
	since_ns = now_ns();
	for (int i = 0; i < threads; i++) {
		pthread_join(part[i].thread, NULL);
		failed |= part[i].failed;
	}
	pthread_barrier_destroy(&barrier);
	return failed ? -1 : (double)(now_ns() - since_ns) / (double)launches;
}
