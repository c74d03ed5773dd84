/* yield_cupti.h: what stands for libcupti in test_yield, and who else uses it. */
#ifndef TS_YIELD_CUPTI_H
#define TS_YIELD_CUPTI_H

#define YIELD_LOG_MAX 64

enum yield_call {
	YIELD_SUBSCRIBE,
	YIELD_UNSUBSCRIBE,
	YIELD_SWITCH,
	YIELD_REGISTER,
	YIELD_ENABLE,
	YIELD_DISABLE,
	YIELD_FINALIZE,
};

struct yield_entry {
	enum yield_call call;
	const void *what;
};

struct yield_log {
	unsigned count;
	struct yield_entry entry[YIELD_LOG_MAX];
	char handle[4];
	unsigned next_handle;
	void *subscriber, *callback, *request;
};
extern struct yield_log yield_log;

int cuptiSubscribe(void **handle, void *callback, void *data);
int cuptiUnsubscribe(void *handle);
int cuptiEnableCallback(unsigned enable, void *handle, unsigned domain, unsigned cbid);
int cuptiActivityRegisterCallbacks(void *request, void *complete);
int cuptiActivityEnable(unsigned kind);
int cuptiActivityDisable(unsigned kind);
int cuptiFinalize(void);

/* yield_user.c: as PyTorch's profiler does, step by step; each returns what CUPTI returned. */
int user_subscribe(void);
int user_switch(void);
int user_start(void);
int user_stop(void);
int user_unsubscribe(void);
int user_finalize(void);
/* Where its slot of cuptiActivityEnable leads to now. */
void *user_slot(void);

#endif
