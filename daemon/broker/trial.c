/* Trial: the child, and what it came to. It says by a byte that it has got through a call; that it
 * would have died it says itself, in the handler of the signal: the kernel then logs nothing and
 * dumps nothing. */
#include "daemon/broker/trial.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/patience.h"
#include "daemon/helper/confine.h"
#include "daemon/helper/own.h"
#include "daemon/helper/spawn.h"
#include "daemon/limits.h"

#define NAME		  "ts-trial"
#define ARCH_SHSTK_ENABLE 0x5001 /* of arch_prctl(2), since Linux 6.6 */
#define ARCH_SHSTK_SHSTK  1
#define UNKNOWN_CALL	  1000 /* no filter allows it */

enum { SURVIVED_FILTER = 'f', SURVIVED_SHADOW = 's', DIED = 'd' };

/* In tests: it dies as it would on such a kernel. */
enum pretence { PRETEND_NOTHING, PRETEND_SECCOMP, PRETEND_SHADOW_STACK, PRETEND_NO_ANSWER };

/* `trial_called` begins as the driver's functions do, and looks where it returns to. Without that,
 * a return goes to what the function returns: 0. */
__asm__(".pushsection .text\n"
	".balign 64\n"
	".globl trial_called\n.hidden trial_called\n.type trial_called, @function\n"
	"trial_called:\n"
	"push %rbp\nmov %rsp, %rbp\n"
	"mov 8(%rbp), %rcx\nmov %rcx, trial_returns_to(%rip)\n"
	"xor %eax, %eax\npop %rbp\nret\n"
	".size trial_called, .-trial_called\n"
	".globl trial_call\n.hidden trial_call\n.type trial_call, @function\n"
	"trial_call:\n"
	"call trial_called\n"
	".globl trial_back\n.hidden trial_back\n"
	"trial_back:\n"
	"ret\n"
	".size trial_call, .-trial_call\n"
	".popsection\n");
void trial_called(void), trial_call(void);
extern const char trial_back[];
__attribute__((visibility("hidden"))) const char *volatile trial_returns_to;

static int child_socket;

/* Not libc's, which might need more: of a child that has so little left. In place, as what turns a
 * shadow stack on cannot return. */
static inline __attribute__((always_inline)) long call(long number, long first, long second,
						       long third)
{
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(first), "S"(second), "d"(third)
			 : "rcx", "r11", "memory");
	return result;
}

static _Noreturn void child_end(void)
{
	for (;;)
		call(SYS_exit_group, EXIT_SUCCESS, 0, 0);
}

static void child_say(char what)
{
	if (call(SYS_write, child_socket, (long)&what, sizeof(what)) != sizeof(what))
		child_end();
}

static void on_death(int signal)
{
	child_say(DIED);
	child_end();
}

static void die(void)
{
	__asm__ volatile("jmp *%0" : : "r"(0L));
}

/* What the kernel's page does after the call, if it is refused. */
static void pretend_to_return(void)
{
	if (call(UNKNOWN_CALL, 0, 0, 0) == -EPERM || !confine_limits_calls())
		die();
}

/* Without the probe a call says nothing. */
static void child_call(void)
{
	trial_call();
	if (trial_returns_to == trial_back)
		child_end();
}

static _Noreturn void child_try(enum pretence pretence)
{
	child_call();
	if (pretence == PRETEND_SECCOMP)
		pretend_to_return();
	child_say(SURVIVED_FILTER);
	/* From here on no function that was called before may return. */
	if (call(SYS_arch_prctl, ARCH_SHSTK_ENABLE, ARCH_SHSTK_SHSTK, 0) == 0)
		child_call();
	if (pretence == PRETEND_SHADOW_STACK)
		die();
	child_say(SURVIVED_SHADOW);
	child_end();
}

