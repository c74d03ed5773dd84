/* attach_remote: one stopped thread that does something for us and is then restored.
 *
 * We may die at any moment, and the thread then continues with its current registers: so it is
 * always on its way to an rt_sigreturn that restores what it had, including its signal mask.
 * Nothing of the program's is written to: calls run on memory that was mapped for them. (Only until
 * there is such memory, the frame for that is where a signal's would be.) A thread stops in three
 * ways: in the requested stop and at a signal (from both the kernel restarts what was interrupted:
 * settled), and at the system calls it makes for us. All signals are blocked in between, so they
 * wait in the kernel. A thread is only released from a settled stop. */
#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "daemon/attach/internal.h"

#define STOP_NS	      NS_PER_S /* a thread that can stop does in microseconds */
#define SYSCALL_NS    2000000000ull
#define CALL_NS	      100000000ull /* without a system call */
#define ROUNDS_LOCKED 3		   /* who holds the lock may be waiting for a CPU */
#define ROUNDS_ONCE   30	   /* the same, of a call that is not made again */
#define ROUNDS_SLOW   8
#define ROUNDS_BUSY   20 /* of all calls: it waits for a CPU itself */
#define ROUNDS_TURN   5	 /* a lock that is that is held long may need the thread's own work */
#define TURN_NS	      20000000ull /* then, instead of CALL_NS */
#define END_NS	      5000000000ull
#define SPIN_NS	      20000ull
#define TICK_NS	      10000000
#define TICK_SIGNAL   (SIGRTMAX - 3)

#define SYSCALL_STOP  (SIGTRAP | 0x80)
#define FLAGS_CLEAR                                                                                \
	0x40500ull /* alignment check, direction, trap: must be clear when a function starts */
#define SHADOW_STACK 0x204

/* mov %rax, %rdi; mov $15, %eax; syscall; ud2 */
static const uint8_t return_code[16] = {
	0x48, 0x89, 0xc7, 0xb8, SYS_rt_sigreturn, 0, 0, 0, 0x0f, 0x05, 0x0f, 0x0b,
};
#define RETURN_CODE_AGAIN 3
#define RETURN_CODE_END	  10 /* where rt_sigreturn is seen from */
#define RED_ZONE	  128

uint64_t attach_now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* Ticks, so that a wait ends periodically: waitpid() has no time limit. */
static void on_tick(int signal)
{
}

int attach_remote_ticks(timer_t *ret)
{
	struct sigaction action = { .sa_handler = on_tick };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = TICK_SIGNAL };
	const struct itimerspec every = { { .tv_nsec = TICK_NS }, { .tv_nsec = TICK_NS } };
	sigset_t ticks;

	event._sigev_un._tid = gettid();
	setpriority(PRIO_PROCESS, (id_t)gettid(), PRIO_MIN); /* ends with the thread */
	sigemptyset(&ticks);
	sigaddset(&ticks, TICK_SIGNAL);
	if (sigaction(TICK_SIGNAL, &action, NULL) < 0 || timer_create(CLOCK_MONOTONIC, &event, ret))
		return -errno;
	timer_settime(*ret, 0, &every, NULL);
	return -pthread_sigmask(SIG_UNBLOCK, &ticks, NULL);
}

static uint64_t time_or_two_ticks(uint64_t *before)
{
	uint64_t now = attach_now_ns(), passed = now - *before;

	*before = now;
	return passed < 2 * TICK_NS ? passed : 2 * TICK_NS;
}

/* A stop usually comes sooner than sleeping and waking takes. But the thread may need our processor
 * for it. Where we get none for long, the thread had none either, as far as we know: that counts as
 * two ticks. */
int attach_remote_wait(struct attach_remote *remote, uint64_t limit_ns, int *ret_status)
{
	uint64_t before = attach_now_ns(), passed = 0;
	int status;

	for (;;) {
		int flags = __WALL | __WNOTHREAD | (passed < SPIN_NS ? WNOHANG : 0);
		pid_t r = waitpid(remote->tid, &status, flags);

		if (r == remote->tid && WIFSTOPPED(status)) {
			*ret_status = status;
			return 0;
		}
		if (r == remote->tid || (r < 0 && errno == ECHILD)) {
			remote->gone = true;
			return -ESRCH;
		}
		passed += time_or_two_ticks(&before);
		if (passed > limit_ns)
			return -ETIMEDOUT;
	}
}

