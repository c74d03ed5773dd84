/* attach_turn: a call of ours that waits for a lock while it holds one of the loader's, and the
 * work of the thread that makes it.
 *
 * Such a call cannot be abandoned, for the program could never load anything again; and who holds
 * the lock that it waits for may wait for this very thread. So the two take turns. The call is set
 * aside with all that is the thread's of it: registers, vector state and signal mask, errno, what
 * in the thread's own variables points into the call's stack (that is where the loader goes when
 * something fails), and that it is the thread which owns the loader's locks. Those get an owner
 * that is no thread, so that this one waits for them as any other, if it comes to the loader by
 * itself. The thread works on until the lock changes hands, or for OWN_NS, and then until it is at
 * a place where it may be stopped: one where it could have been chosen for the call, or one where
 * it waits for a lock of the call.
 *
 * What is set aside stands in the scratch memory too. If the tracer is killed then, the thread goes
 * on with its own work, and whoever tidies up has it end the call first.
 *
 * Only the C library and its loader may be under way in the call: what other code does, if it is
 * entered again in the middle of itself, is unknown. */
#include <assert.h>
#include <elf.h>
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#include "core/base/cleanup.h"
#include "core/base/time.h"
#include "daemon/attach/internal.h"

#define OWN_NS	     100000000ull /* of its own work at least, unless the lock changes hands */
#define LOOK_NS	     5000000ull	  /* from one look at the lock to the next */
#define STOP_NS	     1000000000ull
#define FINISH_NS    10000000000ull
#define RESTART_LAST 516
#define RESTART	     512 /* ERESTARTSYS of the kernel */
#define SYSCALL_STOP (SIGTRAP | 0x80)
#define TLS_BELOW    (16 << 10) /* of the thread's variables, which end at its descriptor */
#define TLS_ABOVE    0x900	/* of the descriptor */
#define TLS_PAGE     4096
#define TLS_WORDS    ((TLS_BELOW + TLS_ABOVE) / 8)
#define POINTERS_MAX 8
#define ASIDE_AT     4096 /* in the scratch memory */
#define ASIDE_MAGIC  0x6564697361746d73ull

/* A variable of the thread. */
struct pointer {
	uint64_t at, ours, own;
};

struct aside {
	uint64_t magic;
	struct user_regs_struct regs; /* it waits again */
	uint64_t lock[ATTACH_LOCKS_MAX];
	uint64_t locks;
	uint32_t owner; /* the thread, as the process has it */
	uint32_t value; /* which `word` has as long as the call must wait */
	uint64_t word;
	struct pointer pointer[POINTERS_MAX];
	uint64_t pointers;
	uint64_t errno_at;
	int32_t error;
	uint32_t xstate_size;
	uint8_t xstate[ATTACH_XSTATE_MAX];
};

static_assert(ASIDE_AT + sizeof(struct aside) < ATTACH_SCRATCH_SIZE / 2, "a stack has room");

/* The thread's variables before the call, or as its own work has left them. */
struct before {
	uint64_t base;
	uint64_t word[TLS_WORDS];
	size_t first; /* those before are not there */
};

static void before_read(const struct attach_remote *remote, struct before *ret)
{
	size_t at = TLS_BELOW / 8;

	ret->base = remote->saved.fs_base;
	ret->first = TLS_WORDS;
	if (attach_target_read(remote->target, ret->base, &ret->word[at], TLS_ABOVE))
		return;
	for (ret->first = at; at; ret->first = at) {
		at -= TLS_PAGE / 8;
		if (attach_target_read(remote->target, ret->base - TLS_BELOW + at * 8,
				       &ret->word[at], TLS_PAGE))
			break;
	}
}

static bool is_of_call(const struct attach_remote *remote, uint64_t address)
{
	return address - remote->scratch < ATTACH_SCRATCH_SIZE;
}

