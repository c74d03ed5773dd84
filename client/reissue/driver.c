/* Reissue, driver: finds the driver library and its functions by name. */
#include "client/reissue/driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include "client/base/complain.h"

#define LIBRARY "libcuda.so.1"

struct gpu_driver *gpu_driver_free(struct gpu_driver *driver)
{
	if (driver && driver->library)
		dlclose(driver->library);
	free(driver);
	return NULL;
}

static int find(void *library, const char *name, void *ret)
{
	void *symbol = dlsym(library, name);

	if (!symbol) {
		complain("The driver library lacks %s: CUDA 12 or later is needed", name);
		return -ENOSYS;
	}
	*(void **)ret = symbol;
	return 0;
}

const char *gpu_driver_error(const struct gpu_driver *driver, int result)
{
	const char *name = NULL;

	driver->cuGetErrorName(result, &name);
	return name ? name : "unknown error";
}

int gpu_driver_open(struct gpu_driver **ret)
{
	_cleanup_(gpu_driver_freep) struct gpu_driver *driver = calloc(1, sizeof(*driver));
	int result;

	if (!driver) {
		complain_memory();
		return -ENOMEM;
	}
	driver->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!driver->library) {
		complain("No GPU driver found: %s", dlerror());
		return -ENODEV;
	}
#define X(name, parameters)                                                                        \
	if (find(driver->library, #name, &driver->name) < 0)                                       \
		return -ENOSYS;
	REPLAY_GPU_DRIVER(X)
#undef X
	result = driver->cuInit(0);
	if (result != 0) {
		complain("Cannot use the GPU: %s", gpu_driver_error(driver, result));
		return -ENODEV;
	}
	*ret = TAKE(driver);
	return 0;
}
