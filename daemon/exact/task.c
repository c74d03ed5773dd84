/* Task: an attachment, or its end, as a helper does it: each in a process of its own, which can be
 * left alone with a process that hangs. If the daemon ends meanwhile, or waits no longer, the
 * helper undoes what it has done; nobody kills it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "daemon/exact/internal.h"
#include "daemon/limits.h"
#include "daemon/proc/owner.h"

#define TEXT_MAX  1024
#define PATH_SIZE 4096

struct ask {
	struct attach_request request;
	uint64_t handle;
	bool unload;
	char library[PATH_SIZE];
};

/* The answer. Its descriptor is the socket of the result. */
struct said {
	int32_t error;
	struct attach_result result;
	uint32_t reason, arguments;
	char text[TEXT_MAX]; /* the arguments, each with its NUL */
};

static void put_remark(struct said *said, const struct remarks *why)
{
	size_t at = 0;

	if (!why->count)
		return;
	said->reason = (uint32_t)why->item[0]->reason;
	for (size_t i = 0; i < why->item[0]->n_argument; i++) {
		size_t size = strlen(why->item[0]->argument[i]) + 1;

		if (size > sizeof(said->text) - at)
			return;
		memcpy(said->text + at, why->item[0]->argument[i], size);
		at += size;
		said->arguments++;
	}
}

static void take_remark(struct said *said, struct remarks *why)
{
	const char *argument[REMARK_ARGUMENTS_MAX] = { NULL }, *at = said->text;

	said->text[sizeof(said->text) - 1] = '\0';
	for (uint32_t i = 0; i < said->arguments && i < ARRAY_SIZE(argument); i++) {
		argument[i] = at;
		at += strlen(at);
		at += at < said->text + sizeof(said->text) - 1;
	}
	remarks_clear(why);
	if (said->reason)
		remarks_add(why, (Tracesmith__V1__Remark__Reason)said->reason, argument[0],
			    argument[1], argument[2], argument[3], argument[4], NULL);
}

static int attach(struct ask *ask, int socket, struct attach_result *ret, struct remarks *why)
{
	_cleanup_(closep) int library = open(ask->library, O_RDONLY | O_CLOEXEC);

	if (library < 0) {
		remarks_add(why, REASON(NO_LIBRARY), ask->library, strerror(errno), NULL);
		return -EIO;
	}
	ask->request.library = library;
	ask->request.leash = &socket;
	return attach_run(&ask->request, ret, why);
}

int exact_helper_run(int socket, const void *request, size_t size, const int *fd, uint32_t fds)
{
	_cleanup_(remarks_clear) struct remarks why = { 0 };
	struct said said = { .result = { .socket = -1 } };
	struct ask ask;
	int r;

	if (size != sizeof(ask))
		return -EBADMSG;
	memcpy(&ask, request, sizeof(ask));
	if (ask.unload)
		said.error =
			attach_unload(ask.request.pid, ask.request.started_ticks, ask.handle, &why);
	else
		said.error = attach(&ask, socket, &said.result, &why);
	put_remark(&said, &why);
	r = helper_say(socket, &said, sizeof(said), &said.result.socket, said.result.socket >= 0);
	closep(&said.result.socket);
	return r;
}

static void on_said(struct helper_task *task, const void *data, size_t size, int *fd, uint32_t fds)
{
	struct session *session = list_item(task, struct session, task);
	struct said said;

	if (size != sizeof(said))
		return;
	memcpy(&said, data, sizeof(said));
	session->error = said.error;
	take_remark(&said, &session->why);
	if (session->job != JOB_ATTACH || said.error < 0)
		return;
	closep(&session->result.socket);
	session->result = said.result;
	session->result.socket = fds ? TAKE_FD(fd[0]) : -1;
}

static void __attribute__((format(printf, 2, 3)))
failed(struct session *session, const char *format, ...)
{
	char text[TEXT_MAX];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	remarks_clear(&session->why);
	remarks_add(&session->why, REASON(ATTACH_FAILED), text, NULL);
}

/* It has told nothing. */
static void task_failed(struct session *session, int error)
{
	session->error = -EIO;
	if (error == -ETIMEDOUT)
		failed(session,
		       "Process %u did not let its memory or its files be read in %u s: "
		       "what was done to it is undone when it does",
		       session->pid, LIMIT_ATTACH_MS / 1000);
	else if (error == -EBUSY)
		failed(session,
		       "Too many processes of this user are being attached to: try "
		       "process %u again later",
		       session->pid);
	else
		failed(session, "The helper that was attaching to process %u failed: %s",
		       session->pid, strerror(-error));
}

static void on_task_done(struct helper_task *task, int result)
{
	struct session *session = list_item(task, struct session, task);

	if (result < 0)
		task_failed(session, result);
	exact_job_done(session);
}

int exact_task(struct session *session)
{
	const struct exact_parts *parts = &session->exact->parts;
	struct ask ask = { .request = session->request,
			   .handle = session->result.handle,
			   .unload = session->job == JOB_UNLOAD };
	int r;

	ask.request.pid = (pid_t)session->pid; /* who connected by itself has no request */
	ask.request.daemon = getpid();
	snprintf(ask.library, sizeof(ask.library), "%s", session->exact->config.library);
	session->task = (struct helper_task){ .kind = parts->attach_kind,
					      .uid = owner_of_process(session->pid),
					      .deadline_ms = LIMIT_ATTACH_MS,
					      .message = on_said,
					      .done = on_task_done };
	session->error = -EIO;
	r = helpers_ask(parts->helpers, &session->task, &ask, sizeof(ask), NULL, 0);
	if (r < 0)
		task_failed(session, r);
	return r;
}
