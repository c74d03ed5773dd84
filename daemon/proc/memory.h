/* memory.h: reads the memory of other processes, by descriptors that the opener has opened. For one
 * thread, which keeps some of them. */
#ifndef TS_MEMORY_H
#define TS_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* As many bytes as there are from there on, at least one; -EFAULT: none. -ESRCH: the process has
 * ended. -EACCES, -EPERM: not allowed. */
ssize_t memory_read(uint32_t pid, uint64_t address, void *to, size_t size);
/* Whether it can be read: 0, or as above. */
int memory_check(uint32_t pid);
/* The process runs another program now, perhaps: while it shares its memory with a process that
 * goes on, the kernel does not tell. */
void memory_forget(uint32_t pid);

#endif
