/* attach_thread: chooses the thread that loads the library.
 *
 * It must hold no lock that loading takes, and nothing it does may have another result because it
 * was stopped. Best is one that waits in a system call which the kernel restarts without a trace
 * (CUDA itself always has such threads); next, one that computes. What a thread is doing is checked
 * again once it has stopped. */
#include <errno.h>
#include <limits.h>
#include <linux/io_uring.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/time.h"
#include "daemon/attach/internal.h"
#include "daemon/attach/signal_frame.h"

#define STACK_WINDOW	   (16 << 10) /* of a thread's stack to search */
#define STACK_NEAR	   (4 << 10)
#define CANDIDATES_MAX	   64
#define FRAMES_MAX	   16 /* of signals, on all stacks of a thread */
#define LOADER_PATIENCE_NS 300000000ull
#define RESTART_NO_HANDLER 514 /* ERESTARTNOHAND of the kernel */
#define RETRY_FIRST_US	   200
#define RETRY_MAX_US	   2000
#define RSEQ_CONFIG	   0x420f

#define WORKER_NAME	   "iou-" /* of io_uring */
#define READ_BY_OTHERS	   "what it writes is read"
#define STEADY_NS	   1000000000ull /* in one call: it is not just passing */

enum rank {
	RANK_WAITS, /* restarted without a trace */
	RANK_LOCK,  /* the same, but it may be in the middle of something */
	RANK_RUNS,
	RANK_OTHER, /* another call, that comes back on its own */
	RANK_AGAIN, /* would end with EINTR: we make it start again, with the full time if it has
		       one */
	RANK_NEVER, /* may end half done, or cannot be stopped */
};

static const struct {
	short call;
	uint8_t rank;
} calls[] = {
	{ SYS_poll, RANK_WAITS },
	{ SYS_ppoll, RANK_WAITS },
	{ SYS_select, RANK_WAITS },
	{ SYS_pselect6, RANK_WAITS },
	{ SYS_nanosleep, RANK_WAITS },
	{ SYS_clock_nanosleep, RANK_WAITS },
	{ SYS_pause, RANK_WAITS },
	{ SYS_rt_sigsuspend, RANK_WAITS },
	{ SYS_wait4, RANK_WAITS },
	{ SYS_waitid, RANK_WAITS },
	{ SYS_restart_syscall, RANK_WAITS },
	{ SYS_flock, RANK_WAITS },
	{ SYS_futex, RANK_LOCK },
	{ SYS_read, RANK_LOCK },
	{ SYS_readv, RANK_LOCK },
	{ SYS_recvfrom, RANK_AGAIN },
	{ SYS_recvmsg, RANK_AGAIN },
	{ SYS_recvmmsg, RANK_NEVER },
	{ SYS_accept, RANK_AGAIN },
	{ SYS_accept4, RANK_AGAIN },
	{ SYS_epoll_wait, RANK_AGAIN },
	{ SYS_epoll_pwait, RANK_AGAIN },
	{ SYS_epoll_pwait2, RANK_AGAIN },
	{ SYS_rt_sigtimedwait, RANK_AGAIN },
	{ SYS_semop, RANK_AGAIN },
	{ SYS_semtimedop, RANK_AGAIN },
	{ SYS_io_getevents, RANK_AGAIN },
	{ SYS_io_pgetevents, RANK_AGAIN },
	{ SYS_io_uring_enter, RANK_AGAIN },
	{ SYS_write, RANK_NEVER },
	{ SYS_writev, RANK_NEVER },
	{ SYS_sendto, RANK_NEVER },
	{ SYS_sendmsg, RANK_NEVER },
	{ SYS_sendmmsg, RANK_NEVER },
	{ SYS_sendfile, RANK_NEVER },
	{ SYS_splice, RANK_NEVER },
	{ SYS_tee, RANK_NEVER },
	{ SYS_vmsplice, RANK_NEVER },
	{ SYS_copy_file_range, RANK_NEVER },
	{ SYS_connect, RANK_NEVER },
	{ SYS_clone, RANK_NEVER },
	{ SYS_clone3, RANK_NEVER },
	{ SYS_fork, RANK_NEVER },
	{ SYS_vfork, RANK_NEVER },
	{ SYS_execve, RANK_NEVER },
	{ SYS_execveat, RANK_NEVER },
	{ SYS_exit, RANK_NEVER },
	{ SYS_exit_group, RANK_NEVER },
	{ SYS_rt_sigreturn, RANK_NEVER },
};

