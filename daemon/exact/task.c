/* Task: an attachment, or its end, or a change of light mode, as a helper does it: each in a
 * process of its own, which can be left alone with a process that hangs. If the daemon ends
 * meanwhile, or waits no longer, the helper undoes what it has done; nobody kills it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "daemon/attach/internal.h"
#include "daemon/exact/internal.h"
#include "daemon/limits.h"
#include "daemon/proc/owner.h"

#define ERRNO_MAX 4095 /* the kernel's */

struct ask {
	enum session_job job;
	struct attach_request request;
	struct light_request light; /* its span is the descriptor that comes with it */
	uint64_t handle;
	bool stacks; /* the stub is wanted */
};

/* What it loads is not for who asks to say. */
static const char *library_path = "";

void exact_helper_library(const char *path)
{
	library_path = path;
}

static void put_remark(struct task_said *said, const struct remarks *why)
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

static void take_remark(struct task_said *said, struct remarks *why)
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
	_cleanup_(closep) int library = open(library_path, O_RDONLY | O_CLOEXEC);

	if (library < 0) {
		remarks_add(why, REASON(NO_LIBRARY), library_path, strerror(errno), NULL);
		return -EIO;
	}
	ask->request.library = library;
	ask->request.leash = &socket;
	return attach_run(&ask->request, ret, why);
}

/* The probe on it is made while the process is being changed. */
static void find_stub(const struct ask *ask, int socket)
{
	struct task_said said = { .stub = true };
	_cleanup_(closep) int fd = -1;

	said.error = light_stub_open(&ask->light, &fd, &said.stub_offset);
	helper_say(socket, &said, sizeof(said), &fd, fd >= 0);
}

static int lead(struct ask *ask, int socket, const int *fd, uint32_t fds, struct task_said *said,
		struct remarks *why)
{
	ask->light.leash = &socket;
	ask->light.span = fds ? span_map(fd[0]) : NULL;
	if (!ask->light.span)
		return ATTACH_FAILED(why, -ENOMEM, "No memory to change process %d",
				     ask->light.pid);
	if (ask->job == JOB_TAKE)
		return light_take(&ask->light, &said->light, why);
	if (ask->stacks)
		find_stub(ask, socket);
	return light_put(&ask->light, &said->light, why);
}

int exact_helper_run(int socket, const void *request, size_t size, const int *fd, uint32_t fds)
{
	_cleanup_(remarks_clear) struct remarks why = { 0 };
	struct task_said said = { .result = { .socket = -1 } };
	struct ask ask;
	int r;

	if (size != sizeof(ask))
		return -EBADMSG;
	memcpy(&ask, request, sizeof(ask));
	if (ask.job == JOB_ATTACH)
		said.error = attach(&ask, socket, &said.result, &why);
	else if (ask.job == JOB_UNLOAD)
		said.error =
			attach_unload(ask.request.pid, ask.request.started_ticks, ask.handle, &why);
	else if (ask.job == JOB_TIDY)
		said.error = attach_tidy(ask.request.pid, ask.request.started_ticks, &why);
	else
		said.error = lead(&ask, socket, fd, fds, &said, &why);
	put_remark(&said, &why);
	r = helper_say(socket, &said, sizeof(said), &said.result.socket, said.result.socket >= 0);
	closep(&said.result.socket);
	return r;
}

static void take_stub(struct session *session, const struct task_said *said, int fd)
{
	struct light_session *light = &session->light;

	light->stub_told = true;
	light->stub_error = said->error;
	light->stub_offset = said->stub_offset;
	if (fd < 0)
		return;
	light->stub_fd = fd;
	exact_job_link(session);
}

static void take_found(struct session *session, const struct task_said *said, int fd)
{
	if (session->job == JOB_ATTACH) {
		closep(&session->result.socket);
		session->result = said->result;
		session->result.socket = fd;
	} else {
		session->light.result = said->light;
	}
}

static bool is_error(int32_t error)
{
	return error <= 0 && error >= -ERRNO_MAX;
}

static void on_said(struct helper_task *task, const void *data, size_t size, int *fd, uint32_t fds)
{
	struct session *session = list_item(task, struct session, task);
	struct task_said said;

	if (size != sizeof(said))
		return;
	memcpy(&said, data, sizeof(said));
	if (!is_error(said.error) && (said.error != 1 || session->job != JOB_TIDY))
		said.error = -EIO;
	if (said.stub) {
		if (session->job == JOB_PUT && !session->light.stub_told)
			take_stub(session, &said, fds ? TAKE_FD(fd[0]) : -1);
		return;
	}
	session->error = said.error;
	take_remark(&said, &session->why);
	if (said.error == 0)
		take_found(session, &said, fds ? TAKE_FD(fd[0]) : -1);
}

static void __attribute__((format(printf, 2, 3)))
failed(struct session *session, const char *format, ...)
{
	char text[TASK_TEXT_MAX];
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
		       "Process %u did not let its memory or its files be read in %u s, or a "
		       "thread held a lock that loading a library takes: what was done to it is "
		       "undone when it does",
		       session->pid, LIMIT_ATTACH_MS / 1000);
	else if (error == -EPIPE)
		failed(session, "The helper that was to change process %u was killed: try again",
		       session->pid);
	else if (error == -EBUSY)
		failed(session,
		       "Too many processes of this user are being attached to: try "
		       "process %u again later",
		       session->pid);
	else
		failed(session, "The helper that was to change process %u failed: %s", session->pid,
		       strerror(-error));
}

static bool job_leads(const struct session *session)
{
	return session->job == JOB_PUT || session->job == JOB_TAKE;
}

static void on_task_done(struct helper_task *task, int result)
{
	struct session *session = list_item(task, struct session, task);

	if (result < 0)
		task_failed(session, result);
	if (result < 0 && job_leads(session))
		light_withdraw(session);
	exact_job_part_done(session);
}

int exact_task(struct session *session)
{
	const struct exact_parts *parts = &session->exact->parts;
	struct ask ask = { .job = session->job,
			   .request = session->request,
			   .light = session->light.request,
			   .stacks = session->settings.stacks != TS_STACKS_NONE,
			   .handle = session->result.handle };
	int r;

	ask.request.pid = (pid_t)session->pid; /* who connected by itself has no request */
	ask.request.daemon = getpid();
	session->task = (struct helper_task){ .kind = parts->attach_kind,
					      .uid = owner_of_process(session->pid),
					      .deadline_ms = LIMIT_ATTACH_MS,
					      .message = on_said,
					      .done = on_task_done };
	session->error = -EIO;
	r = helpers_ask(parts->helpers, &session->task, &ask, sizeof(ask), &session->light.span.fd,
			job_leads(session));
	if (r < 0)
		task_failed(session, r);
	return r;
}
