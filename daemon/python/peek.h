/* peek.h: reads the memory of another process, with an end to how much of it one may make us read.
 */
#ifndef TS_PYTHON_PEEK_H
#define TS_PYTHON_PEEK_H

#include <stddef.h>
#include <stdint.h>

struct peek {
	/* All of `size` bytes: 0. -EFAULT: they are not all there. -ESRCH: the process has ended.
	 * -EPERM: not allowed. */
	int (*read)(void *data, uint64_t address, void *to, size_t size);
	void *data;
	uint32_t reads_left;
	uint64_t bytes_left;
};

/* Of a process on this host, by LIMIT_PYTHON_READS and _BYTES. */
void peek_open(struct peek *ret, uint32_t pid);
/* So much may be read again. */
void peek_renew(struct peek *peek);

/* Counts bytes that are gone through, though they were read before. -EDQUOT: no more are. */
int peek_charge(struct peek *peek, size_t size);
/* As `read`. -EDQUOT: no more is read. */
int peek_bytes(struct peek *peek, uint64_t address, void *to, size_t size);
int peek_word(struct peek *peek, uint64_t address, uint64_t *ret);

#endif
