/* Confine: what a helper process gives up. The filters are plain lists, which need no
 * library. The sanitizers need more memory and other calls: with them, there are no such bounds. */
#include "daemon/helper/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/array.h"

#define CALLS_MAX	   128
#define REFUSE(error)	   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))
#define TRAP		   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP)
#define ALLOW		   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define LOAD(field)	   BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (yes), (no))
#define X32		   0x40000000 /* the first number of that ABI, which no list has */
#define WRITES		   (O_ACCMODE | O_CREAT | O_TRUNC)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

int confine_rights_but(uint64_t kept)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct set[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
	    syscall(SYS_capget, &head, set) < 0)
		return -errno;
	for (size_t i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		set[i].permitted &= (uint32_t)(kept >> 32 * i);
		set[i].effective = set[i].permitted;
		set[i].inheritable = 0;
	}
	return syscall(SYS_capset, &head, set) < 0 ? -errno : 0;
}

int confine_rights(void)
{
	return confine_rights_but(0);
}

/* Raising it needs no permission. */
static void offer_to_be_killed(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, "1000", 4) < 0)
		errno = 0; /* a kernel of its own mind */
	close(fd);
}

int confine_resources(const struct confine_bounds *bounds)
{
	const struct {
		int resource;
		uint64_t bound;
	} rows[] = {
		{ RLIMIT_AS, SANITIZED ? RLIM_INFINITY : bounds->memory_bytes },
		{ RLIMIT_DATA,
		  SANITIZED || !bounds->data_bytes ? RLIM_INFINITY : bounds->data_bytes },
		{ RLIMIT_FSIZE, bounds->file_bytes },
		{ RLIMIT_CPU, bounds->cpu_s },
		{ RLIMIT_NOFILE, bounds->files },
		{ RLIMIT_NPROC, 0 },
		{ RLIMIT_CORE, 0 },
	};

	offer_to_be_killed();
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct rlimit limit = { rows[i].bound, rows[i].bound };

		if (setrlimit(rows[i].resource, &limit) < 0)
			return -errno;
	}
	return 0;
}

static int apply(struct sock_filter *filter, size_t count)
{
	const struct sock_fprog program = { .len = (unsigned short)count, .filter = filter };

	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 ? -errno : 0;
}

int confine_opening(void)
{
	struct sock_filter filter[] = {
		LOAD(arch),
		IF(AUDIT_ARCH_X86_64, 1, 0),
		REFUSE(EPERM),
		LOAD(nr),
		IF(SYS_openat, 3, 0),
		IF(SYS_openat2, 5, 0),
		IF(SYS_open, 4, 0), /* which libc does not use */
		IF(SYS_creat, 3, 4),
		LOAD(args[2]), /* the lower half, which has all flags */
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, WRITES),
		IF(O_RDONLY, 1, 0),
		REFUSE(EACCES),
		ALLOW,
	};

	return apply(filter, ARRAY_SIZE(filter));
}

int confine_to_itself(void)
{
	struct sock_filter filter[] = {
		LOAD(arch),
		IF(AUDIT_ARCH_X86_64, 1, 0),
		REFUSE(EPERM),
		LOAD(nr),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32, 13, 0),
		IF(SYS_prlimit64, 3, 0),
		IF(SYS_fcntl, 4, 0),
		IF(SYS_ioctl, 7, 0),
		ALLOW,
		LOAD(args[0]), /* the lower half, which is all that the kernel reads; and so on */
		IF(0, 8, 7),
		LOAD(args[1]),
		IF(F_SETOWN, 5, 0),
		IF(F_SETOWN_EX, 4, 0),
		IF(F_SETSIG, 3, 4),
		LOAD(args[1]),
		IF(FIOSETOWN, 1, 0),
		IF(SIOCSPGRP, 0, 1),
		REFUSE(EPERM),
		ALLOW,
	};

	return apply(filter, ARRAY_SIZE(filter));
}

#define HEAD 4 /* statements before the numbers */

/* Behind the head, whose last statement loads a number: `listed` for those that are listed. */
static int apply_list(struct sock_filter filter[], const uint16_t *number, size_t count,
		      struct sock_filter listed, struct sock_filter others)
{
	size_t n = HEAD;

	if (SANITIZED)
		return 0;
	if (count > CALLS_MAX)
		return -E2BIG;
	for (size_t i = 0; i < count; i++)
		filter[n++] = (struct sock_filter)IF(number[i], (uint8_t)(count - i), 0);
	filter[n++] = others;
	filter[n++] = listed;
	return apply(filter, n);
}

#define FILTER_OF_CALLS                                                                            \
	{                                                                                          \
		LOAD(arch), IF(AUDIT_ARCH_X86_64, 1, 0), REFUSE(EPERM), LOAD(nr),                  \
	}

bool confine_limits_calls(void)
{
	return !SANITIZED;
}

int confine_calls(const uint16_t *call, size_t count)
{
	struct sock_filter filter[HEAD + CALLS_MAX + 2] = FILTER_OF_CALLS;

	return apply_list(filter, call, count, (struct sock_filter)ALLOW,
			  (struct sock_filter)REFUSE(EPERM));
}

int confine_calls_or_trap(const uint16_t *call, size_t count)
{
	struct sock_filter filter[HEAD + CALLS_MAX + 2] = FILTER_OF_CALLS;

	return apply_list(filter, call, count, (struct sock_filter)ALLOW, (struct sock_filter)TRAP);
}

int confine_without(const uint16_t *call, size_t count)
{
	struct sock_filter filter[HEAD + CALLS_MAX + 2] = FILTER_OF_CALLS;

	return apply_list(filter, call, count, (struct sock_filter)REFUSE(EPERM),
			  (struct sock_filter)ALLOW);
}

int confine_bpf(const uint16_t *command, size_t count)
{
	struct sock_filter filter[HEAD + CALLS_MAX + 2] = {
		LOAD(nr), IF(SYS_bpf, 1, 0), ALLOW,
		LOAD(args[0]), /* the lower half, which is all that the kernel reads */
	};

	return apply_list(filter, command, count, (struct sock_filter)ALLOW,
			  (struct sock_filter)REFUSE(EPERM));
}
