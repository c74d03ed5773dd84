/* Freeze: first all threads are seized, which they do not notice; then all are interrupted at once,
 * and their stops awaited. A thread that was created meanwhile is found by looking again: when all
 * that are there are stopped, none can be created. */
#include "daemon/attach/freeze.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "core/base/cleanup.h"
#include "core/base/vector.h"
#include "daemon/attach/internal.h"

#define ROUNDS_MAX 16 /* of looking for new threads */

static struct freeze_thread *freeze_find(const struct freeze *freeze, pid_t tid)
{
	for (size_t i = 0; i < freeze->count; i++)
		if (freeze->thread[i].tid == tid)
			return &freeze->thread[i];
	return NULL;
}

/* Positive: there was a new one. */
static int freeze_seize(struct freeze *freeze)
{
	_cleanup_(freep) pid_t *tid = NULL;
	size_t count, before = freeze->count;
	int r = attach_threads_read(freeze->pid, &tid, &count);

	if (r < 0)
		return r;
	if (VECTOR_ROOM(freeze->thread, freeze->room, before + count) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		if (freeze_find(freeze, tid[i]))
			continue;
		if (ptrace(PTRACE_SEIZE, tid[i], NULL, NULL) == 0) {
			freeze->thread[freeze->count++] = (struct freeze_thread){ .tid = tid[i] };
			continue;
		}
		r = errno == EPERM ? -EPERM : -EAGAIN;
		/* The main thread may have ended, while others run. */
		if (!attach_thread_is_over(freeze->pid, tid[i]) &&
		    !attach_thread_is_kernels(freeze->pid, tid[i]))
			return r;
	}
	return freeze->count > before;
}

static void freeze_forget(struct freeze *freeze, struct freeze_thread *thread)
{
	*thread = freeze->thread[--freeze->count];
}

/* To the stop that was asked for; signals that come before are delivered. False: the thread is
 * gone. */
static int thread_wait(struct freeze_thread *thread, uint64_t end_ns)
{
	int status;

	for (;;) {
		pid_t r = waitpid(thread->tid, &status, __WALL | __WNOTHREAD | WNOHANG);

		if (r == thread->tid && !WIFSTOPPED(status))
			return -ESRCH;
		if (r < 0 && errno == ECHILD)
			return -ESRCH;
		if (r == thread->tid && status >> 16 == PTRACE_EVENT_STOP)
			return 0;
		if (r == thread->tid)
			ptrace(PTRACE_CONT, thread->tid, NULL, (void *)(long)WSTOPSIG(status));
		if (attach_now_ns() > end_ns)
			return -EAGAIN;
		if (r == 0)
			sched_yield();
	}
}

static int thread_settle(struct freeze_thread *thread)
{
	uint64_t rax;

	if (ptrace(PTRACE_GETREGS, thread->tid, NULL, &thread->regs) < 0)
		return -ESRCH;
	rax = thread->regs.rax;
	attach_thread_again(&thread->regs);
	if (thread->regs.rax != rax && ptrace(PTRACE_SETREGS, thread->tid, NULL, &thread->regs) < 0)
		return -ESRCH;
	return 0;
}

bool freeze_blocks(const struct freeze_thread *thread)
{
	uint64_t mask;

	return ptrace(PTRACE_GETSIGMASK, thread->tid, (void *)sizeof(mask), &mask) < 0 || mask;
}

void freeze_move(struct freeze_thread *thread, uint64_t address)
{
	thread->regs.rip = address;
	/* It fails if the thread was killed. */
	ptrace(PTRACE_SETREGS, thread->tid, NULL, &thread->regs);
}

/* All that are seized and not stopped yet. */
static int freeze_interrupt(struct freeze *freeze, uint64_t end_ns)
{
	for (size_t i = 0; i < freeze->count; i++)
		if (!freeze->thread[i].stopped)
			ptrace(PTRACE_INTERRUPT, freeze->thread[i].tid, NULL, NULL);
	for (size_t i = 0; i < freeze->count;) {
		struct freeze_thread *thread = &freeze->thread[i];
		int r = thread->stopped ? 0 : thread_wait(thread, end_ns);

		if (r == 0 && !thread->stopped)
			r = thread_settle(thread);
		if (r == -EAGAIN)
			return r;
		if (r < 0) {
			freeze_forget(freeze, thread);
			continue;
		}
		thread->stopped = true;
		i++;
	}
	return 0;
}

/* A thread is let go from a stop only. */
static void thread_let_go(struct freeze_thread *thread)
{
	const uint64_t patience_ns = 1000000000;

	if (!thread->stopped &&
	    (thread_wait(thread, attach_now_ns() + patience_ns) < 0 || thread_settle(thread) < 0))
		return;
	ptrace(PTRACE_DETACH, thread->tid, NULL, NULL);
}

uint64_t freeze_release(struct freeze *freeze)
{
	uint64_t stopped_ns;

	for (size_t i = 0; i < freeze->count; i++)
		if (freeze->thread[i].stopped)
			thread_let_go(&freeze->thread[i]);
	stopped_ns = freeze->began_ns ? attach_now_ns() - freeze->began_ns : 0;
	for (size_t i = 0; i < freeze->count; i++)
		if (!freeze->thread[i].stopped)
			thread_let_go(&freeze->thread[i]);
	free(freeze->thread);
	*freeze = (struct freeze){ 0 };
	return stopped_ns;
}

int freeze_stop(pid_t pid, uint64_t limit_ns, struct freeze *ret)
{
	struct freeze freeze = { .pid = pid };
	int r = freeze_seize(&freeze);

	freeze.began_ns = attach_now_ns();
	for (int round = 0; r > 0; round++) {
		r = freeze_interrupt(&freeze, freeze.began_ns + limit_ns);
		if (r == 0)
			r = round < ROUNDS_MAX ? freeze_seize(&freeze) : -EAGAIN;
	}
	if (r == 0 && !freeze.count)
		r = -ESRCH;
	if (r == 0) {
		*ret = freeze;
		return 0;
	}
	/* Those that were seized only can be let go when they stop. */
	for (size_t i = 0; i < freeze.count; i++)
		if (!freeze.thread[i].stopped)
			ptrace(PTRACE_INTERRUPT, freeze.thread[i].tid, NULL, NULL);
	freeze_release(&freeze);
	return r;
}
