/* Reissue, issuing: a row for each family of driver functions, by prefix of their names. Functions
 * without a row are not reissued: they do nothing on the device. */
#include <errno.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/reissue/kernel.h"
#include "client/reissue/world.h"
#include "client/trace/show.h"
#include "core/base/array.h"

#define STAGED_AT_ONCE (64 << 10)

/* One call that is reissued. */
struct gpu_issue {
	struct gpu_world *world;
	const struct gpu_driver *driver;
	uint32_t call;
	const struct op *op;
	int device;
	CUstream stream; /* where it was issued */
};

static const struct plan_work *work_of(const struct gpu_issue *issue)
{
	uint32_t work = issue->world->plan->call[issue->call].work;

	return work == PLAN_NONE ? NULL : &issue->world->plan->work[work];
}

/* The device waits instead of running the kernel. */
static int launch(struct gpu_issue *issue, const struct plan_work *work, CUstream stream)
{
	const struct plan *plan = issue->world->plan;
	const struct op *op = &plan->op[work->op];
	struct gpu_launch *launch = &issue->world->launch[work - plan->work];
	struct gpu_kernel_arguments *argument = &launch->argument;
	void *parameter[] = { &argument->duration_ns, &argument->slot, &argument->old_ns,
			      &argument->block_waves, &argument->wave_part };

	return issue->driver->cuLaunchKernel(launch->function, op->grid[0] ?: 1, op->grid[1] ?: 1,
					     op->grid[2] ?: 1, op->block[0] ?: 1, op->block[1] ?: 1,
					     op->block[2] ?: 1, op->shared_bytes, stream, parameter,
					     NULL);
}

static int issue_kernel(struct gpu_issue *issue)
{
	const struct plan_work *work = work_of(issue);

	if (!work || work->flags & PLAN_MARK)
		return 0;
	atomic_fetch_add(&issue->world->works, 1);
	return launch(issue, work, issue->stream);
}

/* Whether the host memory of a copy was page-locked. For memory allocated before the recording
 * started, the copy itself shows it: only without staging does it continue after its call has
 * returned, and up to 64 KiB are staged at once. Source: CUDA driver API, "API synchronization
 * behavior". Graph nodes have no addresses; graphs do not stage. */
static bool is_locked(const struct gpu_issue *issue, const struct op *op, uint64_t address)
{
	return address == 0 || gpu_world_is_locked(issue->world, op->process, address) ||
	       (op->bytes > STAGED_AT_ONCE && op->end_ns && op->end_ns < op->gpu_end_ns);
}

static int copy(struct gpu_issue *issue, const struct op *op, bool wait, CUstream stream)
{
	struct gpu_world *world = issue->world;
	const struct gpu_driver *driver = issue->driver;
	CUdeviceptr scratch = world->device[issue->device].scratch;
	CUdeviceptr other = scratch + world->scratch_bytes;
	bool out = op->detail == COPY_DTOH;
	bool locked = is_locked(issue, op, out ? op->address : op->source);
	void *host = locked ? world->locked : world->plain;
	size_t size = op->bytes;

	if (op->detail == COPY_HTOH)
		return 0;
	atomic_fetch_add(&world->works, size > 0); /* without bytes it is a call, and no work */
	if (op->detail == COPY_HTOD)
		return wait ? driver->cuMemcpyHtoD_v2(scratch, host, size)
			    : driver->cuMemcpyHtoDAsync_v2(scratch, host, size, stream);
	if (out)
		return wait ? driver->cuMemcpyDtoH_v2(host, scratch, size)
			    : driver->cuMemcpyDtoHAsync_v2(host, scratch, size, stream);
	return wait ? driver->cuMemcpyDtoD_v2(other, scratch, size)
		    : driver->cuMemcpyDtoDAsync_v2(other, scratch, size, stream);
}

static bool is_async(const struct gpu_issue *issue)
{
	return issue->world->way[issue->op->fn].async;
}

