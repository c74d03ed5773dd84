/* Driver: one simulated driver per process, made by cuInit from the environment.
 *
 *   FAKE_CUDA_DEVICES      number of devices (2)
 *   FAKE_CUDA_MEMORY_MIB   memory of each (16384); smaller under a thread sanitizer
 *   FAKE_CUDA_TIME_SCALE   1: believable durations; 0: everything as quick as possible
 *   CUDA_INJECTION64_PATH  a library to load, as the real driver does
 *   FAKE_CUDA_CLOSE        set: that library is closed again as soon as it was called */
#include "fake.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

#define MEMORY_MIB_DEFAULT 16384
#define DEVICES_DEFAULT	   2

struct driver driver;

/* Makes the two copies of the library differ, so that their build ids do. */
__attribute__((used)) static const char driver_copy[] = "simulated libcuda, copy " FAKE_COPY;

__thread struct thread thread __attribute__((tls_model("initial-exec")));

static pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER;

uint64_t driver_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static double driver_setting(const char *name, double fallback, double low, double high)
{
	const char *text = getenv(name);
	char *end;
	double value;

	if (!text || !*text)
		return fallback;
	value = strtod(text, &end);
	if (*end || !(value >= low && value <= high))
		return fallback;
	return value;
}

static void driver_forked(void)
{
	if (atomic_load(&driver.state) == DRIVER_READY)
		atomic_store(&driver.state, DRIVER_FORKED);
}

static CUresult driver_setup(void)
{
	uint64_t mib =
		(uint64_t)driver_setting("FAKE_CUDA_MEMORY_MIB", MEMORY_MIB_DEFAULT, 1, 1 << 20);
	CUresult r;

	driver.time_scale = driver_setting("FAKE_CUDA_TIME_SCALE", 1, 0, 1e6);
	driver.devices_count =
		(int)driver_setting("FAKE_CUDA_DEVICES", DEVICES_DEFAULT, 0, DEVICES_MAX);
	if (driver.devices_count == 0)
		return CUDA_ERROR_NO_DEVICE;
	for (int i = 0; i < driver.devices_count; i++) {
		driver.devices[i].ordinal = i;
		driver.devices[i].memory_bytes = mib << 20;
		pthread_mutex_init(&driver.devices[i].primary_lock, NULL);
	}
	r = region_setup();
	for (int i = 0; i < driver.devices_count && r == CUDA_SUCCESS; i++)
		r = pool_setup(&driver.devices[i]);
	return r;
}

/* The library may use CUDA already, so no lock is held. */
static void driver_inject(void)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	int (*initialize)(void);
	void *library;

	if (!path || !*path)
		return;
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return;
	initialize = (int (*)(void))dlsym(library, "InitializeInjection");
	if (initialize)
		initialize();
	if (getenv("FAKE_CUDA_CLOSE"))
		dlclose(library);
}

CUresult driver_init(unsigned int flags)
{
	CUresult r = CUDA_SUCCESS;
	bool first = false;

	if (flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&driver_lock);
	if (atomic_load(&driver.state) == DRIVER_FORKED) {
		r = CUDA_ERROR_NOT_INITIALIZED;
	} else if (atomic_load(&driver.state) == DRIVER_NEW) {
		r = driver_setup();
		if (r == CUDA_SUCCESS) {
			pthread_atfork(NULL, NULL, driver_forked);
			atomic_store_explicit(&driver.state, DRIVER_READY, memory_order_release);
			first = true;
		}
	}
	pthread_mutex_unlock(&driver_lock);
	if (first)
		driver_inject();
	return r;
}

CUresult driver_version(int *version)
{
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = CUDA_VERSION;
	return CUDA_SUCCESS;
}
