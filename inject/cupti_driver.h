/* cupti_driver.h: the few calls that we make to the driver of the process. */
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

/* False: the mapped driver, at `path`, lacks a function that we need. */
bool driver_is_known(char *path, size_t size);
/* Checks again. Never initializes the driver: that is up to the program. */
enum driver_state driver_look(void);
/* Whether the driver loaded this library: then cuInit is in progress or over, and CUPTI can be
 * switched on at once. A process that we were injected into may never initialize the driver. */
bool driver_loaded_us(void);
/* As cuDriverGetVersion returns it; 0: unknown. */
int driver_version(void);
/* Whether a primary context exists on any device. */
bool driver_has_context(void);
/* Sends a DEVICE for each device and a CONTEXT for each primary context: CUPTI only reports those
 * created later. */
void driver_tell(const struct cupti *cupti);
/* There is a daemon that knows none of them: otherwise only new ones are sent. */
void driver_tell_again(void);
/* Makes one call that CUPTI has a callback for: its number is DRIVER_CALL_CBID. */
#define DRIVER_CALL_CBID 4 /* cuDeviceGetCount */
void driver_call(void);
void driver_close(void);
/* In the child of a fork. */
void driver_forget(void);

#endif
