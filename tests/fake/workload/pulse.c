/* Pulse: a program that does next to nothing: now and then it submits a little work to one stream
 * in turn, and waits for none of it. So the device is idle but for a moment, which is what its
 * states have to say, whatever ends: the program, the collection, or a stream's work for good.
 *   pulse --what graph --seconds S --pace-ms P
 * It ends without a synchronization. With --sync each submission is waited for, with --pause-ms it
 * goes quiet halfway. */
#include "workload.h"

#include <string.h>
#include <unistd.h>

#define NUMBERS	    256
#define STREAMS_MAX 16

static struct {
	const char *what;
	double seconds, pace_ms, pause_ms;
	uint64_t streams;
	bool sync;
} settings = { .what = "graph", .seconds = 1, .pace_ms = 5, .streams = 1 };

static const struct option_row options[] = {
	{ "what", "kernel, graph or copy (graph)", OPTION_TEXT, &settings.what },
	{ "seconds", "for this long (1)", OPTION_REAL, &settings.seconds },
	{ "pace-ms", "milliseconds between submissions (5)", OPTION_REAL, &settings.pace_ms },
	{ "pause-ms", "milliseconds without any, halfway (0)", OPTION_REAL, &settings.pause_ms },
	{ "streams", "that take turns, up to 16 (1)", OPTION_NUMBER, &settings.streams },
	{ "sync", "wait for each submission", OPTION_FLAG, &settings.sync },
};

static CUfunction kernel;
static CUdeviceptr from, to;

struct lane {
	CUstream stream;
	CUgraphExec exec;
};

static void launch(CUstream stream)
{
	TRY(cuLaunchKernel, (kernel, 8, 1, 1, 64, 1, 1, 0, stream, NULL, NULL));
}

static void copy(CUstream stream)
{
	TRY(cuMemcpyDtoDAsync_v2, (to, from, NUMBERS * sizeof(uint32_t), stream));
}

static void make_lane(struct lane *lane)
{
	CUgraph graph;

	TRY(cuStreamCreate, (&lane->stream, CU_STREAM_NON_BLOCKING));
	TRY(cuStreamBeginCapture_v2, (lane->stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	launch(lane->stream);
	copy(lane->stream);
	launch(lane->stream);
	TRY(cuStreamEndCapture, (lane->stream, &graph));
	TRY(cuGraphInstantiateWithFlags, (&lane->exec, graph, 0));
	TRY(cuGraphDestroy, (graph));
}

static NOINLINE void pulse(const struct lane *lane)
{
	if (!strcmp(settings.what, "graph"))
		TRY(cuGraphLaunch, (lane->exec, lane->stream));
	else if (!strcmp(settings.what, "copy"))
		copy(lane->stream);
	else
		launch(lane->stream);
	if (settings.sync)
		TRY(cuStreamSynchronize, (lane->stream));
}

/* Returns how many there were. */
static uint64_t pulse_for(struct lane *lanes, double seconds, uint64_t count)
{
	uint64_t next = workload_now(), end = next + (uint64_t)(seconds * 1e9);

	for (; next < end; count++) {
		pulse(&lanes[count % settings.streams]);
		next += (uint64_t)(settings.pace_ms * 1e6);
		workload_sleep_until(next);
	}
	return count;
}

int main(int argc, char **argv)
{
	static const char image[] = IMAGE_HEAD IMAGE_KERNEL("pulse");
	struct lane lanes[STREAMS_MAX];
	CUcontext context;
	CUmodule module;
	uint64_t count;

	workload_options(argc, argv, options, ARRAY_SIZE(options));
	if (!settings.streams || settings.streams > STREAMS_MAX || settings.pace_ms <= 0)
		workload_die("options", 0, __FILE__, __LINE__);
	TRY(cuInit, (0));
	TRY(cuCtxCreate_v2, (&context, 0, 0));
	TRY(cuModuleLoadData, (&module, image));
	TRY(cuModuleGetFunction, (&kernel, module, "pulse"));
	TRY(cuMemAlloc_v2, (&from, NUMBERS * sizeof(uint32_t)));
	TRY(cuMemAlloc_v2, (&to, NUMBERS * sizeof(uint32_t)));
	for (uint64_t i = 0; i < settings.streams; i++)
		make_lane(&lanes[i]);
	workload_say("{\"pid\":%d,\"ready\":1}\n", (int)getpid());
	count = pulse_for(lanes, settings.seconds / 2, 0);
	if (settings.pause_ms > 0)
		workload_sleep_until(workload_now() + (uint64_t)(settings.pause_ms * 1e6));
	count = pulse_for(lanes, settings.seconds / 2, count);
	workload_say("{\"pid\":%d,\"submissions\":%lu}\n", (int)getpid(), (unsigned long)count);
	return 0;
}
