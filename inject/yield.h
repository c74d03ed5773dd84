/* yield.h: stands aside for another user of CUPTI in the process, who knows nothing of us. */
#ifndef TS_INJECT_YIELD_H
#define TS_INJECT_YIELD_H

#include <stdbool.h>
#include <stdint.h>

#include "inject/cupti_find.h"

/* Watches the calls that other modules make to CUPTI, those of modules that came since the last
 * time too. `aside` is called on the thread of the other user, with the lock held, when it wants
 * what we have: afterwards CUPTI must be as if we had never been. */
void yield_watch(const struct cupti *cupti, void (*aside)(const char *who));
/* No longer. False: a thread is inside one of our functions and stays there. */
bool yield_unwatch(void);

/* Between these, only the caller touches CUPTI on our behalf. */
bool yield_lock(void);
void yield_unlock(void);

/* With the lock held: whether nobody wants CUPTI now. */
bool yield_is_free(uint64_t now_ns);
/* With the lock held: takes what another user holds idly, resp. gives it back to him. */
void yield_take(void);
void yield_give(void);
/* Whether he still holds something, be it idly. */
bool yield_is_used(void);
void yield_forked(void);

#endif