/* What may be waited for in vain. */
static const struct {
	short call;
	const char *name, *until;
} obstacles[] = {
	{ SYS_recvfrom, "recv", "all that it waits for has come" },
	{ SYS_recvmsg, "recvmsg", "all that it waits for has come" },
	{ SYS_recvmmsg, "recvmmsg", "all that it waits for has come" },
	{ SYS_io_uring_enter, "io_uring_enter", "what it has submitted is done" },
	{ SYS_write, "write", READ_BY_OTHERS },
	{ SYS_writev, "writev", READ_BY_OTHERS },
	{ SYS_sendto, "send", READ_BY_OTHERS },
	{ SYS_sendmsg, "sendmsg", READ_BY_OTHERS },
	{ SYS_sendmmsg, "sendmmsg", READ_BY_OTHERS },
	{ SYS_sendfile, "sendfile", READ_BY_OTHERS },
	{ SYS_splice, "splice", READ_BY_OTHERS },
	{ SYS_tee, "tee", READ_BY_OTHERS },
	{ SYS_vmsplice, "vmsplice", READ_BY_OTHERS },
	{ SYS_copy_file_range, "copy_file_range", "that is copied" },
	{ SYS_connect, "connect", "it is connected" },
	{ SYS_vfork, "vfork", "its child has ended or started a program" },
};

struct candidate {
	pid_t tid;
	uint8_t rank;
	bool filtered; /* by seccomp, which may kill for what we have it do */
};

static enum rank call_base(long call)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		if (calls[i].call == call)
			return calls[i].rank;
	return RANK_OTHER;
}

/* Interrupted, it returns what it has submitted, or 0 with some completions of those that it waits
 * for: but with nothing to submit, and not more than one to wait for, EINTR or all. */
static bool uring_only_waits(const uint64_t argument[6])
{
	uint64_t flags = argument[3];

	return !argument[1] && argument[2] <= 1 && flags & IORING_ENTER_GETEVENTS &&
	       !(flags & IORING_ENTER_SQ_WAIT);
}

static enum rank call_rank(long call, const uint64_t argument[6])
{
	/* A part of what was asked for would be returned. */
	if ((call == SYS_recvfrom && argument[3] & MSG_WAITALL) ||
	    (call == SYS_recvmsg && argument[2] & MSG_WAITALL) ||
	    (call == SYS_io_uring_enter && !uring_only_waits(argument)))
		return RANK_NEVER;
	return call_base(call);
}

/* A pipe takes as much as this in one piece: while a write waits, nothing of it is written, and the
 * kernel restarts it. */
static bool write_is_whole(pid_t pid, pid_t tid, const uint64_t argument[6])
{
	struct stat file;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/fd/%d", pid, tid, (int)argument[0]);
	return argument[2] <= PIPE_BUF && stat(path, &file) == 0 && S_ISFIFO(file.st_mode);
}

static enum rank call_rank_of(pid_t pid, pid_t tid, long call, const uint64_t argument[6])
{
	if (call == SYS_write && write_is_whole(pid, tid, argument))
		return RANK_LOCK;
	return call_rank(call, argument);
}

static enum rank thread_rank(const struct attach_target *target, pid_t tid,
			     const struct attach_status *status)
{
	struct attach_where where;

	if (!strchr("RS", status->state) || !strcmp(status->comm, ATTACH_THREAD_NAME) ||
	    attach_where_read(target->pid, tid, &where) < 0)
		return RANK_NEVER;
	if (where.running || where.call < 0)
		return RANK_RUNS;
	return call_rank_of(target->pid, tid, where.call, where.argument);
}

