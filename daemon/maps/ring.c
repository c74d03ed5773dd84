/* maps_ring: the kernel's perf rings, one per CPU, read as one stream in the order of time. What is
 * behind a ring's tail has been copied and belongs to the kernel again.
 */
#include "daemon/maps/ring.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "daemon/broker/event.h"

/* The layouts of perf_event_open(2), each followed by the time (PERF_SAMPLE_TIME). */
struct raw_mmap2 {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t address, length, offset;
	uint32_t major, minor;
	uint64_t inode, generation;
	uint32_t protection, flags;
	char path[];
};

struct raw_task {
	struct perf_event_header header;
	uint32_t pid, ppid, tid, ptid;
	uint64_t time_ns;
};

struct raw_comm {
	struct perf_event_header header;
	uint32_t pid, tid;
};

struct raw_lost {
	struct perf_event_header header;
	uint64_t id, lost;
};

#define RAW_SIZE_MIN (sizeof(struct perf_event_header) + sizeof(uint64_t))

CLEANUP_DEFINE(struct maps_rings, maps_rings_free)

static int ring_open(struct maps_ring *ring, const struct maps_events *events, int cpu, size_t size)
{
	size_t page_size = sysconf(_SC_PAGESIZE);
	_cleanup_(closep) int fd =
		events->open ? events->open(events->data, cpu) : event_mapped(-1, (uint32_t)cpu);
	void *page;

	if (fd < 0)
		return fd;
	page = mmap(NULL, page_size + size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return -errno;
	*ring = (struct maps_ring){
		.fd = TAKE_FD(fd),
		.page = page,
		.data = (uint8_t *)page + page_size,
		.size = size,
		.time_ns = UINT64_MAX,
	};
	return 0;
}

static int rings_add(struct maps_rings *rings, const struct maps_events *events, int cpu,
		     size_t *size)
{
	struct maps_ring *ring = &rings->ring[rings->count];
	struct epoll_event event = { .events = EPOLLIN };
	int r;

	/* Without CAP_IPC_LOCK a user may lock perf_event_mlock_kb per CPU. */
	while ((r = ring_open(ring, events, cpu, *size)) == -EPERM && *size > 16384)
		*size /= 2;
	if (r < 0)
		return r;
	rings->count++;
	return epoll_ctl(rings->epoll_fd, EPOLL_CTL_ADD, ring->fd, &event) < 0 ? -errno : 0;
}

int maps_rings_open(size_t size, const struct maps_events *events, struct maps_rings **ret)
{
	_cleanup_(maps_rings_freep) struct maps_rings *rings = calloc(1, sizeof(*rings));
	int cpu, cpus = (int)sysconf(_SC_NPROCESSORS_CONF), r;

	if (!rings)
		return -ENOMEM;
	rings->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (rings->epoll_fd < 0)
		return -errno;
	rings->ring = calloc(cpus, sizeof(*rings->ring));
	if (!rings->ring)
		return -ENOMEM;
	for (cpu = 0; cpu < cpus; cpu++) {
		r = rings_add(rings, events, cpu, &size);
		if (r < 0 && r != -ENODEV) /* the CPU is off */
			return r;
	}
	if (rings->count == 0)
		return -ENODEV;
	*ret = TAKE(rings);
	return 0;
}

struct maps_rings *maps_rings_free(struct maps_rings *rings)
{
	size_t page_size = sysconf(_SC_PAGESIZE);
	uint32_t i;

	if (!rings)
		return NULL;
	for (i = 0; i < rings->count; i++) {
		munmap(rings->ring[i].page, page_size + rings->ring[i].size);
		close(rings->ring[i].fd);
	}
	free(rings->ring);
	if (rings->epoll_fd >= 0)
		close(rings->epoll_fd);
	free(rings);
	return NULL;
}

static void ring_copy(const struct maps_ring *ring, uint64_t position, void *to, size_t size)
{
	size_t at = position & (ring->size - 1), first = ring->size - at;

	if (first > size)
		first = size;
	memcpy(to, ring->data + at, first);
	memcpy((uint8_t *)to + first, ring->data, size - first);
}

/* Finds the time of the record at the tail. */
static void ring_peek(struct maps_ring *ring)
{
	struct perf_event_header header;

	ring->time_ns = UINT64_MAX;
	if (ring->head == ring->tail)
		return;
	ring_copy(ring, ring->tail, &header, sizeof(header));
	if (header.size < RAW_SIZE_MIN || header.size > ring->head - ring->tail) {
		ring->tail = ring->head; /* impossible, but it must not block us forever */
		return;
	}
	ring_copy(ring, ring->tail + header.size - sizeof(uint64_t), &ring->time_ns,
		  sizeof(uint64_t));
}

bool maps_rings_waiting(const struct maps_rings *rings)
{
	uint32_t i;

	for (i = 0; i < rings->count; i++)
		if (rings->ring[i].time_ns != UINT64_MAX)
			return true;
	return false;
}

bool maps_rings_refresh(struct maps_rings *rings)
{
	uint32_t i;

	for (i = 0; i < rings->count; i++) {
		struct maps_ring *ring = &rings->ring[i];

		/* Pairs with the barrier between the kernel's writing of records and of the head.
		 */
		ring->head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
		ring_peek(ring);
	}
	return maps_rings_waiting(rings);
}

static bool decode_mmap(const void *data, struct maps_record *ret)
{
	const struct raw_mmap2 *raw = data;

	*ret = (struct maps_record){
		.kind = MAPS_RECORD_MMAP,
		.pid = raw->pid,
		.start = raw->address,
		.end = raw->address + raw->length,
		.offset = raw->offset,
		.device = makedev(raw->major, raw->minor),
		.inode = raw->inode,
		.path = raw->path,
	};
	return raw->header.size > sizeof(*raw) + sizeof(uint64_t);
}

static bool decode_comm(const void *data, struct maps_record *ret)
{
	const struct raw_comm *raw = data;

	*ret = (struct maps_record){ .kind = MAPS_RECORD_EXEC, .pid = raw->pid };
	return raw->header.misc & PERF_RECORD_MISC_COMM_EXEC;
}

static bool decode_task(const void *data, struct maps_record *ret)
{
	const struct raw_task *raw = data;
	bool fork = raw->header.type == PERF_RECORD_FORK;

	*ret = (struct maps_record){
		.kind = fork ? MAPS_RECORD_FORK : MAPS_RECORD_EXIT,
		.pid = raw->pid,
		.ppid = raw->ppid,
	};
	return !fork || raw->pid == raw->tid;
}

static bool decode_lost(const void *data, struct maps_record *ret)
{
	const struct raw_lost *raw = data;

	*ret = (struct maps_record){ .kind = MAPS_RECORD_LOST, .lost = raw->lost };
	return true;
}

static const struct {
	size_t size;
	bool (*decode)(const void *data, struct maps_record *ret); /* false: irrelevant */
} decoders[] = {
	[PERF_RECORD_MMAP2] = { sizeof(struct raw_mmap2), decode_mmap },
	[PERF_RECORD_COMM] = { sizeof(struct raw_comm), decode_comm },
	[PERF_RECORD_FORK] = { sizeof(struct raw_task), decode_task },
	[PERF_RECORD_EXIT] = { sizeof(struct raw_task), decode_task },
	[PERF_RECORD_LOST] = { sizeof(struct raw_lost), decode_lost },
};

/* Copies the record at the tail and frees its space. */
static bool ring_take(struct maps_rings *rings, struct maps_ring *ring, struct maps_record *ret)
{
	const struct perf_event_header *header = (const void *)rings->raw;
	uint64_t time_ns = ring->time_ns;
	size_t size;
	bool known;

	ring_copy(ring, ring->tail, rings->raw, sizeof(*header));
	size = header->size;
	known = header->type < ARRAY_SIZE(decoders) && decoders[header->type].decode &&
		size >= decoders[header->type].size && size <= sizeof(rings->raw);
	if (known)
		ring_copy(ring, ring->tail, rings->raw, size);
	ring->tail += size;
	__atomic_store_n(&ring->page->data_tail, ring->tail, __ATOMIC_RELEASE);
	ring_peek(ring);
	if (!known || !decoders[header->type].decode(rings->raw, ret))
		return false;
	ret->time_ns = time_ns;
	return true;
}

int maps_rings_next(struct maps_rings *rings, uint64_t horizon_ns, struct maps_record *ret)
{
	struct maps_ring *oldest;
	uint32_t i;

	for (;;) {
		oldest = &rings->ring[0];
		for (i = 1; i < rings->count; i++)
			if (rings->ring[i].time_ns < oldest->time_ns)
				oldest = &rings->ring[i];
		if (oldest->time_ns > horizon_ns)
			return 0;
		if (ring_take(rings, oldest, ret))
			return 1;
	}
}
