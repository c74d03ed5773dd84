/* Callback: the one subscriber, and what it wants to be called for. */
#include "fake_cupti.h"

#include <stdio.h>

#define OLD_NAME_BYTES 64

static struct {
	_Atomic bool taken;
	cupti_callback_fn callback;
	void *user;
	char name[OLD_NAME_BYTES];
	_Atomic bool wanted[CUPTI_DOMAIN_COUNT][CBID_COUNT];
} subscriber;

bool callback_wanted(uint32_t domain, uint32_t id)
{
	return atomic_load_explicit(&subscriber.wanted[domain][id], memory_order_relaxed);
}

void callback_call(struct owner *self, uint32_t domain, uint32_t id, const void *data)
{
	bool busy = self->busy;

	if (!atomic_load(&subscriber.taken))
		return;
	self->busy = true;
	subscriber.callback(subscriber.user, domain, id, data);
	self->busy = busy;
}

static void domain_set(uint32_t domain, bool enable)
{
	for (size_t i = 0; i < CBID_COUNT; i++)
		atomic_store(&subscriber.wanted[domain][i], enable);
}

void callback_forget(void)
{
	for (uint32_t i = 0; i < CUPTI_DOMAIN_COUNT; i++)
		domain_set(i, false);
	atomic_store(&subscriber.taken, false);
}

static int subscribe(void **ret, cupti_callback_fn callback, void *user, const char *name)
{
	int r = cupti_attach();
	bool expected = false;

	if (!ret)
		return CUPTI_E_INVALID_PARAMETER;
	if (r != CUPTI_OK)
		return r;
	if (!atomic_compare_exchange_strong(&subscriber.taken, &expected, true))
		return CUPTI_E_MULTIPLE_SUBSCRIBERS;
	subscriber.callback = callback;
	subscriber.user = user;
	snprintf(subscriber.name, sizeof(subscriber.name), "CUPTI for %s", name ? name : "unknown");
	*ret = &subscriber;
	return CUPTI_OK;
}

int cuptiSubscribe(void **ret, cupti_callback_fn callback, void *user)
{
	cupti_begin(__func__);
	return subscribe(ret, callback, user, NULL);
}

#if FAKE_CUPTI_MAJOR >= 13
int cuptiSubscribe_v2(void **ret, cupti_callback_fn callback, void *user,
		      struct cupti_subscriber_params *params)
{
	int r;

	cupti_begin(__func__);
	if (params && params->size < sizeof(*params))
		return CUPTI_E_INVALID_PARAMETER;
	r = subscribe(ret, callback, user, params ? params->name : NULL);
	if (r == CUPTI_E_MULTIPLE_SUBSCRIBERS && params && params->old_name)
		snprintf(params->old_name, params->old_size, "%s", subscriber.name);
	return r;
}
#endif

static bool subscribed(const void *handle)
{
	return handle == &subscriber && atomic_load(&subscriber.taken);
}

int cuptiUnsubscribe(void *handle)
{
	cupti_begin(__func__);
	if (!subscribed(handle))
		return CUPTI_E_INVALID_PARAMETER;
	callback_forget();
	return CUPTI_OK;
}

int cuptiEnableCallback(uint32_t enable, void *handle, uint32_t domain, uint32_t id)
{
	cupti_begin(__func__);
	if (!subscribed(handle) || domain == 0 || domain >= CUPTI_DOMAIN_COUNT || id >= CBID_COUNT)
		return CUPTI_E_INVALID_PARAMETER;
	atomic_store(&subscriber.wanted[domain][id], enable != 0);
	return CUPTI_OK;
}

int cuptiEnableDomain(uint32_t enable, void *handle, uint32_t domain)
{
	cupti_begin(__func__);
	if (!subscribed(handle) || domain == 0 || domain >= CUPTI_DOMAIN_COUNT)
		return CUPTI_E_INVALID_PARAMETER;
	domain_set(domain, enable != 0);
	return CUPTI_OK;
}

int cuptiEnableAllDomains(uint32_t enable, void *handle)
{
	cupti_begin(__func__);
	if (!subscribed(handle))
		return CUPTI_E_INVALID_PARAMETER;
	for (uint32_t i = 1; i < CUPTI_DOMAIN_COUNT; i++)
		domain_set(i, enable != 0);
	return CUPTI_OK;
}

int cuptiGetCallbackState(uint32_t *enable, void *handle, uint32_t domain, uint32_t id)
{
	cupti_begin(__func__);
	if (!enable || !subscribed(handle) || domain == 0 || domain >= CUPTI_DOMAIN_COUNT ||
	    id >= CBID_COUNT)
		return CUPTI_E_INVALID_PARAMETER;
	*enable = callback_wanted(domain, id);
	return CUPTI_OK;
}

int cuptiSupportedDomains(size_t *count, uint32_t **domains)
{
	static uint32_t all[] = { CUPTI_DOMAIN_DRIVER, CUPTI_DOMAIN_RUNTIME, CUPTI_DOMAIN_RESOURCE,
				  CUPTI_DOMAIN_SYNC,   CUPTI_DOMAIN_NVTX,    CUPTI_DOMAIN_STATE };

	cupti_begin(__func__);
	if (!count || !domains)
		return CUPTI_E_INVALID_PARAMETER;
	*count = ARRAY_SIZE(all);
	*domains = all;
	return CUPTI_OK;
}
