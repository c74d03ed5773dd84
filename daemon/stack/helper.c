/* Helper: reads what the kernel says of the threads, the driver calls that they are in, and their
 * frames. All of it may take as long as the process likes: then this helper is killed. */
#include "daemon/stack/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "core/base/cleanup.h"
#include "daemon/api/target.h"
#include "daemon/helper/helper.h"
#include "daemon/library/library.h"
#include "daemon/limits.h"
#include "daemon/maps/proc.h"
#include "daemon/proc/memory.h"
#include "daemon/proc/procfs.h"
#include "daemon/stack/message.h"
#include "daemon/stack/reader.h"

/* Kept for the next request. */
static struct readers readers;
static struct look *look;

struct job {
	struct api_target target;
	struct stack_order order;
	int calls; /* the map */
	struct reader *reader;
	struct stack_message message;
	struct stack_why why;
};

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
	job->why = (struct stack_why){ .reason = (uint32_t)reason };
	snprintf(job->why.second, sizeof(job->why.second), "%s", second ? second : "");
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
static bool is_in(const struct task *task, const struct probe_open *call, struct peek *peek,
		  const struct range *trampoline)
{
	uint64_t back;

	return (!task->sp || task->sp < call->sp) && peek_word(peek, call->sp, &back) == 0 &&
	       back >= trampoline->start && back < trampoline->end;
}

static void add_driver_calls(const struct job *job, struct tasks *tasks)
{
	const struct function_table table = library_functions();
	struct range trampoline = { 0 };
	struct probe_open call;
	struct peek peek;

	maps_proc_mappings(job->target.pid, on_mapping, &trampoline);
	peek_open(&peek, job->target.pid);
	for (size_t i = 0; trampoline.end && i < tasks->count; i++) {
		struct task *task = &tasks->task[i];

		if (probe_open_call(job->calls, &job->order.open, task->tid, &call) < 0 ||
		    call.fn >= table.count || !table.row[call.fn].name ||
		    !is_in(task, &call, &peek, &trampoline))
			continue;
		task->driver_call = table.row[call.fn].name;
		task->driver_ns = uv_hrtime() - call.start_ns;
	}
}

static const char *open_native(struct job *job)
{
	struct reader *reader = job->reader;

	if (!look)
		return "This kernel does not tell tracesmithd the registers of threads: Linux "
		       "5.15 or newer with BTF does";
	if (memory_check(procfs_living_thread(job->target.pid)) == -EACCES)
		return "Memory of root, and of programs that let nobody trace them, is read only "
		       "where they use a GPU or Python";
	if (!reader->native && native_new(job->target.pid, look, &reader->native) < 0)
		return "tracesmithd has no memory for its native frames";
	return "";
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
	if (job->order.wanted.native) {
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

static int say(int socket, enum stack_said what, const void *data, size_t size)
{
	static char message[HELPER_MESSAGE];
	const uint32_t head = what;
	size_t room = sizeof(message) - sizeof(head), part;
	int r;

	do {
		part = size < room ? size : room;
		memcpy(message, &head, sizeof(head));
		memcpy(message + sizeof(head), data, part);
		r = helper_say(socket, message, sizeof(head) + part, NULL, 0);
		data = (const char *)data + part;
		size -= part;
	} while (r == 0 && size);
	return r;
}

static int say_all(int socket, const struct stack_message *message)
{
	size_t size = tracesmith__v1__stack_reply__get_packed_size(&message->reply);
	_cleanup_(freep) uint8_t *packed = malloc(size + 1);

	if (!packed)
		return -ENOMEM;
	return say(socket, STACK_SAID_PART, packed,
		   tracesmith__v1__stack_reply__pack(&message->reply, packed));
}

/* Duplicates, since those that came are closed behind us. */
static void take_look(const int *fd)
{
	int ours[LOOK_FDS];
	bool good = true;

	for (size_t i = 0; i < LOOK_FDS; i++) {
		ours[i] = fcntl(fd[i], F_DUPFD_CLOEXEC, 3);
		good &= ours[i] >= 0;
	}
	if (good && look_new(ours, &look) == 0)
		return;
	for (size_t i = 0; i < LOOK_FDS; i++)
		closep(&ours[i]);
}

static int answer(struct job *job, int socket)
{
	int r;

	job->message.locals = job->order.wanted.locals;
	job->reader = readers_take(&readers, job->target.pid);
	r = job->reader ? job_read(job) : refuse(job, REASON(NO_MEMORY), NULL);
	if (r == 0) {
		readers_put(&readers, TAKE(job->reader), uv_hrtime());
		r = say_all(socket, &job->message);
	} else if (job->why.reason) {
		r = say(socket, STACK_SAID_WHY, &job->why, sizeof(job->why));
	}
	reader_free(job->reader);
	message_clear(&job->message);
	return r;
}

int stack_help(int socket, const void *request, size_t size, const int *fd, uint32_t fds)
{
	struct job job = { 0 };

	if (size != sizeof(job.order) || (fds != 1 && fds != STACK_ORDER_FDS))
		return -EBADMSG;
	memcpy(&job.order, request, sizeof(job.order));
	if (probe_open_check(fd[0], &job.order.open) < 0)
		return -EBADMSG;
	job.target = job.order.target;
	job.calls = fd[0];
	if (fds > 1 && !look)
		take_look(fd + 1);
	readers_tick(&readers, uv_hrtime());
	return answer(&job, socket);
}
