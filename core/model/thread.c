/* Thread: the stack of current contexts of each thread that showed one. A thread is kept while it
 * has a context; at the limit the least recently used one makes room. */
#include <string.h>

#include "core/model/model.h"

static struct map_key thread_key(uint32_t process, uint32_t tid)
{
	return (struct map_key){ process, tid };
}

static void thread_forget(struct core *core, struct thread *thread)
{
	map_remove(&core->thread_by_tid, thread_key(thread->process, thread->tid));
	list_remove(&thread->link);
	list_remove(&thread->in_process);
	pool_put(&core->thread_pool, thread);
}

/* Second chance: the oldest that was not used since the last look. */
static void thread_make_room(struct core *core)
{
	struct thread *thread = list_first(&core->threads, struct thread, link);

	while (thread->used) {
		thread->used = false;
		list_remove(&thread->link);
		list_append(&core->threads, &thread->link);
		thread = list_first(&core->threads, struct thread, link);
	}
	loss_count(core, process_by_id(core, thread->process), LOSS_LIMIT);
	thread_forget(core, thread);
}

static struct thread *thread_add(struct core *core, struct process *process, uint32_t tid)
{
	struct thread *thread;

	if (core->thread_pool.used >= core->config.max_threads)
		thread_make_room(core);
	thread = pool_get(&core->thread_pool);
	if (!thread)
		return NULL;
	*thread = (struct thread){ .process = process->row.id, .tid = tid };
	if (map_put(&core->thread_by_tid, thread_key(thread->process, tid), thread) < 0) {
		pool_put(&core->thread_pool, thread);
		return NULL;
	}
	list_append(&core->threads, &thread->link);
	list_append(&process->threads, &thread->in_process);
	return thread;
}

uint64_t thread_context(const struct core *core, const struct process *process, uint32_t tid)
{
	struct thread *thread = map_get(&core->thread_by_tid, thread_key(process->row.id, tid));

	if (!thread)
		return 0;
	if (!thread->used)
		thread->used = true;
	return thread->context[thread->depth - 1];
}

void thread_push(struct core *core, struct process *process, uint32_t tid, uint64_t context)
{
	struct thread *thread = map_get(&core->thread_by_tid, thread_key(process->row.id, tid));

	if (!thread)
		thread = thread_add(core, process, tid);
	if (!thread) {
		loss_count(core, process, LOSS_LIMIT);
		return;
	}
	if (thread->depth == THREAD_DEPTH_MAX) {
		loss_count(core, process, LOSS_LIMIT);
		thread->depth--;
		memmove(thread->context, thread->context + 1,
			thread->depth * sizeof(thread->context[0]));
	}
	thread->context[thread->depth++] = context;
}

void thread_pop(struct core *core, struct process *process, uint32_t tid)
{
	struct thread *thread = map_get(&core->thread_by_tid, thread_key(process->row.id, tid));

	if (thread && --thread->depth == 0)
		thread_forget(core, thread);
}

void thread_lose_context(struct process *process, uint64_t context)
{
	struct thread *thread;

	list_for_each(thread, &process->threads, in_process)
		for (uint32_t i = 0; i < thread->depth; i++)
			if (thread->context[i] == context)
				thread->context[i] = CONTEXT_GONE;
}

void thread_forget_all(struct core *core, struct process *process)
{
	struct thread *thread;

	list_for_each(thread, &process->threads, in_process)
		thread_forget(core, thread);
}
