/* Primary: the one counted context of a device that libraries share. */
#include "fake.h"

static CUresult primary_retain_locked(CUcontext *ret, struct device *device)
{
	if (!device->primary) {
		CUresult r = context_new(&device->primary, device, device->primary_flags, true);

		if (r != CUDA_SUCCESS)
			return r;
	}
	device->primary_refs++;
	*ret = (CUcontext)device->primary;
	return CUDA_SUCCESS;
}

CUresult primary_retain(CUcontext *ret, CUdevice dev)
{
	struct device *device = device_check(dev);
	CUresult r;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&device->primary_lock);
	r = primary_retain_locked(ret, device);
	pthread_mutex_unlock(&device->primary_lock);
	return r;
}

static void primary_drop(struct device *device)
{
	if (device->primary)
		context_delete(device->primary);
	device->primary = NULL;
}

CUresult primary_release(CUdevice dev)
{
	struct device *device = device_check(dev);
	CUresult r = CUDA_SUCCESS;

	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&device->primary_lock);
	if (device->primary_refs == 0)
		r = CUDA_ERROR_INVALID_CONTEXT;
	else if (--device->primary_refs == 0)
		primary_drop(device);
	pthread_mutex_unlock(&device->primary_lock);
	return r;
}

/* Whoever has retained it has still to release it, as on a real device (seen on an H200). */
CUresult primary_reset(CUdevice dev)
{
	struct device *device = device_check(dev);

	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&device->primary_lock);
	primary_drop(device);
	pthread_mutex_unlock(&device->primary_lock);
	return CUDA_SUCCESS;
}

CUresult primary_set_flags(CUdevice dev, unsigned int flags)
{
	struct device *device = device_check(dev);

	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (flags & ~(unsigned int)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&device->primary_lock);
	device->primary_flags = flags;
	if (device->primary)
		device->primary->flags = flags;
	pthread_mutex_unlock(&device->primary_lock);
	return CUDA_SUCCESS;
}

CUresult primary_get_state(CUdevice dev, unsigned int *flags, int *active)
{
	struct device *device = device_check(dev);

	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&device->primary_lock);
	*flags = device->primary_flags;
	*active = device->primary != NULL;
	pthread_mutex_unlock(&device->primary_lock);
	return CUDA_SUCCESS;
}