static int issue_copy(struct gpu_issue *issue)
{
	return copy(issue, issue->op, !is_async(issue), issue->stream);
}

static int issue_set(struct gpu_issue *issue)
{
	CUdeviceptr to = issue->world->device[issue->device].scratch;

	atomic_fetch_add(&issue->world->works, issue->op->bytes > 0);
	return is_async(issue)
		       ? issue->driver->cuMemsetD8Async(to, 0, issue->op->bytes, issue->stream)
		       : issue->driver->cuMemsetD8_v2(to, 0, issue->op->bytes);
}

static struct map_key memory_key(const struct op *op)
{
	return (struct map_key){ op->address, op->process };
}

static int issue_alloc(struct gpu_issue *issue)
{
	const struct gpu_driver *driver = issue->driver;
	const struct op *op = issue->op;
	CUdeviceptr address = 0;
	void *host = NULL;
	int result;

	if (op->result != 0 || op->bytes == 0)
		return 0;
	switch (op->detail) {
	case MEMORY_DEVICE:
	case MEMORY_PHYSICAL:
		result = driver->cuMemAlloc_v2(&address, op->bytes);
		break;
	case MEMORY_POOL:
		result = driver->cuMemAllocAsync(&address, op->bytes, issue->stream);
		break;
	case MEMORY_MANAGED:
		result = driver->cuMemAllocManaged(&address, op->bytes, CU_MEM_ATTACH_GLOBAL);
		break;
	case MEMORY_HOST:
		result = driver->cuMemHostAlloc(&host, op->bytes, 0);
		address = (CUdeviceptr)(uintptr_t)host;
		break;
	default: /* the program's own memory, or addresses without memory */
		return 0;
	}
	if (result != 0)
		return result;
	pthread_mutex_lock(&issue->world->lock);
	if (map_put(&issue->world->memory, memory_key(op), (void *)(uintptr_t)address) < 0)
		atomic_fetch_add(&issue->world->unknown, 1); /* it is not freed */
	pthread_mutex_unlock(&issue->world->lock);
	return 0;
}

static int issue_free(struct gpu_issue *issue)
{
	const struct gpu_driver *driver = issue->driver;
	void *address;

	pthread_mutex_lock(&issue->world->lock);
	address = map_remove(&issue->world->memory, memory_key(issue->op));
	pthread_mutex_unlock(&issue->world->lock);
	if (!address) /* it existed before the recording */
		return 0;
	if (issue->op->detail == MEMORY_HOST)
		return driver->cuMemFreeHost(address);
	if (issue->op->detail == MEMORY_POOL && is_async(issue))
		return driver->cuMemFreeAsync((CUdeviceptr)(uintptr_t)address, issue->stream);
	return driver->cuMemFree_v2((CUdeviceptr)(uintptr_t)address);
}

static CUevent event_of(const struct gpu_issue *issue)
{
	return map_get(&issue->world->event,
		       (struct map_key){ issue->op->handle, issue->op->process });
}

/* An event that leaves no mark on its stream orders nothing, or was captured into a graph. */
static bool marks(const struct gpu_issue *issue)
{
	return issue->world->plan->call[issue->call].work != PLAN_NONE;
}

static int issue_record(struct gpu_issue *issue)
{
	CUevent event = marks(issue) ? event_of(issue) : NULL;

	return event ? issue->driver->cuEventRecord(event, issue->stream) : 0;
}

static int issue_wait(struct gpu_issue *issue)
{
	CUevent event = marks(issue) ? event_of(issue) : NULL;

	return event ? issue->driver->cuStreamWaitEvent(issue->stream, event, 0) : 0;
}

static int issue_event_sync(struct gpu_issue *issue)
{
	CUevent event = event_of(issue);

	return event ? issue->driver->cuEventSynchronize(event) : 0;
}

static int issue_stream_sync(struct gpu_issue *issue)
{
	return issue->driver->cuStreamSynchronize(issue->stream);
}

static int issue_device_sync(struct gpu_issue *issue)
{
	return issue->driver->cuCtxSynchronize();
}

