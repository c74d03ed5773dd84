/* Profiler: launches kernels, and profiles itself with CUPTI for a while, as torch.profiler does:
 * subscribe, register, enable; later disable, flush, unsubscribe. It says what came of it.
 *   profiler --start S --stop S --end S   when, in seconds from the start of the launches
 *   profiler --signals                    SIGUSR1 starts, SIGUSR2 stops, SIGTERM ends
 *   profiler --keep                       it never unsubscribes, as torch.profiler does
 * Linked to libcupti, so its calls go through its own import table (or its module's). */
#include "workload.h"

#include "profiler.h"

#include <cupti_abi.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define BUFFER_BYTES (1 << 20)
#define BUFFERS_MAX  256

static struct {
	double start, stop, end, pace_ms;
	uint64_t sync;
	bool signals, finalize, no_subscribe, keep;
} settings = { .start = 1, .stop = 2, .end = 3, .pace_ms = 0.2 };

static const struct option_row options[] = {
	{ "start", "seconds until the profiler starts (1)", OPTION_REAL, &settings.start },
	{ "stop", "seconds until it stops (2)", OPTION_REAL, &settings.stop },
	{ "end", "seconds until the program ends (3)", OPTION_REAL, &settings.end },
	{ "signals", "SIGUSR1 starts, SIGUSR2 stops, SIGTERM ends", OPTION_FLAG,
	  &settings.signals },
	{ "pace-ms", "milliseconds from launch to launch (0.2)", OPTION_REAL, &settings.pace_ms },
	{ "sync", "wait for the GPU after so many launches (0: only at the end)", OPTION_NUMBER,
	  &settings.sync },
	{ "no-subscribe", "only register and enable", OPTION_FLAG, &settings.no_subscribe },
	{ "keep", "keep the subscription after each profile", OPTION_FLAG, &settings.keep },
	{ "finalize", "cuptiFinalize after each profile", OPTION_FLAG, &settings.finalize },
};

static CUcontext context;
static CUstream stream;
static CUfunction kernel;
static uint64_t launched, in_profile;
static void *subscriber;
static _Atomic int wanted; /* 1: start, 2: stop, 3: end */
static struct {
	pthread_mutex_t lock;
	uint8_t *buffers[BUFFERS_MAX]; /* that CUPTI has */
	uint64_t kernels, copies, calls, other, strangers;
} profile = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void on_signal(int number)
{
	atomic_store(&wanted, number == SIGUSR1 ? 1 : number == SIGUSR2 ? 2 : 3);
}

static uint64_t on_time(void)
{
	return workload_now();
}

static void on_request(uint8_t **buffer, size_t *size, size_t *records_max)
{
	*buffer = aligned_alloc(8, BUFFER_BYTES);
	*size = BUFFER_BYTES;
	*records_max = 0;
	pthread_mutex_lock(&profile.lock);
	for (size_t i = 0; i < BUFFERS_MAX; i++) {
		if (profile.buffers[i])
			continue;
		profile.buffers[i] = *buffer;
		break;
	}
	pthread_mutex_unlock(&profile.lock);
}

static bool buffer_is_ours(const uint8_t *buffer)
{
	for (size_t i = 0; i < BUFFERS_MAX; i++) {
		if (profile.buffers[i] != buffer)
			continue;
		profile.buffers[i] = NULL;
		return true;
	}
	return false;
}

static void on_complete(void *unused, uint32_t id, uint8_t *buffer, size_t size, size_t valid)
{
	struct cupti_record *record = NULL;

	(void)unused;
	(void)id;
	(void)size;
	pthread_mutex_lock(&profile.lock);
	if (!buffer_is_ours(buffer)) {
		/* Somebody else's: it cannot be read, and not be freed. */
		profile.strangers++;
		pthread_mutex_unlock(&profile.lock);
		return;
	}
	while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_OK) {
		if (record->kind == CUPTI_KIND_CONCURRENT_KERNEL)
			profile.kernels++;
		else if (record->kind == CUPTI_KIND_COPY)
			profile.copies++;
		else if (record->kind == CUPTI_KIND_DRIVER)
			profile.calls++;
		else
			profile.other++;
	}
	pthread_mutex_unlock(&profile.lock);
	free(buffer);
}

static void on_callback(void *user, uint32_t domain, uint32_t id, const void *data)
{
	(void)user;
	(void)domain;
	(void)id;
	(void)data;
}

