/* uring_of.h: an io_uring without its library, for tests of threads that wait in one. */
#ifndef TS_URING_OF_H
#define TS_URING_OF_H

#include <linux/io_uring.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define URING_ENTRIES 8
#define URING_MARK    77

struct uring {
	int fd;
	struct io_uring_params params;
	char *submissions, *completions;
	struct io_uring_sqe *entry;
	char byte; /* what a read gets */
};

static inline void *uring_map(const struct uring *ring, size_t size, long offset)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring->fd,
			offset);

	return at == MAP_FAILED ? NULL : at;
}

/* False: there is none, or it is forbidden. */
static inline bool uring_open(struct uring *ring)
{
	const struct io_uring_params *p = &ring->params;

	*ring = (struct uring){ .fd = -1 };
	ring->fd = (int)syscall(SYS_io_uring_setup, URING_ENTRIES, &ring->params);
	if (ring->fd < 0)
		return false;
	ring->submissions = uring_map(ring, p->sq_off.array + p->sq_entries * sizeof(uint32_t),
				      IORING_OFF_SQ_RING);
	ring->completions =
		uring_map(ring, p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe),
			  IORING_OFF_CQ_RING);
	ring->entry = uring_map(ring, p->sq_entries * sizeof(*ring->entry), IORING_OFF_SQES);
	return ring->submissions && ring->completions && ring->entry;
}

static inline uint32_t *uring_word(char *queue, uint32_t offset)
{
	return (uint32_t *)(queue + offset);
}

/* The first one only: a read of standard input. */
static inline void uring_put_read(struct uring *ring, uint8_t flags)
{
	uint32_t *tail = uring_word(ring->submissions, ring->params.sq_off.tail);

	ring->entry[0] = (struct io_uring_sqe){ .opcode = IORING_OP_READ,
						.flags = flags,
						.addr = (uintptr_t)&ring->byte,
						.len = 1,
						.user_data = URING_MARK };
	*uring_word(ring->submissions, ring->params.sq_off.array) = 0;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
}

static inline long uring_enter(const struct uring *ring, uint32_t submit, uint32_t wait)
{
	return syscall(SYS_io_uring_enter, ring->fd, submit, wait, IORING_ENTER_GETEVENTS, NULL, 0);
}

/* Whether that read is done, with its result. */
static inline bool uring_is_done(const struct uring *ring, int32_t *ret)
{
	const struct io_uring_cqe *done =
		(const struct io_uring_cqe *)(ring->completions + ring->params.cq_off.cqes);

	if (*uring_word(ring->completions, ring->params.cq_off.tail) != 1)
		return false;
	*ret = done->res;
	return done->user_data == URING_MARK;
}

#endif
