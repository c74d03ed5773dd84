/* Settle: the first attempt to record has come to its end, for which cuInit waits a moment.
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

static int settled;	   /* a futex */
static uint64_t waited_ns; /* until when the program did */
static pid_t thread;	   /* ours; 0: it does not run yet */

void settle_begin(void)
{
	__atomic_store_n(&thread, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
}

void settle_done(void)
{
	if (__atomic_exchange_n(&settled, 1, __ATOMIC_ACQ_REL) == 0)
		syscall(SYS_futex, &settled, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
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

void settle_wait(unsigned int ms)
{
	uint64_t until_ns = clock_ns(CLOCK_MONOTONIC) + ms * (uint64_t)NS_PER_MS, now_ns;

	while (!__atomic_load_n(&settled, __ATOMIC_ACQUIRE) &&
	       (now_ns = clock_ns(CLOCK_MONOTONIC)) < until_ns) {
		uint64_t left_ns = until_ns - now_ns;
		struct timespec timeout = timespec_of(left_ns < LOOK_NS ? left_ns : LOOK_NS);

		syscall(SYS_futex, &settled, FUTEX_WAIT_PRIVATE, 0, &timeout, NULL, 0);
		if (!__atomic_load_n(&settled, __ATOMIC_ACQUIRE) && waits_for_us())
			break;
	}
	__atomic_store_n(&waited_ns, clock_ns(CLOCK_MONOTONIC), __ATOMIC_RELEASE);
}

uint64_t settle_missed_since_ns(void)
{
	static bool asked;
	uint64_t since_ns = asked ? 0 : __atomic_load_n(&waited_ns, __ATOMIC_ACQUIRE);

	asked = true;
	return since_ns;
}
