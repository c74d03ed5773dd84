/* Test inject: a library that CUDA_INJECTION64_PATH names, for test_fake. */
#include <cuda.h>

#include <stdio.h>
#include <stdlib.h>

int InitializeInjection(void);

/* Says that it was called, and that the driver can be used already. */
__attribute__((visibility("default"))) int InitializeInjection(void)
{
	char text[16];
	int count;

	snprintf(text, sizeof(text), "%d", (int)cuDeviceGetCount(&count));
	setenv("FAKE_TEST_INJECTED", text, 1);
	return 1;
}