/* False: there are more than can be kept. */
static bool aside_pointers(const struct attach_remote *remote, const struct before *before,
			   struct aside *aside)
{
	_cleanup_(freep) struct before *now = malloc(sizeof(*now));

	if (!now)
		return false;
	before_read(remote, now);
	if (now->first != before->first || now->first == TLS_WORDS)
		return false;
	for (size_t i = now->first; i < TLS_WORDS; i++) {
		if (!is_of_call(remote, now->word[i]))
			continue;
		if (aside->pointers == POINTERS_MAX)
			return false;
		aside->pointer[aside->pointers++] =
			(struct pointer){ now->base - TLS_BELOW + i * 8, now->word[i],
					  before->word[i] };
	}
	return true;
}

/* Whether the call's stack leads to the C library and its loader only. */
static bool call_is_plain(const struct attach_remote *remote, uint64_t sp)
{
	uint64_t end = remote->scratch + ATTACH_SCRATCH_SIZE, frame;
	_cleanup_(freep) uint64_t *word = malloc(ATTACH_SCRATCH_SIZE);
	const struct attach_target *target = remote->target;
	bool plain = word && is_of_call(remote, sp) && attach_remote_frame(remote, &frame) == 0;
	struct attach_maps maps = { 0 };

	end = plain ? frame : end;
	plain = plain && sp < end && attach_target_read(target, sp, word, end - sp) == 0 &&
		attach_maps_read(target->pid, &maps) == 0;
	for (size_t i = 0; plain && i < (end - sp) / 8; i++) {
		const struct attach_map *map = attach_maps_find(&maps, word[i]);

		plain = !map || map->start == target->libc.start || map->start == remote->code ||
			!strncmp(attach_map_name(map), "ld-", strlen("ld-"));
	}
	attach_maps_free(&maps);
	return plain;
}

/* -EAGAIN: it cannot be. */
static int aside_note(struct attach_remote *remote, const struct before *before, struct aside *ret)
{
	struct iovec xstate = { ret->xstate, sizeof(ret->xstate) };
	struct user_regs_struct *regs = &ret->regs;
	struct attach_status status;
	int operation;

	memset(ret, 0, sizeof(*ret));
	if (ptrace(PTRACE_GETREGS, remote->tid, NULL, regs) < 0 ||
	    ptrace(PTRACE_GETREGSET, remote->tid, (void *)NT_X86_XSTATE, &xstate) < 0 ||
	    attach_status_read(remote->target->pid, remote->tid, &status) < 0)
		return -ESRCH;
	operation = (int)regs->rsi & FUTEX_CMD_MASK;
	/* One that has been woken must go on, or others sleep while the lock is free. */
	if (regs->orig_rax != SYS_futex || (long)regs->rax != -RESTART || regs->r10 ||
	    (operation != FUTEX_WAIT && operation != FUTEX_WAIT_BITSET) || !remote->errno_at ||
	    attach_target_read(remote->target, remote->errno_at, &ret->error, sizeof(ret->error)))
		return -EAGAIN;
	ret->magic = ASIDE_MAGIC;
	ret->word = regs->rdi;
	ret->value = (uint32_t)regs->rdx;
	ret->errno_at = remote->errno_at;
	ret->xstate_size = (uint32_t)xstate.iov_len;
	ret->owner = (uint32_t)status.ns_tid;
	ret->locks = attach_target_held(remote->target, ret->owner, ret->lock);
	regs->rax = regs->orig_rax;
	regs->orig_rax = -1ull;
	regs->rip -= 2;
	return ret->locks && ret->locks <= ATTACH_LOCKS_MAX && call_is_plain(remote, regs->rsp) &&
			       aside_pointers(remote, before, ret)
		       ? 0
		       : -EAGAIN;
}

static int aside_put(const struct attach_remote *remote, const struct aside *aside, size_t size)
{
	return attach_target_write(remote->target, remote->scratch + ASIDE_AT, aside, size);
}

