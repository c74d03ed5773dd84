/* cupti_call.h: the driver calls that submit work, as CUPTI calls back for them. */
#ifndef TS_CUPTI_CALL_H
#define TS_CUPTI_CALL_H

#include <stdbool.h>

#include "inject/cupti_find.h"

/* Takes the one subscription that CUPTI has; CUPTI_OTHER_SUBSCRIBER: another user holds it. */
int call_subscribe(const struct cupti *cupti);
void call_unsubscribe(const struct cupti *cupti);
bool call_is_subscribed(void);
/* Calls are recorded from now on, or no longer. */
void call_enable(const struct cupti *cupti, bool enable);
/* What CUPTI's own part of a call costs, as far as is known. */
void call_price(uint32_t ns);
/* Takes CUPTI out of the process; while subscribed. False: it could not be, all is as it was. */
bool call_finalize(const struct cupti *cupti);
/* Waits a little until no thread is inside a callback. */
bool call_wait(void);
void call_forget(void);

#endif
