/* Peek: copies by process_vm_readv(2), which reads what the process could read itself. What drivers
 * map to it (memory of a device) is none of it: the kernel refuses such pages with EFAULT. */
#include "daemon/python/peek.h"

#include <errno.h>
#include <sys/uio.h>

#include "daemon/limits.h"
#include "daemon/proc/procfs.h"

static int read_process(void *data, uint64_t address, void *to, size_t size)
{
	struct iovec here = { to, size };
	struct iovec there = { (void *)(uintptr_t)address, size };
	ssize_t n = process_vm_readv((pid_t)(uintptr_t)data, &here, 1, &there, 1, 0);

	if (n < 0)
		return -errno;
	return (size_t)n == size ? 0 : -EFAULT;
}

void peek_open(struct peek *ret, uint32_t pid)
{
	*ret = (struct peek){ .read = read_process,
			      .data = (void *)(uintptr_t)procfs_living_thread(pid) };
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