static int locks_own(const struct attach_remote *remote, const struct aside *aside, uint32_t owner)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < aside->locks; i++)
		r = attach_target_write(remote->target, aside->lock[i] + ATTACH_LOCK_OWNER, &owner,
					sizeof(owner));
	return r;
}

static int registers_set(const struct attach_remote *remote, struct user_regs_struct regs,
			 const void *xstate_data, size_t xstate_size, uint64_t mask)
{
	struct iovec xstate = { (void *)xstate_data, xstate_size };

	if (ptrace(PTRACE_SETREGSET, remote->tid, (void *)NT_X86_XSTATE, &xstate) < 0 ||
	    ptrace(PTRACE_SETSIGMASK, remote->tid, (void *)sizeof(mask), &mask) < 0 ||
	    ptrace(PTRACE_SETREGS, remote->tid, NULL, &regs) < 0)
		return -ESRCH;
	return 0;
}

/* The registers first: killed in the middle, we leave a thread in its own work. */
static int turn_out(struct attach_remote *remote, const struct aside *aside)
{
	int r = aside_put(remote, aside, sizeof(*aside));

	if (r == 0)
		r = registers_set(remote, remote->saved, remote->xstate, remote->xstate_size,
				  remote->mask);
	if (r == 0)
		r = locks_own(remote, aside, ATTACH_OWNER_NONE);
	for (size_t i = 0; r == 0 && i < aside->pointers; i++)
		r = attach_target_write(remote->target, aside->pointer[i].at,
					&aside->pointer[i].own, sizeof(uint64_t));
	if (r == 0)
		r = attach_target_write(remote->target, aside->errno_at, &remote->error,
					sizeof(remote->error));
	return r;
}

/* The registers last, for the same reason. */
static int turn_in(struct attach_remote *remote, const struct aside *aside)
{
	const struct attach_target *target = remote->target;
	uint64_t sp;
	int r = attach_target_read(target, aside->errno_at, &remote->error, sizeof(remote->error));

	remote->errno_at = aside->errno_at;
	for (size_t i = 0; r == 0 && i < aside->pointers; i++)
		r = attach_target_write(target, aside->pointer[i].at, &aside->pointer[i].ours,
					sizeof(uint64_t));
	if (r == 0)
		r = attach_target_write(target, aside->errno_at, &aside->error,
					sizeof(aside->error));
	if (r == 0)
		r = attach_remote_frame(remote, &sp); /* the way back leads to where it is now */
	if (r == 0)
		r = locks_own(remote, aside, aside->owner);
	if (r == 0)
		r = aside_put(remote, &(struct aside){ 0 }, sizeof(aside->magic));
	if (r == 0)
		r = registers_set(remote, aside->regs, aside->xstate, aside->xstate_size, ~0ull);
	remote->stopped_at_ns = attach_now_ns();
	remote->turns = true;
	return r;
}

/* It may run another program by now: it is left as it is. */
static int own_let_go(struct attach_remote *remote)
{
	int status;

	if (!remote->gone && ptrace(PTRACE_INTERRUPT, remote->tid, NULL, NULL) == 0 &&
	    attach_remote_wait(remote, STOP_NS, &status) == 0)
		ptrace(PTRACE_DETACH, remote->tid, NULL,
		       status >> 16 || WSTOPSIG(status) == SYSCALL_STOP
			       ? NULL
			       : (void *)(long)WSTOPSIG(status));
	remote->gone = true;
	return -ESRCH;
}

enum own { OWN_RUNS, OWN_STOPPED, OWN_EXITS };

static bool own_exits(const struct attach_remote *remote)
{
	struct user_regs_struct regs;

	return ptrace(PTRACE_GETREGS, remote->tid, NULL, &regs) == 0 && regs.orig_rax == SYS_exit;
}

/* Runs it until the time is up, or to the stop that was asked for. It must not end meanwhile, nor
 * be interrupted in a call that would end half done. */
