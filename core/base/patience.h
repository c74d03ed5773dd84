/* patience.h: how long others are waited for before it goes on without them.
 */
#ifndef TS_PATIENCE_H
#define TS_PATIENCE_H

#include <stdint.h>

/* That many times as long with TRACESMITH_PATIENCE, for tests: on a machine where everything may
 * stand still for seconds, they show what is found, not how soon. */
uint64_t patience_ms(uint64_t ms);

#endif
