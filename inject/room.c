/* Room: CUPTI is C++ that catches nothing: a thread or memory that it does not get ends the program
 * (std::system_error, std::bad_alloc; CUPTI 13.0.1 on an H200). So limits are looked at first. */
#include "inject/room.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* With its buffers, its thread's stack and libcupti itself it takes 171 MiB of address space. */
#define NEEDED_BYTES (512ull << 20)
#define MIB	     (1ull << 20)

struct used {
	uint64_t space, locked; /* bytes */
};

static void used_read(struct used *ret)
{
	FILE *status = fopen("/proc/self/status", "re");
	char line[128];
	unsigned long long kib;

	*ret = (struct used){ 0 };
	while (status && fgets(line, sizeof(line), status)) {
		if (sscanf(line, "VmSize: %llu kB", &kib) == 1)
			ret->space = kib << 10;
		if (sscanf(line, "VmLck: %llu kB", &kib) == 1)
			ret->locked = kib << 10;
	}
	if (status)
		fclose(status);
}

/* MiB that the limit leaves, where that is too little. */
static bool is_short(int resource, uint64_t used, uint64_t *ret_mib)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY ||
	    limit.rlim_cur >= used + NEEDED_BYTES)
		return false;
	*ret_mib = limit.rlim_cur > used ? (limit.rlim_cur - used) / MIB : 0;
	return true;
}

bool room_is_there(char *why, size_t size)
{
	const char *what = NULL;
	struct used used;
	uint64_t mib;

	used_read(&used);
	if (is_short(RLIMIT_AS, used.space, &mib))
		what = "address space (ulimit -v)";
	else if (used.locked && is_short(RLIMIT_MEMLOCK, used.locked, &mib))
		what = "memory that may be locked, as all of its memory is (ulimit -l)";
	if (what)
		snprintf(why, size,
			 "it has %llu MiB left of its %s: CUPTI needs up to %llu MiB, and would "
			 "end the program without; raise the limit",
			 (unsigned long long)mib, what, (unsigned long long)(NEEDED_BYTES / MIB));
	return !what;
}
