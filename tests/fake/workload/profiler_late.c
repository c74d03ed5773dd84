/* Profiler late: the profiler in a module that is loaded when CUDA has long been used, and that
 * brings libcupti with it, as an imported Python package does.
 *   profiler_late SECONDS OPTIONS...   waits this long first; then as profiler */
#include "workload.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int (*profile)(int, char **);
	void *module;

	if (argc < 2) {
		printf("usage: %s SECONDS [options of profiler]\n", argv[0]);
		return 2;
	}
	TRY(cuInit, (0));
	workload_say("{\"pid\":%d,\"waiting\":1}\n", (int)getpid());
	workload_hold(strtod(argv[1], NULL));
	module = dlopen(PROFILER_MODULE, RTLD_NOW | RTLD_LOCAL);
	profile = module ? (int (*)(int, char **))dlsym(module, "profiler_main") : NULL;
	if (!profile) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	return profile(argc - 1, argv + 1);
}
