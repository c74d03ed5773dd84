/* Linker: a queue, the threads that empty it, and what they are done with, for the loop. */
#include "daemon/probe/linker.h"

#include <errno.h>
#include <stdlib.h>

#include "core/store/thread.h"
#include "daemon/broker/broker.h"

struct linker {
	pthread_t thread[BROKER_LINKERS];
	uint32_t threads;
	uv_async_t woken;
	uint32_t waiting; /* all that is not done */
	bool closing;
	uv_mutex_t lock;
	/* Under the lock: */
	uv_cond_t moved;
	struct list queue, ready;
	bool ended;
};

static void *thread_main(void *data)
{
	struct linker *linker = data;
	struct linking *linking;

	thread_hurry(); /* while it makes a link it may keep others from forking */
	uv_mutex_lock(&linker->lock);
	while (!linker->ended) {
		if (list_empty(&linker->queue)) {
			uv_cond_wait(&linker->moved, &linker->lock);
			continue;
		}
		linking = list_first(&linker->queue, struct linking, link);
		list_remove(&linking->link);
		uv_mutex_unlock(&linker->lock);
		linking->run(linking);
		uv_mutex_lock(&linker->lock);
		list_append(&linker->ready, &linking->link);
		uv_async_send(&linker->woken);
	}
	uv_mutex_unlock(&linker->lock);
	return NULL;
}

static struct linking *linker_take(struct linker *linker)
{
	struct linking *linking = NULL;

	uv_mutex_lock(&linker->lock);
	if (!list_empty(&linker->ready)) {
		linking = list_first(&linker->ready, struct linking, link);
		list_remove(&linking->link);
	}
	uv_mutex_unlock(&linker->lock);
	return linking;
}

/* Only work keeps the loop going. */
static void linker_rest(struct linker *linker)
{
	if (linker->waiting)
		return;
	uv_unref((uv_handle_t *)&linker->woken);
	if (linker->closing && !uv_is_closing((uv_handle_t *)&linker->woken))
		uv_close((uv_handle_t *)&linker->woken, NULL);
}

static void on_woken(uv_async_t *woken)
{
	struct linker *linker = woken->data;
	struct linking *linking;

	while ((linking = linker_take(linker))) {
		linker->waiting--;
		linking->done(linking);
	}
	linker_rest(linker);
}

int linker_new(uv_loop_t *loop, struct linker **ret)
{
	struct linker *linker = calloc(1, sizeof(*linker));
	int r;

	if (!linker)
		return -ENOMEM;
	list_init(&linker->queue);
	list_init(&linker->ready);
	uv_mutex_init(&linker->lock);
	uv_cond_init(&linker->moved);
	linker->woken.data = linker;
	r = uv_async_init(loop, &linker->woken, on_woken);
	if (r == 0)
		uv_unref((uv_handle_t *)&linker->woken);
	while (r == 0 && linker->threads < BROKER_LINKERS) {
		r = thread_start(&linker->thread[linker->threads], thread_main, linker);
		linker->threads += r == 0;
	}
	if (!linker->threads)
		return r;
	*ret = linker;
	return 0;
}

int linker_add(struct linker *linker, struct linking *linking, void (*run)(struct linking *linking),
	       void (*done)(struct linking *linking))
{
	if (linker->closing)
		return -ECANCELED;
	linking->run = run;
	linking->done = done;
	if (!linker->waiting++)
		uv_ref((uv_handle_t *)&linker->woken);
	uv_mutex_lock(&linker->lock);
	list_append(&linker->queue, &linking->link);
	uv_cond_signal(&linker->moved);
	uv_mutex_unlock(&linker->lock);
	return 0;
}

void linker_close(struct linker *linker)
{
	linker->closing = true;
	linker_rest(linker);
}

struct linker *linker_free(struct linker *linker)
{
	if (!linker)
		return NULL;
	uv_mutex_lock(&linker->lock);
	linker->ended = true;
	uv_cond_broadcast(&linker->moved);
	uv_mutex_unlock(&linker->lock);
	for (uint32_t i = 0; i < linker->threads; i++)
		pthread_join(linker->thread[i], NULL);
	uv_cond_destroy(&linker->moved);
	uv_mutex_destroy(&linker->lock);
	free(linker);
	return NULL;
}
