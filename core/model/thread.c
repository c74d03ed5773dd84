/* Thread: the stack of current contexts of each thread that showed one. A thread is kept while it
 * has a context; at its user's limit the least recently used one of the process makes room. */
#include <string.h>

#include "core/model/model.h"

static struct map_key thread_key(uint32_t process, uint32_t tid)
{
	return (struct map_key){ process, tid };
}

static void thread_drop(struct core *core, struct thread *thread)
{
	quota_give(&core->share[CORE_SHARE_THREADS], thread->user, 1);
	pool_put(&core->thread_pool, thread);
}

static void thread_forget(struct core *core, struct thread *thread)
{
	map_remove(&core->thread_by_tid, thread_key(thread->process, thread->tid));
	list_remove(&thread->in_process);
	thread_drop(core, thread);
}

/* Second chance: the oldest of the process that was not used since the last look. */
static void thread_make_room(struct core *core, struct process *process)
{
	struct thread *thread = list_first(&process->threads, struct thread, in_process);

	if (!thread)
		return;
	while (thread->used) {
		thread->used = false;
		list_remove(&thread->in_process);
		list_append(&process->threads, &thread->in_process);
		thread = list_first(&process->threads, struct thread, in_process);
	}
	loss_count(core, process, LOSS_LIMIT);
	thread_forget(core, thread);
}

static struct thread *thread_new(struct core *core, struct process *process)
{
	struct quota *share = &core->share[CORE_SHARE_THREADS];
	uint32_t user = process->row.user;
	struct thread *thread;

	if (!quota_left(share, user))
		thread_make_room(core, process);
	if (!quota_take(share, user, 1))
		return NULL;
	thread = pool_get(&core->thread_pool);
	if (!thread)
		quota_give(share, user, 1);
	return thread;
}

static struct thread *thread_add(struct core *core, struct process *process, uint32_t tid)
{
	struct thread *thread = thread_new(core, process);

	if (!thread)
		return NULL;
	*thread = (struct thread){ .process = process->row.id,
				   .user = process->row.user,
				   .tid = tid };
	if (map_put(&core->thread_by_tid, thread_key(thread->process, tid), thread) < 0) {
		thread_drop(core, thread);
		return NULL;
	}
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
