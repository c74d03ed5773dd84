/* busy.h: how long a device was in which state, and how much ran on it at once. */
#ifndef TS_CORE_BUSY_H
#define TS_CORE_BUSY_H

#include <stdint.h>

struct core;
struct device;

/* From then on its time is counted. -ENOMEM */
int busy_begin(struct device *device, uint64_t time_ns);
/* It was until then what it is now. Tells the seconds that are over. */
void busy_pass(struct core *core, struct device *device, uint64_t time_ns);
void busy_end(struct core *core, struct device *device, uint64_t time_ns);

#endif
