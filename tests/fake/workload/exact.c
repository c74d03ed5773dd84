/* Exact: a known number of kernels of each name, copies of each kind, sets and graph launches, on
 * several threads, streams and devices. The last lines say how many of each the GPU was given.
 *   exact --threads T --rounds N --nodes K [--pageable] */
#include "workload.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BYTES_MAX (64 << 10)

static struct {
	uint64_t threads, rounds, nodes;
	bool pageable, hold;
} settings = { .threads = 3, .rounds = 10, .nodes = 4 };

static const struct option_row options[] = {
	{ "threads", "threads, spread over the devices (3)", OPTION_NUMBER, &settings.threads },
	{ "rounds", "rounds of each thread (10)", OPTION_NUMBER, &settings.rounds },
	{ "nodes", "kernels of the graph (4)", OPTION_NUMBER, &settings.nodes },
	{ "pageable", "copy from and to pageable memory", OPTION_FLAG, &settings.pageable },
	{ "hold", "wait for a newline before the calls and after them", OPTION_FLAG,
	  &settings.hold },
};

#define MANGLED                                                                                    \
	"_ZN2at6native29vectorized_elementwise_kernelILi4EZZZNS0_23gpu_kernel_impl_nocastIZZZNS0_" \
	"21clamp_min_kernel_cudaERNS_18TensorIteratorBaseERKN3c106ScalarEENKUlvE_clEvENKUlvE4_clE" \
	"vEUldE_EEvS4_RKT_ENKUlvE_clEvENKUlvE_clEvEUliE_St5arrayIPcLm2EEEEviT0_T1_"

static const char *const names[] = { "scale", MANGLED, "_Z6reducePKfPfi", "tick_ns1", "in_graph" };
static const char image[] = IMAGE_HEAD IMAGE_KERNEL("scale") IMAGE_KERNEL(MANGLED)
	IMAGE_KERNEL("_Z6reducePKfPfi") IMAGE_KERNEL("tick_ns1") IMAGE_KERNEL("in_graph");

enum { SCALE, LONG, REDUCE, TICK, IN_GRAPH, NAMES };
enum { HTOD, DTOH, DTOD, PTOP, KINDS };

static const char *const kinds[] = { "htod", "dtoh", "dtod", "ptop" };

struct tally {
	uint64_t kernels[NAMES], copies[KINDS], copy_bytes[KINDS];
	uint64_t sets, set_bytes, graphs, launch_calls, captured_calls;
};

struct worker {
	pthread_t id;
	int device, peer;
	uint32_t thread;
	CUcontext context, peer_context;
	CUfunction kernels[NAMES];
	CUstream first, second;
	CUevent moved;
	CUdeviceptr a, b, there;
	void *host;
	CUgraphExec exec;
	struct tally done;
};

static int devices;

static void worker_launch(struct worker *w, int kernel, CUstream stream)
{
	TRY(cuLaunchKernel,
	    (w->kernels[kernel], 4 + (unsigned int)kernel, 1, 1, 64, 1, 1, 0, stream, NULL, NULL));
	w->done.launch_calls++;
	w->done.kernels[kernel]++;
}

static void worker_copied(struct worker *w, int kind, uint64_t bytes)
{
	w->done.copies[kind]++;
	w->done.copy_bytes[kind] += bytes;
}

/* Captured calls run only when the graph is launched. */
static void worker_capture(struct worker *w)
{
	struct tally before = w->done;
	CUgraph graph;

	TRY(cuStreamBeginCapture_v2, (w->first, CU_STREAM_CAPTURE_MODE_RELAXED));
	for (uint64_t i = 0; i < settings.nodes; i++)
		worker_launch(w, IN_GRAPH, w->first);
	TRY(cuMemsetD32Async, (w->a, 0, 128, w->first));
	TRY(cuMemcpyDtoDAsync_v2, (w->b, w->a, 256, w->first));
	/* A fork and a join, with nothing between them. */
	TRY(cuEventRecord, (w->moved, w->first));
	TRY(cuStreamWaitEvent, (w->second, w->moved, 0));
	TRY(cuEventRecord, (w->moved, w->second));
	TRY(cuStreamWaitEvent, (w->first, w->moved, 0));
	TRY(cuStreamEndCapture, (w->first, &graph));
	TRY(cuGraphInstantiateWithFlags, (&w->exec, graph, 0));
	TRY(cuGraphDestroy, (graph));
	w->done = before;
	w->done.launch_calls += settings.nodes;
	w->done.captured_calls += settings.nodes;
}

