/* Light hook: what a hot function of the driver calls first. On the program's threads, in
 * the middle of its calls: it takes no lock, allocates nothing, uses no vector register (see
 * CMakeLists.txt), and makes no system call but one (is_there()): a thread may have a seccomp
 * filter, which kills for what the program itself never does, and may get one at any time. */
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "inject/internal.h"
#include "inject/light.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT void tracesmith_light(const struct ts_light_call *call, const uint64_t *saved);

/* Of glibc's struct pthread since 2.4, for debuggers; looked at before it is used. */
#define THREAD_TID  0x2d0
#define NEAR_BYTES  (16 << 10)
#define POINTER_MIN 0x10000ull
#define POINTER_MAX 0x7ffffffff000ull
#define ARGS	    6

struct light_gate *light_gate;
static uint32_t own_tid; /* our thread's calls are not the program's */

static inline uint32_t stored_tid(void)
{
	uint32_t tid;

	__asm__("movl %%fs:%c1,%0" : "=r"(tid) : "i"(THREAD_TID));
	return tid;
}

bool light_hook_prepare(void)
{
	own_tid = (uint32_t)syscall(SYS_gettid);
	return stored_tid() == own_tid;
}

/* By a call that every program makes, so that no filter minds: the kernel reads the set of signals
 * before it refuses to change them in a way that does not exist. Abseil does it like this. */
static bool is_there(uint64_t word)
{
	register uint64_t size __asm__("r10") = sizeof(uint64_t);
	uint64_t result;

	__asm__ volatile("movl %1,%%eax\n\tsyscall"
			 : "=&a"(result)
			 : "i"(SYS_rt_sigprocmask), "D"((uint64_t)INT_MAX), "S"(word), "d"(0ull),
			   "r"(size)
			 : "rcx", "r11", "memory");
	return result == (uint64_t)-EINVAL;
}

bool light_copy(uint64_t from, uint64_t *to, size_t words)
{
	for (size_t i = 0; i < words; i++) {
		if (!is_there(from + i * sizeof(*to)))
			return false;
		__builtin_memcpy(&to[i], (void *)(from + i * sizeof(*to)), sizeof(*to));
	}
	return true;
}

/* What the driver reads anyway; unless it refuses the call before that. On the caller's stack,
 * where such structures usually are, it can be read; elsewhere the kernel looks each time: what was
 * there a moment ago may be gone. */
static bool read_field(uint64_t pointer, const uint64_t *stack, uint64_t *ret)
{
	if (pointer < POINTER_MIN || pointer > POINTER_MAX)
		return false;
	if (pointer - (uint64_t)stack >= NEAR_BYTES)
		return light_copy(pointer, ret, 1);
	__builtin_memcpy(ret, (void *)pointer, sizeof(*ret));
	return true;
}

static inline uint64_t argument(const struct ts_light_call *call, const uint64_t *saved,
				unsigned int n)
{
	static const uint8_t place[ARGS] = { TS_LIGHT_RDI, TS_LIGHT_RSI, TS_LIGHT_RDX,
					     TS_LIGHT_RCX, TS_LIGHT_R8,	 TS_LIGHT_R9 };

	return n < ARGS ? saved[place[n]] : saved[call->frame + 1 + n - ARGS];
}

static inline void read_args(const struct ts_light_call *call, const uint64_t *saved,
			     struct ts_event *event)
{
	uint8_t *api = (uint8_t *)&event->api;
	uint16_t flags = call->flags;

	for (unsigned int i = 0; i < call->slot_count; i++) {
		const struct ts_light_slot *slot = &call->slot[i];
		uint64_t value = argument(call, saved, slot->arg);

		if (slot->from == TS_LIGHT_FIELD) {
			uint64_t field = 0;

			/* NULL is a caller's mistake, which the driver refuses. */
			if (value && !read_field(value + slot->offset, saved, &field))
				flags |= TS_EVENT_UNREAD;
			value = field;
		}
		if (slot->width == sizeof(uint32_t))
			__builtin_memcpy(api + slot->to, &value, sizeof(uint32_t));
		else
			__builtin_memcpy(api + slot->to, &value, sizeof(uint64_t));
	}
	event->flags = flags;
}

/* TS_LIGHT_STUB */
__asm__(".pushsection .text\n"
	".globl light_stub\n"
	".hidden light_stub\n"
	".type light_stub,@function\n"
	"light_stub: nop\n"
	"ret\n"
	".size light_stub,.-light_stub\n"
	".popsection");

/* The stack is the caller's: neither our frames nor those of the code that called us are in it. */
static __attribute__((noinline)) void report_with_stack(const struct ts_light_call *call,
							const uint64_t *saved,
							const struct walked *walked)
{
	const struct walk_role *role = &walked->role;
	const struct ts_registers entry = {
		.r15 = role->role,
		.r14 = role->word[0],
		.r13 = role->word[1],
		.r12 = role->word[2],
		.ip = call->entry,
		.sp = (uint64_t)(saved + call->frame),
		.bp = saved[TS_LIGHT_RBP],
		.bx = saved[TS_LIGHT_RBX],
		.di = saved[TS_LIGHT_RDI],
		.si = saved[TS_LIGHT_RSI],
		.dx = saved[TS_LIGHT_RDX],
		.cx = saved[TS_LIGHT_RCX],
		.r8 = saved[TS_LIGHT_R8],
		.r9 = saved[TS_LIGHT_R9],
		.walked = walked->found,
	};

	light_stub(&entry, call->fn | (uint32_t)call->flags << 16);
}

