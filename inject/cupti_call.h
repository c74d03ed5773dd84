/* cupti_call.h: the driver calls that submit work, from CUPTI's callbacks. */
#ifndef TS_CUPTI_CALL_H
#define TS_CUPTI_CALL_H

#include <stdbool.h>

#include "inject/cupti_find.h"

/* Takes CUPTI's only subscription; CUPTI_OTHER_SUBSCRIBER: another user holds it. */
int call_subscribe(const struct cupti *cupti);
void call_unsubscribe(const struct cupti *cupti);
bool call_is_subscribed(void);
/* Starts or stops recording calls. */
void call_enable(const struct cupti *cupti, bool enable);
/* The estimated cost of CUPTI's own part of a call. */
void call_price(uint32_t ns);
/* Unloads CUPTI; only while subscribed. False: it failed and nothing changed. */
bool call_finalize(const struct cupti *cupti);
/* Waits briefly until no thread is inside a callback. */
bool call_wait(void);
void call_forget(void);

#endif