static int own_run(struct attach_remote *remote, bool stop, uint64_t limit_ns)
{
	uint64_t end_ns = attach_now_ns() + limit_ns;
	struct attach_where where;

	for (;;) {
		int how = PTRACE_SYSCALL, signal = 0, status;
		int r = attach_remote_wait(remote, limit_ns, &status);

		if (r < 0)
			return r == -ETIMEDOUT ? OWN_RUNS : r;
		if (status >> 16 == PTRACE_EVENT_STOP && stop) {
			remote->settled = true;
			return OWN_STOPPED;
		}
		if (status >> 16 == PTRACE_EVENT_STOP)
			how = WSTOPSIG(status) == SIGTRAP ? PTRACE_SYSCALL : PTRACE_LISTEN;
		else if (WSTOPSIG(status) != SYSCALL_STOP)
			signal = WSTOPSIG(status);
		else if (own_exits(remote))
			return OWN_EXITS;
		else if (stop && attach_thread_half_done(remote->target->pid, remote->tid, &where))
			return attach_remote_resume(remote, how, 0) ?: (int)OWN_RUNS;
		/* Each stop takes back the request for another. */
		if (stop && ptrace(PTRACE_INTERRUPT, remote->tid, NULL, NULL) < 0)
			return -ESRCH;
		if (attach_remote_resume(remote, how, signal) < 0)
			return -ESRCH;
		if (attach_now_ns() > end_ns)
			return OWN_RUNS;
	}
}

/* Whether it waits for what the call has, or for what the call waits for. */
static bool own_waits(const struct attach_remote *remote, const struct aside *aside)
{
	const struct user_regs_struct *regs = &remote->saved;
	bool waits = regs->rdi == aside->word;

	for (size_t i = 0; i < aside->locks; i++)
		waits |= regs->rdi == aside->lock[i];
	return waits && regs->orig_rax == SYS_futex && (long)regs->rax <= -RESTART &&
	       (long)regs->rax >= -RESTART_LAST;
}

/* Stops it where the call may go on. OWN_RUNS: not now. */
static int own_stop(struct attach_remote *remote, const struct aside *aside)
{
	struct attach_where where;
	int r;

	if (attach_thread_half_done(remote->target->pid, remote->tid, &where))
		return OWN_RUNS;
	if (ptrace(PTRACE_INTERRUPT, remote->tid, NULL, NULL) < 0)
		return -ESRCH;
	r = own_run(remote, true, STOP_NS);
	if (r == OWN_STOPPED)
		r = attach_remote_save(remote) ?: r;
	if (r == OWN_STOPPED && !own_waits(remote, aside) &&
	    !attach_thread_usable(remote, LOADER_BUSY))
		r = attach_remote_resume(remote, PTRACE_SYSCALL, 0) ?: (int)OWN_RUNS;
	return r;
}

/* At the entry of the system call that ends it: it makes that call when ours is done. */
static int own_end(struct attach_remote *remote)
{
	int r = attach_remote_save(remote);

	remote->saved.rax = remote->saved.orig_rax;
	remote->saved.orig_rax = -1ull;
	remote->saved.rip -= 2;
	return r;
}

/* Its own work, from a settled stop to one where the call goes on. */
static int own_turn(struct attach_remote *remote, const struct aside *aside)
{
	uint64_t begin_ns = attach_now_ns();
	int r = attach_remote_resume(remote, PTRACE_SYSCALL, 0) ?: (int)OWN_RUNS;

	while (r == OWN_RUNS) {
		uint32_t value;

		r = own_run(remote, false, LOOK_NS);
		if (r != OWN_RUNS)
			break;
		if (attach_target_read(remote->target, aside->word, &value, sizeof(value)))
			return -EIO;
		if (value != aside->value || attach_now_ns() - begin_ns > OWN_NS)
			r = own_stop(remote, aside);
	}
	return r == OWN_EXITS ? own_end(remote) : r < 0 ? r : 0;
}

