/* yield.h: makes room for another user of CUPTI in the process, which does not know of us. */
#ifndef TS_INJECT_YIELD_H
#define TS_INJECT_YIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inject/cupti_find.h"

/* Watches the calls that other modules make to CUPTI, including modules loaded since the last time.
 * `aside` is called on the thread of the other user, with the lock held, when it wants what we
 * have: afterwards CUPTI must be as if we had never been there. */
void yield_watch(const struct cupti *cupti, void (*aside)(const char *who));
/* Whether a module has come that may be about to use CUPTI, and which: its calls are not watched
 * yet. */
bool yield_expects(const struct cupti *cupti, char *who, size_t size);
/* Stops watching. False: a thread is inside one of our functions and stays there. */
bool yield_unwatch(void);

/* Between these two, only the caller touches CUPTI on our behalf. */
bool yield_lock(void);
void yield_unlock(void);

/* With the lock held: whether nobody wants CUPTI now. */
bool yield_is_free(uint64_t now_ns);
/* With the lock held: another user may be about to call. */
void yield_expect(uint64_t now_ns);
/* With the lock held: takes over what another user holds idly, or gives it back. */
void yield_take(void);
void yield_give(void);
/* With the lock held: whether the other user registers its buffer callbacks each time before it
 * records, so that ours may be there in the meantime. */
bool yield_registers_anew(void);
/* Whether the other user still holds something, even idly. */
bool yield_is_used(void);
void yield_forked(void);

#endif
