/* Rights: capabilities, and system calls: those of libbpf and of libc while it loads the programs,
 * and the few that follow. No other file is written, no socket opened, no process started. */
#include "daemon/broker/rights.h"

#include <linux/capability.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "core/base/array.h"
#include "daemon/helper/confine.h"

#define RIGHT(name) (1ull << (name))

/* DAC_READ_SEARCH is for the files that the settings name. SYS_ADMIN is what kernels before 6.6
 * want for a probe; the unit has it there only. */
#define KEPT                                                                                       \
	(RIGHT(CAP_BPF) | RIGHT(CAP_PERFMON) | RIGHT(CAP_SYS_ADMIN) | RIGHT(CAP_DAC_READ_SEARCH))

static const uint16_t calls[] = {
	SYS_access,
	SYS_bpf,
	SYS_brk,
	SYS_clock_gettime,
	SYS_clock_nanosleep,
	SYS_clone,
	SYS_clone3,
	SYS_close,
	SYS_dup,
	SYS_exit,
	SYS_exit_group,
	SYS_faccessat,
	SYS_faccessat2,
	SYS_fcntl,
	SYS_fstat,
	SYS_futex,
	SYS_getdents64,
	SYS_getpid,
	SYS_getrandom,
	SYS_gettid,
	SYS_ioctl,
	SYS_lseek,
	SYS_madvise,
	SYS_mmap,
	SYS_mprotect,
	SYS_mremap,
	SYS_munmap,
	SYS_newfstatat,
	SYS_openat,
	SYS_perf_event_open,
	SYS_prctl,
	SYS_pread64,
	SYS_prlimit64,
	SYS_read,
	SYS_readlink,
	SYS_recvmsg,
	SYS_restart_syscall,
	SYS_rseq,
	SYS_rt_sigaction,
	SYS_rt_sigprocmask,
	SYS_rt_sigreturn,
	SYS_sched_getaffinity,
	SYS_sched_yield,
	SYS_sendmsg,
	SYS_set_robust_list,
	SYS_uname,
	SYS_write,
	SYS_writev,
};

int rights_broker(void)
{
	int r = confine_rights_but(KEPT);

	if (r == 0)
		r = confine_opening();
	if (r == 0)
		r = confine_calls(calls, ARRAY_SIZE(calls));
	return r;
}
