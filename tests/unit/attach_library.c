/* The library that the tests attach with: a thread that says hello, and ends on request.
 * What its entry does otherwise, the test asks for in the settings. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/hello.h"
#include "tests/unit/attach_library.h"

int tracesmith_attach(struct ts_attach *attach);

static int *volatile nowhere;
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static bool running;

static void *thread_main(void *data)
{
	int fd = (int)(intptr_t)data;
	struct ts_hello hello = { .message = TS_MESSAGE_HELLO, .protocol = TS_HELLO_PROTOCOL };
	struct ts_state gone = { .message = TS_MESSAGE_STATE,
				 .state = TS_LIBRARY_GONE,
				 .unloadable = 1 };
	struct ts_refused detach;

	prctl(PR_SET_NAME, "tracesmith");
	if (send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) > 0 &&
	    recv(fd, &detach, sizeof(detach), 0) > 0)
		send(fd, &gone, sizeof(gone), MSG_NOSIGNAL);
	close(fd);
	__atomic_store_n(&running, false, __ATOMIC_RELEASE);
	return NULL;
}

/* Whether a debugger, here the daemon, holds the thread that asks. */
static bool is_traced(void)
{
	FILE *file = fopen("/proc/thread-self/status", "re");
	char line[256];
	int tracer = 0;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "TracerPid: %d", &tracer) == 1)
			break;
	if (file)
		fclose(file);
	return tracer != 0;
}

__attribute__((visibility("default"))) int tracesmith_attach(struct ts_attach *attach)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int r;

	switch (attach->wanted.flush_ms) {
	case ENTRY_FAILS:
		return -ENOMEM;
	case ENTRY_HANGS:
		for (;;)
			pause();
	case ENTRY_LOCKS:
		for (;;)
			pthread_mutex_lock(&held);
	case ENTRY_CRASHES:
		*nowhere = 1;
		break;
	case ENTRY_OUTLIVES:
		while (is_traced())
			usleep(1000);
		break;
	default:
		break;
	}
	if (__atomic_exchange_n(&running, true, __ATOMIC_ACQ_REL))
		return -EALREADY;
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&thread, &attributes, thread_main, (void *)(intptr_t)attach->socket);
	pthread_attr_destroy(&attributes);
	if (r == 0)
		attach->socket = -1;
	return -r;
}
