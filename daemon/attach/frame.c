/* attach_frame: the way back for a thread whose tracer dies in the middle of a call.
 *
 * A called function returns to code that ends in rt_sigreturn. We stop the thread there and
 * continue it ourselves; if we are dead by then, the kernel takes all registers from the frame
 * written here, and the thread is back where it was. The layout is the kernel's struct
 * rt_sigframe. */
#include <cpuid.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "core/base/cleanup.h"
#include "daemon/attach/internal.h"

#define CONTEXT_XSTATE	    1u /* uc_flags */
#define CONTEXT_SS	    6u
#define XSTATE_MAGIC1	    0x46505853u
#define XSTATE_MAGIC2	    0x46505845u
#define XSTATE_SOFTWARE	    464 /* offset in the legacy area of what follows */
#define XSTATE_HEADER	    512
#define XSTATE_LEGACY_SIZE  576
#define XSTATE_FEATURE_TILE 0x60000ull /* AMX: the kernel accepts them only if allowed */
#define KERNEL_MASK_SIZE    8
#define STACK_INVALID	    7 /* no such mode: the kernel leaves the signal stack unchanged */
#define KERNEL_CONTEXT_SIZE (offsetof(ucontext_t, uc_sigmask) + KERNEL_MASK_SIZE)

struct xstate_software {
	uint32_t magic1, extended_size;
	uint64_t features;
	uint32_t size, padding[7];
};

struct frame {
	uint64_t return_to;
	uint8_t context[KERNEL_CONTEXT_SIZE];
};

/* The features that a signal frame may have; *ret_features is set to them. */
static uint32_t xstate_size(uint64_t enabled, uint64_t *ret_features)
{
	uint32_t size = XSTATE_LEGACY_SIZE, a, b, c, d;

	*ret_features = enabled & ~XSTATE_FEATURE_TILE;
	for (unsigned int i = 2; i < 63; i++) {
		if (!(*ret_features >> i & 1))
			continue;
		__cpuid_count(0xd, i, a, b, c, d);
		if (a + b > size)
			size = a + b;
	}
	return size;
}

/* As the kernel would restart an interrupted call. */
static struct user_regs_struct frame_registers(const struct user_regs_struct *saved)
{
	struct user_regs_struct regs = *saved;
	long result = (long)regs.rax;

	if ((long)regs.orig_rax >= 0 && result <= -512 && result >= -516) {
		regs.rax = result == -516 ? (unsigned long long)-EINTR : regs.orig_rax;
		regs.rip -= result == -516 ? 0 : 2;
	}
	return regs;
}

static void frame_context(const struct attach_remote *remote, uint64_t xstate, ucontext_t *ret)
{
	struct user_regs_struct regs = frame_registers(&remote->saved);
	const uint64_t order[] = {
		regs.r8,
		regs.r9,
		regs.r10,
		regs.r11,
		regs.r12,
		regs.r13,
		regs.r14,
		regs.r15,
		regs.rdi,
		regs.rsi,
		regs.rbp,
		regs.rbx,
		regs.rdx,
		regs.rax,
		regs.rcx,
		regs.rsp,
		regs.rip,
		regs.eflags,
		regs.cs | regs.gs << 16 | regs.fs << 32 | regs.ss << 48,
	};

	memset(ret, 0, sizeof(*ret));
	ret->uc_flags = CONTEXT_XSTATE | CONTEXT_SS;
	ret->uc_stack.ss_flags = STACK_INVALID;
	memcpy(ret->uc_mcontext.gregs, order, sizeof(order));
	ret->uc_mcontext.fpregs = (void *)(uintptr_t)xstate;
	memcpy(&ret->uc_sigmask, &remote->mask, sizeof(remote->mask));
}

int attach_frame_write(const struct attach_remote *remote, uint64_t top, uint64_t return_to,
		       uint64_t *ret_sp)
{
	_cleanup_(freep) uint8_t *xstate = calloc(1, ATTACH_XSTATE_MAX);
	struct xstate_software software = { .magic1 = XSTATE_MAGIC1 };
	struct frame frame = { .return_to = return_to };
	uint64_t enabled, at, sp;
	uint32_t end = XSTATE_MAGIC2;
	ucontext_t context;

	if (!xstate || remote->xstate_size < XSTATE_LEGACY_SIZE)
		return -ENOMEM;
	memcpy(xstate, remote->xstate, remote->xstate_size);
	memcpy(&enabled, xstate + XSTATE_SOFTWARE, sizeof(enabled)); /* as ptrace gives it */
	software.size = xstate_size(enabled, &software.features);
	software.extended_size = software.size + sizeof(end);
	if (software.extended_size > ATTACH_XSTATE_MAX)
		return -ENOMEM;
	memcpy(xstate + XSTATE_SOFTWARE, &software, sizeof(software));
	memcpy(xstate + software.size, &end, sizeof(end));
	at = (top - software.extended_size) & ~63ull;
	sp = ((at - sizeof(frame)) & ~15ull) - 8;
	frame_context(remote, at, &context);
	memcpy(frame.context, &context, sizeof(frame.context));
	if (attach_target_write(remote->target, at, xstate, software.extended_size) ||
	    attach_target_write(remote->target, sp, &frame, sizeof(frame)))
		return -EIO;
	*ret_sp = sp;
	return 0;
}
