/* Light: the memory of light mode. The daemon fills it, and leads functions of the driver there and
 * away again while the whole process is stopped; so it can go when no function leads there. */
#include "inject/light.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inject/internal.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#define PAGE	    4096
#define REACH	    (1ull << 30) /* of a jump, and a margin */
#define STEP	    (1ull << 20)
#define DRIVER	    "libcuda.so"
#define LINE_SIZE   4352 /* of /proc/self/maps: a path and what stands before it */

#define WALKS_TICKS (1000 / CUPTI_TICK_MS) /* from one message about walks to the next */

void tracesmith_light(const struct ts_light_call *call, const uint64_t *saved);

static struct ts_light_head *region;
static void *shared;		      /* with the daemon, as the gate's walker has it */
static struct ts_light_stacks answer; /* to be told in the next tick, if it has a message */
static unsigned int ticks;	      /* since walks were told */

struct range {
	uint64_t start, end;
};

/* The driver's code, all copies of it. */
static bool light_driver(struct range *ret)
{
	char line[LINE_SIZE], access[5];
	struct range all = { UINT64_MAX, 0 };
	FILE *maps = fopen("/proc/self/maps", "re");

	while (maps && fgets(line, sizeof(line), maps)) {
		const char *name = strrchr(line, '/');
		uint64_t start, end;

		if (!name || strncmp(name + 1, DRIVER, strlen(DRIVER)) ||
		    sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &start, &end, access) != 3 ||
		    access[2] != 'x')
			continue;
		all.start = start < all.start ? start : all.start;
		all.end = end > all.end ? end : all.end;
	}
	if (maps)
		fclose(maps);
	*ret = all;
	return all.end > 0;
}

