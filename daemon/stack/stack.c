/* Stack: a request is a job, which a helper does. Its answer goes to the client as it comes, with
 * what the loop knows behind it. */
#include "daemon/stack/stack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/quota.h"
#include "core/base/vector.h"
#include "daemon/helper/helper.h"
#include "daemon/limits.h"
#include "daemon/proc/owner.h"
#include "daemon/stack/helper.h"
#include "daemon/stack/message.h"

#define MS_PER_S    1000
#define VARINT_SIZE 10

struct stacks {
	uv_loop_t *loop;
	struct stacks_config config;
	struct quota running; /* of the askers */
};

struct job {
	struct stacks *stacks;
	struct api_ticket *ticket;
	struct helper_task task;
	uv_work_t work;
	struct stack_order order;
	int fd[STACK_ORDER_FDS]; /* [0] is the probe's */
	int no_look;
	/* The answer, behind room for its length. */
	uint8_t *packed;
	size_t size, room;
	struct remarks why;
};

int stacks_new(uv_loop_t *loop, const struct stacks_config *config, struct stacks **ret)
{
	struct stacks *stacks = calloc(1, sizeof(*stacks));

	if (!stacks)
		return -ENOMEM;
	stacks->loop = loop;
	stacks->config = *config;
	stacks->running.total = LIMIT_STACK_READERS;
	*ret = stacks;
	return 0;
}

struct stacks *stacks_free(struct stacks *stacks)
{
	if (!stacks)
		return NULL;
	quota_release(&stacks->running);
	free(stacks);
	return NULL;
}

static void job_free(struct job *job)
{
	for (size_t i = 1; i < STACK_ORDER_FDS; i++)
		closep(&job->fd[i]);
	quota_give(&job->stacks->running, job->order.target.uid, 1);
	remarks_clear(&job->why);
	free(job->packed);
	free(job);
}

static int job_add(struct job *job, const void *data, size_t size)
{
	if (job->size + size > LIMIT_STACK_BYTES ||
	    VECTOR_ROOM(job->packed, job->room, job->size + size) < 0)
		return -ENOMEM;
	memcpy(job->packed + job->size, data, size);
	job->size += size;
	return 0;
}

static void take_why(struct job *job, const void *data, size_t size)
{
	struct stack_why why;

	if (size != sizeof(why) || job->why.count)
		return;
	memcpy(&why, data, size);
	why.second[sizeof(why.second) - 1] = '\0';
	remarks_add(&job->why, (Tracesmith__V1__Remark__Reason)why.reason,
		    REMARK_NUMBER(job->order.target.pid), why.second[0] ? why.second : NULL, NULL);
}

static void fail(struct job *job, Tracesmith__V1__Remark__Reason reason, const char *second)
{
	remarks_clear(&job->why);
	remarks_add(&job->why, reason, REMARK_NUMBER(job->order.target.pid), second, NULL);
}

static void on_message(struct helper_task *task, const void *data, size_t size, int *fd,
		       uint32_t fds)
{
	struct job *job = list_item(task, struct job, task);
	const uint8_t *bytes = data;
	uint32_t what;

	if (size < sizeof(what))
		return;
	memcpy(&what, bytes, sizeof(what));
	bytes += sizeof(what);
	size -= sizeof(what);
	if (what == STACK_SAID_WHY)
		take_why(job, bytes, size);
	else if (what == STACK_SAID_PART && job_add(job, bytes, size) < 0)
		fail(job, REASON(NO_MEMORY), NULL);
}

/* At the moment of the answer, a little after the threads were read. Packed messages behind each
 * other are one. */
static int add_work(struct job *job)
{
	const struct stacks_config *config = &job->stacks->config;
	struct stack_work work[LIMIT_STACK_STREAMS];
	size_t count = config->work(config->data, job->order.target.pid, work, LIMIT_STACK_STREAMS);
	_cleanup_(message_clear) struct stack_message message = {
		.reply = TRACESMITH__V1__STACK_REPLY__INIT
	};
	_cleanup_(freep) uint8_t *packed = NULL;
	int r = message_add_work(&message, work, count, uv_hrtime());

	if (r < 0)
		return r;
	packed = malloc(tracesmith__v1__stack_reply__get_packed_size(&message.reply) + 1);
	if (!packed)
		return -ENOMEM;
	return job_add(job, packed, tracesmith__v1__stack_reply__pack(&message.reply, packed));
}

/* The length goes right before the first byte; where it starts. */
static size_t put_length(struct job *job)
{
	size_t size = job->size - VARINT_SIZE, length = 1, at;

	for (size_t rest = size >> 7; rest; rest >>= 7)
		length++;
	at = VARINT_SIZE - length;
	for (size_t i = 0; i < length; i++, size >>= 7)
		job->packed[at + i] = (uint8_t)((size & 127) | (i + 1 < length ? 128 : 0));
	return at;
}

static void on_done(struct helper_task *task, int result)
{
	struct job *job = list_item(task, struct job, task);
	size_t at;

	if (result == -ETIMEDOUT)
		fail(job, REASON(STACK_SLOW), REMARK_NUMBER(LIMIT_STACK_S));
	else if (result == -EPIPE && !job->why.count)
		fail(job, REASON(QUERY_ENDED), "was killed");
	else if (!job->why.count && (result < 0 || add_work(job) < 0))
		fail(job, REASON(NO_MEMORY), NULL);
	if (job->why.count) {
		api_ticket_fail_for(TAKE(job->ticket), &job->why);
	} else {
		at = put_length(job);
		api_stack_done(TAKE(job->ticket), job->packed + at, job->size - at);
	}
	job_free(job);
}

static void job_ask(struct job *job)
{
	const uint32_t fds = job->order.wanted.native && job->no_look == 0 ? STACK_ORDER_FDS : 1;
	const struct stacks_config *config = &job->stacks->config;
	int r;

	job->task = (struct helper_task){ .kind = config->kind,
					  .uid = owner_of_process(job->order.target.pid),
					  .deadline_ms = LIMIT_STACK_S * MS_PER_S,
					  .message = on_message,
					  .done = on_done };
	r = helpers_ask(config->helpers, &job->task, &job->order, sizeof(job->order), job->fd, fds);
	if (r == 0)
		return;
	api_ticket_fail(TAKE(job->ticket), r == -EBUSY ? REASON(STACKS_BUSY) : REASON(NO_MEMORY),
			NULL);
	job_free(job);
}

static void look_run(uv_work_t *work)
{
	struct job *job = work->data;

	job->no_look = look_ask(job->stacks->config.broker, job->fd + 1);
}

static void look_done(uv_work_t *work, int status)
{
	job_ask(work->data);
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
	if (!job || VECTOR_ROOM(job->packed, job->room, VARINT_SIZE) < 0) {
		api_ticket_fail(ticket, REASON(NO_MEMORY), NULL);
		quota_give(&stacks->running, target->uid, 1);
		free(job);
		return;
	}
	job->stacks = stacks;
	job->ticket = ticket;
	job->order.target = *target;
	job->order.wanted = *wanted;
	job->size = VARINT_SIZE;
	job->work.data = job;
	memset(job->fd, -1, sizeof(job->fd));
	job->fd[0] = stacks->config.open(stacks->config.data, &job->order.open);
	/* The broker is not asked on the loop. */
	if (!wanted->native || uv_queue_work(stacks->loop, &job->work, look_run, look_done) < 0)
		job_ask(job);
}