int attach_remote_resume(struct attach_remote *remote, int how, int signal)
{
	remote->settled = false;
	return ptrace((enum __ptrace_request)how, remote->tid, NULL, (void *)(long)signal) < 0
		       ? -errno
		       : 0;
}

static bool status_is_event(int status)
{
	return status >> 16 == PTRACE_EVENT_STOP;
}

/* To a settled stop: the requested one, or that of the whole process. Signals that come before are
 * delivered, because the thread is still its own or has them blocked. */
static int remote_interrupt(struct attach_remote *remote, bool running)
{
	uint64_t end = attach_now_ns() + STOP_NS;
	int status, r, signal = 0;

	for (;;) {
		if (ptrace(PTRACE_INTERRUPT, remote->tid, NULL, NULL) < 0)
			return -errno;
		if (!running && attach_remote_resume(remote, PTRACE_CONT, signal) < 0)
			return -ESRCH;
		r = attach_remote_wait(remote, STOP_NS, &status);
		if (r == -ESRCH)
			return r;
		if (r == 0 && status_is_event(status)) {
			remote->settled = true;
			return 0;
		}
		if (r < 0 || attach_now_ns() > end) {
			remote->stuck = true;
			return -EAGAIN;
		}
		running = false;
		signal = WSTOPSIG(status) == SYSCALL_STOP ? 0 : WSTOPSIG(status);
	}
}

int attach_remote_save(struct attach_remote *remote)
{
	struct iovec xstate = { remote->xstate, ATTACH_XSTATE_MAX };
	struct iovec shadow = { &(uint64_t){ 0 }, sizeof(uint64_t) };

	if (ptrace(PTRACE_GETREGS, remote->tid, NULL, &remote->saved) < 0 ||
	    ptrace(PTRACE_GETREGSET, remote->tid, (void *)NT_X86_XSTATE, &xstate) < 0 ||
	    ptrace(PTRACE_GETSIGMASK, remote->tid, (void *)sizeof(remote->mask), &remote->mask) < 0)
		return -errno;
	remote->xstate_size = xstate.iov_len;
	attach_thread_again(&remote->saved);
	/* Its returns are checked against a stack of calls that we cannot write. */
	if (ptrace(PTRACE_GETREGSET, remote->tid, (void *)SHADOW_STACK, &shadow) == 0 &&
	    *(uint64_t *)shadow.iov_base)
		return -ENOEXEC;
	return 0;
}

/* We must reap a killed thread, or its parent would never learn of its end. */
static int remote_bury(struct attach_remote *remote)
{
	uint64_t end = attach_now_ns() + END_NS;
	int status;

	while (!remote->gone && attach_now_ns() < end) {
		if (attach_remote_wait(remote, END_NS, &status) == 0 &&
		    attach_remote_resume(remote, PTRACE_CONT, 0) < 0)
			sched_yield();
	}
	return -ESRCH;
}

/* On a busy machine most of a stop would be waiting for a processor. Having no permission is
 * fine. */
void attach_remote_hurry(struct attach_remote *remote, bool hurry)
{
	if (remote->hurries == hurry)
		return;
	errno = 0;
	if (hurry)
		remote->nice = getpriority(PRIO_PROCESS, (id_t)remote->tid);
	if (errno == 0 &&
	    setpriority(PRIO_PROCESS, (id_t)remote->tid, hurry ? PRIO_MIN : remote->nice) == 0)
		remote->hurries = hurry;
}

int attach_remote_stop(struct attach_remote *remote, pid_t tid)
{
	int r;

	remote->tid = tid;
	remote->gone = remote->settled = remote->stuck = remote->hurries = false;
	remote->fault = 0;
	remote->errno_at = 0;
	remote->stopped_at_ns = attach_now_ns();
	if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)PTRACE_O_TRACESYSGOOD) < 0)
		return -errno;
	r = remote_interrupt(remote, true);
	if (r < 0)
		return remote->stuck ? r : remote_bury(remote);
	r = attach_remote_save(remote);
	if (r < 0 && ptrace(PTRACE_DETACH, tid, NULL, NULL) < 0)
		return remote_bury(remote);
	return r;
}

