/* Span: times in memory that a helper writes and the loop reads, so that they hold from the moment
 * of the writing, and not only when a message has been read. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/memfd.h"
#include "daemon/exact/internal.h"

struct light_span *span_map(int fd)
{
	void *times =
		mmap(NULL, sizeof(struct light_span), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return times == MAP_FAILED ? NULL : times;
}

int span_new(struct span *ret)
{
	struct light_span *times;
	_cleanup_(closep) int fd = memfd_make("tracesmith-span", sizeof(*times));

	if (fd < 0)
		return fd;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	times = span_map(fd);
	if (!times)
		return -errno;
	*ret = (struct span){ times, TAKE_FD(fd) };
	return 0;
}

void span_release(struct span *span)
{
	if (!span->times)
		return;
	munmap(span->times, sizeof(*span->times));
	close(span->fd);
	span->times = NULL;
}

uint64_t span_begin(const struct span *span)
{
	return span->times ? __atomic_load_n(&span->times->from_ns, __ATOMIC_ACQUIRE) : 0;
}

bool span_is_over(const struct span *span)
{
	return span->times && __atomic_load_n(&span->times->until_ns, __ATOMIC_ACQUIRE);
}

void span_end(const struct span *span, uint64_t time_ns)
{
	if (span->times && !span_is_over(span))
		__atomic_store_n(&span->times->until_ns, time_ns, __ATOMIC_RELEASE);
}

static uint32_t *span_change(const struct span *span, bool take)
{
	return take ? &span->times->take : &span->times->put;
}

void span_open(const struct span *span, bool take)
{
	if (span->times)
		__atomic_store_n(span_change(span, take), LIGHT_OPEN, __ATOMIC_RELEASE);
}

bool span_withdraw(const struct span *span, bool take)
{
	uint32_t open = LIGHT_OPEN;

	return !span->times ||
	       __atomic_compare_exchange_n(span_change(span, take), &open, LIGHT_WITHDRAWN, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ||
	       open == LIGHT_WITHDRAWN;
}

bool span_has(const struct span *span, uint64_t time_ns)
{
	uint64_t from_ns, until_ns;

	if (!span->times)
		return false;
	from_ns = __atomic_load_n(&span->times->from_ns, __ATOMIC_ACQUIRE);
	until_ns = __atomic_load_n(&span->times->until_ns, __ATOMIC_ACQUIRE);
	return from_ns && time_ns >= from_ns && (!until_ns || time_ns < until_ns);
}