/* -EEXIST: not there; -EACCES or -EPERM: nowhere, a policy forbids to make code. */
static int light_map_at(uint64_t address)
{
	void *at = mmap((void *)address, TS_LIGHT_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	int r = -EEXIST; /* a kernel before 4.17 takes the address as a hint */

	if (at == MAP_FAILED)
		return -errno;
	if (at == (void *)address) {
		r = mprotect((char *)at + TS_LIGHT_DATA_BYTES, TS_LIGHT_CODE_BYTES,
			     PROT_READ | PROT_EXEC) < 0
			    ? -errno
			    : 0;
		region = r == 0 ? at : NULL;
	}
	if (r < 0)
		munmap(at, TS_LIGHT_BYTES);
	return r;
}

static bool light_is_over(int r)
{
	return r == 0 || r == -EACCES || r == -EPERM;
}

/* Below the driver first: there, others expect nothing to grow. */
static bool light_map_near(const struct range *driver)
{
	int r = -EEXIST;

	for (uint64_t away = STEP; !light_is_over(r) && away < REACH && away < driver->start;
	     away += STEP)
		r = light_map_at((driver->start - away) & ~(uint64_t)(PAGE - 1));
	for (uint64_t away = STEP; !light_is_over(r) && away < REACH; away += STEP)
		r = light_map_at((driver->end + away) & ~(uint64_t)(PAGE - 1));
	return r == 0;
}

static bool light_open_gate(void)
{
	struct light_gate *gate = light_gate;

	if (!gate) {
		gate = mmap(NULL, sizeof(*gate), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (gate == MAP_FAILED)
			return false;
		if (madvise(gate, sizeof(*gate), MADV_WIPEONFORK) < 0) {
			munmap(gate, sizeof(*gate));
			return false;
		}
		__atomic_store_n(&light_gate, gate, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&gate->open, 1, __ATOMIC_SEQ_CST);
	return true;
}

static bool light_is_in_place(void)
{
	return region && __atomic_load_n(&region->sites, __ATOMIC_ACQUIRE) != 0;
}

bool light_start(bool wanted, struct ts_light *ret)
{
	struct range driver;
	const char *why = NULL;

	*ret = (struct ts_light){ .message = TS_MESSAGE_LIGHT };
	answer.message = 0;
	if (!wanted && !light_is_in_place())
		return false;
	if (!light_hook_prepare())
		why = "its C library is none that keeps a thread's number where glibc does";
	else if (!light_driver(&driver))
		why = "the driver's library libcuda is not loaded (yet)";
	else if (!region && !light_map_near(&driver))
		why = "there is no room for code near the driver's library, or a policy forbids "
		      "to make some";
	else if (wanted && !light_open_gate())
		why = "it has no memory that a child of a fork would find empty (Linux 4.14)";
	if (why) {
		snprintf(ret->text, sizeof(ret->text), "%s", why);
		return true;
	}
	ret->in_place = light_is_in_place();
	ret->region = (uint64_t)region;
	ret->hook = (uint64_t)tracesmith_light;
	ret->stub = (uint64_t)light_stub;
	return true;
}

void light_stacks(const struct ts_light_stacks *stacks)
{
	struct light_gate *gate = light_gate;

	uint32_t taken = stacks->stacks & ~TS_STACKS_ANSWER;

	answer = (struct ts_light_stacks){ .stacks = taken };
	if (stacks->stacks & TS_STACKS_ANSWER)
		answer.message = TS_MESSAGE_STACKS;
	if (!gate || !gate->open)
		return;
	gate->sample_ns = stacks->sample_ns;
	__atomic_store_n(&gate->stacks, taken, __ATOMIC_RELEASE);
}

/* It cannot shrink under its readers, and has the layout that they expect. */
static bool walk_is_fit(int fd)
{
	const int seals = fcntl(fd, F_GET_SEALS);
	struct stat status;
	uint32_t version;

	return seals >= 0 && seals & F_SEAL_SHRINK && fstat(fd, &status) == 0 &&
	       status.st_size >= (off_t)sizeof(struct ts_walk) &&
	       pread(fd, &version, sizeof(version), offsetof(struct ts_walk, version)) ==
		       sizeof(version) &&
	       version == TS_WALK_VERSION;
}

/* Threads may be reading what was there before: it is replaced where it is. */
void light_walk(int fd)
{
	struct light_gate *gate = light_gate;
	void *at;

	if (!gate || !gate->open || !walk_is_fit(fd))
		return;
	at = mmap(shared, sizeof(struct ts_walk), PROT_READ, MAP_SHARED | (shared ? MAP_FIXED : 0),
		  fd, 0);
	if (at == MAP_FAILED)
		return;
	if (!shared)
		walk_find_place(&gate->walker.place);
	shared = at;
	__atomic_store_n(&gate->walker.proven, 0, __ATOMIC_RELAXED);
	__atomic_fetch_add(&gate->walker.taken, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&gate->walker.shared, at, __ATOMIC_RELEASE);
}

/* What walks took since the last time. */
static void light_tell_walks(struct light_gate *gate, bool (*say)(const void *, size_t))
{
	struct ts_light_walks walks = { .message = TS_MESSAGE_WALKS };
	uint64_t total = 0, grown;

	for (size_t i = 0; i < LIGHT_SAMPLERS; i++)
		total += __atomic_load_n(&gate->timer[i].total, __ATOMIC_RELAXED);
	grown = total - gate->timed;
	gate->timed = total;
	walks.count = (uint32_t)(grown >> WALK_TIMER_BITS);
	walks.ns = grown & ((1ull << WALK_TIMER_BITS) - 1);
	if (walks.count)
		say(&walks, sizeof(walks));
}

void light_tick(bool (*say)(const void *message, size_t size))
{
	struct light_gate *gate = light_gate;

	link_wake_if_due();
	if (gate && __atomic_exchange_n(&gate->walker.place.grown, 0, __ATOMIC_RELAXED))
		walk_find_low(&gate->walker.place);
	if (gate && ++ticks >= WALKS_TICKS) {
		ticks = 0;
		light_tell_walks(gate, say);
	}
	if (answer.message)
		say(&answer, sizeof(answer));
	answer.message = 0;
}

/* The probe on the stub is another daemon's next time, which knows no stack that this one did. */
void light_suspend(void)
{
	if (!light_gate)
		return;
	__atomic_store_n(&light_gate->stacks, TS_STACKS_NONE, __ATOMIC_SEQ_CST);
	__atomic_store_n(&light_gate->walker.shared, NULL, __ATOMIC_SEQ_CST);
	__atomic_store_n(&light_gate->open, 0, __ATOMIC_SEQ_CST);
}

bool light_stop(void)
{
	struct light_gate *gate = light_gate;

	light_suspend();
	if (light_is_in_place())
		return false;
	if (region)
		munmap(region, TS_LIGHT_BYTES);
	region = NULL;
	light_gate = NULL;
	if (gate)
		munmap(gate, sizeof(*gate));
	if (shared)
		munmap(shared, sizeof(struct ts_walk));
	shared = NULL;
	return true;
}

/* The functions lead to us in the child as well, and find the gate shut. */
void light_forked(void)
{
	light_suspend();
}
