/* Hooked: reads two iterators. The first tells the mappings that have pages of their own, as those
 * have that a probe was ever put into; the second compares their code, in the kernel. */
#include "daemon/probe/hooked.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "daemon/broker/broker.h"

/* The tree of mappings changes in the middle of it, and nobody waits for our own lock. */
#define TRIES	20
#define WAIT_US 500

enum { TOUCHED, LOOKS /* map of who asks what */, HOOKED, FDS };

struct hooked {
	int fd[FDS];
};

struct ranges {
	uint32_t count;
	struct hooked_range range[HOOKED_RANGES];
};

/* What a program says, at most `size` bytes: how many, or -E2BIG and others. */
static ssize_t read_all(int link, void *to, size_t size)
{
	_cleanup_(closep) int fd = bpf_iter_create(link);
	size_t got = 0;
	ssize_t n = 1;

	if (fd < 0)
		return fd;
	while (n > 0 && got < size) {
		n = read(fd, (char *)to + got, size - got);
		got += n > 0 ? (size_t)n : 0;
	}
	return n < 0 ? -errno : (ssize_t)got;
}

/* The program finds by the reader's number what it is to do. */
static ssize_t ask(const struct hooked *hooked, int which, struct hooked_look *look, void *to,
		   size_t size)
{
	const uint32_t reader = (uint32_t)syscall(SYS_gettid);
	ssize_t n;

	if (bpf_map_update_elem(hooked->fd[LOOKS], &reader, look, BPF_ANY) < 0)
		return -errno;
	n = read_all(hooked->fd[which], to, size);
	if (n >= 0 && bpf_map_lookup_elem(hooked->fd[LOOKS], &reader, look) < 0)
		n = -errno;
	bpf_map_delete_elem(hooked->fd[LOOKS], &reader);
	return n;
}

static int range_compare(const void *a, const void *b)
{
	const struct hooked_range *x = a, *y = b;

	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static void keep_those_of(struct ranges *ranges, uint32_t pid)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < ranges->count; i++)
		if (ranges->range[i].pid == pid)
			ranges->range[kept++] = ranges->range[i];
	ranges->count = kept;
}

/* -EBUSY: they could not all be seen. */
static int find_touched(const struct hooked *hooked, struct hooked_look *look, uint32_t pid,
			struct ranges *ret)
{
	ssize_t n;

	look->done = 0;
	n = ask(hooked, TOUCHED, look, ret->range, sizeof(ret->range));
	if (n < 0 || !look->done)
		return -EBUSY;
	ret->count = (uint32_t)((size_t)n / sizeof(ret->range[0]));
	if (pid)
		keep_those_of(ret, pid);
	else
		qsort(ret->range, ret->count, sizeof(ret->range[0]), range_compare);
	return 0;
}

/* The kernel finds the others by our mapping of the file. */
static int compare(const struct hooked *hooked, const void *mapped, struct hooked_look *look,
		   uint32_t pid, uint32_t *ret_pid)
{
	_cleanup_(freep) struct ranges *ranges = malloc(sizeof(*ranges));
	struct hooked_found found = { 0 };
	ssize_t n;
	int r;

	look->address = (uint64_t)(uintptr_t)mapped;
	r = ranges ? find_touched(hooked, look, pid, ranges) : -ENOMEM;
	if (r < 0 || !ranges->count)
		return r;
	look->range = (uint64_t)(uintptr_t)ranges->range;
	look->ranges = ranges->count;
	/* One is enough. */
	n = ask(hooked, HOOKED, look, &found, sizeof(found));
	if (n <= 0)
		return n < 0 ? -EBUSY : 0;
	if (found.busy)
		return -EBUSY;
	*ret_pid = found.pid;
	return -ETXTBSY;
}

int hooked_look(const struct hooked *hooked, int file, const struct hooked_code *code,
		uint32_t codes, uint32_t pid, uint32_t *ret_pid)
{
	const size_t size = (size_t)sysconf(_SC_PAGESIZE);
	struct hooked_look look = { .code = (uint64_t)(uintptr_t)code, .codes = codes };
	void *mapped;
	int r;

	*ret_pid = 0;
	if (!hooked || !codes)
		return 0;
	mapped = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);
	if (mapped == MAP_FAILED)
		return -errno;
	r = compare(hooked, mapped, &look, pid, ret_pid);
	for (int i = 1; i < TRIES && r == -EBUSY; i++) {
		usleep(WAIT_US);
		r = compare(hooked, mapped, &look, pid, ret_pid);
	}
	munmap(mapped, size);
	return r;
}

/* The programs know a reader by the number that the kernel has for it, and none of who does not. */
static bool works(const struct hooked *hooked)
{
	_cleanup_(closep) int own = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	const struct hooked_code none = { 0 };
	uint32_t pid;

	return own >= 0 && hooked_look(hooked, own, &none, 1, 0, &pid) == 0;
}

struct hooked *hooked_free(struct hooked *hooked)
{
	if (!hooked)
		return NULL;
	for (size_t i = 0; i < FDS; i++)
		close(hooked->fd[i]);
	free(hooked);
	return NULL;
}

struct hooked *hooked_new(struct broker *broker)
{
	struct hooked *hooked = calloc(1, sizeof(*hooked));

	if (!hooked || broker_hooked(broker, hooked->fd) < 0) {
		free(hooked);
		return NULL;
	}
	return works(hooked) ? hooked : hooked_free(hooked);
}
