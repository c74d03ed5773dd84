/* Stack: a request is a job: a thread that reads, which nothing can end, and a timer. Whichever
 * comes first answers the ticket; the job ends with its thread. */
#include "daemon/stack/stack.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/quota.h"
#include "core/store/thread.h"
#include "daemon/api/target.h"
#include "daemon/limits.h"
#include "daemon/maps/proc.h"
#include "daemon/stack/message.h"
#include "daemon/stack/reader.h"

#define MS_PER_S 1000

struct stacks {
	uv_loop_t *loop;
	pthread_mutex_t lock; /* of the next two */
	struct look *look;    /* NULL: not asked for yet, or there is none */
	int no_look;	      /* why */
	struct stacks_config config;
	struct quota running; /* of the askers */
	struct readers readers;
};

struct job {
	struct stacks *stacks;
	struct api_ticket *ticket; /* NULL: answered */
	struct api_target target;
	struct api_stack wanted;
	struct reader *reader; /* the thread's, as what follows below */
	uv_async_t ended;      /* its thread */
	uv_timer_t late;
	int handles;

	/* The thread's, until it has ended. */
	int result;
	struct stack_message message;
	struct remarks why; /* there is no answer */
};

int stacks_new(uv_loop_t *loop, const struct stacks_config *config, struct stacks **ret)
{
	struct stacks *stacks = calloc(1, sizeof(*stacks));

	if (!stacks)
		return -ENOMEM;
	stacks->loop = loop;
	stacks->config = *config;
	stacks->running.total = LIMIT_STACK_READERS;
	pthread_mutex_init(&stacks->lock, NULL);
	*ret = stacks;
	return 0;
}

struct stacks *stacks_free(struct stacks *stacks)
{
	if (!stacks)
		return NULL;
	readers_tick(&stacks->readers, UINT64_MAX);
	quota_release(&stacks->running);
	look_free(stacks->look);
	pthread_mutex_destroy(&stacks->lock);
	free(stacks);
	return NULL;
}

static const char *no_python(int error, uint32_t version)
{
	switch (error) {
	case -EOPNOTSUPP:
		return version ? "This version of Python is not supported: 3.9 to 3.14 are"
			       : "This Python is older than 3.9, the first that is supported";
	case -ENOTUNIQ:
		return "This Python is built without the GIL (free-threaded), which is not "
		       "supported";
	case -EAGAIN:
		return "Its Python has not started yet, or has ended";
	case -ENOENT:
		return "There is no Python in it";
	case -ENOMEM:
		return "tracesmithd has no memory for its Python";
	default:
		return "What should be its Python cannot be read";
	}
}

static int refuse(struct job *job, Tracesmith__V1__Remark__Reason reason, const char *second)
{
	remarks_add(&job->why, reason, REMARK_NUMBER(job->target.pid), second, NULL);
	return -EINVAL;
}

static int check_kind(struct job *job)
{
	uint32_t pid = job->target.pid, process = pid;
	char name[TASK_NAME_SIZE];

	switch (task_kind(pid, &process, name)) {
	case TASK_PROCESS:
		return 0;
	case TASK_THREAD:
		return refuse(job, REASON(THREAD_ID), REMARK_NUMBER(process));
	case TASK_ZOMBIE:
		return refuse(job, REASON(ZOMBIE), name);
	case TASK_KERNEL:
		return refuse(job, REASON(KERNEL_THREAD), NULL);
	default:
		return refuse(job, REASON(PROCESS_ENDED), NULL);
	}
}

/* That what was read is of the process that was asked for, and still its user's to see. */
static int check_again(struct job *job)
{
	Tracesmith__V1__Remark__Reason why;
	uint64_t ticks;
	int r = target_check(job->target.pid, job->target.uid, &ticks, &why);

	if (r == -EACCES)
		return refuse(job, REASON(PRIVILEGES_CHANGED), NULL);
	if (r < 0 || ticks != job->target.started_ticks)
		return refuse(job, REASON(PROCESS_ENDED), NULL);
	return 0;
}

void stacks_tick(struct stacks *stacks, uint64_t now_ns)
{
	readers_tick(&stacks->readers, now_ns);
}

struct range {
	uint64_t start, end;
};

static int on_mapping(void *data, const struct maps_record *record)
{
	if (strncmp(record->path, "[uprobes", strlen("[uprobes")) != 0)
		return 0;
	*(struct range *)data = (struct range){ record->start, record->end };
	return 1;
}

/* While a probed call is in progress, its return address is that of the kernel's trampoline. After
 * it, other calls have written over it, or it lies below the top of the stack. */
static bool is_in(const struct task *task, const struct stack_call *call, struct peek *peek,
		  const struct range *trampoline)
{
	uint64_t back;

	return (!task->sp || task->sp < call->sp) && peek_word(peek, call->sp, &back) == 0 &&
	       back >= trampoline->start && back < trampoline->end;
}

static void add_driver_calls(struct job *job, struct tasks *tasks)
{
	const struct stacks *stacks = job->stacks;
	struct range trampoline = { 0 };
	struct stack_call call;
	struct peek peek;

	maps_proc_mappings(job->target.pid, on_mapping, &trampoline);
	peek_open(&peek, job->target.pid);
	for (size_t i = 0; trampoline.end && i < tasks->count; i++) {
		struct task *task = &tasks->task[i];

		if (stacks->config.call(stacks->config.data, task->tid, &call) < 0 ||
		    !is_in(task, &call, &peek, &trampoline))
			continue;
		task->driver_call = call.name;
		task->driver_ns = uv_hrtime() - call.start_ns;
	}
}

