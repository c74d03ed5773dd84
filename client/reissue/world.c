/* Reissue, world: creates everything that calls refer to before the first call. */
#include "client/reissue/world.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/link/rows.h"
#include "client/reissue/kernel.h"
#include "core/base/units.h"

#define SCRATCH_LEAST 4096
/* The overhead of a launch beyond its kernel, on an H200: with at most one block per
 * multiprocessor, the same in a graph recorded node by node, and with many blocks. Source:
 * docs/measurements.md, "Reissued on a GPU". */
#define KERNEL_OWN_NS	     700
#define KERNEL_NODE_OWN_NS   850
#define KERNEL_FULL_OWN_NS   1000
#define SHARED_BYTES_UNASKED (48 << 10) /* more than this must be requested */

static int fail(const struct gpu_world *world, const char *what, int result)
{
	complain("Cannot %s: %s", what, gpu_driver_error(world->driver, result));
	return -EIO;
}

int gpu_world_device(const struct gpu_world *world, const struct op *op)
{
	int device = op->device;

	if (device >= 0 && device < GPU_DEVICES_MAX && world->device[device].used)
		return device;
	for (device = 0; device < GPU_DEVICES_MAX - 1 && !world->device[device].used; device++)
		;
	return device;
}

/* The peak of device memory, and the largest copy. */
static int measure(struct gpu_world *world)
{
	const struct plan *plan = world->plan;
	uint64_t live[GPU_DEVICES_MAX] = { 0 };

	world->scratch_bytes = SCRATCH_LEAST;
	for (size_t i = 0; i < plan->op_count; i++) {
		const struct op *op = &plan->op[i];
		int device = gpu_world_device(world, op);
		bool counts = op->detail == MEMORY_DEVICE || op->detail == MEMORY_POOL ||
			      op->detail == MEMORY_PHYSICAL || op->detail == MEMORY_MANAGED;

		if ((op->kind == OP_COPY || op->kind == OP_SET) && op->bytes > world->scratch_bytes)
			world->scratch_bytes = op->bytes;
		if (!counts || op->result != 0)
			continue;
		if (op->kind == OP_ALLOC)
			live[device] += op->bytes;
		else if (op->kind == OP_FREE)
			live[device] -= op->bytes < live[device] ? op->bytes : live[device];
		if (live[device] > world->device[device].need_bytes)
			world->device[device].need_bytes = live[device];
	}
	return 0;
}

static int use_devices(struct gpu_world *world)
{
	int count = 0, result = world->driver->cuDeviceGetCount(&count);

	if (result != 0)
		return fail(world, "count the devices", result);
	for (uint32_t i = 0; i < world->plan->device_count; i++) {
		int ordinal = world->plan->device[i].ordinal;

		if (ordinal == DEVICE_UNKNOWN)
			ordinal = 0;
		if (ordinal < 0 || ordinal >= count || ordinal >= GPU_DEVICES_MAX) {
			complain("The recording uses device %d, and this machine has %d devices: "
				 "select a part with --device",
				 ordinal, count);
			return -ENODEV;
		}
		world->device[ordinal].used = true;
	}
	return 0;
}

static int load_kernels(struct gpu_world *world, struct gpu_device *device)
{
	const struct gpu_driver *driver = world->driver;
	int result = driver->cuModuleLoadData(&device->module, world->text);

	return result ? fail(world, "build the stand-in kernels", result) : 0;
}

/* The stand-in for kernels of this name. */
static CUfunction find_function(struct gpu_world *world, struct gpu_device *device,
				uint64_t name_id)
{
	struct map_key key = { name_id, 0 };
	const char *name = map_get(&world->symbol, key);
	CUfunction function = map_get(&device->function, key);

	if (function)
		return function;
	if (world->driver->cuModuleGetFunction(&function, device->module,
					       name ? name : GPU_KERNEL_NAMELESS) != 0 ||
	    map_put(&device->function, key, function) < 0)
		return NULL;
	return function;
}