/* 0: the call goes on, whether the thread had a turn or not. */
static int turn_take(struct attach_remote *remote, struct before *before, struct aside *aside)
{
	bool hurries = remote->hurries;
	int r = aside_note(remote, before, aside);

	if (r == -EAGAIN)
		return 0;
	if (r == 0)
		r = turn_out(remote, aside);
	attach_remote_hurry(remote, false);
	if (r == 0)
		r = own_turn(remote, aside);
	if (r < 0)
		return own_let_go(remote);
	attach_remote_hurry(remote, hurries);
	before_read(remote, before);
	r = turn_in(remote, aside);
	return r < 0 ? own_let_go(remote) : r;
}

static int turn_go_on(struct attach_remote *remote, struct before *before, uint64_t *ret)
{
	_cleanup_(freep) struct aside *aside = malloc(sizeof(*aside));
	int r = -EINPROGRESS;

	while (r == -EINPROGRESS) {
		r = aside ? turn_take(remote, before, aside) : 0;
		if (r == 0)
			r = attach_remote_go_on(remote, ret);
	}
	return r;
}

int attach_turn_call(struct attach_remote *remote, uint64_t function, uint64_t first,
		     uint64_t second, uint64_t *ret)
{
	_cleanup_(freep) struct before *before = malloc(sizeof(*before));
	int r;

	if (!before)
		return -ENOMEM;
	before_read(remote, before);
	r = attach_remote_call(remote, function, first, second, ret);
	return r == -EINPROGRESS ? turn_go_on(remote, before, ret) : r;
}

/* 0: stopped where the call may go on. */
static int finish_stop(struct attach_remote *remote, pid_t tid, const struct aside *aside)
{
	uint64_t end_ns = attach_now_ns() + FINISH_NS;
	struct attach_status status;
	struct attach_where where;
	int r;

	/* In a child that the process has forked off meanwhile, it is not there. */
	if (attach_status_read(remote->target->pid, tid, &status) < 0 ||
	    (uint32_t)status.ns_tid != aside->owner)
		return -ESRCH;
	do {
		r = -EAGAIN;
		if (!attach_thread_half_done(remote->target->pid, tid, &where))
			r = attach_remote_stop(remote, tid);
		if (r == 0 &&
		    (own_waits(remote, aside) || attach_thread_usable(remote, LOADER_BUSY)))
			return 0;
		if (r == 0)
			r = attach_remote_release(remote) ?: -EAGAIN;
		if (r == -EAGAIN)
			nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
	} while (r == -EAGAIN && !remote->stuck && attach_now_ns() < end_ns);
	return r;
}

int attach_turn_finish(struct attach_remote *remote, pid_t tid)
{
	_cleanup_(freep) struct before *before = malloc(sizeof(*before));
	_cleanup_(freep) struct aside *aside = malloc(sizeof(*aside));
	uint64_t result;
	int r;

	if (!before || !aside)
		return -ENOMEM;
	if (attach_target_read(remote->target, remote->scratch + ASIDE_AT, aside, sizeof(*aside)) ||
	    aside->magic != ASIDE_MAGIC || aside->locks > ATTACH_LOCKS_MAX ||
	    aside->pointers > POINTERS_MAX || aside->xstate_size > ATTACH_XSTATE_MAX)
		return 0;
	r = finish_stop(remote, tid, aside);
	if (r < 0)
		return r;
	before_read(remote, before);
	r = turn_in(remote, aside);
	if (r == 0)
		r = attach_remote_go_on(remote, &result);
	if (r == -EINPROGRESS)
		r = turn_go_on(remote, before, &result);
	if (r == 0)
		r = attach_target_write(remote->target, remote->errno_at, &remote->error,
					sizeof(remote->error));
	return attach_remote_release(remote) ?: r;
}
