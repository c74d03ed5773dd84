/* Ring: the ring of one process, from the reader's side. The memory is sealed before anybody else
 * has it, so that our accesses cannot fail; its contents may change at any moment and are believed
 * only after they were copied. */
#include "daemon/inject/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/memfd.h"

#define RELEASE_SLOTS 1024 /* how often slots are freed, for writers that wait for room */
/* More than this at one time is not a count, but something else written there. */
#define DROPPED_MAX (1ull << 40)

static int make_memory(uint32_t slots)
{
	_cleanup_(closep) int fd = memfd_make("tracesmith", ts_ring_bytes(slots));

	if (fd < 0)
		return fd;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		return -errno;
	return TAKE_FD(fd);
}

int inject_ring_open(uint32_t slots, struct inject_ring *ret, int *ret_fd)
{
	_cleanup_(closep) int fd = make_memory(slots), wake_fd = -1;
	void *memory;

	if (fd < 0)
		return fd;
	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (wake_fd < 0)
		return -errno;
	memory = mmap(NULL, ts_ring_bytes(slots), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return -errno;
	*ret = (struct inject_ring){ .reader.ring = ts_ring_init(memory, slots) };
	ret->wake_fd = TAKE_FD(wake_fd);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static size_t ring_bytes(const struct inject_ring *ring)
{
	return ts_ring_bytes(ring->reader.ring.mask + 1);
}

void inject_ring_close(struct inject_ring *ring)
{
	if (!ring->reader.ring.head)
		return;
	munmap(ring->reader.ring.head, ring_bytes(ring));
	close(ring->wake_fd);
	*ring = (struct inject_ring){ .wake_fd = -1 };
}

uint32_t inject_ring_read(struct inject_ring *ring, uint32_t budget,
			  bool (*take)(void *data, void *record, size_t size), void *data)
{
	_Alignas(64) uint8_t record[TS_RING_COPY_MAX];
	uint64_t start = ring->reader.position, released = start;
	bool on = true;
	size_t size;

	while (on && ring->reader.position - start < budget &&
	       (size = ts_ring_get(&ring->reader, record))) {
		on = take(data, record, size);
		if (ring->reader.position - released >= RELEASE_SLOTS) {
			ts_ring_release(&ring->reader);
			released = ring->reader.position;
		}
	}
	if (ring->reader.position != released)
		ts_ring_release(&ring->reader);
	return (uint32_t)(ring->reader.position - start);
}

uint64_t inject_ring_dropped(struct inject_ring *ring)
{
	uint64_t now = __atomic_load_n(&ring->reader.ring.head->dropped, __ATOMIC_RELAXED);
	uint64_t more = now - ring->dropped;

	ring->dropped = now;
	return more < DROPPED_MAX ? more : 0;
}

bool inject_ring_sleep(struct inject_ring *ring)
{
	if (!ts_ring_sleep(&ring->reader))
		return false;
	/* Releases our pages, not their contents: those belong to the library too. */
	madvise(ring->reader.ring.head, ring_bytes(ring), MADV_DONTNEED);
	return true;
}

void inject_ring_woken(const struct inject_ring *ring)
{
	uint64_t count;

	/* Nothing to read: the library did not wake us, which is fine. */
	if (read(ring->wake_fd, &count, sizeof(count)) < 0)
		return;
}