/* For the next system call, its entry or its exit. */
static int remote_await(struct attach_remote *remote, uint64_t limit_ns)
{
	int r, status, signal;

	for (;;) {
		r = attach_remote_wait(remote, limit_ns, &status);
		if (r < 0)
			return r;
		signal = status_is_event(status) ? 0 : WSTOPSIG(status);
		if (signal == SYSCALL_STOP)
			return 0;
		/* The process is stopped, but not this thread before it is done. SIGSTOP cannot be
		 * blocked. */
		if (signal && signal != SIGSTOP) {
			remote->fault = signal;
			remote->settled = true;
			return -EFAULT;
		}
		if (attach_remote_resume(remote, PTRACE_SYSCALL, signal) < 0)
			return -ESRCH;
	}
}

static int remote_next(struct attach_remote *remote, uint64_t limit_ns)
{
	return attach_remote_resume(remote, PTRACE_SYSCALL, 0) < 0 ? -ESRCH
								   : remote_await(remote, limit_ns);
}

/* Signals are blocked last, and restored first. */
static int remote_registers(struct attach_remote *remote, struct user_regs_struct *regs)
{
	const uint64_t all = ~0ull;

	regs->orig_rax = -1ull;
	if (ptrace(PTRACE_SETREGS, remote->tid, NULL, regs) < 0 ||
	    ptrace(PTRACE_SETSIGMASK, remote->tid, (void *)sizeof(all), (void *)&all) < 0)
		return -ESRCH;
	return 0;
}

/* Where its stack must start so that what follows the system call restores it. If that is
 * impossible, we must not die until it is done. */
static uint64_t remote_way_back(const struct attach_remote *remote, bool on_scratch)
{
	const struct attach_target *target = remote->target;
	uint64_t top =
		on_scratch ? remote->scratch + ATTACH_SCRATCH_SIZE : remote->saved.rsp - RED_ZONE;
	uint64_t sp;

	if (!target->returns || !target->restorer ||
	    attach_frame_write(remote, top, target->restorer, &sp) < 0)
		return remote->saved.rsp;
	return sp;
}

int attach_remote_syscall(struct attach_remote *remote, long number, const uint64_t argument[6],
			  int64_t *ret)
{
	struct user_regs_struct regs = remote->saved;
	bool ends_scratch = number == SYS_munmap && argument[0] == remote->scratch;
	int r;

	regs.rip = remote->target->syscall;
	regs.rsp = remote_way_back(remote, remote->scratch && !ends_scratch);
	regs.rax = (uint64_t)number;
	regs.rdi = argument[0];
	regs.rsi = argument[1];
	regs.rdx = argument[2];
	regs.r10 = argument[3];
	regs.r8 = argument[4];
	regs.r9 = argument[5];
	r = remote_registers(remote, &regs);
	for (int i = 0; r == 0 && i < 2; i++)
		r = remote_next(remote, SYSCALL_NS);
	if (r < 0)
		return r;
	if (ptrace(PTRACE_GETREGS, remote->tid, NULL, &regs) < 0)
		return -ESRCH;
	*ret = (int64_t)regs.rax;
	return 0;
}

int attach_remote_code(struct attach_remote *remote)
{
	for (size_t i = 0; i < sizeof(return_code); i += sizeof(long)) {
		long word;

		memcpy(&word, return_code + i, sizeof(word));
		if (ptrace(PTRACE_POKEDATA, remote->tid, (void *)(remote->code + i), (void *)word))
			return -errno;
	}
	return 0;
}

static bool remote_runs(const struct attach_remote *remote)
{
	struct attach_status status;

	return attach_status_read(remote->target->pid, remote->tid, &status) == 0 &&
	       status.state == 'R';
}

/* Whether a long call should continue. It must never be abandoned while it holds a lock of the
 * loader itself: nobody else could load anything any more. If it only waits for one, abandoning is
 * safe, and better than standing still: -EBUSY. What is slow for another reason gets more time. */
