/* Cupti driver: calls that we make to the driver of the process, on our own thread.
 *
 * The driver is used only where it is already mapped, and only after the program has initialized
 * it: initializing it here would change what the program may do later (fork, for example). Contexts
 * are inspected without creating one.
 */
#include "inject/cupti_driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "inject/internal.h"
#include "inject/launcher.h"
#include "inject/name.h"

#define LIBRARY		      "libcuda.so"
#define NOT_INITIALIZED	      3
#define ATTRIBUTE_CLOCK_KHZ   13
#define ATTRIBUTE_MULTIPROCS  16
#define DEVICES_MAX	      64
#define DEVICE_NAME_MAX	      256
#define NULL_STREAM_PER_CUPTI 7 /* as observed, where CUPTI does not say */

#define DRIVER_FUNCTIONS(X)                                                                        \
	X(version, cuDriverGetVersion, (int *))                                                    \
	X(count, cuDeviceGetCount, (int *))                                                        \
	X(get, cuDeviceGet, (int *, int))                                                          \
	X(name, cuDeviceGetName, (char *, int, int))                                               \
	X(uuid, cuDeviceGetUuid, (uint8_t *, int))                                                 \
	X(uuid_v2, cuDeviceGetUuid_v2, (uint8_t *, int))                                           \
	X(memory, cuDeviceTotalMem_v2, (size_t *, int))                                            \
	X(attribute, cuDeviceGetAttribute, (int *, int, int))                                      \
	X(primary_state, cuDevicePrimaryCtxGetState, (int, unsigned *, int *))                     \
	X(primary_retain, cuDevicePrimaryCtxRetain, (void **, int))                                \
	X(primary_release, cuDevicePrimaryCtxRelease_v2, (int))

static struct {
	void *handle;
#define X(field, symbol, parameters) int(*field) parameters;
	DRIVER_FUNCTIONS(X)
#undef X
} driver;

/* In this session; a bit for each device. */
static struct {
	uint64_t devices, contexts;
} told;

static bool driver_open(void)
{
	char path[PATH_MAX];

	if (driver.handle)
		return true;
	if (!mapped_library(LIBRARY, path, sizeof(path)))
		return false;
	driver.handle = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
	if (!driver.handle)
		return false;
#define X(field, symbol, parameters)                                                               \
	driver.field = (int(*) parameters)dlsym(driver.handle, #symbol);
	DRIVER_FUNCTIONS(X)
#undef X
	return true;
}

bool driver_is_known(char *path, size_t size)
{
	char whole[PATH_MAX] = "";

	if (!driver_open() || driver.count)
		return true;
	mapped_library(LIBRARY, whole, sizeof(whole));
	snprintf(path, size, "%s", whole);
	return false;
}

enum driver_state driver_look(void)
{
	int count;

	if (!driver_open() || !driver.count)
		return DRIVER_ABSENT;
	return driver.count(&count) == NOT_INITIALIZED ? DRIVER_STARTING : DRIVER_READY;
}

bool driver_loaded_us(void)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	Dl_info info;

	return path && dladdr((const void *)driver_loaded_us, &info) && info.dli_fname &&
	       !strcmp(info.dli_fname, path);
}

int driver_version(void)
{
	int version = 0;

	if (!driver_open() || !driver.version || driver.version(&version))
		return 0;
	return version;
}

void driver_call(void)
{
	int count;

	if (driver.count)
		driver.count(&count);
}

static int device_count(void)
{
	int count = 0;

	if (!driver.handle || !driver.get || !driver.count || driver.count(&count))
		return 0;
	return count < DEVICES_MAX ? count : DEVICES_MAX;
}

static bool context_is_active(int device)
{
	unsigned flags;
	int active = 0;

	return driver.primary_state && !driver.primary_state(device, &flags, &active) && active;
}

bool driver_has_context(void)
{
	for (int i = 0, device; i < device_count(); i++)
		if (!driver.get(&device, i) && context_is_active(device))
			return true;
	return false;
}

static uint32_t attribute(int device, int which)
{
	int value = 0;

	if (!driver.attribute || driver.attribute(&value, which, device))
		return 0;
	return (uint32_t)value;
}

static void tell_device(int ordinal, int device)
{
	char name[DEVICE_NAME_MAX] = "";
	struct ts_event event = { .kind = TS_EVENT_DEVICE, .start_ns = clock_ns(CLOCK_MONOTONIC) };
	size_t bytes = 0;

	if (driver.name && !driver.name(name, sizeof(name), device))
		event.device.name = name_number(name, NAME_TEXT);
	if (driver.uuid_v2)
		driver.uuid_v2(event.device.uuid, device);
	else if (driver.uuid)
		driver.uuid(event.device.uuid, device);
	if (driver.memory && !driver.memory(&bytes, device))
		event.device.memory_bytes = bytes;
	event.device.device = (uint32_t)ordinal;
	event.device.multiprocessors = attribute(device, ATTRIBUTE_MULTIPROCS);
	event.device.clock_khz = attribute(device, ATTRIBUTE_CLOCK_KHZ);
	link_put(&event, sizeof(event));
}

static void tell_context(const struct cupti *cupti, int ordinal, int device)
{
	struct ts_event event = { .kind = TS_EVENT_CONTEXT, .start_ns = clock_ns(CLOCK_MONOTONIC) };
	void *context;

	if (!cupti->context_id || !driver.primary_retain || !driver.primary_release ||
	    driver.primary_retain(&context, device))
		return;
	event.context.device = (uint32_t)ordinal;
	event.context.null_stream = NULL_STREAM_PER_CUPTI;
	if (cupti->stream_id)
		cupti->stream_id(context, NULL, 0, &event.context.null_stream);
	if (cupti->context_id(context, &event.context.context) == CUPTI_OK)
		link_put(&event, sizeof(event));
	driver.primary_release(device);
}

/* A context that the program releases for the last time while we ask for it is made anew: so each
 * is asked for once. */
void driver_tell(const struct cupti *cupti)
{
	for (int i = 0, device; i < device_count(); i++) {
		uint64_t bit = (uint64_t)1 << i;

		if (driver.get(&device, i))
			continue;
		if (!(told.devices & bit))
			tell_device(i, device);
		told.devices |= bit;
		if (told.contexts & bit || !context_is_active(device))
			continue;
		tell_context(cupti, i, device);
		told.contexts |= bit;
	}
}

void driver_tell_again(void)
{
	told.devices = told.contexts = 0;
}

void driver_close(void)
{
	if (driver.handle)
		dlclose(driver.handle);
	driver_forget();
}

void driver_forget(void)
{
	memset(&driver, 0, sizeof(driver));
}
