/* busy.h: how long a device was in which state, and how much ran on it concurrently. */
#ifndef TS_CORE_BUSY_H
#define TS_CORE_BUSY_H

#include <stdint.h>

struct core;
struct device;

/* Starts counting its time. -ENOMEM */
int busy_begin(struct device *device, uint64_t time_ns);
/* Its current state lasted until then. Reports the seconds that are complete. */
void busy_pass(struct core *core, struct device *device, uint64_t time_ns);
void busy_end(struct core *core, struct device *device, uint64_t time_ns);

#endif