/* How a kernel's time is divided among its blocks: see kernel.h. */
static int prepare_kernel(struct gpu_world *world, struct gpu_device *device, uint32_t index)
{
	const struct plan_work *work = &world->plan->work[index];
	const struct op *op = &world->plan->op[work->op];
	struct gpu_launch *launch = &world->launch[index];
	bool node = work->flags & PLAN_GRAPH;
	uint64_t duration_ns = work->end_ns - work->start_ns;
	uint64_t own_ns = node ? KERNEL_NODE_OWN_NS : KERNEL_OWN_NS;
	double blocks = (double)(op->grid[0] ?: 1) * (op->grid[1] ?: 1) * (op->grid[2] ?: 1), held;
	int threads = (int)((op->block[0] ?: 1) * (op->block[1] ?: 1) * (op->block[2] ?: 1));
	int result = 0, most = 0;

	launch->function = find_function(world, device, op->name);
	if (!launch->function) {
		complain("Cannot find the stand-in for a recorded kernel");
		return -EIO;
	}
	if (op->shared_bytes > SHARED_BYTES_UNASKED)
		result = world->driver->cuFuncSetAttribute(
			launch->function, CU_FUNC_MAX_DYNAMIC_SHARED, (int)op->shared_bytes);
	if (result == 0)
		result = world->driver->cuOccupancyMaxActiveBlocksPerMultiprocessor(
			&most, launch->function, threads, op->shared_bytes);
	if (result != 0)
		return fail(world, "use the block size of a recorded kernel", result);
	if (blocks > device->multiprocessors)
		own_ns = KERNEL_FULL_OWN_NS;
	held = (double)most * device->multiprocessors;
	held = held < 1 ? 1 : held;
	launch->argument = (struct gpu_kernel_arguments){
		.duration_ns = duration_ns > own_ns ? duration_ns - own_ns : 0,
		.slot = device->slots + (uint64_t)index * GPU_KERNEL_SLOT,
		.old_ns = node ? duration_ns : UINT64_MAX,
		.block_waves = (float)(1 / held),
		.wave_part = (float)(1 / ceil(blocks / held)),
	};
	return 0;
}

/* Prepares what launches need, so that none has to wait. */
static int prepare_kernels(struct gpu_world *world)
{
	const struct plan *plan = world->plan;
	int r = 0;

	world->launch = calloc(plan->work_count + 1ul, sizeof(*world->launch));
	if (!world->launch) {
		complain_memory();
		return -ENOMEM;
	}
	for (uint32_t i = 0; r == 0 && i < plan->work_count; i++) {
		int ordinal = gpu_world_device(world, &plan->op[plan->work[i].op]);

		if (plan->work[i].engine != PLAN_ENGINE_COMPUTE)
			continue;
		world->driver->cuCtxSetCurrent(world->device[ordinal].context);
		r = prepare_kernel(world, &world->device[ordinal], i);
	}
	return r;
}

static int make_room(struct gpu_world *world, struct gpu_device *device)
{
	const struct gpu_driver *driver = world->driver;
	size_t slots = ((size_t)world->plan->work_count + 1) * GPU_KERNEL_SLOT, left = 0, total = 0;
	uint64_t need = device->need_bytes + 2 * world->scratch_bytes + slots;
	char text[2][UNITS_TEXT_SIZE];
	int result = driver->cuMemGetInfo_v2(&left, &total);

	if (result != 0)
		return fail(world, "query the free memory", result);
	if (need > left) {
		complain("The recording needs %s of device memory, and %s are free: select a part "
			 "with --from and --to, --stream or --kernel",
			 units_bytes(text[0], (int64_t)need), units_bytes(text[1], (int64_t)left));
		return -ENOMEM;
	}
	if ((result = driver->cuStreamCreate(&device->own, CU_STREAM_NON_BLOCKING)) != 0 ||
	    (result = driver->cuMemAlloc_v2(&device->scratch, 2 * world->scratch_bytes)) != 0 ||
	    (result = driver->cuMemAlloc_v2(&device->slots, slots)) != 0 ||
	    (result = driver->cuMemsetD8Async(device->slots, 0, slots, device->own)) != 0 ||
	    (result = driver->cuStreamSynchronize(device->own)) != 0)
		return fail(world, "allocate device memory", result);
	return 0;
}

static int make_devices(struct gpu_world *world)
{
	const struct gpu_driver *driver = world->driver;
	int r = 0, result;

	for (int i = 0; r == 0 && i < GPU_DEVICES_MAX; i++) {
		struct gpu_device *device = &world->device[i];

		if (!device->used)
			continue;
		if ((result = driver->cuDeviceGetAttribute(&device->multiprocessors,
							   CU_ATTRIBUTE_MULTIPROCESSORS, i)) != 0 ||
		    (result = driver->cuDevicePrimaryCtxRetain(&device->context, i)) != 0 ||
		    (result = driver->cuCtxSetCurrent(device->context)) != 0)
			return fail(world, "use a device", result);
		r = load_kernels(world, device);
		if (r == 0)
			r = make_room(world, device);
	}
	return r;
}

static int take_stream(void *data, const Tracesmith__V1__Row *row)
{
	struct map *kind = data;
	struct map_key key;

	if (row->n_value != 3)
		return -EPROTO;
	key = (struct map_key){ (uint64_t)rows_integer(row->value[0]), 0 };
	/* 1: the default one, 2: that of the thread, 3: blocking, 4: not. */
	return map_put(kind, key,
		       (void *)(uintptr_t)(rows_integer(row->value[1]) == 2 ? 2
					   : rows_integer(row->value[1]) == 0 ||
							   rows_integer(row->value[1]) == 1
						   ? 1
						   : 3 + (rows_integer(row->value[2]) != 0)));
}

