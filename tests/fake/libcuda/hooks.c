/* Hooks: the way from the driver to a simulated CUPTI, empty in most processes. */
#include "fake.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

_Atomic(const struct fake_hooks *) hooks_table;

static _Atomic uint32_t hooks_correlation;

void hooks_enter(const struct fake_hooks *hooks, struct fake_api_call *call)
{
	call->correlation = atomic_fetch_add(&hooks_correlation, 1) + 1;
	call->thread = (uint32_t)syscall(SYS_gettid);
	call->context = (CUcontext)context_current();
	thread.correlation = call->correlation;
	if (hooks->api_enter)
		hooks->api_enter(call);
}

void hooks_exit(const struct fake_hooks *hooks, struct fake_api_call *call)
{
	if (hooks->api_exit)
		hooks->api_exit(call);
	thread.correlation = 0;
}

static void hooks_set(const struct fake_hooks *hooks)
{
	atomic_store(&hooks_table, hooks);
}

static const struct fake_driver hooks_driver = {
	.size = sizeof(hooks_driver),
	.set_hooks = hooks_set,
	.function_name = proc_name,
	.now = driver_now,
};

CUresult hooks_export(const void **table, const CUuuid *id)
{
	const CUuuid ours = FAKE_DRIVER_UUID;

	if (!table || !id)
		return CUDA_ERROR_INVALID_VALUE;
	if (memcmp(id, &ours, sizeof(ours)) != 0)
		return CUDA_ERROR_NOT_FOUND;
	*table = &hooks_driver;
	return CUDA_SUCCESS;
}
