/* Settle: the first attempt to record has come to its end, and the daemon's probes are on: cuInit
 * waits a moment for both.
 *
 * If the waiting thread holds the lock that our thread needs, it would wait in vain: cuInit in a
 * constructor of a library that is being loaded holds that of the loader. */
#include "inject/settle.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/time.h"

#define LOOK_NS	   (4 * NS_PER_MS)
#define PATH_SIZE  48
#define WHERE_SIZE 64

enum { SETTLED = 1, WATCHED = 2 };

static int state;	   /* a futex */
static uint64_t waited_ns; /* until when the program did */
static pid_t thread;	   /* ours; 0: it does not run yet */

void settle_begin(void)
{
	__atomic_store_n(&thread, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
}

static void settle_add(int what)
{
	if (!(__atomic_fetch_or(&state, what, __ATOMIC_ACQ_REL) & what))
		syscall(SYS_futex, &state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void settle_done(void)
{
	settle_add(SETTLED);
}

void settle_watched(void)
{
	settle_add(WATCHED);
}

static bool read_at(const char *path, uint64_t at, void *to, size_t size, size_t least)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? pread(fd, to, size, (off_t)at) : -1;

	if (fd >= 0)
		close(fd);
	return n >= (ssize_t)least;
}

/* Whether our thread waits for a mutex of the calling thread's. */
static bool waits_for_us(void)
{
	char path[PATH_SIZE], where[WHERE_SIZE] = "";
	uint64_t mutex;
	int owner, call;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall",
		 __atomic_load_n(&thread, __ATOMIC_ACQUIRE));
	return read_at(path, 0, where, sizeof(where) - 1, 1) &&
	       sscanf(where, "%d 0x%" SCNx64, &call, &mutex) == 2 && call == SYS_futex &&
	       read_at("/proc/self/mem", mutex + offsetof(pthread_mutex_t, __data.__owner), &owner,
		       sizeof(owner), sizeof(owner)) &&
	       owner == (int)syscall(SYS_gettid);
}

/* How long what is missing is still waited for. */
static uint64_t settle_left_ns(int has, uint64_t passed_ns, uint64_t settled_ns,
			       uint64_t watched_ns)
{
	uint64_t most_ns = has & SETTLED ? 0 : settled_ns;

	if (!(has & WATCHED) && watched_ns > most_ns)
		most_ns = watched_ns;
	return most_ns > passed_ns ? most_ns - passed_ns : 0;
}

bool settle_wait(unsigned int ms, unsigned int watched_ms)
{
	uint64_t begin_ns = clock_ns(CLOCK_MONOTONIC), left_ns;
	bool blocked = false;
	int has;

	for (;;) {
		struct timespec timeout;

		has = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
		left_ns =
			settle_left_ns(has, clock_ns(CLOCK_MONOTONIC) - begin_ns,
				       ms * (uint64_t)NS_PER_MS, watched_ms * (uint64_t)NS_PER_MS);
		if (!left_ns || blocked)
			break;
		timeout = timespec_of(left_ns < LOOK_NS ? left_ns : LOOK_NS);
		syscall(SYS_futex, &state, FUTEX_WAIT_PRIVATE, has, &timeout, NULL, 0);
		blocked = waits_for_us();
	}
	__atomic_store_n(&waited_ns, clock_ns(CLOCK_MONOTONIC), __ATOMIC_RELEASE);
	return has & WATCHED || blocked;
}

uint64_t settle_missed_since_ns(void)
{
	static bool asked;
	uint64_t since_ns = asked ? 0 : __atomic_load_n(&waited_ns, __ATOMIC_ACQUIRE);

	asked = true;
	return since_ns;
}
