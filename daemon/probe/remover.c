/* Remover: a queue and the threads that empty it. */
#include "daemon/probe/remover.h"

#include <errno.h>
#include <stdlib.h>
#include <uv.h>

#include "core/base/time.h"
#include "core/store/thread.h"

/* They wait for the same moments of the kernel, each for one link. */
#define THREADS	 4
#define AGAIN_NS (50 * NS_PER_MS)

struct remover {
	pthread_t thread[THREADS];
	uint32_t threads;
	uv_mutex_t lock;
	/* Under the lock: */
	uv_cond_t moved;
	struct list queue;
	uint32_t waiting; /* with the one under way */
	bool closing;
	uint32_t ended; /* threads */
};

static void remover_destroy(struct remover *remover)
{
	uv_cond_destroy(&remover->moved);
	uv_mutex_destroy(&remover->lock);
	free(remover);
}

static void remover_do_first(struct remover *remover)
{
	struct removal *removal = list_first(&remover->queue, struct removal, link);
	bool done;

	list_remove(&removal->link);
	uv_mutex_unlock(&remover->lock);
	done = removal->take_off(removal);
	uv_mutex_lock(&remover->lock);
	if (done) {
		remover->waiting--;
		return;
	}
	list_append(&remover->queue, &removal->link);
	uv_cond_timedwait(&remover->moved, &remover->lock, AGAIN_NS);
}

static void *thread_main(void *data)
{
	struct remover *remover = data;

	thread_hurry(); /* while it closes a link it may keep others from forking */
	uv_mutex_lock(&remover->lock);
	while (!list_empty(&remover->queue) || !remover->closing) {
		if (!list_empty(&remover->queue))
			remover_do_first(remover);
		else
			uv_cond_wait(&remover->moved, &remover->lock);
	}
	remover->ended++;
	uv_cond_broadcast(&remover->moved);
	uv_mutex_unlock(&remover->lock);
	return NULL;
}

int remover_new(struct remover **ret)
{
	struct remover *remover = calloc(1, sizeof(*remover));
	int r = 0;

	if (!remover)
		return -ENOMEM;
	list_init(&remover->queue);
	uv_mutex_init(&remover->lock);
	uv_cond_init(&remover->moved);
	while (r == 0 && remover->threads < THREADS) {
		r = thread_start(&remover->thread[remover->threads], thread_main, remover);
		remover->threads += r == 0;
	}
	if (!remover->threads) {
		remover_destroy(remover);
		return r;
	}
	*ret = remover;
	return 0;
}

void remover_add(struct remover *remover, struct removal *removal,
		 bool (*take_off)(struct removal *removal))
{
	removal->take_off = take_off;
	uv_mutex_lock(&remover->lock);
	list_append(&remover->queue, &removal->link);
	remover->waiting++;
	uv_cond_signal(&remover->moved);
	uv_mutex_unlock(&remover->lock);
}

uint32_t remover_waiting(struct remover *remover)
{
	uint32_t waiting;

	uv_mutex_lock(&remover->lock);
	waiting = remover->waiting;
	uv_mutex_unlock(&remover->lock);
	return waiting;
}

int remover_free(struct remover *remover, uint64_t wait_ns)
{
	const uint64_t end_ns = uv_hrtime() + wait_ns;
	uint64_t now_ns;
	bool ended;

	if (!remover)
		return 0;
	uv_mutex_lock(&remover->lock);
	remover->closing = true;
	uv_cond_broadcast(&remover->moved);
	while (remover->ended < remover->threads && (now_ns = uv_hrtime()) < end_ns)
		uv_cond_timedwait(&remover->moved, &remover->lock, end_ns - now_ns);
	ended = remover->ended == remover->threads;
	uv_mutex_unlock(&remover->lock);
	if (!ended)
		return -ETIMEDOUT;
	for (uint32_t i = 0; i < remover->threads; i++)
		pthread_join(remover->thread[i], NULL);
	remover_destroy(remover);
	return 0;
}
