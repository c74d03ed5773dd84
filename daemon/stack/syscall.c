/* Syscall: those that wait, or take long. The others are over before anybody can look. */
#include "daemon/stack/syscall.h"

#include <stddef.h>
#include <sys/syscall.h>

#include "core/base/array.h"

#define NAMES(X)                                                                                   \
	X(accept)                                                                                  \
	X(accept4)                                                                                 \
	X(clock_nanosleep)                                                                         \
	X(close)                                                                                   \
	X(connect)                                                                                 \
	X(copy_file_range)                                                                         \
	X(epoll_pwait)                                                                             \
	X(epoll_wait)                                                                              \
	X(execve)                                                                                  \
	X(exit_group)                                                                              \
	X(fallocate)                                                                               \
	X(fcntl)                                                                                   \
	X(fdatasync)                                                                               \
	X(flock)                                                                                   \
	X(fsync)                                                                                   \
	X(futex)                                                                                   \
	X(getdents64)                                                                              \
	X(getrandom)                                                                               \
	X(io_getevents)                                                                            \
	X(io_uring_enter)                                                                          \
	X(ioctl)                                                                                   \
	X(madvise)                                                                                 \
	X(mlock)                                                                                   \
	X(mmap)                                                                                    \
	X(mprotect)                                                                                \
	X(mremap)                                                                                  \
	X(msgrcv)                                                                                  \
	X(msgsnd)                                                                                  \
	X(msync)                                                                                   \
	X(munmap)                                                                                  \
	X(nanosleep)                                                                               \
	X(newfstatat)                                                                              \
	X(openat)                                                                                  \
	X(pause)                                                                                   \
	X(poll)                                                                                    \
	X(ppoll)                                                                                   \
	X(pread64)                                                                                 \
	X(preadv)                                                                                  \
	X(process_vm_readv)                                                                        \
	X(pselect6)                                                                                \
	X(pwrite64)                                                                                \
	X(pwritev)                                                                                 \
	X(read)                                                                                    \
	X(readv)                                                                                   \
	X(recvfrom)                                                                                \
	X(recvmmsg)                                                                                \
	X(recvmsg)                                                                                 \
	X(restart_syscall)                                                                         \
	X(rt_sigsuspend)                                                                           \
	X(rt_sigtimedwait)                                                                         \
	X(sched_yield)                                                                             \
	X(select)                                                                                  \
	X(semop)                                                                                   \
	X(semtimedop)                                                                              \
	X(sendfile)                                                                                \
	X(sendmmsg)                                                                                \
	X(sendmsg)                                                                                 \
	X(sendto)                                                                                  \
	X(splice)                                                                                  \
	X(sync)                                                                                    \
	X(truncate)                                                                                \
	X(unlink)                                                                                  \
	X(vfork)                                                                                   \
	X(wait4)                                                                                   \
	X(waitid)                                                                                  \
	X(write)                                                                                   \
	X(writev)

static const struct {
	long number;
	const char *name;
} names[] = {
#define X(name) { SYS_##name, #name },
	NAMES(X)
#undef X
};

const char *syscall_name(long number)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (names[i].number == number)
			return names[i].name;
	return NULL;
}
