/* Settle: the first attempt to record has come to its end, for which cuInit waits a moment. */
#include "inject/settle.h"

#include <linux/futex.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/time.h"

static int settled;	   /* a futex */
static uint64_t waited_ns; /* until when the program did */

void settle_done(void)
{
	if (__atomic_exchange_n(&settled, 1, __ATOMIC_ACQ_REL) == 0)
		syscall(SYS_futex, &settled, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void settle_wait(unsigned int ms)
{
	uint64_t until_ns = clock_ns(CLOCK_MONOTONIC) + ms * (uint64_t)NS_PER_MS, now_ns;

	while (!__atomic_load_n(&settled, __ATOMIC_ACQUIRE) &&
	       (now_ns = clock_ns(CLOCK_MONOTONIC)) < until_ns) {
		struct timespec timeout = timespec_of(until_ns - now_ns);

		syscall(SYS_futex, &settled, FUTEX_WAIT_PRIVATE, 0, &timeout, NULL, 0);
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