/* What it opens the others do not have, and cannot close: neither the library's own threads nor who
 * cleans up. Not known of a kernel without kcmp(). */
static bool thread_has_own_files(pid_t pid, pid_t tid)
{
	return tid != pid && syscall(SYS_kcmp, pid, tid, KCMP_FILES, 0, 0) > 0;
}

static int candidate_compare(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return x->rank != y->rank ? (int)x->rank - (int)y->rank : x->tid - y->tid;
}

/* Sorted, best first; *ret_count of them are worth a try. Where some threads have a seccomp filter
 * of their own, none of these is. */
static int thread_candidates(const struct attach_target *target, struct candidate **ret,
			     size_t *ret_count)
{
	_cleanup_(freep) struct candidate *candidate = NULL;
	_cleanup_(freep) pid_t *tid = NULL;
	size_t count, good = 0, kept = 0;
	bool all_filtered = true;
	int r;

	r = attach_threads_read(target->pid, &tid, &count);
	if (r < 0)
		return r;
	candidate = calloc(count, sizeof(*candidate));
	if (!candidate)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		struct attach_status status;
		enum rank rank;

		if (attach_status_read(target->pid, tid[i], &status) < 0 ||
		    strchr("ZX", status.state) ||
		    (!strncmp(status.comm, WORKER_NAME, strlen(WORKER_NAME)) &&
		     attach_thread_is_kernels(target->pid, tid[i])))
			continue;
		all_filtered &= status.seccomp != 0;
		rank = thread_rank(target, tid[i], &status);
		if (rank < RANK_NEVER && !thread_has_own_files(target->pid, tid[i]))
			candidate[good++] =
				(struct candidate){ tid[i], (uint8_t)rank, status.seccomp != 0 };
	}
	for (size_t i = 0; i < good; i++)
		if (all_filtered || !candidate[i].filtered)
			candidate[kept++] = candidate[i];
	qsort(candidate, kept, sizeof(*candidate), candidate_compare);
	*ret = TAKE(candidate);
	*ret_count = kept < CANDIDATES_MAX ? kept : CANDIDATES_MAX;
	return 0;
}

/* Whether code can be in the middle of something because it called what is at `pc`: nothing that
 * holds a lock calls the program's own code. */
static bool may_hold(const struct attach_target *target, uint64_t pc)
{
	return pc >= target->libc.start && pc < target->libc.end;
}

/* Whether the stack from `sp` on has an address of unsafe code, within `near` bytes, or a signal
 * frame of a handler that interrupted such code, or what that has called: memory is often asked of
 * the kernel with a lock held. Leftovers of older calls count too, and more frames than `*frames`:
 * the thread is then tried again later. */
static bool stack_unsafe(const struct attach_target *target, uint64_t sp, size_t near,
			 unsigned int *frames)
{
	_cleanup_(freep) uint64_t *word = calloc(1, STACK_WINDOW);
	ssize_t size;
	size_t count;

	if (!word)
		return true;
	size = pread(target->mem, word, STACK_WINDOW, (off_t)(sp & ~7ull));
	count = size > 0 ? (size_t)size / sizeof(*word) : 0;
	for (size_t i = 0; i < count; i++) {
		if (i * sizeof(*word) < near && attach_target_unsafe(target, word[i]))
			return true;
		if (!signal_frame_is_at(word, i))
			continue;
		if (!*frames || attach_target_unsafe(target, word[i - SIGNAL_RIP]))
			return true;
		(*frames)--;
		if (may_hold(target, word[i - SIGNAL_RIP]) &&
		    stack_unsafe(target, word[i - SIGNAL_RSP], STACK_NEAR, frames))
			return true;
	}
	return false;
}

/* A restartable sequence that is left would not start again: the kernel only checks where a thread
 * is, and by then it is elsewhere. */
