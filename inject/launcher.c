/* Launcher: a table of the threads that were seen in a driver call.
 *
 * A thread's place is in one small bucket, taken with an exchange, and given back only when the
 * thread is gone: so a place has one owner, and what is only the owner's needs no lock.
 */
#include "inject/launcher.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BUCKETS	    256
#define BUCKET_SIZE 8

/* Where glibc keeps the number of a thread, from pthread_self() on x86-64 since 2.3. Believed only
 * where it is so on the asking thread; else it is a system call. */
#define GLIBC_TID_OFFSET 0x2d0
#define CHECK_EVERY	 256

static struct launcher table[BUCKETS][BUCKET_SIZE];
static bool not_there;

uint32_t thread_id(void)
{
#if defined(__x86_64__) && defined(__GLIBC__)
	static uint32_t asked; /* sloppy, it only says when to check */
	uint32_t tid;

	if (!__atomic_load_n(&not_there, __ATOMIC_RELAXED)) {
		memcpy(&tid, (const char *)pthread_self() + GLIBC_TID_OFFSET, sizeof(tid));
		if (__atomic_fetch_add(&asked, 1, __ATOMIC_RELAXED) % CHECK_EVERY)
			return tid;
		if (tid == (uint32_t)syscall(SYS_gettid))
			return tid;
		__atomic_store_n(&not_there, true, __ATOMIC_RELAXED);
	}
#endif
	return (uint32_t)syscall(SYS_gettid);
}

static struct launcher *bucket_of(uint32_t tid)
{
	return table[(tid * 0x9e3779b1u >> 16) % BUCKETS];
}

struct launcher *launcher_find(uint32_t tid)
{
	struct launcher *bucket = bucket_of(tid);

	for (unsigned i = 0; i < BUCKET_SIZE; i++)
		if (__atomic_load_n(&bucket[i].tid, __ATOMIC_RELAXED) == tid)
			return &bucket[i];
	return NULL;
}

struct launcher *launcher_note(uint32_t tid)
{
	struct launcher *bucket = bucket_of(tid), *launcher = launcher_find(tid);

	for (unsigned i = 0; !launcher && i < BUCKET_SIZE; i++) {
		uint32_t none = 0;

		if (__atomic_compare_exchange_n(&bucket[i].tid, &none, tid, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED))
			launcher = &bucket[i];
	}
	return launcher;
}

static bool is_gone(uint32_t tid)
{
	return syscall(SYS_tgkill, getpid(), tid, 0) != 0;
}

static void forget(struct launcher *launcher)
{
	launcher->open = launcher->depth = launcher->calls = launcher->inside = 0;
	__atomic_store_n(&launcher->busy_ns, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&launcher->tid, 0, __ATOMIC_RELEASE);
}

uint64_t launcher_costs(uint64_t *ret_most)
{
	uint64_t sum = 0;

	*ret_most = 0;
	for (unsigned i = 0; i < BUCKETS * BUCKET_SIZE; i++) {
		struct launcher *launcher = &table[i / BUCKET_SIZE][i % BUCKET_SIZE];
		uint32_t tid = __atomic_load_n(&launcher->tid, __ATOMIC_ACQUIRE);
		uint64_t busy;

		if (!tid)
			continue;
		busy = __atomic_exchange_n(&launcher->busy_ns, 0, __ATOMIC_RELAXED);
		sum += busy;
		*ret_most = busy > *ret_most ? busy : *ret_most;
		if (!busy && is_gone(tid))
			forget(launcher);
	}
	return sum;
}

bool launcher_is_inside(void)
{
	for (unsigned i = 0; i < BUCKETS * BUCKET_SIZE; i++) {
		const struct launcher *launcher = &table[i / BUCKET_SIZE][i % BUCKET_SIZE];

		/* A thread that ended in there is not in there. */
		if (__atomic_load_n(&launcher->inside, __ATOMIC_ACQUIRE) && !is_gone(launcher->tid))
			return true;
	}
	return false;
}

void launcher_forget_all(void)
{
	memset(table, 0, sizeof(table));
}
