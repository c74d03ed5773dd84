/* Sample: a software clock of the kernel's that counts while the thread is on a CPU. */
#include "daemon/native/sample.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "daemon/broker/broker.h"
#include "daemon/limits.h"

#define DATA_BYTES (128u << 10)

/* After the header of a sample. */
struct before_stack {
	uint64_t abi, bp, sp, pc; /* as the bits of the registers come: broker/event.c */
	uint64_t size;
};

struct ring {
	struct perf_event_mmap_page *page;
	size_t size;
};

static void ring_unmap(struct ring *ring)
{
	if (ring->page)
		munmap(ring->page, ring->size);
}

/* Writable: so the kernel does not write over what was not read. */
static int map_ring(int fd, struct ring *ret)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE) + DATA_BYTES;
	void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (page == MAP_FAILED)
		return -errno;
	*ret = (struct ring){ page, size };
	return 0;
}

/* The first sample lies at the start of the ring, which has not gone round. */
static int read_sample(const struct ring *ring, uint8_t *stack, struct walk_registers *ret,
		       size_t *ret_size)
{
	const uint8_t *at = (const uint8_t *)ring->page + sysconf(_SC_PAGESIZE);
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE), size;
	struct perf_event_header header;
	struct before_stack before;

	if (head < sizeof(header) + sizeof(before))
		return -EAGAIN;
	memcpy(&header, at, sizeof(header));
	memcpy(&before, at + sizeof(header), sizeof(before));
	/* A thread that is ending has no registers left. */
	if (header.type != PERF_RECORD_SAMPLE || before.abi == PERF_SAMPLE_REGS_ABI_NONE ||
	    header.size < sizeof(header) + sizeof(before) + before.size + sizeof(size) ||
	    before.size > SAMPLE_STACK_MAX)
		return -EAGAIN;
	at += sizeof(header) + sizeof(before);
	memcpy(&size, at + before.size, sizeof(size));
	if (size > before.size)
		return -EAGAIN;
	memcpy(stack, at, size);
	*ret = (struct walk_registers){ before.pc, before.sp, before.bp };
	*ret_size = size;
	return 0;
}

int sample_thread(int sampler, uint32_t tid, uint8_t stack[SAMPLE_STACK_MAX],
		  struct walk_registers *ret, size_t *ret_size)
{
	_cleanup_(closep) int fd = -1;
	_cleanup_(ring_unmap) struct ring ring = { 0 };
	struct pollfd ready;
	int r;

	fd = broker_sample(sampler, tid);
	if (fd < 0)
		return fd;
	r = map_ring(fd, &ring);
	if (r < 0)
		return r;
	ready = (struct pollfd){ .fd = fd, .events = POLLIN };
	r = poll(&ready, 1, LIMIT_NATIVE_SAMPLE_MS);
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	if (r < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	return r == 0 ? -EAGAIN : read_sample(&ring, stack, ret, ret_size);
}