static bool thread_in_rseq(const struct attach_remote *remote)
{
	struct {
		uint64_t pointer;
		uint32_t size, signature, flags, padding;
	} config = { 0 };
	uint64_t section, range[4];
	const struct user_regs_struct *regs = &remote->saved;

	if (ptrace((enum __ptrace_request)RSEQ_CONFIG, remote->tid, (void *)sizeof(config),
		   &config) < 0 ||
	    !config.pointer ||
	    attach_target_read(remote->target, config.pointer + 8, &section, sizeof(section)) ||
	    !section || attach_target_read(remote->target, section, range, sizeof(range)))
		return false;
	/* version and flags, start, length, where to go instead */
	return regs->rip >= range[1] && regs->rip < range[1] + range[2];
}

bool attach_thread_usable(const struct attach_remote *remote, enum attach_loader loader_max)
{
	const struct user_regs_struct *regs = &remote->saved;
	const struct attach_target *target = remote->target;
	const uint64_t argument[6] = { regs->rdi, regs->rsi, regs->rdx,
				       regs->r10, regs->r8,  regs->r9 };
	bool in_call = (long)regs->orig_rax >= 0;
	enum rank rank =
		in_call ? call_rank_of(target->pid, remote->tid, (long)regs->orig_rax, argument)
			: RANK_RUNS;
	/* Nothing that holds a lock waits like that. */
	bool calm = rank == RANK_WAITS || rank == RANK_AGAIN;
	size_t near = calm ? 0 : STACK_NEAR;
	unsigned int frames = FRAMES_MAX;

	if (rank == RANK_NEVER || thread_in_rseq(remote))
		return false;
	if (loader_max == LOADER_ANY)
		return true;
	if ((!calm && attach_target_unsafe(target, regs->rip)) ||
	    attach_target_loader(target, remote->tid) > loader_max)
		return false;
	if (!may_hold(target, regs->rip))
		near = 0;
	return !stack_unsafe(target, regs->rsp, near, &frames);
}

static bool thread_is_filtered(const struct attach_remote *remote)
{
	struct attach_status status;

	return attach_status_read(remote->target->pid, remote->tid, &status) < 0 || status.seccomp;
}

/* 0: stopped. -EAGAIN: not this one. */
static int thread_try(struct attach_remote *remote, const struct candidate *candidate,
		      enum attach_loader loader_max)
{
	int r = attach_remote_stop(remote, candidate->tid);

	if (r == -EPERM && (attach_thread_is_over(remote->target->pid, candidate->tid) ||
			    attach_thread_is_kernels(remote->target->pid, candidate->tid)))
		r = -ESRCH;
	if (r < 0)
		return r == -ESRCH ? -EAGAIN : r;
	if ((candidate->filtered || !thread_is_filtered(remote)) &&
	    attach_thread_usable(remote, loader_max))
		return 0;
	attach_remote_release(remote);
	return remote->stuck ? -EIO : -EAGAIN;
}

/* `obstacle`: where there is no other thread to try. */
static int thread_round(struct attach_remote *remote, enum attach_loader loader_max,
			struct attach_obstacle *obstacle)
{
	_cleanup_(freep) struct candidate *candidate = NULL;
	size_t count = 0;
	int r;

	if (loader_max == LOADER_FREE &&
	    attach_target_loader(remote->target, remote->target->pid) != LOADER_FREE)
		return -EAGAIN;
	r = thread_candidates(remote->target, &candidate, &count);
	if (r < 0)
		return r;
	if (count)
		obstacle->tid = 0;
	else
		attach_obstacle_look(remote->target->pid, obstacle);
	r = -EAGAIN;
	for (size_t i = 0; i < count && r == -EAGAIN && !remote->stuck; i++)
		r = thread_try(remote, &candidate[i], loader_max);
	return r;
}