/* As Docker's by default: what is not listed is refused with EPERM. */
static int child_confine(void)
{
	static const uint16_t calls[] = {
		SYS_read, SYS_write, SYS_alarm, SYS_arch_prctl, SYS_rt_sigreturn, SYS_exit_group,
	};
	int r = confine_rights();

	if (r == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		r = -errno;
	return r < 0 ? r : confine_calls(calls, ARRAY_SIZE(calls));
}

static _Noreturn void child_run(int socket, enum pretence pretence)
{
	const struct sigaction death = { .sa_handler = on_death };
	const int deaths[] = { SIGSEGV, SIGILL, SIGBUS, SIGSYS, SIGTRAP };
	char go;

	spawn_keep(&socket, 1);
	child_socket = socket;
	prctl(PR_SET_NAME, NAME);
	for (size_t i = 0; i < ARRAY_SIZE(deaths); i++)
		sigaction(deaths[i], &death, NULL);
	/* A broker that is gone by now has closed its end. */
	if (child_confine() < 0 || call(SYS_read, socket, (long)&go, sizeof(go)) != sizeof(go))
		child_end();
	call(SYS_alarm, 2 * LIMIT_TRIAL_S, 0, 0);
	if (pretence != PRETEND_NO_ANSWER)
		child_try(pretence);
	while (call(SYS_read, socket, (long)&go, sizeof(go)) > 0)
		;
	child_end();
}

static enum pretence pretence_of_test(void)
{
	static const char *const names[] = {
		[PRETEND_NOTHING] = "nothing",
		[PRETEND_SECCOMP] = "seccomp",
		[PRETEND_SHADOW_STACK] = "shadow-stack",
		[PRETEND_NO_ANSWER] = "no-answer",
	};
	const char *name = getenv("TRACESMITH_TRIAL");

	for (size_t i = 0; name && i < ARRAY_SIZE(names); i++)
		if (strcmp(name, names[i]) == 0)
			return (enum pretence)i;
	return PRETEND_NOTHING;
}

void trial_begin(struct trial *ret)
{
	const struct timeval wait = { .tv_sec = (time_t)patience_ms(LIMIT_TRIAL_S) };
	const enum pretence pretence = pretence_of_test();
	int pair[2];
	pid_t pid;

	signal(SIGCHLD, SIG_IGN); /* it needs no waiting for */
	/* Linux 6.18 warns in its log if a probe's page is yet to be read from ext4. */
	trial_call();
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
		*ret = (struct trial){ .socket = -errno };
		return;
	}
	setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	pid = fork();
	if (pid == 0)
		child_run(pair[1], pretence);
	*ret = (struct trial){ .pid = pid, .socket = pid < 0 ? -errno : pair[0] };
	close(pair[1]);
	if (pid < 0)
		close(pair[0]);
}

uint64_t trial_place(void)
{
	return own_offset((const void *)trial_called);
}

static enum trial_result trial_read(int socket, uint8_t *ret_error)
{
	enum trial_result deadly = TRIAL_SECCOMP;
	char said;
	ssize_t n;

	while ((n = read(socket, &said, sizeof(said))) > 0 || (n < 0 && errno == EINTR)) {
		if (n < 0)
			continue;
		if (said == SURVIVED_SHADOW)
			return TRIAL_SURVIVED;
		if (said == DIED)
			return deadly;
		deadly = TRIAL_SHADOW_STACK;
	}
	*ret_error = n < 0 && errno == EAGAIN ? ETIMEDOUT : ECHILD;
	return TRIAL_FAILED;
}

enum trial_result trial_run(struct trial *trial, int link, uint8_t *ret_error)
{
	const int error = trial->socket < 0 ? trial->socket : link;
	_cleanup_(closep) int socket = TAKE_FD(trial->socket);

	*ret_error = 0;
	if (error >= 0 && write(socket, "", 1) == 1)
		return trial_read(socket, ret_error);
	*ret_error = (uint8_t)(error < 0 ? -error : EPIPE);
	return TRIAL_FAILED;
}

const char *trial_text(enum trial_result result)
{
	static const char *const texts[TRIAL_RESULTS] = {
		[TRIAL_SECCOMP] =
			"no function is probed at its return: on this kernel (Linux 6.11 to 6.13, "
			"until early 2025) it would end each process with a seccomp filter, such "
			"as a container's; boot a newer kernel",
		[TRIAL_SHADOW_STACK] =
			"no function is probed at its return: on this kernel (Linux 6.6 to 6.10) "
			"it would end each process with a shadow stack; boot a newer kernel",
		[TRIAL_FAILED] = "no function is probed at its return: the trial failed of whether "
				 "processes survive that on this kernel; start tracesmithd again",
	};

	return texts[result];
}
