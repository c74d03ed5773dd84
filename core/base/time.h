/* time.h: units of time. They are signed, and so do not make an unsigned number of a signed one. */
#ifndef TS_TIME_H
#define TS_TIME_H

#include <stdint.h>

#define NS_PER_US INT64_C(1000)
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)

/* The unit of /proc's times, USER_HZ, is the same on every x86-64 kernel. */
#define NS_PER_TICK INT64_C(10000000)

#endif