int attach_thread_stop(struct attach_remote *remote, pid_t pid, bool loads,
		       unsigned int patience_ms, struct remarks *why)
{
	uint64_t begin = attach_now_ns(), end = begin + patience_ms * NS_PER_MS;
	struct attach_obstacle obstacle = { .tid = 0 };
	long wait_us = RETRY_FIRST_US;
	struct attach_status status;
	int r;

	for (;;) {
		/* Another thread that is loading something makes ours wait, which is harmless if it
		 * is short: but it is better to look briefly for a moment without one. */
		r = thread_round(remote,
				 !loads						? LOADER_ANY
				 : attach_now_ns() - begin > LOADER_PATIENCE_NS ? LOADER_BUSY
										: LOADER_FREE,
				 &obstacle);
		if (r == 0 || r == -ESRCH || (r != -EAGAIN && r != -ENOEXEC))
			break;
		if (attach_status_read(pid, 0, &status) < 0 || strchr("ZX", status.state))
			r = -ESRCH;
		if (r != -EAGAIN || remote->stuck || attach_now_ns() > end)
			break;
		nanosleep(&(struct timespec){ .tv_nsec = wait_us * NS_PER_US }, NULL);
		wait_us = wait_us * 2 < RETRY_MAX_US ? wait_us * 2 : RETRY_MAX_US;
	}
	if (r == 0)
		return 0;
	if (r == -ESRCH)
		return ATTACH_WHY(why, r, PROCESS_ENDED, REMARK_NUMBER(pid));
	if (r == -ENOEXEC)
		return ATTACH_WHY(why, r, SHADOW_STACK, REMARK_NUMBER(pid));
	if (r == -EPERM)
		return ATTACH_WHY(why, r, TRACE_REFUSED, REMARK_NUMBER(pid));
	if (attach_obstacle_why(pid, &obstacle, why) < 0)
		return -EAGAIN;
	return ATTACH_WHY(why, -EAGAIN, NO_FREE_THREAD, REMARK_NUMBER(pid),
			  REMARK_NUMBER(patience_ms));
}

bool attach_thread_half_done(pid_t pid, pid_t tid, struct attach_where *ret)
{
	return attach_where_read(pid, tid, ret) == 0 && !ret->running && ret->call >= 0 &&
	       call_rank_of(pid, tid, ret->call, ret->argument) == RANK_NEVER &&
	       !attach_thread_is_kernels(pid, tid);
}

static bool where_is_same(const struct attach_where *a, const struct attach_where *b)
{
	return a->call == b->call && a->sp == b->sp && a->pc == b->pc &&
	       !memcmp(a->argument, b->argument, sizeof(a->argument));
}

bool attach_obstacle_look(pid_t pid, struct attach_obstacle *obstacle)
{
	_cleanup_(freep) pid_t *tid = NULL;
	struct attach_where where;
	size_t count = 0;

	if (obstacle->tid && attach_thread_half_done(pid, obstacle->tid, &where) &&
	    where_is_same(&where, &obstacle->where))
		return true;
	obstacle->tid = 0;
	/* None of a process that has ended. */
	attach_threads_read(pid, &tid, &count);
	for (size_t i = 0; i < count; i++)
		if (attach_thread_half_done(pid, tid[i], &where)) {
			*obstacle = (struct attach_obstacle){ tid[i], where, attach_now_ns() };
			return true;
		}
	return false;
}

int attach_obstacle_why(pid_t pid, const struct attach_obstacle *obstacle, struct remarks *why)
{
	struct attach_status status;

	if (!obstacle->tid || attach_now_ns() - obstacle->since_ns < STEADY_NS ||
	    attach_status_read(pid, obstacle->tid, &status) < 0)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(obstacles); i++)
		if (obstacles[i].call == obstacle->where.call)
			return ATTACH_WHY(why, -EAGAIN, THREAD_WAITS, REMARK_NUMBER(pid),
					  REMARK_NUMBER(obstacle->tid), status.comm,
					  obstacles[i].name, obstacles[i].until);
	return 0;
}

/* Also where the call was none to be stopped in: with EINTR it has done nothing. */
void attach_thread_again(struct user_regs_struct *regs)
{
	enum rank rank = call_base((long)regs->orig_rax);

	if ((long)regs->rax == -EINTR && (long)regs->orig_rax >= 0 &&
	    (rank == RANK_AGAIN || rank == RANK_LOCK))
		regs->rax = (unsigned long long)-RESTART_NO_HANDLER;
}
