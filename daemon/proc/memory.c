/* Memory: a descriptor is of the memory that a process had when it was opened, and reads nothing
 * once that is gone. */
#include "daemon/proc/memory.h"

#include <errno.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "daemon/proc/opener.h"

#define KEPT 8

struct kept {
	uint32_t pid; /* 0: free */
	int fd;
};

static struct kept table[KEPT];
static size_t oldest;

static struct kept *find(uint32_t pid)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (table[i].pid == pid)
			return &table[i];
	return NULL;
}

void memory_forget(uint32_t pid)
{
	struct kept *kept = find(pid);

	if (!kept)
		return;
	close(kept->fd);
	kept->pid = 0;
}

static int get(uint32_t pid)
{
	struct kept *kept = find(pid);
	int fd;

	if (kept)
		return kept->fd;
	fd = opener_open(OPENER_MEMORY, pid);
	if (fd < 0)
		return fd == -ENOENT ? -ESRCH : fd;
	kept = &table[oldest++ % ARRAY_SIZE(table)];
	if (kept->pid)
		close(kept->fd);
	*kept = (struct kept){ pid, fd };
	return fd;
}

int memory_check(uint32_t pid)
{
	int fd = get(pid);

	return fd < 0 ? fd : 0;
}

ssize_t memory_read(uint32_t pid, uint64_t address, void *to, size_t size)
{
	ssize_t n = 0;

	if (!pid || !size || address > INT64_MAX - size)
		return -EFAULT;
	for (int again = 0; n == 0 && again < 2; again++) {
		int fd = get(pid);

		if (fd < 0)
			return fd;
		n = pread(fd, to, size, (off_t)address);
		if (n < 0)
			return errno == EIO ? -EFAULT : -errno;
		if (n == 0)
			memory_forget(pid);
	}
	return n ? n : -ESRCH;
}