/* Loaded at the first request for native frames: few daemons get one. */
static int get_look(struct stacks *stacks, const struct look **ret)
{
	int r = 0;

	pthread_mutex_lock(&stacks->lock);
	if (!stacks->look && stacks->no_look == 0)
		stacks->no_look = look_new(stacks->config.broker, &stacks->look);
	r = stacks->no_look;
	*ret = stacks->look;
	pthread_mutex_unlock(&stacks->lock);
	return r;
}

static const char *open_native(struct job *job)
{
	const struct look *look;
	int r = job->reader->native ? 0 : get_look(job->stacks, &look);

	if (r < 0)
		return "This kernel does not tell tracesmithd the registers of threads: Linux "
		       "5.15 or newer with BTF does";
	if (!job->reader->native)
		r = native_new(job->target.pid, look, &job->reader->native);
	return r < 0 ? "tracesmithd has no memory for its native frames" : "";
}

static const char *open_python(struct reader *reader)
{
	uint32_t version = 0;
	int r = reader->python ? 0 : python_open(reader->pid, &reader->python, &version);

	return r < 0 ? no_python(r, version) : "";
}

static int job_read(struct job *job)
{
	_cleanup_(tasks_clear) struct tasks tasks = { 0 };
	struct message_source source = { .no_native = "" };
	struct reader *reader = job->reader;
	int r;

	r = check_kind(job);
	if (r < 0)
		return r;
	r = reader_check(reader);
	if (r == 0)
		r = tasks_read(job->target.pid, &tasks);
	if (r < 0)
		return refuse(job, REASON(PROCESS_ENDED), NULL);
	add_driver_calls(job, &tasks);
	source.no_python = open_python(reader);
	source.python = reader->python;
	if (job->wanted.native) {
		source.no_native = open_native(job);
		source.native = reader->native;
	}
	r = message_fill(&job->message, &tasks, &source);
	if (source.native)
		native_rest(source.native);
	if (r < 0)
		return refuse(job, r == -ENOMEM ? REASON(NO_MEMORY) : REASON(PROCESS_ENDED), NULL);
	return check_again(job);
}

static void *job_main(void *data)
{
	struct job *job = data;

	job->result = job_read(job);
	uv_async_send(&job->ended);
	return NULL;
}

static void on_closed(uv_handle_t *handle)
{
	struct job *job = handle->data;

	if (--job->handles > 0)
		return;
	quota_give(&job->stacks->running, job->target.uid, 1);
	reader_free(job->reader);
	message_clear(&job->message);
	remarks_clear(&job->why);
	free(job);
}

/* At the moment of the answer, a little after the threads were read. */
static void add_work(struct job *job)
{
	const struct stacks_config *config = &job->stacks->config;
	struct stack_work work[LIMIT_STACK_STREAMS];
	size_t count = config->work(config->data, job->target.pid, work, LIMIT_STACK_STREAMS);

	if (message_add_work(&job->message, work, count, uv_hrtime()) < 0)
		job->result = refuse(job, REASON(NO_MEMORY), NULL);
}

static void on_ended(uv_async_t *ended)
{
	struct job *job = ended->data;
	struct api_ticket *ticket = TAKE(job->ticket);

	if (job->result == 0)
		readers_put(&job->stacks->readers, TAKE(job->reader), uv_hrtime());
	if (ticket && job->result == 0)
		add_work(job);
	if (ticket && job->result < 0)
		api_ticket_fail_for(ticket, &job->why);
	else if (ticket)
		api_stack_done(ticket, &job->message.reply);
	uv_close((uv_handle_t *)&job->ended, on_closed);
	uv_close((uv_handle_t *)&job->late, on_closed);
}

static void on_late(uv_timer_t *late)
{
	struct job *job = late->data;

	api_ticket_fail(TAKE(job->ticket), REASON(STACK_SLOW), REMARK_NUMBER(job->target.pid),
			REMARK_NUMBER(LIMIT_STACK_S), NULL);
}

static int job_start(struct job *job)
{
	pthread_t thread;
	int r = thread_start(&thread, job_main, job);

	if (r == 0)
		pthread_detach(thread);
	return r;
}

void stacks_read(struct stacks *stacks, struct api_ticket *ticket, const struct api_target *target,
		 const struct api_stack *wanted)
{
	struct job *job = NULL;

	if (!quota_take(&stacks->running, target->uid, 1)) {
		api_ticket_fail(ticket, REASON(STACKS_BUSY), NULL);
		return;
	}
	job = calloc(1, sizeof(*job));
	if (job)
		job->reader = readers_take(&stacks->readers, target->pid);
	if (!job || !job->reader || uv_async_init(stacks->loop, &job->ended, on_ended) < 0) {
		api_ticket_fail(ticket, REASON(NO_MEMORY), NULL);
		quota_give(&stacks->running, target->uid, 1);
		if (job)
			reader_free(job->reader);
		free(job);
		return;
	}
	job->stacks = stacks;
	job->ticket = ticket;
	job->target = *target;
	job->wanted = *wanted;
	job->message.locals = wanted->locals;
	job->ended.data = job->late.data = job;
	job->handles = 2;
	uv_timer_init(stacks->loop, &job->late);
	uv_timer_start(&job->late, on_late, LIMIT_STACK_S * MS_PER_S, 0);
	if (job_start(job) < 0) {
		job->result = refuse(job, REASON(NO_MEMORY), NULL);
		on_ended(&job->ended);
	}
}