static int issue_graph(struct gpu_issue *issue)
{
	CUgraphExec exec = map_get(&issue->world->graph, gpu_graph_key(issue->world, issue->call));

	return exec ? issue->driver->cuGraphLaunch(exec, issue->stream) : 0;
}

/* Functions by prefix of their names: the first row that matches a call applies. */
static const struct {
	const char *name;
	int (*issue)(struct gpu_issue *issue);
} functions[] = {
	{ "cuLaunchKernel", issue_kernel },
	{ "cuLaunchCooperativeKernel", issue_kernel },
	{ "cuGraphLaunch", issue_graph },
	{ "cuMemcpy", issue_copy },
	{ "cuMemset", issue_set },
	{ "cuEventRecord", issue_record },
	{ "cuStreamWaitEvent", issue_wait },
	{ "cuEventSynchronize", issue_event_sync },
	{ "cuStreamSynchronize", issue_stream_sync },
	{ "cuCtxSynchronize", issue_device_sync },
};

static void find_way(struct gpu_world *world, const struct op *op)
{
	struct gpu_way *way = &world->way[op->fn];
	const char *name;

	if (way->found)
		return;
	way->found = true;
	name = show_call_name(world->trace.meta, op)->text;
	way->async = strstr(name, "Async");
	for (size_t i = 0; !way->issue && i < ARRAY_SIZE(functions); i++)
		if (strncmp(name, functions[i].name, strlen(functions[i].name)) == 0)
			way->issue = functions[i].issue;
}

int gpu_issue_ways(struct gpu_world *world)
{
	const struct plan *plan = world->plan;

	world->way = calloc(UINT16_MAX + 1, sizeof(*world->way));
	if (!world->way) {
		complain_memory();
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < plan->call_count; i++)
		find_way(world, &plan->op[plan->call[i].op]);
	return 0;
}

static int dispatch(struct gpu_issue *issue)
{
	const struct gpu_way *way = &issue->world->way[issue->op->fn];

	if (issue->op->kind == OP_ALLOC)
		return issue_alloc(issue);
	if (issue->op->kind == OP_FREE)
		return issue_free(issue);
	if (way->issue)
		return way->issue(issue);
	if (work_of(issue))
		atomic_fetch_add(&issue->world->unknown, 1);
	return 0;
}

static CUstream stream_of(const struct gpu_world *world, const struct op *op, uint32_t call)
{
	const struct plan *plan = world->plan;
	uint32_t work = plan->call[call].work;

	if (work != PLAN_NONE)
		return world->stream[plan->work[work].stream];
	for (uint32_t i = 0; i < plan->stream_count; i++)
		if (plan->stream[i].stream == op->stream && op->stream != 0)
			return world->stream[i];
	return CU_STREAM_LEGACY;
}

int gpu_issue_work(struct gpu_world *world, const struct plan_work *work, CUstream stream)
{
	const struct op *op = &world->plan->op[work->op];
	struct gpu_issue issue = {
		.world = world,
		.driver = world->driver,
		.op = op,
		.device = gpu_world_device(world, op),
	};

	if (work->engine == PLAN_ENGINE_COMPUTE)
		return launch(&issue, work, stream);
	if (op->kind == OP_COPY)
		return copy(&issue, op, false, stream);
	if (op->kind != OP_SET)
		return 0;
	return world->driver->cuMemsetD8Async(world->device[issue.device].scratch, 0, op->bytes,
					      stream);
}

int gpu_issue(struct gpu_world *world, uint32_t call)
{
	const struct op *op = &world->plan->op[world->plan->call[call].op];
	struct gpu_issue issue = {
		.world = world,
		.driver = world->driver,
		.call = call,
		.op = op,
		.device = gpu_world_device(world, op),
		.stream = stream_of(world, op, call),
	};

	/* It was captured into a graph, or failed. */
	if (op->flags & OP_CAPTURED || op->result != 0)
		return 0;
	return dispatch(&issue);
}
