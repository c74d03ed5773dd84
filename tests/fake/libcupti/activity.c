/* Activity: what the client enables, and how it gets and reads its buffers. */
#include "fake_cupti.h"

static bool kind_exists(uint32_t kind)
{
	return kind > CUPTI_KIND_INVALID && kind < CUPTI_KIND_COUNT;
}

static void driver_calls_set(bool enable)
{
	for (size_t i = 0; i < CBID_COUNT; i++)
		atomic_store(&cupti.driver_calls[i], enable);
}

static void settle(void)
{
	if (kinds_any())
		return;
	pthread_mutex_lock(&cupti.lock);
	cupti.late_flush = true;
	pthread_mutex_unlock(&cupti.lock);
	worker_kick();
}

int cuptiActivityEnable(uint32_t kind)
{
	int r;

	cupti_begin(__func__);
	if (!kind_exists(kind))
		return CUPTI_E_INVALID_KIND;
	if ((kind == CUPTI_KIND_KERNEL &&
	     atomic_load(&cupti.kinds[CUPTI_KIND_CONCURRENT_KERNEL])) ||
	    (kind == CUPTI_KIND_CONCURRENT_KERNEL && atomic_load(&cupti.kinds[CUPTI_KIND_KERNEL])))
		return CUPTI_E_NOT_COMPATIBLE;
	r = cupti_attach();
	if (r != CUPTI_OK)
		return r;
	atomic_store(&cupti.kinds[kind], true);
	if (kind == CUPTI_KIND_DRIVER)
		driver_calls_set(true);
	resource_enabled(kind);
	return CUPTI_OK;
}

int cuptiActivityDisable(uint32_t kind)
{
	cupti_begin(__func__);
	if (!kind_exists(kind))
		return CUPTI_E_INVALID_KIND;
	atomic_store(&cupti.kinds[kind], false);
	if (kind == CUPTI_KIND_DRIVER)
		driver_calls_set(false);
	settle();
	return CUPTI_OK;
}

static int enable_context(void *context, uint32_t kind, bool enable)
{
	uint32_t id;
	bool done;
	int r;

	if (!kind_exists(kind))
		return CUPTI_E_INVALID_KIND;
	r = cupti_attach();
	if (r != CUPTI_OK)
		return r;
	if (!resource_context(context, &id, NULL))
		return CUPTI_E_INVALID_CONTEXT;
	pthread_mutex_lock(&cupti.lock);
	done = kind_context(id, kind, enable);
	pthread_mutex_unlock(&cupti.lock);
	return done ? CUPTI_OK : CUPTI_E_OUT_OF_MEMORY;
}

int cuptiActivityEnableContext(void *context, uint32_t kind)
{
	cupti_begin(__func__);
	return enable_context(context, kind, true);
}

int cuptiActivityDisableContext(void *context, uint32_t kind)
{
	cupti_begin(__func__);
	return enable_context(context, kind, false);
}

int cuptiActivityEnableDriverApi(uint32_t id, uint8_t enable)
{
	int r;

	cupti_begin(__func__);
	if (id == 0 || id >= CBID_COUNT)
		return CUPTI_E_INVALID_PARAMETER;
	r = cupti_attach();
	if (r != CUPTI_OK)
		return r;
	atomic_store(&cupti.driver_calls[id], enable != 0);
	if (!enable)
		settle();
	return CUPTI_OK;
}

int cuptiActivityEnableRuntimeApi(uint32_t id, uint8_t enable)
{
	cupti_begin(__func__);
	(void)enable;
	return id == 0 ? CUPTI_E_INVALID_PARAMETER : cupti_attach();
}

#if FAKE_CUPTI_MAJOR >= 13
int cuptiActivityEnableAndDump(uint32_t kind)
{
	bool registered;
	int r;

	cupti_begin(__func__);
	r = cuptiActivityEnable(kind);
	pthread_mutex_lock(&cupti.lock);
	registered = cupti.request;
	pthread_mutex_unlock(&cupti.lock);
	if (r == CUPTI_OK && registered)
		resource_dump(kind);
	return r;
}

