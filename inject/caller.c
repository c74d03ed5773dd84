/* Caller: a table of the threads that were seen in a driver call.
 *
 * A thread's place is in one small bucket, taken with an exchange, and given back only when the
 * thread is gone: so a place has one owner, and what is only the owner's needs no lock.
 */
#include "inject/caller.h"

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

static struct caller table[BUCKETS][BUCKET_SIZE];
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

static struct caller *bucket_of(uint32_t tid)
{
	return table[(tid * 0x9e3779b1u >> 16) % BUCKETS];
}

struct caller *caller_find(uint32_t tid)
{
	struct caller *bucket = bucket_of(tid);

	for (unsigned i = 0; i < BUCKET_SIZE; i++)
		if (__atomic_load_n(&bucket[i].tid, __ATOMIC_RELAXED) == tid)
			return &bucket[i];
	return NULL;
}

struct caller *caller_note(uint32_t tid)
{
	struct caller *bucket = bucket_of(tid), *caller = caller_find(tid);

	for (unsigned i = 0; !caller && i < BUCKET_SIZE; i++) {
		uint32_t none = 0;

		if (__atomic_compare_exchange_n(&bucket[i].tid, &none, tid, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED))
			caller = &bucket[i];
	}
	return caller;
}

static bool is_gone(uint32_t tid)
{
	return syscall(SYS_tgkill, getpid(), tid, 0) != 0;
}

static void forget(struct caller *caller)
{
	caller->open = caller->depth = caller->calls = caller->inside = 0;
	__atomic_store_n(&caller->busy_ns, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&caller->tid, 0, __ATOMIC_RELEASE);
}

uint64_t caller_costs(uint64_t *ret_most)
{
	uint64_t sum = 0;

	*ret_most = 0;
	for (unsigned i = 0; i < BUCKETS * BUCKET_SIZE; i++) {
		struct caller *caller = &table[i / BUCKET_SIZE][i % BUCKET_SIZE];
		uint32_t tid = __atomic_load_n(&caller->tid, __ATOMIC_ACQUIRE);
		uint64_t busy;

		if (!tid)
			continue;
		busy = __atomic_exchange_n(&caller->busy_ns, 0, __ATOMIC_RELAXED);
		sum += busy;
		*ret_most = busy > *ret_most ? busy : *ret_most;
		if (!busy && is_gone(tid))
			forget(caller);
	}
	return sum;
}

bool caller_is_inside(void)
{
	for (unsigned i = 0; i < BUCKETS * BUCKET_SIZE; i++) {
		const struct caller *caller = &table[i / BUCKET_SIZE][i % BUCKET_SIZE];

		/* A thread that ended in there is not in there. */
		if (__atomic_load_n(&caller->inside, __ATOMIC_ACQUIRE) && !is_gone(caller->tid))
			return true;
	}
	return false;
}

void caller_forget_all(void)
{
	memset(table, 0, sizeof(table));
}
