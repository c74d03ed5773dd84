/* Resource: the contexts and streams that exist, and the records and callbacks about them.
 * Those that were there before we were attached are learned from the driver, and told only to who
 * asks for them (cuptiActivityEnableAndDump). Device records come with the first context, or when
 * the driver is initialized; CUPTI 12 gives them when they are enabled. */
#include "fake_cupti.h"

#include <stdlib.h>
#include <string.h>

#define DEVICES_MAX    16
#define DEVICE_NAME    64
#define STREAM_BUCKETS 1024
#define CONTEXTS_MAX   64 /* of a dump */
#define STREAMS_MAX    4096

struct known_context {
	struct known_context *next;
	const void *handle;
	uint32_t id, device, null_stream;
};

struct known_stream {
	struct known_stream *next;
	const void *handle;
	uint32_t id, context;
};

static struct known_context *contexts;
static struct known_stream *streams[STREAM_BUCKETS];
static struct {
	struct cupti_device record;
	char name[DEVICE_NAME];
} devices[DEVICES_MAX];
static _Atomic int devices_count;
static _Atomic bool devices_owed; /* enabled, and not told yet */

static struct known_stream **stream_bucket(const void *handle)
{
	return &streams[((uintptr_t)handle >> 9) % STREAM_BUCKETS];
}

static struct known_context *context_find(uint32_t id)
{
	struct known_context *c = contexts;

	while (c && c->id != id)
		c = c->next;
	return c;
}

bool resource_context(const void *handle, uint32_t *id, uint32_t *device)
{
	struct known_context *c;

	pthread_mutex_lock(&cupti.lock);
	for (c = contexts; c && c->handle != handle; c = c->next)
		;
	if (c && id)
		*id = c->id;
	if (c && device)
		*device = c->device;
	pthread_mutex_unlock(&cupti.lock);
	return c;
}

/* The handles 0 and 1 are the context's null stream; 2 is one of the thread's own. */
uint32_t resource_stream(const void *handle, uint32_t context_id)
{
	struct known_context *c;
	struct known_stream *s;
	uint32_t id = CUPTI_NONE;

	pthread_mutex_lock(&cupti.lock);
	if ((uintptr_t)handle <= 1) {
		c = context_find(context_id);
		id = c ? c->null_stream : CUPTI_NONE;
	} else {
		for (s = *stream_bucket(handle); s && s->handle != handle; s = s->next)
			;
		id = s ? s->id : CUPTI_NONE;
	}
	pthread_mutex_unlock(&cupti.lock);
	return id;
}

/* False: it was known. */
static bool context_add(CUcontext handle, uint32_t id, int device)
{
	struct known_context *c;

	pthread_mutex_lock(&cupti.lock);
	c = context_find(id);
	if (c) {
		pthread_mutex_unlock(&cupti.lock);
		return false;
	}
	c = calloc(1, sizeof(*c));
	if (!c)
		cupti_abort("out of memory");
	c->handle = handle;
	c->id = id;
	c->device = (uint32_t)device;
	c->next = contexts;
	contexts = c;
	pthread_mutex_unlock(&cupti.lock);
	return true;
}

/* The first stream of a context is its null stream. */
static bool stream_add(CUstream handle, uint32_t id, uint32_t context_id)
{
	struct known_context *c;
	struct known_stream *s;

	pthread_mutex_lock(&cupti.lock);
	for (s = *stream_bucket(handle); s && s->handle != handle; s = s->next)
		;
	if (s && s->id == id) {
		pthread_mutex_unlock(&cupti.lock);
		return false;
	}
	c = context_find(context_id);
	if (c && !c->null_stream)
		c->null_stream = id;
	if (!s) {
		s = calloc(1, sizeof(*s));
		if (!s)
			cupti_abort("out of memory");
		s->next = *stream_bucket(handle);
		*stream_bucket(handle) = s;
	}
	s->handle = handle;
	s->id = id;
	s->context = context_id;
	pthread_mutex_unlock(&cupti.lock);
	return true;
}

/* --- records --- */

static void context_record(const struct known_context *c)
{
	struct cupti_context record = {
		.kind = CUPTI_KIND_CONTEXT,
		.context = c->id,
		.device = c->device,
		.api = 1,
		.null_stream = (uint16_t)c->null_stream,
	};

	buffer_put(&cupti.device, &record, sizeof(record));
}

