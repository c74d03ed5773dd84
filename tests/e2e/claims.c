/* claims DRIVER LIBRARY DISTANCE: launches nothing. Each line that it reads is one order, and
 * answered with a line:
 *
 * go N                launches N times
 * claim FN ROLE WORD  goes to the library's stub itself, which is that far behind its hook, as if
 *                     the hook had found out that much of a call, of function FN */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/event.h"
#include "proto/light.h"

#ifdef __clang__
#define ALONE __attribute__((noinline))
#else
#define ALONE __attribute__((noipa)) /* nor is it made into another function */
#endif

#define WIDTH 77 /* of what it claims */

typedef void stub(const struct ts_registers *entry, uint32_t fn_and_flags);
typedef int launch(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
		   void *, void **, void **);

static ALONE void claim(stub *to, launch *function, uint32_t fn, uint64_t role, uint64_t word)
{
	uint64_t *frame = __builtin_frame_address(0);
	struct ts_registers entry = {
		.r15 = role,
		.r14 = word,
		.ip = (uint64_t)function,
		.sp = (uint64_t)(frame + 1),
		.bp = *frame,
		.si = WIDTH,
	};

	to(&entry, fn);
	__asm__ volatile("" ::: "memory");
}

static ALONE void go(launch *function)
{
	function(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	__asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv)
{
	void *driver = dlopen(argv[1], RTLD_NOW), *library, *context;
	launch *function = (launch *)dlsym(driver, "cuLaunchKernel");
	unsigned long count, fn, role, word;
	char line[256];

	((int (*)(unsigned))dlsym(driver, "cuInit"))(0);
	((int (*)(void **, unsigned, int))dlsym(driver, "cuCtxCreate_v2"))(&context, 0, 0);
	library = dlopen(argv[2], RTLD_NOW | RTLD_NOLOAD);
	if (argc != 4 || !library)
		return 1;
	puts("ready");
	while (fflush(stdout) == 0 && fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "go %lu", &count) == 1)
			while (count--)
				go(function);
		else if (sscanf(line, "claim %lu %lu %lu", &fn, &role, &word) == 3)
			claim((stub *)((char *)dlsym(library, TS_LIGHT_HOOK_SYMBOL) +
				       strtol(argv[3], NULL, 10)),
			      function, (uint32_t)fn, role, word);
		puts("done");
	}
	return 0;
}
