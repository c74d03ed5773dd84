/* Cancel: a program whose thread is cancelled while it waits for the device. On its way out of the
 * call it unlocks a mutex that its caller holds, as a C++ program's lock_guard does:
 *   cancel --in stream
 * It says whether that came to pass. */
#include "workload.h"

#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <unistd.h>

static struct {
	const char *in;
} settings = { .in = "stream" };

static const struct option_row options[] = {
	{ "in", "what the thread waits for: stream, event or context (stream)", OPTION_TEXT,
	  &settings.in },
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static CUcontext context;
static CUstream stream;
static CUevent event;

/* The stream's work, which never ends. */
static void CUDA_CB block(void *data)
{
	for (;;)
		pause();
}

static void unlock(pthread_mutex_t **held)
{
	pthread_mutex_unlock(*held);
}

static NOINLINE void wait_for_device(void)
{
	if (!strcmp(settings.in, "event"))
		cuEventSynchronize(event);
	else if (!strcmp(settings.in, "context"))
		cuCtxSynchronize();
	else
		cuStreamSynchronize(stream);
}

static NOINLINE void work(void)
{
	__attribute__((cleanup(unlock))) pthread_mutex_t *held = &mutex;
	int before;

	pthread_mutex_lock(held);
	/* Until here no call of a library may be the one that ends it. */
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
	wait_for_device();
}

static void *run(void *data)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	TRY(cuCtxSetCurrent, (context));
	work();
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	void *result;

	workload_options(argc, argv, options, ARRAY_SIZE(options));
	TRY(cuInit, (0));
	TRY(cuDevicePrimaryCtxRetain, (&context, 0));
	TRY(cuCtxSetCurrent, (context));
	TRY(cuStreamCreate, (&stream, CU_STREAM_NON_BLOCKING));
	TRY(cuEventCreate, (&event, CU_EVENT_DISABLE_TIMING));
	TRY(cuLaunchHostFunc, (stream, block, NULL));
	TRY(cuEventRecord, (event, stream));
	if (pthread_create(&thread, NULL, run, NULL))
		return 1;
	pthread_cancel(thread);
	pthread_join(thread, &result);
	workload_say("{\"cancelled\":%s,\"unlocked\":%s}\n",
		     result == PTHREAD_CANCELED ? "true" : "false",
		     pthread_mutex_trylock(&mutex) == 0 ? "true" : "false");
	_exit(0);
}