static NOINLINE void worker_graph(struct worker *w)
{
	TRY(cuGraphLaunch, (w->exec, w->first));
	w->done.graphs++;
	w->done.kernels[IN_GRAPH] += settings.nodes;
	w->done.sets++;
	w->done.set_bytes += 128 * 4;
	worker_copied(w, DTOD, 256);
}

static NOINLINE void worker_round(struct worker *w)
{
	TRY(cuMemcpyHtoDAsync_v2, (w->a, w->host, 1000, w->first));
	worker_copied(w, HTOD, 1000);
	TRY(cuEventRecord, (w->moved, w->first));
	TRY(cuStreamWaitEvent, (w->second, w->moved, 0));
	worker_launch(w, SCALE, w->first);
	worker_launch(w, SCALE, w->second);
	worker_launch(w, LONG, w->second);
	for (int i = 0; i < 3; i++)
		worker_launch(w, TICK, w->first);
	TRY(cuMemcpyDtoDAsync_v2, (w->b, w->a, 2000, w->second));
	worker_copied(w, DTOD, 2000);
	TRY(cuMemsetD8_v2, (w->b, 3, 3000));
	TRY(cuMemsetD32Async, (w->a, 3, 500, w->second));
	w->done.sets += 2;
	w->done.set_bytes += 3000 + 500 * 4;
	/* Of nothing: the GPU is given no work. */
	TRY(cuMemcpyDtoDAsync_v2, (w->b, w->a, 0, w->second));
	TRY(cuMemsetD8_v2, (w->b, 3, 0));
	worker_launch(w, REDUCE, NULL);
	worker_graph(w);
	if (w->there) {
		TRY(cuMemcpyPeerAsync,
		    (w->there, w->peer_context, w->a, w->context, 4000, w->first));
		worker_copied(w, PTOP, 4000);
	}
	TRY(cuMemcpyDtoHAsync_v2, (w->host, w->b, 5000, w->second));
	worker_copied(w, DTOH, 5000);
	TRY(cuStreamSynchronize, (w->second));
}

static void worker_setup(struct worker *w)
{
	CUmodule module;

	if (w->peer != w->device) {
		TRY(cuDevicePrimaryCtxRetain, (&w->peer_context, w->peer));
		TRY(cuCtxSetCurrent, (w->peer_context));
		TRY(cuMemAlloc_v2, (&w->there, BYTES_MAX));
	}
	TRY(cuDevicePrimaryCtxRetain, (&w->context, w->device));
	TRY(cuCtxSetCurrent, (w->context));
	TRY(cuModuleLoadData, (&module, image));
	for (size_t i = 0; i < NAMES; i++)
		TRY(cuModuleGetFunction, (&w->kernels[i], module, names[i]));
	TRY(cuStreamCreate, (&w->first, CU_STREAM_NON_BLOCKING));
	TRY(cuStreamCreateWithPriority, (&w->second, CU_STREAM_NON_BLOCKING, -2));
	TRY(cuEventCreate, (&w->moved, CU_EVENT_DISABLE_TIMING));
	TRY(cuMemAlloc_v2, (&w->a, BYTES_MAX));
	TRY(cuMemAlloc_v2, (&w->b, BYTES_MAX));
	if (settings.pageable)
		w->host = malloc(BYTES_MAX);
	else
		TRY(cuMemHostAlloc, (&w->host, BYTES_MAX, 0));
	if (!w->host)
		abort();
	memset(w->host, 1, BYTES_MAX);
}