/* What tells a call's work from that of others. */
static inline uint64_t work_of(const struct ts_light_call *call, const uint64_t *saved)
{
	if (!call->kernel_arg)
		return call->fn;
	return saved[call->kernel_arg == 1 ? TS_LIGHT_RDI : TS_LIGHT_RSI];
}

static inline bool wants_stack(struct light_gate *gate, struct light_sampler *sampler,
			       const struct ts_light_call *call, const uint64_t *saved)
{
	uint32_t stacks = __atomic_load_n(&gate->stacks, __ATOMIC_ACQUIRE);
	uint64_t work;

	if (!call->sampled)
		return false;
	if (stacks != TS_STACKS_SAMPLED)
		return stacks == TS_STACKS_ALL;
	work = work_of(call, saved);
	return !light_sampler_skips(sampler, work) &&
	       light_sampler_takes(sampler, work, gate->sample_ns, clock_ns(CLOCK_MONOTONIC));
}

/* Seldom. */
static __attribute__((noinline)) void walk_timed(struct light_gate *gate,
						 const struct ts_light_call *call,
						 const uint64_t *saved, uint32_t tid,
						 struct walked *ret)
{
	uint64_t before_ns = clock_ns(CLOCK_MONOTONIC), begin_ns = clock_ns(CLOCK_MONOTONIC);

	walk_call(&gate->walker, call, saved, tid, ret);
	walk_timer_add(&gate->timer[tid % LIGHT_SAMPLERS], clock_ns(CLOCK_MONOTONIC) - begin_ns,
		       begin_ns - before_ns);
}

/* Without the stub, if what it would tell is known. */
static inline bool knows_stack(struct light_gate *gate, const struct ts_light_call *call,
			       const uint64_t *saved, uint32_t tid, struct walked *ret)
{
	bool all = __atomic_load_n(&gate->stacks, __ATOMIC_RELAXED) == TS_STACKS_ALL;

	if (!all || !__atomic_load_n(&gate->walker.shared, __ATOMIC_ACQUIRE))
		return false;
	if (walk_timer_takes(&gate->timer[tid % LIGHT_SAMPLERS]))
		walk_timed(gate, call, saved, tid, ret);
	else
		walk_call(&gate->walker, call, saved, tid, ret);
	return ret->id != 0;
}

static inline struct ts_event *event_begin(struct link_batch *batch, uint16_t kind)
{
	int r = link_begin(batch, 1);
	struct ts_event *event;
	__u64 *payload;

	if (r == -ENOSPC)
		link_lost(TS_LOST_RING, 1);
	if (r < 0)
		return NULL;
	event = link_slot(batch, 0);
	/* Not a loop: compilers make a call of memset() of it. */
	payload = event->payload;
	payload[0] = payload[1] = payload[2] = payload[3] = payload[4] = 0;
	payload[5] = payload[6] = payload[7] = payload[8] = payload[9] = 0;
	event->kind = kind;
	event->fn = 0;
	event->flags = 0;
	event->cpu = 0;
	event->tgid = event->tid = 0;
	event->end_ns = event->stack_id = 0;
	event->result = 0;
	return event;
}

/* Before the first calls that have it, until the daemon knows it. */
static inline void tell_backward(const struct walked *walked, uint32_t tid, uint64_t now_ns)
{
	struct link_batch batch;
	struct ts_event *event = event_begin(&batch, TS_EVENT_BACKWARD);

	if (!event)
		return;
	event->ns_tid = tid;
	event->start_ns = now_ns;
	event->stack_id = walked->id;
	event->backward.stack = walked->stack;
	event->backward.forward = walked->role.word[0];
	event->backward.passed = walked->role.word[1] != 0;
	link_done(&batch);
}

void tracesmith_light(const struct ts_light_call *call, const uint64_t *saved)
{
	struct light_gate *gate = __atomic_load_n(&light_gate, __ATOMIC_ACQUIRE);
	struct walked walked;
	struct light_sampler *sampler;
	struct link_batch batch;
	struct ts_event *event;
	uint64_t now_ns;
	uint32_t tid;

	if (!gate || !__atomic_load_n(&gate->open, __ATOMIC_ACQUIRE))
		return;
	tid = stored_tid();
	if (tid == own_tid)
		return;
	/* As above: no loop. */
	walked.found = walked.stack = walked.id = 0;
	walked.is_new = false;
	walked.role.role = TS_STUB_UNKNOWN;
	walked.role.word[0] = walked.role.word[1] = walked.role.word[2] = 0;
	sampler = &gate->sampler[tid % LIGHT_SAMPLERS];
	if (wants_stack(gate, sampler, call, saved) &&
	    !knows_stack(gate, call, saved, tid, &walked)) {
		report_with_stack(call, saved, &walked);
		return;
	}
	/* Not after its slot is claimed: who lost his processor in between would have a time later
	 * than that of the others' slots behind it. */
	now_ns = clock_ns(CLOCK_MONOTONIC);
	if (walked.is_new)
		tell_backward(&walked, tid, now_ns);
	event = event_begin(&batch, TS_EVENT_API);
	if (!event)
		return;
	event->fn = call->fn;
	event->ns_tid = tid;
	event->stack_id = walked.id;
	read_args(call, saved, event);
	event->start_ns = now_ns;
	if (call->sampled && !walked.id)
		light_sampler_passed(sampler, gate->sample_ns, now_ns);
	link_done(&batch);
}