int cuptiActivityEnableDeviceGraph(uint8_t enable)
{
	cupti_begin(__func__);
	(void)enable;
	return CUPTI_OK;
}

int cuptiActivityEnableHWTrace(uint8_t enable)
{
	cupti_begin(__func__);
	return enable ? CUPTI_E_NOT_SUPPORTED : CUPTI_OK;
}

int cuptiActivityEnableAllocationSource(uint8_t enable)
{
	cupti_begin(__func__);
	(void)enable;
	return CUPTI_OK;
}

int cuptiActivityEnableAllSyncRecords(uint8_t enable)
{
	cupti_begin(__func__);
	atomic_store(&cupti.all_syncs, enable != 0);
	return CUPTI_OK;
}

int cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t enable)
{
	cupti_begin(__func__);
	(void)enable;
	return CUPTI_OK;
}
#endif

int cuptiActivityEnableLatencyTimestamps(uint8_t enable)
{
	cupti_begin(__func__);
	(void)enable;
	return CUPTI_OK;
}

int cuptiActivityEnableLaunchAttributes(uint8_t enable)
{
	cupti_begin(__func__);
	(void)enable;
	return CUPTI_OK;
}

/* The second one replaces the first: buffers that the first one lent come back to the second. */
int cuptiActivityRegisterCallbacks(cupti_request_fn request, cupti_complete_fn complete)
{
	cupti_begin(__func__);
	if (!request || !complete)
		return CUPTI_E_INVALID_PARAMETER;
	atomic_store(&cupti.set_up, true);
	pthread_mutex_lock(&cupti.lock);
	cupti.request = request;
	cupti.complete = complete;
	pthread_mutex_unlock(&cupti.lock);
	return CUPTI_OK;
}

int cuptiActivityFlushAll(uint32_t flag)
{
	bool registered;

	cupti_begin(__func__);
	if (atomic_load(&cupti.gone))
		return CUPTI_E_NOT_INITIALIZED;
	pthread_mutex_lock(&cupti.lock);
	registered = cupti.complete;
	pthread_mutex_unlock(&cupti.lock);
	if (!registered)
		return CUPTI_E_INVALID_OPERATION;
	buffers_deliver(true, flag & CUPTI_FLAG_FLUSH_FORCED, false);
	return CUPTI_OK;
}

int cuptiActivityFlush(void *context, uint32_t stream, uint32_t flag)
{
	(void)context;
	(void)stream;
	return cuptiActivityFlushAll(flag);
}

int cuptiActivityFlushPeriod(uint32_t milliseconds)
{
	cupti_begin(__func__);
	pthread_mutex_lock(&cupti.lock);
	cupti.period_ms = milliseconds;
	pthread_mutex_unlock(&cupti.lock);
	return CUPTI_OK;
}

int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, struct cupti_record **record)
{
	size_t offset = 0;

	cupti_begin(__func__);
	if (!buffer || !record)
		return CUPTI_E_INVALID_PARAMETER;
	if (*record)
		offset = (size_t)((uint8_t *)*record - buffer) + record_bytes((*record)->kind);
	if (offset >= valid)
		return CUPTI_E_MAX_LIMIT_REACHED;
	*record = (struct cupti_record *)(buffer + offset);
	if (!record_bytes((*record)->kind) || offset + record_bytes((*record)->kind) > valid)
		return CUPTI_E_INVALID_KIND;
	return CUPTI_OK;
}

int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped)
{
	(void)context;
	(void)stream;
	cupti_begin(__func__);
	if (!dropped)
		return CUPTI_E_INVALID_PARAMETER;
	*dropped = atomic_exchange(&cupti.dropped, 0);
	return CUPTI_OK;
}

