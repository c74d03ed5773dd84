/* syscall.h: names of system calls. */
#ifndef TS_STACK_SYSCALL_H
#define TS_STACK_SYSCALL_H

/* Of those in which a thread may be for a while; NULL: another. */
const char *syscall_name(long number);

#endif