static int profile_begin(void)
{
	int r = CUPTI_OK;

	if (!settings.no_subscribe && !subscriber)
		r = cuptiSubscribe(&subscriber, on_callback, NULL);
	if (r != CUPTI_OK)
		return r;
	r = cuptiActivityRegisterTimestampCallback(on_time);
	if (r == CUPTI_OK)
		r = cuptiActivityRegisterCallbacks(on_request, on_complete);
	if (r == CUPTI_OK)
		r = cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL);
	if (r == CUPTI_OK)
		r = cuptiActivityEnable(CUPTI_KIND_COPY);
	if (r == CUPTI_OK)
		r = cuptiActivityEnable(CUPTI_KIND_DRIVER);
	return r;
}

static bool profile_start(void)
{
	int r;

	in_profile = launched;
	pthread_mutex_lock(&profile.lock);
	profile.kernels = profile.copies = profile.calls = profile.other = profile.strangers = 0;
	pthread_mutex_unlock(&profile.lock);
	r = profile_begin();
	workload_say("{\"pid\":%d,\"profiler\":\"start\",\"result\":%d,\"at_ns\":%lu}\n",
		     (int)getpid(), r, (unsigned long)workload_now());
	return r == CUPTI_OK;
}

static void profile_stop(void)
{
	TRY(cuStreamSynchronize, (stream));
	cuptiActivityDisable(CUPTI_KIND_CONCURRENT_KERNEL);
	cuptiActivityDisable(CUPTI_KIND_COPY);
	cuptiActivityDisable(CUPTI_KIND_DRIVER);
	cuptiActivityFlushAll(0);
	if (subscriber && !settings.keep) {
		cuptiUnsubscribe(subscriber);
		subscriber = NULL;
	}
	if (settings.finalize)
		cuptiFinalize();
	pthread_mutex_lock(&profile.lock);
	workload_say("{\"pid\":%d,\"profiler\":\"stop\",\"launched\":%lu,\"kernels\":%lu,"
		     "\"copies\":%lu,\"calls\":%lu,\"other\":%lu,\"strangers\":%lu,"
		     "\"at_ns\":%lu}\n",
		     (int)getpid(), (unsigned long)(launched - in_profile),
		     (unsigned long)profile.kernels, (unsigned long)profile.copies,
		     (unsigned long)profile.calls, (unsigned long)profile.other,
		     (unsigned long)profile.strangers, (unsigned long)workload_now());
	pthread_mutex_unlock(&profile.lock);
}

/* What is to be done next by the time, if not by a signal. */
static int wanted_at(double seconds, int done)
{
	if (settings.signals)
		return atomic_exchange(&wanted, 0);
	if (done < 1 && seconds >= settings.start)
		return 1;
	if (done == 1 && seconds >= settings.stop)
		return 2;
	return seconds >= settings.end ? 3 : 0;
}

static void run(void)
{
	uint64_t begin = workload_now(), next = begin;
	bool running = false;
	int done = 0, what = 0;

	while (what != 3) {
		what = wanted_at((double)(workload_now() - begin) / 1e9, done);
		if (what == 1 && !running)
			running = profile_start();
		if (what >= 2 && running) {
			profile_stop();
			running = false;
		}
		if (what)
			done = what;
		TRY(cuLaunchKernel, (kernel, 4, 1, 1, 64, 1, 1, 0, stream, NULL, NULL));
		launched++;
		if (settings.sync && launched % settings.sync == 0)
			TRY(cuStreamSynchronize, (stream));
		next += (uint64_t)(settings.pace_ms * 1e6);
		if (settings.pace_ms > 0)
			workload_sleep_until(next);
	}
	TRY(cuStreamSynchronize, (stream));
}

int profiler_main(int argc, char **argv)
{
	static const char image[] = IMAGE_HEAD IMAGE_KERNEL("profiled_kernel");
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	CUmodule module;

	workload_options(argc, argv, options, ARRAY_SIZE(options));
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGUSR2, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	TRY(cuInit, (0));
	TRY(cuCtxCreate_v2, (&context, 0, 0));
	TRY(cuModuleLoadData, (&module, image));
	TRY(cuModuleGetFunction, (&kernel, module, "profiled_kernel"));
	TRY(cuStreamCreate, (&stream, CU_STREAM_NON_BLOCKING));
	workload_say("{\"pid\":%d,\"ready\":1}\n", (int)getpid());
	run();
	tally_print();
	workload_say("{\"pid\":%d,\"launches\":%lu}\n", (int)getpid(), (unsigned long)launched);
	TRY(cuCtxDestroy_v2, (context));
	return 0;
}
