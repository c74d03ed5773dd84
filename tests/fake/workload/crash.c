/* Crash: known work, printed first, and then a bad end. */
#include "handful.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIVE_BYTES 54321

static void crash_segv(void)
{
	signal(SIGSEGV, SIG_DFL);
	raise(SIGSEGV);
}

static void crash_kill(void)
{
	kill(getpid(), SIGKILL);
}

static void crash_fast_exit(void)
{
	_exit(3);
}

static void crash_exit(void)
{
	exit(4);
}

static const struct {
	const char *how;
	void (*crash)(void);
} crashes[] = {
	{ "segv", crash_segv }, { "kill", crash_kill }, { "_exit", crash_fast_exit },
	{ "exit", crash_exit }, { "abort", abort },
};

static void *crash_in_thread(void *crash)
{
	(*(void (**)(void))crash)();
	return NULL;
}

int main(int argc, char **argv)
{
	const char *how = "segv";
	uint64_t launches = 20;
	bool main_thread = false, hold = false;
	CUcontext context;
	CUdeviceptr live;
	const struct option_row options[] = {
		{ "how", "segv (default), kill, _exit, exit or abort", OPTION_TEXT, &how },
		{ "launches", "number of launches before (20)", OPTION_NUMBER, &launches },
		{ "main-thread", "in the main thread, not in another", OPTION_FLAG, &main_thread },
		{ "hold", "wait for a newline before", OPTION_FLAG, &hold },
	};

	workload_options(argc, argv, options, ARRAY_SIZE(options));
	handful(launches, &context);
	/* Live when the process ends, and so no leak of a live process */
	TRY(cuMemAlloc_v2, (&live, LIVE_BYTES));
	tally_print();
	workload_say("{\"pid\":%d,\"how\":\"%s\",\"live_bytes\":%d}\n", (int)getpid(), how,
		     LIVE_BYTES);
	if (hold)
		workload_hold(-1);
	for (size_t i = 0; i < ARRAY_SIZE(crashes); i++) {
		void (*crash)(void) = crashes[i].crash;
		pthread_t thread;

		if (strcmp(crashes[i].how, how) != 0)
			continue;
		if (main_thread)
			crash();
		pthread_create(&thread, NULL, crash_in_thread, &crash);
		pthread_join(thread, NULL);
	}
	fprintf(stderr, "crash: no way '%s'\n", how);
	return 1;
}
