/* Driver: functions with the names and signatures of a driver library's that do nothing, so that
 * what a probe adds to a call can be measured alone. Built so that each starts with a push, as the
 * real ones do; cuCtxPopCurrent_v2 does not, to show what single-stepping costs. */
#include <stddef.h>

int cuLaunchKernel(void *function, unsigned int gx, unsigned int gy, unsigned int gz,
		   unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
		   void *stream, void **params, void **extra);
int cuMemAlloc_v2(void **address, size_t bytes);
int cuMemFree_v2(void *address);
int cuEventQuery(void *event);
int cuCtxPopCurrent_v2(void **context);

int cuLaunchKernel(void *function, unsigned int gx, unsigned int gy, unsigned int gz,
		   unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
		   void *stream, void **params, void **extra)
{
	(void)function, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared;
	(void)stream, (void)params, (void)extra;
	return 0;
}

int cuMemAlloc_v2(void **address, size_t bytes)
{
	(void)bytes;
	*address = (void *)0x7f0000000000;
	return 0;
}

int cuMemFree_v2(void *address)
{
	(void)address;
	return 0;
}

int cuEventQuery(void *event)
{
	(void)event;
	return 0;
}

__attribute__((naked)) int cuCtxPopCurrent_v2(void **context)
{
	__asm__("xor %eax, %eax\n\tret");
}
