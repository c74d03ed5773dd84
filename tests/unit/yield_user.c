/* yield_user: another user of CUPTI in test_yield, in a module of its own that imports it. */
#include "tests/unit/yield_cupti.h"

#include <stddef.h>

#define KIND 10

static void *handle;
/* A slot that the loader makes read-only after it has filled it in. */
static int (*const slot)(unsigned) = cuptiActivityEnable;

static void callback(void)
{
}

static void request(void)
{
}

int user_subscribe(void)
{
	return cuptiSubscribe(&handle, (void *)callback, NULL);
}

int user_switch(void)
{
	return cuptiEnableCallback(1, handle, 3, 1);
}

int user_start(void)
{
	int r = cuptiActivityRegisterCallbacks((void *)request, (void *)request);

	return r ? r : cuptiActivityEnable(KIND);
}

int user_stop(void)
{
	return cuptiActivityDisable(KIND);
}

int user_unsubscribe(void)
{
	return cuptiUnsubscribe(handle);
}

int user_finalize(void)
{
	return cuptiFinalize();
}

void *user_slot(void)
{
	return (void *)*(int (*const volatile *)(unsigned)) & slot;
}
