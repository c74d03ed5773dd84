/* yield_cupti: stands for libcupti in test_yield: it keeps a log of who called what. */
#include "tests/unit/yield_cupti.h"

struct yield_log yield_log;

static int logged(enum yield_call call, const void *what)
{
	struct yield_log *log = &yield_log;

	if (log->count < YIELD_LOG_MAX)
		log->entry[log->count++] = (struct yield_entry){ call, what };
	return 0;
}

int cuptiSubscribe(void **handle, void *callback, void *data)
{
	if (yield_log.subscriber)
		return 39;
	*handle = &yield_log.handle[yield_log.next_handle++ % 4];
	yield_log.subscriber = *handle;
	yield_log.callback = callback;
	return logged(YIELD_SUBSCRIBE, callback);
}

int cuptiUnsubscribe(void *handle)
{
	if (handle != yield_log.subscriber)
		return 1;
	yield_log.subscriber = 0;
	return logged(YIELD_UNSUBSCRIBE, handle);
}

int cuptiEnableCallback(unsigned enable, void *handle, unsigned domain, unsigned cbid)
{
	if (handle != yield_log.subscriber)
		return 1;
	return logged(YIELD_SWITCH, handle);
}

int cuptiActivityRegisterCallbacks(void *request, void *complete)
{
	yield_log.request = request;
	return logged(YIELD_REGISTER, request);
}

int cuptiActivityEnable(unsigned kind)
{
	return logged(YIELD_ENABLE, 0);
}

int cuptiActivityDisable(unsigned kind)
{
	return logged(YIELD_DISABLE, 0);
}

int cuptiFinalize(void)
{
	return logged(YIELD_FINALIZE, 0);
}
