/* cupti_driver.h: the few calls that we make to the driver of the process ourselves. */
#ifndef TS_CUPTI_DRIVER_H
#define TS_CUPTI_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inject/cupti_find.h"

enum driver_state {
	DRIVER_ABSENT,	 /* no libcuda is mapped yet */
	DRIVER_STARTING, /* the program has not finished cuInit */
	DRIVER_READY,
};

/* False: the driver that is mapped, at `path`, lacks what we cannot do without. */
bool driver_is_known(char *path, size_t size);
/* Looks again. Never initializes the driver: that is the program's. */
enum driver_state driver_look(void);
/* As cuDriverGetVersion has it, 0: not known. */
int driver_version(void);
/* Whether a primary context exists on any device. */
bool driver_has_context(void);
/* Puts a DEVICE for each device and a CONTEXT for each primary context: CUPTI tells only of those
 * that come after it. */
void driver_tell(const struct cupti *cupti);
/* Makes one call that CUPTI can call back for: its number is DRIVER_CALL_CBID. */
#define DRIVER_CALL_CBID 4 /* cuDeviceGetCount */
void driver_call(void);
void driver_close(void);
/* In the child of a fork. */
void driver_forget(void);

#endif