static int remote_late(struct attach_remote *remote, int round)
{
	struct user_regs_struct regs;
	int r = remote_interrupt(remote, true);

	if (r < 0)
		return r;
	if (ptrace(PTRACE_GETREGS, remote->tid, NULL, &regs) < 0)
		return -ESRCH;
	if (attach_target_loader(remote->target, remote->tid) == LOADER_LOADS)
		return regs.orig_rax == SYS_futex && (remote->turns || round >= ROUNDS_TURN)
			       ? -EINPROGRESS
			       : 0;
	if (regs.orig_rax == SYS_futex)
		return round < (remote->once ? ROUNDS_ONCE : ROUNDS_LOCKED) ? 0 : -EBUSY;
	return round < ROUNDS_SLOW ? 0 : -ETIMEDOUT;
}

/* Runs until the thread is about to do the rt_sigreturn that calls end with, and skips that. The
 * result present at a stop shows whether it is at the entry of a system call. */
int attach_remote_go_on(struct attach_remote *remote, uint64_t *ret)
{
	struct user_regs_struct regs;
	int r, rounds = 0, busy = 0;

	for (;;) {
		r = remote_next(remote, remote->turns && !rounds ? TURN_NS : CALL_NS);
		/* It would spend its next time on the CPU with stopping. */
		while (r == -ETIMEDOUT && busy++ < ROUNDS_BUSY && remote_runs(remote))
			r = remote_await(remote, CALL_NS);
		if (r == -ETIMEDOUT) {
			r = remote_late(remote, rounds++);
			if (r == 0)
				continue;
		}
		if (r < 0)
			return r;
		if (ptrace(PTRACE_GETREGS, remote->tid, NULL, &regs) < 0)
			return -ESRCH;
		if (regs.rip == remote->code + RETURN_CODE_END && (long)regs.rax == -ENOSYS)
			break;
	}
	*ret = regs.rdi;
	regs.rip = remote->code + RETURN_CODE_AGAIN;
	r = remote_registers(remote, &regs);
	return r < 0 ? r : remote_next(remote, SYSCALL_NS);
}

int attach_remote_frame(const struct attach_remote *remote, uint64_t *ret_sp)
{
	return attach_frame_write(remote, remote->scratch + ATTACH_SCRATCH_SIZE, remote->code,
				  ret_sp);
}

int attach_remote_call(struct attach_remote *remote, uint64_t function, uint64_t first,
		       uint64_t second, uint64_t *ret)
{
	struct user_regs_struct regs = remote->saved;
	uint64_t sp;
	int r;

	remote->turns = false;
	r = attach_remote_frame(remote, &sp);
	if (r < 0)
		return r;
	regs.rip = function;
	regs.rsp = sp;
	regs.rbp = 0;
	regs.rax = 0;
	regs.rdi = first;
	regs.rsi = second;
	regs.eflags &= ~FLAGS_CLEAR;
	r = remote_registers(remote, &regs);
	if (r == 0)
		r = attach_remote_go_on(remote, ret);
	return r;
}

int attach_remote_release(struct attach_remote *remote)
{
	struct iovec xstate = { remote->xstate, remote->xstate_size };
	int r = 0;

	if (!remote->settled && !remote->gone && !remote->stuck)
		r = remote_interrupt(remote, false);
	if (remote->stuck)
		return -EIO;
	if (remote->gone || r < 0)
		return remote_bury(remote);
	attach_remote_hurry(remote, false);
	if (ptrace(PTRACE_SETSIGMASK, remote->tid, (void *)sizeof(remote->mask), &remote->mask) < 0)
		r = -errno;
	if (ptrace(PTRACE_SETREGSET, remote->tid, (void *)NT_X86_XSTATE, &xstate) < 0)
		r = -errno;
	if (ptrace(PTRACE_SETREGS, remote->tid, NULL, &remote->saved) < 0)
		r = -errno;
	if (ptrace(PTRACE_DETACH, remote->tid, NULL, NULL) < 0)
		return remote_bury(remote);
	remote->stopped_ns = attach_now_ns() - remote->stopped_at_ns;
	return r;
}
