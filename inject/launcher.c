/* Launcher: a table of the threads that were seen in a driver call.
 *
 * A thread's entry is in one small bucket, taken with an exchange, and freed only when the thread
 * is gone: so an entry has one owner, and the owner's fields need no lock.
 */
#include "inject/launcher.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BUCKET_SIZE 8
#define BUCKETS	    (LAUNCHERS_MAX / BUCKET_SIZE)

/* Offset of a thread's id from pthread_self() in glibc on x86-64 since 2.3. Used only if it is
 * right for each thread that we note; otherwise a system call. */
#define GLIBC_TID_OFFSET 0x2d0

static struct launcher table[BUCKETS][BUCKET_SIZE];
static uint64_t noted[BUCKETS / 64]; /* bits: buckets ever used */
static enum tid_source { UNKNOWN, GLIBC, SYSTEM } tid_source;

static uint32_t tid_of_system(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

static uint32_t tid_of_glibc(void)
{
	uint32_t tid = 0;

#if defined(__x86_64__) && defined(__GLIBC__)
	__asm__("movl %%fs:%c1, %0" : "=r"(tid) : "i"(GLIBC_TID_OFFSET));
#endif
	return tid;
}

uint32_t thread_id(void)
{
	enum tid_source source = __atomic_load_n(&tid_source, __ATOMIC_RELAXED);

	if (source == GLIBC)
		return tid_of_glibc();
	if (source == UNKNOWN)
		__atomic_store_n(&tid_source, tid_of_glibc() == tid_of_system() ? GLIBC : SYSTEM,
				 __ATOMIC_RELAXED);
	return tid_of_system();
}

static uint32_t bucket_of(uint32_t tid)
{
	return (tid * 0x9e3779b1u >> 16) % BUCKETS;
}

struct launcher *launcher_find(uint32_t tid)
{
	struct launcher *bucket = table[bucket_of(tid)];

	for (unsigned i = 0; i < BUCKET_SIZE; i++)
		if (__atomic_load_n(&bucket[i].tid, __ATOMIC_RELAXED) == tid)
			return &bucket[i];
	return NULL;
}

struct launcher *launcher_note(uint32_t tid)
{
	struct launcher *launcher = launcher_find(tid);
	uint32_t at = bucket_of(tid);

	if (launcher)
		return launcher;
	if (__atomic_load_n(&tid_source, __ATOMIC_RELAXED) == GLIBC && tid != tid_of_system()) {
		__atomic_store_n(&tid_source, SYSTEM, __ATOMIC_RELAXED);
		return NULL;
	}
	__atomic_fetch_or(&noted[at / 64], (uint64_t)1 << at % 64, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < BUCKET_SIZE; i++) {
		uint32_t none = 0;

		if (__atomic_compare_exchange_n(&table[at][i].tid, &none, tid, false,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return &table[at][i];
	}
	return NULL;
}

uint32_t launcher_place(const struct launcher *launcher)
{
	return (uint32_t)(launcher - &table[0][0]);
}

struct launcher *launcher_next(const struct launcher *before)
{
	uint32_t place = before ? launcher_place(before) + 1 : 0;

	while (place < LAUNCHERS_MAX) {
		uint32_t at = place / BUCKET_SIZE;
		struct launcher *launcher = &table[at][place % BUCKET_SIZE];

		if (!(__atomic_load_n(&noted[at / 64], __ATOMIC_RELAXED) >> at % 64 & 1)) {
			place = (at + 1) * BUCKET_SIZE;
			continue;
		}
		if (__atomic_load_n(&launcher->tid, __ATOMIC_ACQUIRE))
			return launcher;
		place++;
	}
	return NULL;
}

static bool is_gone(uint32_t tid)
{
	return syscall(SYS_tgkill, getpid(), tid, 0) != 0;
}

static void forget(struct launcher *launcher)
{
	memset(&launcher->open, 0, sizeof(*launcher) - offsetof(struct launcher, open));
	__atomic_store_n(&launcher->tid, 0, __ATOMIC_RELEASE);
}

bool launcher_has_queued(const struct launcher *launcher)
{
	return __atomic_load_n(&launcher->queued, __ATOMIC_RELAXED) !=
	       __atomic_load_n(&launcher->taken, __ATOMIC_RELAXED);
}

uint64_t launcher_costs(uint64_t *ret_most)
{
	uint64_t sum = 0;

	*ret_most = 0;
	for (struct launcher *l = launcher_next(NULL); l; l = launcher_next(l)) {
		uint64_t paid_ns = __atomic_load_n(&l->busy_ns, __ATOMIC_RELAXED) +
				   __atomic_load_n(&l->charged_ns, __ATOMIC_RELAXED);
		uint64_t busy_ns = paid_ns - l->told_ns;

		l->told_ns = paid_ns;
		sum += busy_ns;
		*ret_most = busy_ns > *ret_most ? busy_ns : *ret_most;
		if (!busy_ns && is_gone(l->tid) && !launcher_has_queued(l))
			forget(l);
	}
	return sum;
}

bool launcher_is_inside(void)
{
	for (const struct launcher *l = launcher_next(NULL); l; l = launcher_next(l))
		/* A thread that has ended is not inside a callback. */
		if (__atomic_load_n(&l->inside, __ATOMIC_ACQUIRE) && !is_gone(l->tid))
			return true;
	return false;
}

void launcher_forget_all(void)
{
	for (struct launcher *l = launcher_next(NULL); l; l = launcher_next(l))
		forget(l);
}
