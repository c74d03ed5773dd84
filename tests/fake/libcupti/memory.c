/* Memory: records of allocations, releases and pools, and what kind of memory an address is.
 * Knows the allocations that were made while attached. */
#include "fake_cupti.h"

#include <stdlib.h>

#define BUCKETS	       4096
#define GRANULE_SHIFT  8
#define POOL_THRESHOLD 4 /* CU_MEMPOOL_ATTR_RELEASE_THRESHOLD */
#define POOL_SIZE      5 /* ..._RESERVED_MEM_CURRENT */
#define POOL_USED      7 /* ..._USED_MEM_CURRENT */

struct allocation {
	struct allocation *next;
	uint64_t address, bytes, pool;
	uint32_t device;
	uint8_t kind;
	bool async;
};

enum memory_action {
	MEMORY_NOTHING,
	MEMORY_ALLOC,
	MEMORY_PITCH,
	MEMORY_FREE,
	MEMORY_POOL_CREATE,
	MEMORY_POOL_DESTROY,
	MEMORY_POOL_TRIM,
};

/* Which argument of the call is what; 0 has no meaning for stream and pool. */
static const struct memory_row {
	uint8_t action, kind, async, stream, pool;
} memory_rows[FAKE_FN_COUNT] = {
	[FAKE_FN_cuMemAlloc_v2] = { MEMORY_ALLOC, CUPTI_MEMORY_DEVICE, 0, 0, 0 },
	[FAKE_FN_cuMemAllocPitch_v2] = { MEMORY_PITCH, CUPTI_MEMORY_DEVICE, 0, 0, 0 },
	[FAKE_FN_cuMemAllocManaged] = { MEMORY_ALLOC, CUPTI_MEMORY_MANAGED, 0, 0, 0 },
	[FAKE_FN_cuMemAllocHost_v2] = { MEMORY_ALLOC, CUPTI_MEMORY_PINNED, 0, 0, 0 },
	[FAKE_FN_cuMemHostAlloc] = { MEMORY_ALLOC, CUPTI_MEMORY_PINNED, 0, 0, 0 },
	[FAKE_FN_cuMemAllocAsync] = { MEMORY_ALLOC, CUPTI_MEMORY_DEVICE, 1, 2, 0 },
	[FAKE_FN_cuMemAllocAsync_ptsz] = { MEMORY_ALLOC, CUPTI_MEMORY_DEVICE, 1, 2, 0 },
	[FAKE_FN_cuMemAllocFromPoolAsync] = { MEMORY_ALLOC, CUPTI_MEMORY_DEVICE, 1, 3, 2 },
	[FAKE_FN_cuMemAllocFromPoolAsync_ptsz] = { MEMORY_ALLOC, CUPTI_MEMORY_DEVICE, 1, 3, 2 },
	[FAKE_FN_cuMemFree_v2] = { MEMORY_FREE, CUPTI_MEMORY_DEVICE, 0, 0, 0 },
	[FAKE_FN_cuMemFreeHost] = { MEMORY_FREE, CUPTI_MEMORY_PINNED, 0, 0, 0 },
	[FAKE_FN_cuMemFreeAsync] = { MEMORY_FREE, CUPTI_MEMORY_DEVICE, 1, 1, 0 },
	[FAKE_FN_cuMemFreeAsync_ptsz] = { MEMORY_FREE, CUPTI_MEMORY_DEVICE, 1, 1, 0 },
	[FAKE_FN_cuMemPoolCreate] = { MEMORY_POOL_CREATE, 0, 0, 0, 0 },
	[FAKE_FN_cuMemPoolDestroy] = { MEMORY_POOL_DESTROY, 0, 0, 0, 0 },
	[FAKE_FN_cuMemPoolTrimTo] = { MEMORY_POOL_TRIM, 0, 0, 0, 0 },
};

static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;
static struct allocation *allocations[BUCKETS];

static struct allocation **memory_bucket(uint64_t address)
{
	return &allocations[(address >> GRANULE_SHIFT) % BUCKETS];
}

/* Of the start of an allocation only; other addresses are what their side of the copy says. */
uint8_t memory_kind(uint64_t address, uint32_t *device, bool host)
{
	uint8_t kind = host ? CUPTI_MEMORY_PAGEABLE : CUPTI_MEMORY_DEVICE;

	if (!address)
		return kind;
	pthread_mutex_lock(&memory_lock);
	for (struct allocation *a = *memory_bucket(address); a; a = a->next) {
		if (a->address != address)
			continue;
		kind = a->kind;
		*device = a->device;
	}
	pthread_mutex_unlock(&memory_lock);
	return kind;
}

static uint64_t pool_number(uint64_t pool, int attribute)
{
	CUresult (*get)(void *, int, void *) =
		(CUresult(*)(void *, int, void *))attach_symbol("cuMemPoolGetAttribute");
	struct owner *self = owner_self();
	bool busy = self->busy;
	uint64_t value = 0;

	self->busy = true;
	if (!get || get((void *)(uintptr_t)pool, attribute, &value) != CUDA_SUCCESS)
		value = 0;
	self->busy = busy;
	return value;
}

