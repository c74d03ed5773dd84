/* Yield: detects other users of CUPTI from the calls that their modules make to it.
 *
 * CUPTI has one subscriber, one pair of buffer callbacks and one clock per process, and silently
 * lets the last caller win. So each call that sets one of them is redirected to a function here:
 * before passing it on we give everything back, and when the other user has switched off its last
 * record kind and has been quiet for a while we take CUPTI again. What it holds without using it
 * (its subscription, in the case of PyTorch's profiler) we keep for it in the meantime and return
 * as soon as it calls again: its handle stays valid. A subscription from before our time cannot be
 * put away: then we record without one (call_record.c), if its owner registers its callbacks anew
 * before it records.
 *
 * Users that look up CUPTI's functions with dlsym() are not seen.
 */
#include "inject/yield.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/time.h"
#include "inject/got.h"
#include "inject/internal.h"
#include "inject/launcher.h"

#define QUIET_NS     300000000
#define LOCK_NS	     500000000 /* how long its call may wait for ours to end */
#define LOCK_STEP_NS 100000
#define LEAVE_MS     100
#define SWITCHES_MAX 64
#define ARGUMENTS    4
#define KIND_API     63 /* represents single API functions */
#define FAILED	     999

enum role {
	SUBSCRIBE,
	UNSUBSCRIBE,
	SWITCH, /* callbacks; argument 1 is the subscription, 0 the new state */
	REGISTER,
	CLOCK,
	THREAD_ID,
	ENABLE,		/* argument 0 is the kind */
	ENABLE_CONTEXT, /* argument 1 is the kind */
	DISABLE,
	DISABLE_CONTEXT,
	API, /* argument 1 is the new state */
	FINALIZE,
};

#define HOOKS(X)                                                                                   \
	X(SUBSCRIBE, cuptiSubscribe)                                                               \
	X(SUBSCRIBE, cuptiSubscribe_v2)                                                            \
	X(UNSUBSCRIBE, cuptiUnsubscribe)                                                           \
	X(SWITCH, cuptiEnableCallback)                                                             \
	X(SWITCH, cuptiEnableDomain)                                                               \
	X(SWITCH, cuptiEnableAllDomains)                                                           \
	X(REGISTER, cuptiActivityRegisterCallbacks)                                                \
	X(REGISTER, cuptiActivityRegisterCallbacks_v2)                                             \
	X(CLOCK, cuptiActivityRegisterTimestampCallback)                                           \
	X(THREAD_ID, cuptiSetThreadIdType)                                                         \
	X(ENABLE, cuptiActivityEnable)                                                             \
	X(ENABLE, cuptiActivityEnableAndDump)                                                      \
	X(ENABLE_CONTEXT, cuptiActivityEnableContext)                                              \
	X(DISABLE, cuptiActivityDisable)                                                           \
	X(DISABLE_CONTEXT, cuptiActivityDisableContext)                                            \
	X(API, cuptiActivityEnableDriverApi)                                                       \
	X(API, cuptiActivityEnableRuntimeApi)                                                      \
	X(FINALIZE, cuptiFinalize)

enum hook {
#define X(role, symbol) HOOK_##symbol,
	HOOKS(X)
#undef X
		HOOK_COUNT
};
static const enum role role_of[] = {
#define X(role, symbol) role,
	HOOKS(X)
#undef X
};

typedef int (*real_fn)(uintptr_t, uintptr_t, uintptr_t, uintptr_t);

/* A call of the other user, and what is needed to repeat it. */
struct call {
	enum hook hook;
	uintptr_t argument[ARGUMENTS];
};

