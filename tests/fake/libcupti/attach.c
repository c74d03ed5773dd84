/* Attach: the way to the simulated driver. Its hooks are in from the first function that needs
 * them until cuptiFinalize; every call of the program pays for them meanwhile, enabled or not. */
#include "fake_cupti.h"

#include <dlfcn.h>

#define FINALIZE_GRAPHS 24	    /* CUPTI 12.6: before, it crashes where graphs were launched */
#define FINALIZE_KEEPS	(512 << 10) /* as the real one, of the memory of a device */

static const struct fake_hooks hooks = {
	.api_enter = call_enter,
	.api_exit = call_exit,
	.op_queued = record_queued,
	.op_end = record_end,
	.module_loaded = resource_module_loaded,
	.module_unloaded = resource_module_unloaded,
	.context_created = resource_context_created,
	.context_destroyed = resource_context_destroyed,
	.stream_created = resource_stream_created,
	.stream_destroyed = resource_stream_destroyed,
};

static pthread_mutex_t attach_lock = PTHREAD_MUTEX_INITIALIZER;

static bool attach_find(void)
{
	const CUuuid id = FAKE_DRIVER_UUID;
	CUresult (*export)(const void **, const CUuuid *);
	const void *table;

	if (cupti.driver)
		return true;
	if (!cupti.libcuda)
		cupti.libcuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	export = (CUresult(*)(const void **, const CUuuid *))attach_symbol("cuGetExportTable");
	if (!export || export(&table, &id) != CUDA_SUCCESS)
		return false;
	cupti.driver = table;
	return cupti.driver->size >= sizeof(*cupti.driver);
}

void *attach_symbol(const char *name)
{
	return cupti.libcuda ? dlsym(cupti.libcuda, name) : NULL;
}

void attach_gone(void)
{
	if (atomic_load(&cupti.forked))
		return;
	pthread_mutex_lock(&attach_lock);
	atomic_store(&cupti.gone, true);
	if (atomic_exchange(&cupti.attached, false))
		cupti.driver->set_hooks(NULL);
	pthread_mutex_unlock(&attach_lock);
	worker_stop();
}

int cupti_attach(void)
{
	struct owner *self = owner_self();
	uint64_t start = clock_ns();
	bool first = false, busy = self->busy;
	int r = CUPTI_OK;

	atomic_store(&cupti.set_up, true);
	pthread_mutex_lock(&attach_lock);
	self->busy = true;
	if (atomic_load(&cupti.gone) || !attach_find()) {
		r = CUPTI_E_NOT_INITIALIZED;
	} else if (!atomic_load(&cupti.attached)) {
		atomic_store(&cupti.graphs, false);
		atomic_store(&cupti.attached, true);
		cupti.driver->set_hooks(&hooks);
		cupti.driver->replay(&resource_replay);
		worker_start();
		first = true;
	}
	self->busy = busy;
	pthread_mutex_unlock(&attach_lock);
	if (first)
		cupti_overhead(CUPTI_OVERHEAD_RESOURCE, start, clock_ns());
	return r;
}

/* It is safe at the end of a call that this thread is in, or when no thread is in one. */
static bool finalize_safe(void)
{
	const struct frame *frame = call_current();

	if (frame)
		return frame->exiting && owner_self()->busy;
	return atomic_load(&cupti.inside) == 0;
}

static void finalize_disable(void)
{
	for (size_t i = 0; i < CUPTI_KIND_COUNT; i++)
		atomic_store(&cupti.kinds[i], false);
	for (size_t i = 0; i < CBID_COUNT; i++)
		atomic_store(&cupti.driver_calls[i], false);
}

static void finalize_forget(void)
{
	pthread_mutex_lock(&cupti.lock);
	cupti.request = NULL;
	cupti.complete = NULL;
	cupti.late_flush = false;
	records_clear();
	pthread_mutex_unlock(&cupti.lock);
	callback_forget();
	resource_forget();
	clock_register(NULL);
	atomic_store(&cupti.thread_type, CUPTI_THREAD_DEFAULT);
}

int cuptiFinalize(void)
{
	cupti_begin(__func__);
	if (!atomic_load(&cupti.attached))
		return CUPTI_OK;
	if (!finalize_safe()) {
		if (cupti.version < FINALIZE_GRAPHS)
			cupti_abort("cuptiFinalize while a thread is in a call, which crashes "
				    "CUPTI before 12.6");
		return CUPTI_E_INVALID_OPERATION;
	}
	if (cupti.version < FINALIZE_GRAPHS && atomic_load(&cupti.graphs))
		cupti_abort("cuptiFinalize after a graph launch, which crashes CUPTI before 12.6");
	pthread_mutex_lock(&attach_lock);
	atomic_store(&cupti.attached, false);
	cupti.driver->set_hooks(NULL);
	cupti.driver->keep(FINALIZE_KEEPS);
	pthread_mutex_unlock(&attach_lock);
	finalize_disable();
	worker_stop();
	buffers_deliver(true, true, true);
	finalize_forget();
	return CUPTI_OK;
}