static void stream_record(uint32_t id, uint32_t context_id, uint32_t null_stream)
{
	const struct frame *frame = call_current();
	struct cupti_stream record = {
		.kind = CUPTI_KIND_STREAM,
		.context = context_id,
		.stream = id,
		.flag = id == null_stream ? CUPTI_STREAM_NULL : CUPTI_STREAM_DEFAULT,
		.correlation = frame ? frame->call->correlation : 0,
	};

	/* cuStreamCreate(&stream, flags), and with a priority behind it */
	if (frame && strncmp(frame->call->name, "cuStreamCreate", 14) == 0) {
		if (frame->call->args[1] & 1)
			record.flag = CUPTI_STREAM_NON_BLOCKING;
		if (frame->call->args_count > 2)
			record.priority = (uint32_t)frame->call->args[2];
	}
	buffer_put(&cupti.device, &record, sizeof(record));
}

static void devices_record(void)
{
	devices_owed = false;
	for (int i = 0; i < devices_count; i++)
		buffer_put(&cupti.device, &devices[i].record, sizeof(devices[i].record));
}

static uint32_t device_number(CUresult (*get)(int *, int, CUdevice), int attribute, int device)
{
	int value = 0;

	get(&value, attribute, device);
	return (uint32_t)value;
}

/* Asks the driver; not from within a hook that runs with its locks held. */
static bool devices_read(void)
{
	CUresult (*count)(int *) = (CUresult(*)(int *))attach_symbol("cuDeviceGetCount");
	CUresult (*name)(char *, int, CUdevice) =
		(CUresult(*)(char *, int, CUdevice))attach_symbol("cuDeviceGetName");
	CUresult (*uuid)(CUuuid *, CUdevice) =
		(CUresult(*)(CUuuid *, CUdevice))attach_symbol("cuDeviceGetUuid");
	CUresult (*bytes)(size_t *, CUdevice) =
		(CUresult(*)(size_t *, CUdevice))attach_symbol("cuDeviceTotalMem_v2");
	CUresult (*get)(int *, int, CUdevice) =
		(CUresult(*)(int *, int, CUdevice))attach_symbol("cuDeviceGetAttribute");
	struct owner *self = owner_self();
	bool busy = self->busy;
	int number = 0;

	if (devices_count)
		return true;
	self->busy = true;
	if (!count || count(&number) != CUDA_SUCCESS)
		number = 0;
	for (int i = 0; i < number && i < DEVICES_MAX; i++) {
		struct cupti_device *d = &devices[i].record;
		size_t total = 0;

		name(devices[i].name, DEVICE_NAME, i);
		uuid((CUuuid *)d->uuid, i);
		bytes(&total, i);
		d->kind = CUPTI_KIND_DEVICE;
		d->flags = 1;
		d->id = (uint32_t)i;
		d->name = devices[i].name;
		d->memory_bytes = total;
		d->visible = 1;
		d->warp = device_number(get, CU_DEVICE_ATTRIBUTE_WARP_SIZE, i);
		d->multiprocessors =
			device_number(get, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, i);
		d->core_clock = device_number(get, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, i);
		d->l2_bytes = device_number(get, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, i);
		d->capability_major =
			device_number(get, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, i);
		d->capability_minor =
			device_number(get, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, i);
		d->threads_block_max =
			device_number(get, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, i);
	}
	self->busy = busy;
	devices_count = number < DEVICES_MAX ? number : DEVICES_MAX;
	return devices_count > 0;
}

void resource_driver_ready(void)
{
	if (devices_read() && devices_owed)
		devices_record();
}

void resource_enabled(uint32_t kind)
{
	if (kind != CUPTI_KIND_DEVICE)
		return;
	devices_read();
	if (FAKE_CUPTI_MAJOR < 13 && devices_count) {
		devices_record();
		return;
	}
	pthread_mutex_lock(&cupti.lock);
	devices_owed = !contexts;
	pthread_mutex_unlock(&cupti.lock);
}

/* Copies the lists, since a record takes the lock. */
static void dump_contexts(bool with_streams)
{
	struct known_context copies[CONTEXTS_MAX];
	struct known_stream all[STREAMS_MAX];
	size_t count = 0, streams_count = 0;

	pthread_mutex_lock(&cupti.lock);
	for (struct known_context *c = contexts; c && count < CONTEXTS_MAX; c = c->next)
		copies[count++] = *c;
	for (size_t i = 0; with_streams && i < STREAM_BUCKETS; i++)
		for (struct known_stream *s = streams[i]; s && streams_count < STREAMS_MAX;
		     s = s->next)
			all[streams_count++] = *s;
	pthread_mutex_unlock(&cupti.lock);
	for (size_t i = 0; i < count; i++) {
		if (!with_streams)
			context_record(&copies[i]);
		for (size_t j = 0; j < streams_count; j++)
			if (all[j].context == copies[i].id)
				stream_record(all[j].id, all[j].context, copies[i].null_stream);
	}
}