static struct {
	real_fn real[HOOK_COUNT];
	void (*aside)(const char *who);
	bool ours;    /* we hold CUPTI now */
	bool taken;   /* and its subscription is put away */
	bool passing; /* pass on every call */
	uint32_t inside;
	uint64_t last_ns; /* of its calls */
	uint64_t kinds;	  /* bits: what it has switched on */
	bool subscribed;
	struct call subscribe;
	void *handle, *handle_now; /* its subscription, as it and CUPTI know it */
	struct call switches[SWITCHES_MAX];
	unsigned switch_count;
	struct call registered, clock, thread_id;
	bool has_registered, has_clock, has_thread_id;
} other;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Bounded, without pthread_mutex_clocklock(): the thread sanitizer does not know that one. */
bool yield_lock(void)
{
	struct timespec pause = { .tv_nsec = LOCK_STEP_NS };

	for (int i = 0; i < LOCK_NS / LOCK_STEP_NS; i++) {
		if (!pthread_mutex_trylock(&lock))
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

void yield_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

static int call_real(const struct call *call)
{
	const uintptr_t *a = call->argument;

	return other.real[call->hook] ? other.real[call->hook](a[0], a[1], a[2], a[3]) : FAILED;
}

static uint64_t kind_bit(uintptr_t kind)
{
	return (uint64_t)1 << ((uint32_t)kind < KIND_API ? (uint32_t)kind : KIND_API - 1);
}

/* Whether this call needs CUPTI for the other user alone. */
static bool call_wants(const struct call *call)
{
	switch (role_of[call->hook]) {
	case SWITCH:
		return (uint32_t)call->argument[0];
	case API:
		return (uint8_t)call->argument[1];
	case SUBSCRIBE:
	case REGISTER:
	case CLOCK:
	case ENABLE:
	case ENABLE_CONTEXT:
	case FINALIZE:
		return true;
	default:
		return false;
	}
}

static void switch_note(struct call call)
{
	/* An argument that the function does not have is whatever was in the register. */
	if (call.hook == HOOK_cuptiEnableAllDomains)
		call.argument[2] = 0;
	if (call.hook != HOOK_cuptiEnableCallback)
		call.argument[3] = 0;
	for (unsigned i = 0; i < other.switch_count; i++) {
		struct call *noted = &other.switches[i];

		if (noted->hook == call.hook &&
		    (uint32_t)noted->argument[2] == (uint32_t)call.argument[2] &&
		    (uint32_t)noted->argument[3] == (uint32_t)call.argument[3]) {
			*noted = call;
			return;
		}
	}
	if (other.switch_count < SWITCHES_MAX)
		other.switches[other.switch_count++] = call;
}

static void subscription_end(void)
{
	other.subscribed = false;
	other.switch_count = 0;
}

/* What the other user has now, after a successful call. */
static void call_note(const struct call *call)
{
	switch (role_of[call->hook]) {
	case SUBSCRIBE:
		other.subscribe = *call;
		other.subscribe.argument[3] = 0; /* valid only during the call */
		other.subscribed = true;
		other.switch_count = 0;
		other.handle = other.handle_now = *(void **)call->argument[0];
		break;
	case UNSUBSCRIBE:
		subscription_end();
		break;
	case SWITCH:
		switch_note(*call);
		break;
	case REGISTER:
		other.registered = *call;
		other.has_registered = true;
		break;
	case CLOCK:
		other.clock = *call;
		other.has_clock = true;
		break;
	case THREAD_ID:
		other.thread_id = *call;
		other.has_thread_id = true;
		break;
	case ENABLE:
		other.kinds |= kind_bit(call->argument[0]);
		break;
	case ENABLE_CONTEXT:
		other.kinds |= kind_bit(call->argument[1]);
		break;
	case DISABLE:
		other.kinds &= ~kind_bit(call->argument[0]);
		break;
	case DISABLE_CONTEXT:
		other.kinds &= ~kind_bit(call->argument[1]);
		break;
	case API:
		if ((uint8_t)call->argument[1])
			other.kinds |= (uint64_t)1 << KIND_API;
		else
			other.kinds &= ~((uint64_t)1 << KIND_API);
		break;
	case FINALIZE:
		subscription_end();
		other.kinds = 0;
		other.has_registered = other.has_clock = other.has_thread_id = false;
		break;
	}
}

static void who_calls(const void *from, char *who, size_t size)
{
	const char *name = "another user of CUPTI";
	Dl_info info;

	if (dladdr(from, &info) && info.dli_fname && *info.dli_fname)
		name = strrchr(info.dli_fname, '/') ? strrchr(info.dli_fname, '/') + 1
						    : info.dli_fname;
	snprintf(who, size, "%s", name);
}

/* False: the call is done, do not pass it on. */
static bool call_before(struct call *call, const void *from)
{
	char who[128];

	other.last_ns = clock_ns(CLOCK_MONOTONIC);
	if (other.ours && !call_wants(call)) {
		call_note(call);
		return false;
	}
	if (other.ours) {
		who_calls(from, who, sizeof(who));
		other.aside(who);
	}
	if (!other.subscribed)
		return true;
	if (role_of[call->hook] == SWITCH && (void *)call->argument[1] == other.handle)
		call->argument[1] = (uintptr_t)other.handle_now;
	if (role_of[call->hook] == UNSUBSCRIBE && (void *)call->argument[0] == other.handle)
		call->argument[0] = (uintptr_t)other.handle_now;
	return true;
}

static int call_made(enum hook hook, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d,
		     const void *from)
{
	struct call call = { .hook = hook, .argument = { a, b, c, d } };
	int saved = errno, r = 0;
	bool pass = true;

	__atomic_fetch_add(&other.inside, 1, __ATOMIC_ACQUIRE);
	if (!__atomic_load_n(&other.passing, __ATOMIC_ACQUIRE) && yield_lock()) {
		pass = call_before(&call, from);
		yield_unlock();
	}
	errno = saved;
	if (pass)
		r = call_real(&call);
	saved = errno;
	if (pass && !r && !__atomic_load_n(&other.passing, __ATOMIC_ACQUIRE) && yield_lock()) {
		call_note(&call);
		other.last_ns = clock_ns(CLOCK_MONOTONIC);
		yield_unlock();
	}
	errno = saved;
	__atomic_fetch_sub(&other.inside, 1, __ATOMIC_RELEASE);
	return r;
}

#define X(role, symbol)                                                                            \
	static int turned_##symbol(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d)             \
	{                                                                                          \
		return call_made(HOOK_##symbol, a, b, c, d, __builtin_return_address(0));          \
	}
HOOKS(X)
#undef X

static const struct got_hook hooks[] = {
#define X(role, symbol) { #symbol, (void *)turned_##symbol },
	HOOKS(X)
#undef X
};

void yield_watch(const struct cupti *cupti, void (*aside)(const char *who))
{
	other.aside = aside;
	for (int i = 0; i < HOOK_COUNT; i++)
		if (!other.real[i])
			other.real[i] = (real_fn)dlsym(cupti->handle, hooks[i].symbol);
	__atomic_store_n(&other.passing, false, __ATOMIC_RELEASE);
	got_turn(hooks, HOOK_COUNT, (const void *)cupti->subscribe);
}

bool yield_expects(const struct cupti *cupti, char *who, size_t size)
{
	return got_finds(hooks, HOOK_COUNT, (const void *)cupti->subscribe, who, size);
}

bool yield_unwatch(void)
{
	struct timespec pause = { .tv_nsec = NS_PER_MS };

	__atomic_store_n(&other.passing, true, __ATOMIC_RELEASE);
	got_restore();
	/* A thread may have read a slot just before. */
	for (int i = 0; i < LEAVE_MS; i++) {
		nanosleep(&pause, NULL);
		if (i > 1 && !__atomic_load_n(&other.inside, __ATOMIC_ACQUIRE)) {
			memset(&other, 0, sizeof(other));
			return true;
		}
	}
	return false;
}

bool yield_is_free(uint64_t now_ns)
{
	return !other.kinds && (!other.last_ns || now_ns > other.last_ns + QUIET_NS);
}

void yield_expect(uint64_t now_ns)
{
	other.last_ns = now_ns;
}

void yield_take(void)
{
	struct call call = { .hook = HOOK_cuptiUnsubscribe };

	other.ours = true;
	other.taken = other.subscribed;
	call.argument[0] = (uintptr_t)other.handle_now;
	if (other.taken)
		call_real(&call);
}

void yield_give(void)
{
	struct call call = other.subscribe;

	if (!other.ours)
		return;
	other.ours = false;
	if (other.taken && other.subscribed) {
		call.argument[0] = (uintptr_t)&other.handle_now;
		call_real(&call);
		for (unsigned i = 0; i < other.switch_count; i++) {
			other.switches[i].argument[1] = (uintptr_t)other.handle_now;
			call_real(&other.switches[i]);
		}
	}
	other.taken = false;
	if (other.has_thread_id)
		call_real(&other.thread_id);
	if (other.has_clock)
		call_real(&other.clock);
	if (other.has_registered)
		call_real(&other.registered);
}

/* A profiler that the driver loaded, as it does us, calls CUPTI in ways that nobody sees. */
static bool is_injected(void)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	Dl_info info;

	return path && *path &&
	       !(dladdr((const void *)yield_lock, &info) && info.dli_fname &&
		 !strcmp(info.dli_fname, path));
}

/* PyTorch's profiler is linked into libtorch_cpu.so, or comes as a library. */
bool yield_registers_anew(void)
{
	return !is_injected() &&
	       (other.has_registered || got_is_in("libtorch_") || got_is_in("libkineto"));
}

bool yield_is_used(void)
{
	return other.kinds || other.subscribed || other.has_registered;
}

void yield_forked(void)
{
	pthread_mutex_init(&lock, NULL);
	other.passing = true;
	other.inside = 0;
}
