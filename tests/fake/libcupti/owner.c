/* Owner: one for each thread of the program that CUPTI has seen; it holds the thread's buffer and
 * the calls that it is in. */
#include "fake_cupti.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static __thread struct owner *owner_mine;
static pthread_key_t owner_key;
static pthread_once_t owner_once = PTHREAD_ONCE_INIT;

static void owner_end(void *data)
{
	struct owner *owner = data;

	owner_mine = NULL;
	if (atomic_load(&cupti.forked))
		return;
	pthread_mutex_lock(&cupti.lock);
	owner->gone = true;
	pthread_mutex_unlock(&cupti.lock);
}

static void owner_setup(void)
{
	if (pthread_key_create(&owner_key, owner_end) != 0)
		cupti_abort("no key for threads is left");
}

struct owner *owner_self(void)
{
	struct owner *owner = owner_mine;

	if (owner)
		return owner;
	pthread_once(&owner_once, owner_setup);
	owner = calloc(1, sizeof(*owner));
	if (!owner)
		cupti_abort("out of memory");
	owner->thread = (uint32_t)syscall(SYS_gettid);
	owner->handle = (uint32_t)(uintptr_t)pthread_self();
	pthread_mutex_lock(&cupti.lock);
	owner->next = cupti.owners;
	cupti.owners = owner;
	pthread_mutex_unlock(&cupti.lock);
	pthread_setspecific(owner_key, owner);
	owner_mine = owner;
	return owner;
}

uint32_t owner_thread(const struct owner *owner)
{
	if (atomic_load_explicit(&cupti.thread_type, memory_order_relaxed) == CUPTI_THREAD_SYSTEM)
		return owner->thread;
	return owner->handle;
}

void owners_sweep(void)
{
	struct owner **link = &cupti.owners;

	while (*link) {
		struct owner *owner = *link;

		if (owner->gone && !owner->buffer) {
			*link = owner->next;
			free(owner);
		} else {
			link = &owner->next;
		}
	}
}
