/* Handover: the ring from the writers' side, on any thread. A writer announces itself before it
 * looks for the ring. To take the ring away it is first made invisible, then we wait until nobody
 * is announced; so no writer ever waits. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/time.h"
#include "inject/descriptor.h"
#include "inject/link.h"
#include "proto/ring.h"

#define CLOSE_WAIT_MS 2000
#define REASON_MAX    8

struct handover {
	struct ts_ring ring;
	size_t size;
	int wake_fd;
};

static struct handover *current; /* NULL: there is no daemon */
static _Alignas(64) uint32_t writers;
static _Alignas(64) bool wake_due;
static _Alignas(64) uint64_t lost[REASON_MAX];

/* NULL: nobody takes records now. Pair with handover_leave() in any case. */
static struct handover *handover_enter(void)
{
	__atomic_fetch_add(&writers, 1, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&current, __ATOMIC_SEQ_CST);
}

static void handover_leave(void)
{
	__atomic_fetch_sub(&writers, 1, __ATOMIC_RELEASE);
}

int link_put(const void *record, size_t size)
{
	struct handover *handover;
	int r = -ENOTCONN;

	if (!size || size > TS_RING_RECORD_MAX)
		return -EINVAL;
	handover = handover_enter();
	if (handover)
		r = ts_ring_put(&handover->ring, record, size);
	handover_leave();
	return r;
}

bool link_is_crowded(void)
{
	const struct handover *handover = handover_enter();
	bool crowded = handover && ts_ring_is_crowded(&handover->ring);

	handover_leave();
	return crowded;
}

int link_begin(struct link_batch *batch, uint32_t count)
{
	struct handover *handover = handover_enter();
	int r = handover ? ts_ring_begin(&handover->ring, count, &batch->at) : -ENOTCONN;

	batch->to = handover;
	if (r < 0)
		handover_leave();
	return r;
}

void link_fill(const struct link_batch *batch, uint32_t nth, const void *record, size_t size)
{
	const struct handover *handover = batch->to;

	memcpy(ts_ring_slot(&handover->ring, batch->at + nth), record, size);
	ts_ring_publish(&handover->ring, batch->at + nth, 0);
}

void link_end(const struct link_batch *batch)
{
	handover_leave();
}

void *link_slot(const struct link_batch *batch, uint32_t nth)
{
	const struct handover *handover = batch->to;

	return ts_ring_slot(&handover->ring, batch->at + nth);
}

static void handover_wake(const struct handover *handover)
{
	static const uint64_t one = 1;
	int saved = errno;

	/* This fails only if it would block, and then the daemon is already being woken. Not by
	 * write(): a thread could be cancelled there. */
	if (ts_ring_wake(&handover->ring) && descriptor_is_ours(handover->wake_fd))
		syscall(SYS_write, handover->wake_fd, &one, sizeof(one));
	errno = saved;
}

void link_done(const struct link_batch *batch)
{
	const struct handover *handover = batch->to;

	ts_ring_publish(&handover->ring, batch->at, 0);
	/* To publish is a full barrier, as ts_ring_sleep() is: one of us sees the other. To wake it
	 * is a system call, which a filter of this thread may refuse. */
	if (__atomic_load_n(&handover->ring.head->reader_idle, __ATOMIC_SEQ_CST))
		__atomic_store_n(&wake_due, true, __ATOMIC_RELEASE);
	handover_leave();
}

void link_wake_if_due(void)
{
	if (__atomic_exchange_n(&wake_due, false, __ATOMIC_ACQ_REL))
		link_wake();
}

void link_wake(void)
{
	struct handover *handover = handover_enter();

	if (handover)
		handover_wake(handover);
	handover_leave();
}

void link_lost(enum ts_lost_reason reason, uint64_t count)
{
	struct handover *handover = handover_enter();

	if (handover && reason == TS_LOST_RING)
		ts_ring_drop(&handover->ring, count); /* there is always room for this */
	else if ((unsigned int)reason < REASON_MAX)
		__atomic_fetch_add(&lost[reason], count, __ATOMIC_RELAXED);
	handover_leave();
}

void handover_losses(void)
{
	for (uint32_t reason = 0; reason < REASON_MAX; reason++) {
		struct ts_event event = { .kind = TS_EVENT_LOST, .lost.reason = reason };

		event.lost.count = __atomic_load_n(&lost[reason], __ATOMIC_RELAXED);
		if (!event.lost.count)
			continue;
		event.start_ns = clock_ns(CLOCK_MONOTONIC);
		event.end_ns = event.start_ns;
		if (link_put(&event, sizeof(event)) == 0)
			__atomic_fetch_sub(&lost[reason], event.lost.count, __ATOMIC_RELAXED);
	}
	link_wake();
}

static bool handover_is_sound(int ring_fd, uint32_t slots)
{
	int seals = fcntl(ring_fd, F_GET_SEALS);

	/* Memory that can shrink could kill the program with a SIGBUS. */
	return seals >= 0 && (seals & F_SEAL_SHRINK) && ts_ring_slots_ok(slots) &&
	       lseek(ring_fd, 0, SEEK_END) >= (off_t)ts_ring_bytes(slots);
}

int handover_open(int ring_fd, int wake_fd, uint32_t slots)
{
	struct handover *handover;
	struct ts_ring_head *head;

	if (!handover_is_sound(ring_fd, slots))
		return -EBADMSG;
	handover = malloc(sizeof(*handover));
	if (!handover)
		return -ENOMEM;
	handover->size = ts_ring_bytes(slots);
	handover->wake_fd = wake_fd;
	/* Populated, so that writers take no page faults. */
	head = mmap(NULL, handover->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
		    ring_fd, 0);
	if (head == MAP_FAILED) {
		free(handover);
		return -ENOMEM;
	}
	if (head->magic != TS_RING_MAGIC || head->version != TS_RING_VERSION ||
	    head->slots != slots) {
		munmap(head, handover->size);
		free(handover);
		return -EBADMSG;
	}
	handover->ring = ts_ring_at(head, slots);
	__atomic_store_n(&current, handover, __ATOMIC_SEQ_CST);
	return 0;
}

/* Whether nobody is inside any more; waits briefly for it. */
static bool handover_is_left(void)
{
	static const struct timespec pause = { .tv_nsec = NS_PER_MS };

	for (int ms = 0; ms < CLOSE_WAIT_MS; ms++) {
		if (__atomic_load_n(&writers, __ATOMIC_SEQ_CST) == 0)
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

bool handover_close(void)
{
	struct handover *handover = __atomic_exchange_n(&current, NULL, __ATOMIC_SEQ_CST);

	if (!handover)
		return true;
	if (!handover_is_left())
		return false;
	munmap(handover->ring.head, handover->size);
	descriptor_close(handover->wake_fd);
	free(handover);
	return true;
}

void handover_forked(void)
{
	struct handover *handover = current;

	current = NULL;
	if (!handover)
		return;
	descriptor_close(handover->wake_fd);
	/* The announced writer may be a thread of the parent, or a signal handler that interrupted
	 * us may have forked, and we continue from there: then the memory must stay. */
	if (writers == 0)
		munmap(handover->ring.head, handover->size);
}