int cuptiActivityGetAttribute(uint32_t attribute, size_t *size, void *value)
{
	cupti_begin(__func__);
	if (!size || !value || attribute >= CUPTI_ATTR_COUNT)
		return CUPTI_E_INVALID_PARAMETER;
	if (attribute == CUPTI_ATTR_PER_THREAD) {
		if (*size < sizeof(cupti.per_thread))
			return CUPTI_E_PARAMETER_SIZE;
		pthread_mutex_lock(&cupti.lock);
		*(uint8_t *)value = cupti.per_thread;
		pthread_mutex_unlock(&cupti.lock);
		*size = sizeof(cupti.per_thread);
		return CUPTI_OK;
	}
	if (*size < sizeof(uint64_t))
		return CUPTI_E_PARAMETER_SIZE;
	*(uint64_t *)value = cupti.attributes[attribute];
	*size = sizeof(uint64_t);
	return CUPTI_OK;
}

int cuptiActivitySetAttribute(uint32_t attribute, size_t *size, void *value)
{
	cupti_begin(__func__);
	if (!size || !value || attribute >= CUPTI_ATTR_COUNT)
		return CUPTI_E_INVALID_PARAMETER;
	if (attribute == CUPTI_ATTR_PER_THREAD) {
		if (*size < sizeof(cupti.per_thread))
			return CUPTI_E_PARAMETER_SIZE;
		pthread_mutex_lock(&cupti.lock);
		cupti.per_thread = *(const uint8_t *)value != 0;
		pthread_mutex_unlock(&cupti.lock);
		return CUPTI_OK;
	}
	if (*size == sizeof(uint64_t))
		cupti.attributes[attribute] = *(const uint64_t *)value;
	else if (*size == sizeof(uint8_t))
		cupti.attributes[attribute] = *(const uint8_t *)value;
	else
		return CUPTI_E_PARAMETER_SIZE;
	return CUPTI_OK;
}

int cuptiGetContextId(void *context, uint32_t *id)
{
	cupti_begin(__func__);
	if (!id)
		return CUPTI_E_INVALID_PARAMETER;
	if (cupti_attach() != CUPTI_OK)
		return CUPTI_E_NOT_INITIALIZED;
	return resource_context(context, id, NULL) ? CUPTI_OK : CUPTI_E_INVALID_CONTEXT;
}

int cuptiGetDeviceId(void *context, uint32_t *id)
{
	cupti_begin(__func__);
	if (!id)
		return CUPTI_E_INVALID_PARAMETER;
	if (cupti_attach() != CUPTI_OK)
		return CUPTI_E_NOT_INITIALIZED;
	return resource_context(context, NULL, id) ? CUPTI_OK : CUPTI_E_INVALID_CONTEXT;
}

int cuptiGetStreamIdEx(void *context, void *stream, uint8_t per_thread, uint32_t *id)
{
	uint32_t context_id;

	cupti_begin(__func__);
	(void)per_thread;
	if (!id)
		return CUPTI_E_INVALID_PARAMETER;
	if (cupti_attach() != CUPTI_OK)
		return CUPTI_E_NOT_INITIALIZED;
	if (!resource_context(context, &context_id, NULL))
		return CUPTI_E_INVALID_CONTEXT;
	*id = resource_stream(stream, context_id);
	return *id == CUPTI_NONE ? CUPTI_E_INVALID_STREAM : CUPTI_OK;
}

int cuptiGetStreamId(void *context, void *stream, uint32_t *id)
{
	return cuptiGetStreamIdEx(context, stream, 0, id);
}

int cuptiGetGraphNodeId(void *node, uint64_t *id)
{
	cupti_begin(__func__);
	if (!node || !id)
		return CUPTI_E_INVALID_PARAMETER;
	if (cupti_attach() != CUPTI_OK)
		return CUPTI_E_NOT_INITIALIZED;
	*id = cupti.driver->object_id(node);
	return CUPTI_OK;
}

int cuptiGetGraphId(void *graph, uint32_t *id)
{
	uint64_t wide;
	int r = id ? cuptiGetGraphNodeId(graph, &wide) : CUPTI_E_INVALID_PARAMETER;

	if (r == CUPTI_OK)
		*id = (uint32_t)wide;
	return r;
}

int cuptiGetGraphExecId(void *exec, uint32_t *id)
{
	return cuptiGetGraphId(exec, id);
}
