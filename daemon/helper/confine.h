/* confine.h: what a helper process gives up for good, so that whoever takes it over has little.
 * Each of them is final, and inherited. 0, or a negative errno: go no further then.
 */
#ifndef TS_CONFINE_H
#define TS_CONFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct confine_bounds {
	uint64_t memory_bytes; /* of address space */
	uint64_t data_bytes;   /* of that, other than files and code; 0: all */
	uint64_t file_bytes;   /* where a file may not be written beyond */
	uint64_t cpu_s;
	uint64_t files; /* that may be open */
};

/* Every capability, and the hope of others. */
int confine_rights(void);
/* The same, but for those of them that it has: a bit for each, by the kernel's numbers. Before
 * there are threads, each of which has its own. */
int confine_rights_but(uint64_t kept);

/* More resources than these. No core is dumped, no process started. Where memory is short, the
 * kernel takes this process rather than the daemon. */
int confine_resources(const struct confine_bounds *bounds);

/* Opening files for writing: EACCES, as if it were not permitted. */
int confine_opening(void);

/* All system calls but these, which answer with EPERM. */
int confine_calls(const uint16_t *call, size_t count);
/* The same, but they are answered with SIGSYS. */
int confine_calls_or_trap(const uint16_t *call, size_t count);
/* False: with the sanitizers all calls are allowed. */
bool confine_limits_calls(void);
/* What a process calls that reads files, looks into BPF's maps and talks over a socket: a part of
 * such lists, with <sys/syscall.h>. */
#define CONFINE_READER                                                                             \
	SYS_access, SYS_bpf, SYS_brk, SYS_clock_gettime, SYS_clock_nanosleep, SYS_close, SYS_dup,  \
		SYS_exit, SYS_exit_group, SYS_faccessat, SYS_faccessat2, SYS_fcntl, SYS_fstat,     \
		SYS_futex, SYS_getdents64, SYS_getpid, SYS_getrandom, SYS_gettid, SYS_ioctl,       \
		SYS_lseek, SYS_madvise, SYS_mmap, SYS_mprotect, SYS_mremap, SYS_munmap,            \
		SYS_newfstatat, SYS_openat, SYS_prctl, SYS_pread64, SYS_prlimit64, SYS_read,       \
		SYS_readlink, SYS_recvmsg, SYS_restart_syscall, SYS_rseq, SYS_rt_sigaction,        \
		SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sched_getaffinity, SYS_sched_yield,      \
		SYS_sendmsg, SYS_set_robust_list, SYS_uname, SYS_write

/* These system calls, which then answer with EPERM. */
int confine_without(const uint16_t *call, size_t count);
/* All commands of bpf(2) but these. The same. */
int confine_bpf(const uint16_t *command, size_t count);
/* What reaches other processes of its user by calls that it needs: their limits, and signals that a
 * descriptor sends; and all calls by the numbers of another ABI, by which those of a list could be
 * made. The same. */
int confine_to_itself(void);

#endif
