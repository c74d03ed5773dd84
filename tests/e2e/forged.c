/* forged DRIVER: a program that writes what it likes into the ring between its library and the
 * daemon. Each line that it reads is one order, and answered with a line:
 *
 * call WIDTH N          launches N times
 * api FN STACK WIDTH    says that it called function FN once, with such a stack
 * early FN STACK WIDTH  likewise, a minute ago
 * backward STACK FORWARD PASSED  says that there is a stack of both: its id
 * wrong STACK FORWARD PASSED     likewise, under the id of another pair: that id */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "proto/ring.h"
#include "proto/stack_id.h"

#ifdef __clang__
#define ALONE __attribute__((noinline))
#else
#define ALONE __attribute__((noipa)) /* nor is it made into another function */
#endif

#define NAME   "/memfd:tracesmith (deleted)"
#define MINUTE 60000000000

static int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
		     void *, void **, void **);

ALONE static void forger_call(unsigned width, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		launch(NULL, width, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	__asm__ volatile("" ::: "memory"); /* or the call would become a jump */
}

/* The memory that the library shares with the daemon. */
static bool find_ring(struct ts_ring *ret)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	uint64_t start = 0, at;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, NAME) && sscanf(line, "%" SCNx64, &at) == 1)
			start = at;
	if (maps)
		fclose(maps);
	if (!start)
		return false;
	*ret = ts_ring_at((void *)start, ((struct ts_ring_head *)start)->slots);
	return true;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* The reader looks at its ring now and then even if nobody wakes it. */
static const char *put(const struct ts_event *event)
{
	struct ts_ring ring;

	if (!find_ring(&ring))
		return "no ring";
	ts_ring_wake(&ring);
	return ts_ring_put(&ring, event, sizeof(*event)) == 0 ? "put" : "no room";
}

static const char *put_call(uint64_t fn, uint64_t stack, uint64_t width, uint64_t ago)
{
	struct ts_event event = {
		.kind = TS_EVENT_API,
		.fn = (uint16_t)fn,
		.ns_tid = (uint32_t)syscall(SYS_gettid),
		.start_ns = now_ns() - ago,
		.stack_id = stack,
	};

	event.api.grid[0] = (uint32_t)width;
	event.api.grid[1] = event.api.grid[2] = 1;
	event.api.block[0] = event.api.block[1] = event.api.block[2] = 1;
	return put(&event);
}

static const char *put_pair(uint64_t stack, uint64_t forward, uint64_t passed, uint64_t off)
{
	static char answer[64];
	struct ts_event event = {
		.kind = TS_EVENT_BACKWARD,
		.ns_tid = (uint32_t)syscall(SYS_gettid),
		.start_ns = now_ns(),
		.stack_id = stack_id_backward(stack, forward, passed) + off,
	};

	event.backward.stack = stack;
	event.backward.forward = forward;
	event.backward.passed = passed;
	snprintf(answer, sizeof(answer), "%s %" PRId64, put(&event), (int64_t)event.stack_id);
	return answer;
}

static const char *obey(const char *order, uint64_t first, uint64_t second, uint64_t third)
{
	if (!strcmp(order, "call"))
		forger_call((unsigned)first, second);
	else if (!strcmp(order, "api"))
		return put_call(first, second, third, 0);
	else if (!strcmp(order, "early"))
		return put_call(first, second, third, MINUTE);
	else if (!strcmp(order, "backward"))
		return put_pair(first, second, third, 0);
	else if (!strcmp(order, "wrong"))
		return put_pair(first, second, third, 1);
	return "done";
}

int main(int argc, char **argv)
{
	void *driver = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
	int (*create)(void **, unsigned, int);
	int64_t first, second, third; /* as ids are in answers */
	int (*init)(unsigned);
	char line[128], order[16];
	void *context;

	if (!driver)
		return 2;
	init = dlsym(driver, "cuInit");
	create = dlsym(driver, "cuCtxCreate_v2");
	launch = dlsym(driver, "cuLaunchKernel");
	if (init(0) || create(&context, 0, 0))
		return 2;
	setlinebuf(stdout);
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		first = second = third = 0;
		if (sscanf(line, "%15s %" SCNd64 " %" SCNd64 " %" SCNd64, order, &first, &second,
			   &third) >= 1)
			puts(obey(order, (uint64_t)first, (uint64_t)second, (uint64_t)third));
	}
	return 0;
}
