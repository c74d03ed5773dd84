/* Reissue, graphs: captures the nodes of a launch. Dependencies between nodes are not recorded, so
 * nodes follow one another, and nodes that ran concurrently become branches. */
#include <errno.h>

#include "client/base/complain.h"
#include "client/reissue/world.h"

#define BRANCHES_MAX 16

struct branch {
	CUstream stream;
	CUevent event; /* its end, or for the first its start */
	uint64_t end_ns;
};

struct capture {
	struct gpu_world *world;
	const struct gpu_driver *driver;
	struct gpu_device *device;
	struct branch branch[BRANCHES_MAX]; /* the graph starts and ends on the first */
	uint32_t count;
	int result;
};

struct map_key gpu_graph_key(const struct gpu_world *world, uint32_t call)
{
	const struct plan *plan = world->plan;
	uint32_t process = plan->op[plan->call[call].op].process;

	/* The nodes carry the number of the graph. */
	for (uint32_t i = plan->call[call].work; i != PLAN_NONE; i = plan->work[i].next)
		if (plan->op[plan->work[i].op].graph != 0)
			return (struct map_key){ plan->op[plan->work[i].op].graph, process };
	return (struct map_key){ call + (UINT64_C(1) << 32), process };
}

static void note(struct capture *capture, int result)
{
	if (capture->result == 0)
		capture->result = result;
}

/* The branch that is free when the node starts, or a new one. */
static struct branch *branch_for(struct capture *capture, const struct plan_work *work)
{
	struct branch *soonest = &capture->branch[0];

	for (uint32_t i = 0; i < capture->count; i++) {
		if (capture->branch[i].end_ns <= work->start_ns)
			return &capture->branch[i];
		if (capture->branch[i].end_ns < soonest->end_ns)
			soonest = &capture->branch[i];
	}
	if (capture->count == BRANCHES_MAX)
		return soonest;
	note(capture, capture->driver->cuStreamWaitEvent(capture->branch[capture->count].stream,
							 capture->branch[0].event, 0));
	return &capture->branch[capture->count++];
}

static void capture_nodes(struct capture *capture, uint32_t call)
{
	const struct plan *plan = capture->world->plan;
	const struct gpu_driver *driver = capture->driver;
	CUstream first = capture->branch[0].stream;

	note(capture, driver->cuEventRecord(capture->branch[0].event, first));
	for (uint32_t i = plan->call[call].work; i != PLAN_NONE; i = plan->work[i].next) {
		const struct plan_work *work = &plan->work[i];
		struct branch *branch;

		if (work->flags & PLAN_MARK)
			continue;
		branch = branch_for(capture, work);
		branch->end_ns = work->end_ns;
		note(capture, gpu_issue_work(capture->world, work, branch->stream));
	}
	for (uint32_t i = 1; i < capture->count; i++) {
		note(capture,
		     driver->cuEventRecord(capture->branch[i].event, capture->branch[i].stream));
		note(capture, driver->cuStreamWaitEvent(first, capture->branch[i].event, 0));
	}
}

int gpu_graph_make(struct gpu_world *world, uint32_t call)
{
	struct map_key key = gpu_graph_key(world, call);
	const struct gpu_driver *driver = world->driver;
	int ordinal = gpu_world_device(world, &world->plan->op[world->plan->call[call].op]);
	struct capture capture = {
		.world = world,
		.driver = driver,
		.device = &world->device[ordinal],
		.count = 1,
	};
	CUgraph graph = NULL;
	CUgraphExec exec = NULL;

	if (map_get(&world->graph, key) || world->plan->call[call].work == PLAN_NONE)
		return 0;
	driver->cuCtxSetCurrent(capture.device->context);
	for (int i = 0; i < BRANCHES_MAX; i++) {
		note(&capture,
		     driver->cuStreamCreate(&capture.branch[i].stream, CU_STREAM_NON_BLOCKING));
		note(&capture,
		     driver->cuEventCreate(&capture.branch[i].event, CU_EVENT_DISABLE_TIMING));
	}
	if (capture.result == 0)
		note(&capture, driver->cuStreamBeginCapture_v2(capture.branch[0].stream,
							       CU_CAPTURE_MODE_RELAXED));
	if (capture.result == 0) {
		capture_nodes(&capture, call);
		note(&capture, driver->cuStreamEndCapture(capture.branch[0].stream, &graph));
	}
	if (capture.result == 0)
		note(&capture, driver->cuGraphInstantiateWithFlags(&exec, graph, 0));
	if (capture.result != 0) {
		complain("Cannot rebuild a recorded graph: %s",
			 gpu_driver_error(driver, capture.result));
		return -EIO;
	}
	return map_put(&world->graph, key, exec);
}
