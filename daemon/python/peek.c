/* Peek: reads what the process could read itself, memory of devices included. */
#include "daemon/python/peek.h"

#include <errno.h>

#include "daemon/limits.h"
#include "daemon/proc/memory.h"
#include "daemon/proc/procfs.h"

static int read_process(void *data, uint64_t address, void *to, size_t size)
{
	ssize_t n = memory_read((uint32_t)(uintptr_t)data, address, to, size);

	if (n < 0)
		return (int)n;
	return (size_t)n == size ? 0 : -EFAULT;
}

void peek_open(struct peek *ret, uint32_t pid)
{
	*ret = (struct peek){ .read = read_process,
			      .data = (void *)(uintptr_t)procfs_living_thread(pid) };
	memory_forget(procfs_living_thread(pid));
	peek_renew(ret);
}

void peek_renew(struct peek *peek)
{
	peek->reads_left = LIMIT_PYTHON_READS;
	peek->bytes_left = LIMIT_PYTHON_BYTES;
}

int peek_charge(struct peek *peek, size_t size)
{
	if (peek->bytes_left < size)
		return -EDQUOT;
	peek->bytes_left -= size;
	return 0;
}

int peek_bytes(struct peek *peek, uint64_t address, void *to, size_t size)
{
	if (!peek->reads_left || peek_charge(peek, size) < 0)
		return -EDQUOT;
	peek->reads_left--;
	if (!address || address > UINT64_MAX - size)
		return -EFAULT;
	return peek->read(peek->data, address, to, size);
}

int peek_word(struct peek *peek, uint64_t address, uint64_t *ret)
{
	return peek_bytes(peek, address, ret, sizeof(*ret));
}