static uint64_t pool_of_device(uint32_t device)
{
	CUmemoryPool pool = NULL;

	if (cupti.driver->device_pool(&pool, (CUdevice)device) != CUDA_SUCCESS)
		return 0;
	return (uint64_t)(uintptr_t)pool;
}

static void memory_record(struct owner *self, const struct frame *frame,
			  const struct memory_row *row, const struct allocation *a, bool release)
{
	struct cupti_memory record = {
		.kind = CUPTI_KIND_MEMORY2,
		.operation = release ? CUPTI_OPERATION_RELEASE : CUPTI_OPERATION_ALLOCATION,
		.memory_kind = a->kind,
		.correlation = frame->call->correlation,
		.address = a->address,
		.bytes = a->bytes,
		.timestamp = clock_stamp(clock_ns()),
		.process = cupti.process,
		.device = a->device,
		.context = CUPTI_NONE,
		.stream = CUPTI_NONE,
		.async = row->async,
	};

	resource_context(frame->call->context, &record.context, NULL);
	if (!kind_enabled(CUPTI_KIND_MEMORY2, record.context))
		return;
	if (row->stream)
		record.stream = resource_stream((void *)(uintptr_t)frame->call->args[row->stream],
						record.context);
	if (a->pool) {
		record.pool.type = CUPTI_POOL_LOCAL;
		record.pool.address = a->pool;
		record.pool.release_threshold = pool_number(a->pool, POOL_THRESHOLD);
		record.pool.size = pool_number(a->pool, POOL_SIZE);
		record.pool.used = pool_number(a->pool, POOL_USED);
	}
	buffer_put(self, &record, sizeof(record));
}

static void memory_alloc(struct owner *self, const struct frame *frame,
			 const struct memory_row *row)
{
	const uint64_t *args = frame->call->args;
	struct allocation *a = calloc(1, sizeof(*a));

	if (!a)
		cupti_abort("out of memory");
	a->address = *(const uint64_t *)(uintptr_t)args[0];
	a->bytes = args[1];
	if (row->action == MEMORY_PITCH)
		a->bytes = *(const size_t *)(uintptr_t)args[1] * args[3];
	a->kind = row->kind;
	a->async = row->async;
	resource_context(frame->call->context, NULL, &a->device);
	if (row->pool)
		a->pool = args[row->pool];
	else if (row->async)
		a->pool = pool_of_device(a->device);
	memory_record(self, frame, row, a, false);
	pthread_mutex_lock(&memory_lock);
	a->next = *memory_bucket(a->address);
	*memory_bucket(a->address) = a;
	pthread_mutex_unlock(&memory_lock);
}

static void memory_free(struct owner *self, const struct frame *frame, const struct memory_row *row)
{
	uint64_t address = frame->call->args[0];
	struct allocation unknown = { .address = address, .kind = row->kind };
	struct allocation **link, *a;

	if (!address)
		return;
	pthread_mutex_lock(&memory_lock);
	for (link = memory_bucket(address); *link && (*link)->address != address;
	     link = &(*link)->next)
		;
	a = *link;
	if (a)
		*link = a->next;
	pthread_mutex_unlock(&memory_lock);
	resource_context(frame->call->context, NULL, &unknown.device);
	memory_record(self, frame, row, a ? a : &unknown, true);
	free(a);
}

static void memory_pool(struct owner *self, const struct frame *frame, const struct memory_row *row)
{
	const uint64_t *args = frame->call->args;
	struct cupti_pool record = {
		.kind = CUPTI_KIND_POOL,
		.operation = row->action == MEMORY_POOL_CREATE	  ? CUPTI_POOL_CREATED
			     : row->action == MEMORY_POOL_DESTROY ? CUPTI_POOL_DESTROYED
								  : CUPTI_POOL_TRIMMED,
		.type = CUPTI_POOL_LOCAL,
		.correlation = frame->call->correlation,
		.process = cupti.process,
		.address = args[0],
		.timestamp = clock_stamp(clock_ns()),
	};

	if (!kind_enabled(CUPTI_KIND_POOL, CUPTI_NONE))
		return;
	if (row->action == MEMORY_POOL_CREATE)
		record.address = *(const uint64_t *)(uintptr_t)args[0];
	if (row->action == MEMORY_POOL_TRIM)
		record.min_bytes = args[1];
	resource_context(frame->call->context, NULL, &record.device);
	if (row->action != MEMORY_POOL_DESTROY) {
		record.release_threshold = pool_number(record.address, POOL_THRESHOLD);
		record.size = pool_number(record.address, POOL_SIZE);
		record.used = pool_number(record.address, POOL_USED);
	}
	buffer_put(self, &record, sizeof(record));
}

void memory_call(struct owner *self, const struct frame *frame)
{
	const struct memory_row *row = &memory_rows[frame->call->function];

	if (row->action == MEMORY_NOTHING || frame->call->result != CUDA_SUCCESS)
		return;
	if (row->action == MEMORY_ALLOC || row->action == MEMORY_PITCH)
		memory_alloc(self, frame, row);
	else if (row->action == MEMORY_FREE)
		memory_free(self, frame, row);
	else
		memory_pool(self, frame, row);
}