static int make_streams(struct gpu_world *world)
{
	const struct plan *plan = world->plan;
	struct map kind = { 0 };
	int r = rows_query(world->trace.link, "stream-handles", UINT64_MAX, take_stream, &kind),
	    result = 0;

	world->stream = calloc(plan->stream_count + 1, sizeof(CUstream));
	for (uint32_t i = 0; r >= 0 && world->stream && i < plan->stream_count; i++) {
		const struct plan_stream *stream = &plan->stream[i];
		uintptr_t is = (uintptr_t)map_get(&kind, (struct map_key){ stream->stream, 0 });
		struct op of = { .device = plan->device[stream->device].ordinal };
		int device = gpu_world_device(world, &of);

		if (is <= 2) {
			world->stream[i] = is == 2 ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
			continue;
		}
		world->driver->cuCtxSetCurrent(world->device[device].context);
		result = world->driver->cuStreamCreate(&world->stream[i],
						       is == 4 ? CU_STREAM_NON_BLOCKING : 0);
		if (result != 0)
			r = fail(world, "create a stream", result);
	}
	map_clear(&kind);
	if (r >= 0 && !world->stream) {
		complain_memory();
		r = -ENOMEM;
	}
	return r < 0 ? r : 0;
}

/* Every event that is ever recorded or waited for. */
static int make_events(struct gpu_world *world)
{
	const struct plan *plan = world->plan;

	for (uint32_t i = 0; i < plan->call_count; i++) {
		const struct op *op = &plan->op[plan->call[i].op];
		struct map_key key = { op->handle, op->process };
		int device = gpu_world_device(world, op), result;
		CUevent event;

		if ((op->kind != OP_EVENT && op->kind != OP_SYNC && op->kind != OP_STREAM) ||
		    op->handle == 0 || map_get(&world->event, key))
			continue;
		world->driver->cuCtxSetCurrent(world->device[device].context);
		result = world->driver->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
		if (result != 0)
			return fail(world, "create an event", result);
		if (map_put(&world->event, key, event) < 0)
			return complain_memory(), -ENOMEM;
	}
	return 0;
}

static int make_text(struct gpu_world *world)
{
	size_t count = 0;
	const char **symbol = calloc(world->symbol.count + 1, sizeof(*symbol));

	for (size_t i = 0; symbol && i < world->symbol.size; i++)
		if (world->symbol.slot[i].value)
			symbol[count++] = world->symbol.slot[i].value;
	world->text = symbol ? gpu_kernel_text(symbol, count) : NULL;
	free(symbol);
	world->plain = calloc(1, world->scratch_bytes);
	if (world->text && world->plain)
		return 0;
	complain_memory();
	return -ENOMEM;
}

int gpu_world_make(struct gpu_world *world)
{
	int r = gpu_driver_open(&world->driver), result;

	if (r == 0)
		r = use_devices(world);
	if (r == 0)
		r = measure(world);
	if (r == 0)
		r = make_text(world);
	if (r == 0)
		r = make_devices(world);
	if (r == 0)
		r = make_streams(world);
	if (r == 0)
		r = make_events(world);
	if (r == 0)
		r = prepare_kernels(world);
	if (r == 0)
		r = gpu_issue_ways(world);
	if (r < 0)
		return r;
	result = world->driver->cuMemHostAlloc(&world->locked, world->scratch_bytes, 0);
	if (result != 0)
		return fail(world, "allocate page-locked memory", result);
	for (uint32_t i = 0; r == 0 && i < world->plan->call_count; i++)
		if (!world->skip[i] && world->plan->call[i].flags & PLAN_GRAPH)
			r = gpu_graph_make(world, i);
	return r;
}

/* The driver's things end with the process. */
void gpu_world_done(struct gpu_world *world)
{
	for (size_t i = 0; i < world->symbol.size; i++)
		free(world->symbol.slot[i].value);
	map_clear(&world->symbol);
	map_clear(&world->event);
	map_clear(&world->memory);
	map_clear(&world->graph);
	for (int i = 0; i < GPU_DEVICES_MAX; i++)
		map_clear(&world->device[i].function);
	free(world->launch);
	free(world->way);
	free(world->skip);
	free(world->issued);
	free(world->stream);
	free(world->locked_range);
	free(world->plain);
	free(world->text);
	plan_free(world->plan);
	trace_done(&world->trace);
	pthread_mutex_destroy(&world->lock);
	gpu_driver_free(world->driver);
}
