/* Nvtx: forwards NVTX ranges to CUPTI.
 *
 * NVTX's headers in the program load us at their first use, where NVTX_INJECTION64_PATH names us,
 * on the program's thread. We pass the call on to CUPTI, which then writes MARKER records. If that
 * fails, NVTX stays switched off, as it was.
 *
 * The call goes to CUPTI's own entry for NVTX, which sets CUPTI up. cuptiNvtxInitialize2() does
 * not, so the program's first NVTX call crashes if it comes before CUDA (CUPTI 13.0.1).
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

#include "inject/cupti_find.h"
#include "inject/internal.h"
#include "inject/nvtx_wide.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int InitializeInjectionNvtx2(void *get_export_table);

/* Asks the driver without initializing it: NVTX often comes before CUDA. */
static int version_of_driver(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
	int (*get)(int *) = driver ? (int (*)(int *))dlsym(driver, "cuDriverGetVersion") : NULL;
	int version = 0;

	if (get && get(&version))
		version = 0;
	if (driver)
		dlclose(driver);
	return version;
}

int InitializeInjectionNvtx2(void *get_export_table)
{
	char why[TS_HELLO_TEXT] = "CUPTI has no function for it";
	struct cupti cupti;
	int version = version_of_driver(), saved = errno;
	bool done;

	done = version && !cupti_find(cuda_major(version), &cupti, why, sizeof(why)) &&
	       cupti.nvtx_inject && cupti.nvtx_inject(get_export_table);
	if (done)
		nvtx_widen(get_export_table);
	else
		debug_say("NVTX stays off: %s", why);
	errno = saved;
	return done;
}