void resource_dump(uint32_t kind)
{
	if (kind == CUPTI_KIND_DEVICE && devices_read())
		devices_record();
	if (kind == CUPTI_KIND_CONTEXT || kind == CUPTI_KIND_STREAM)
		dump_contexts(kind == CUPTI_KIND_STREAM);
}

/* --- what the driver tells --- */

static void resource_call(uint32_t id, void *context, void *stream, void *descriptor)
{
	struct cupti_resource data = { context, stream, descriptor };

	if (callback_wanted(CUPTI_DOMAIN_RESOURCE, id))
		callback_call(owner_self(), CUPTI_DOMAIN_RESOURCE, id, &data);
}

void resource_context_created(CUcontext context, uint32_t context_id, int device)
{
	if (atomic_load(&cupti.forked) || !context_add(context, context_id, device))
		return;
	if (devices_owed && kind_enabled(CUPTI_KIND_DEVICE, context_id))
		devices_record();
	resource_call(CUPTI_RESOURCE_CONTEXT_CREATED, context, NULL, NULL);
}

/* The record of a context has its null stream in it, so it waits for that. */
void resource_stream_created(CUstream stream, uint32_t stream_id, uint32_t context_id)
{
	struct known_context context = { 0 };
	const struct known_context *c;

	if (atomic_load(&cupti.forked) || !stream_add(stream, stream_id, context_id))
		return;
	pthread_mutex_lock(&cupti.lock);
	c = context_find(context_id);
	if (c)
		context = *c;
	pthread_mutex_unlock(&cupti.lock);
	if (context.null_stream == stream_id && kind_enabled(CUPTI_KIND_CONTEXT, context_id))
		context_record(&context);
	if (kind_enabled(CUPTI_KIND_STREAM, context_id))
		stream_record(stream_id, context_id, context.null_stream);
	resource_call(CUPTI_RESOURCE_STREAM_CREATED, (void *)context.handle, stream, NULL);
}

void resource_context_destroyed(CUcontext context, uint32_t context_id)
{
	struct known_context **link, *gone = NULL;

	if (atomic_load(&cupti.forked))
		return;
	resource_call(CUPTI_RESOURCE_CONTEXT_DESTROYED, context, NULL, NULL);
	pthread_mutex_lock(&cupti.lock);
	for (link = &contexts; *link && (*link)->id != context_id; link = &(*link)->next)
		;
	gone = *link;
	if (gone)
		*link = gone->next;
	pthread_mutex_unlock(&cupti.lock);
	free(gone);
}

void resource_stream_destroyed(CUstream stream, uint32_t stream_id, uint32_t context_id)
{
	struct known_stream **link, *gone;

	(void)stream_id;
	(void)context_id;
	if (atomic_load(&cupti.forked))
		return;
	resource_call(CUPTI_RESOURCE_STREAM_DESTROYED, NULL, stream, NULL);
	pthread_mutex_lock(&cupti.lock);
	for (link = stream_bucket(stream); *link && (*link)->handle != stream;
	     link = &(*link)->next)
		;
	gone = *link;
	if (gone)
		*link = gone->next;
	pthread_mutex_unlock(&cupti.lock);
	free(gone);
}

void resource_module_loaded(uint32_t context_id, CUmodule module, const void *image, size_t bytes)
{
	struct cupti_module data = { 0, bytes, image };

	(void)context_id;
	if (atomic_load(&cupti.forked))
		return;
	data.id = (uint32_t)cupti.driver->object_id(module);
	resource_call(CUPTI_RESOURCE_MODULE_LOADED, NULL, NULL, &data);
}

void resource_module_unloaded(uint32_t context_id, CUmodule module)
{
	struct cupti_module data = { 0 };

	(void)context_id;
	if (atomic_load(&cupti.forked))
		return;
	data.id = (uint32_t)cupti.driver->object_id(module);
	resource_call(CUPTI_RESOURCE_MODULE_UNLOADED, NULL, NULL, &data);
}

static void replay_context(CUcontext context, uint32_t context_id, int device)
{
	context_add(context, context_id, device);
}

static void replay_stream(CUstream stream, uint32_t stream_id, uint32_t context_id)
{
	stream_add(stream, stream_id, context_id);
}

const struct fake_hooks resource_replay = {
	.context_created = replay_context,
	.stream_created = replay_stream,
};

void resource_forget(void)
{
	pthread_mutex_lock(&cupti.lock);
	while (contexts) {
		struct known_context *next = contexts->next;

		free(contexts);
		contexts = next;
	}
	for (size_t i = 0; i < STREAM_BUCKETS; i++) {
		while (streams[i]) {
			struct known_stream *next = streams[i]->next;

			free(streams[i]);
			streams[i] = next;
		}
	}
	devices_owed = false;
	pthread_mutex_unlock(&cupti.lock);
}