static void worker_finish(struct worker *w)
{
	TRY(cuCtxSynchronize, ());
	TRY(cuGraphExecDestroy, (w->exec));
	TRY(cuEventDestroy_v2, (w->moved));
	TRY(cuStreamDestroy_v2, (w->first));
	TRY(cuStreamDestroy_v2, (w->second));
	TRY(cuMemFree_v2, (w->a));
	TRY(cuMemFree_v2, (w->b));
	if (settings.pageable)
		free(w->host);
	else
		TRY(cuMemFreeHost, (w->host));
	if (w->there)
		TRY(cuMemFree_v2, (w->there));
}

static void *work(void *data)
{
	struct worker *w = data;

	w->thread = (uint32_t)syscall(SYS_gettid);
	worker_setup(w);
	worker_capture(w);
	for (uint64_t i = 0; i < settings.rounds; i++)
		worker_round(w);
	worker_finish(w);
	return NULL;
}

static void say_thread(const struct worker *w)
{
	workload_say("{\"pid\":%d,\"tid\":%u,\"device\":%d,\"launch_calls\":%lu,"
		     "\"captured_calls\":%lu,\"graph_launches\":%lu}\n",
		     (int)getpid(), w->thread, w->device, (unsigned long)w->done.launch_calls,
		     (unsigned long)w->done.captured_calls, (unsigned long)w->done.graphs);
}

/* One object inside the last line: {"name":number,...}. */
static void print_object(FILE *out, const char *title, const char *const *keys,
			 const uint64_t *values, size_t count)
{
	fprintf(out, ",\"%s\":{", title);
	for (size_t i = 0; i < count; i++)
		fprintf(out, "%s\"%s\":%lu", i ? "," : "", keys[i], (unsigned long)values[i]);
	fprintf(out, "}");
}

static void say_all(const struct tally *t)
{
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);

	if (!out)
		abort();
	fprintf(out, "{\"pid\":%d,\"threads\":%lu,\"devices\":%d", (int)getpid(),
		(unsigned long)settings.threads, devices);
	print_object(out, "kernels", names, t->kernels, NAMES);
	print_object(out, "copies", kinds, t->copies, KINDS);
	print_object(out, "copy_bytes", kinds, t->copy_bytes, KINDS);
	fprintf(out, ",\"sets\":%lu,\"set_bytes\":%lu,\"graph_launches\":%lu,\"graph_nodes\":%lu",
		(unsigned long)t->sets, (unsigned long)t->set_bytes, (unsigned long)t->graphs,
		(unsigned long)settings.nodes + 2);
	fprintf(out, ",\"launch_calls\":%lu,\"captured_calls\":%lu}\n",
		(unsigned long)t->launch_calls, (unsigned long)t->captured_calls);
	fclose(out);
	workload_say("%s", text);
	free(text);
}

static void tally_sum(struct tally *sum, const struct tally *one)
{
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)one;

	for (size_t i = 0; i < sizeof(*sum) / sizeof(*to); i++)
		to[i] += from[i];
}

int main(int argc, char **argv)
{
	struct tally sum = { 0 };
	struct worker *workers;

	workload_options(argc, argv, options, ARRAY_SIZE(options));
	workers = calloc(settings.threads, sizeof(*workers));
	if (!workers)
		abort();
	TRY(cuInit, (0));
	TRY(cuDeviceGetCount, (&devices));
	if (settings.hold) {
		workload_say("{\"pid\":%d,\"ready\":1}\n", (int)getpid());
		workload_hold(-1);
	}
	for (uint64_t i = 0; i < settings.threads; i++) {
		workers[i].device = (int)(i % (uint64_t)devices);
		workers[i].peer = (int)((i + 1) % (uint64_t)devices);
		pthread_create(&workers[i].id, NULL, work, &workers[i]);
	}
	for (uint64_t i = 0; i < settings.threads; i++) {
		pthread_join(workers[i].id, NULL);
		tally_sum(&sum, &workers[i].done);
	}
	tally_print();
	for (uint64_t i = 0; i < settings.threads; i++)
		say_thread(&workers[i]);
	say_all(&sum);
	if (settings.hold)
		workload_hold(-1);
	free(workers);
	return 0;
}
