/* Harm, filters: seccomp filters of the process and of one thread, early and late, strict mode, and
 * a processor that refuses what is not a return to a caller. */
#include "harm.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ROUNDS	  200
#define RULES_MAX 32

/* What no program of CUDA's needs, but who looks into memory or starts something does. */
static const int unusual[] = {
	SYS_process_vm_readv, SYS_process_vm_writev, SYS_ptrace, SYS_memfd_create,
	SYS_execve,	      SYS_userfaultfd,	     SYS_bpf,	 SYS_perf_event_open
};
/* What a sandbox forbids that has all its files and threads. */
static const int opening[] = { SYS_process_vm_readv, SYS_ptrace,  SYS_memfd_create, SYS_execve,
			       SYS_socket,	     SYS_connect, SYS_socketpair,   SYS_clone,
			       SYS_clone3,	     SYS_openat,  SYS_eventfd2 };

/* Allows everything else. */
static int forbid(const int *calls, size_t count, uint32_t action, unsigned int flags)
{
	struct sock_filter rule[RULES_MAX];
	size_t n = 0;

	rule[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < count; i++) {
		rule[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							 (uint32_t)calls[i], 0, 1);
		rule[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
	}
	rule[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags,
			    &(struct sock_fprog){ (unsigned short)n, rule });
}

#define FORBID(list, action, flags)                                                                \
	do {                                                                                       \
		if (forbid(list, sizeof(list) / sizeof((list)[0]), action, flags))                 \
			harm_skip("no seccomp: %s", strerror(errno));                              \
	} while (0)

/* As Docker's filter does: the call fails. */
static void early_errno(void)
{
	FORBID(unusual, SECCOMP_RET_ERRNO | EPERM, 0);
	harm_begin();
	harm_run();
}

static void early_kill(void)
{
	FORBID(unusual, SECCOMP_RET_KILL_PROCESS, 0);
	harm_begin();
	harm_run();
}

/* After the first calls, for all threads. */
static void late_kill(void)
{
	harm_begin();
	harm_work(ROUNDS);
	FORBID(unusual, SECCOMP_RET_KILL_PROCESS, SECCOMP_FILTER_FLAG_TSYNC);
	harm_run();
}

/* After the attach. */
static void later_kill(void)
{
	harm_begin();
	harm_work(ROUNDS);
	harm_hold(HARM_MIDDLE);
	FORBID(unusual, SECCOMP_RET_KILL_PROCESS, SECCOMP_FILTER_FLAG_TSYNC);
	harm_work(ROUNDS);
	harm_hold(HARM_LATE);
	harm_work(ROUNDS);
	harm_light(ROUNDS);
	harm_hold(HARM_LAST);
}

/* A sandbox that is closed after the attach, for the threads that are there then. */
static void later_sandbox(void)
{
	harm_begin();
	harm_work(ROUNDS);
	harm_hold(HARM_MIDDLE);
	FORBID(opening, SECCOMP_RET_KILL_PROCESS, 0);
	harm_work(ROUNDS);
	harm_light(ROUNDS);
	harm_hold(HARM_LATE);
	harm_work(ROUNDS);
	harm_light(ROUNDS);
	harm_hold(HARM_LAST);
}

static _Atomic int started;

static void *filtered(void *data)
{
	FORBID(unusual, SECCOMP_RET_KILL_PROCESS, 0);
	started++;
	if (harm_enter())
		while (!harm_may_leave(HARM_LAST)) {
			harm_light(20);
			harm_nap(200);
		}
	return data;
}

/* On one thread only, which calls CUDA. */
static void one_thread(void)
{
	pthread_t thread;

	harm_begin();
	harm_start(&thread, filtered, NULL);
	while (!started)
		harm_nap(1000);
	harm_run();
	pthread_join(thread, NULL);
}

static void *filtered_later(void *data)
{
	started++;
	if (!harm_enter())
		return NULL;
	while (!harm_may_leave(HARM_MIDDLE)) {
		harm_light(20);
		harm_nap(200);
	}
	FORBID(unusual, SECCOMP_RET_KILL_PROCESS, 0);
	while (!harm_may_leave(HARM_LAST)) {
		harm_light(20);
		harm_nap(200);
	}
	return data;
}

static void one_thread_later(void)
{
	pthread_t thread;

	harm_begin();
	harm_start(&thread, filtered_later, NULL);
	while (!started)
		harm_nap(1000);
	harm_run();
	pthread_join(thread, NULL);
}

static int ends[2];

static void *strictly(void *data)
{
	char byte;

	prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
	started++;
	while (read(ends[0], &byte, 1) > 0)
		started++;
	syscall(SYS_exit, 0);
	return data;
}

/* Only read, write and exit are left to it. */
static void strict_thread(void)
{
	pthread_t thread;

	if (pipe(ends) < 0)
		return;
	harm_begin();
	harm_start(&thread, strictly, NULL);
	while (!started)
		harm_nap(1000);
	for (enum harm_place place = HARM_MIDDLE; place <= HARM_LAST; place++) {
		harm_work(ROUNDS);
		harm_hold(place);
		if (write(ends[1], "x", 1) != 1)
			harm_say("no byte");
	}
	close(ends[1]);
	pthread_join(thread, NULL);
	harm_say("the strict thread read %d bytes", started - 1);
}

#ifndef ARCH_SHSTK_ENABLE
#define ARCH_SHSTK_ENABLE  0x5001
#define ARCH_SHSTK_DISABLE 0x5002
#define ARCH_SHSTK_SHSTK   1
#endif

/* A shadow stack, for this thread; it is disabled before a function returns that it does not know.
 */
static void shadow_stack(void)
{
	if (syscall(SYS_arch_prctl, ARCH_SHSTK_ENABLE, ARCH_SHSTK_SHSTK))
		harm_skip("no user shadow stacks here: %s", strerror(errno));
	harm_begin();
	harm_run();
	syscall(SYS_arch_prctl, ARCH_SHSTK_DISABLE, ARCH_SHSTK_SHSTK);
	_exit(0);
}

const struct harm_case harm_filters[] = {
	{ "filter-errno", early_errno },
	{ "filter-kill", early_kill },
	{ "filter-late", late_kill },
	{ "filter-later", later_kill },
	{ "filter-sandbox", later_sandbox },
	{ "filter-thread", one_thread },
	{ "filter-thread-later", one_thread_later },
	{ "strict-thread", strict_thread },
	{ "shadow-stack", shadow_stack },
	{ NULL, NULL },
};
