/* yield_slow.h: descriptors by which test_yield and the module that it loads talk. */
#ifndef TS_YIELD_SLOW_H
#define TS_YIELD_SLOW_H

#define YIELD_SLOW_IS_THERE  200 /* to be written */
#define YIELD_SLOW_MAY_GO_ON 201 /* to be read */

#endif
