/* Job: a child process and what it has printed so far. */
#include "client/top/job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int spawn(pid_t *ret, const char *const *argument, int out)
{
	const char *all[JOB_ARGUMENTS + 2] = { "tsctl" };
	posix_spawn_file_actions_t actions;
	int r;

	for (int i = 0; i < JOB_ARGUMENTS && argument[i]; i++)
		all[i + 1] = argument[i];
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
	r = posix_spawn(ret, "/proc/self/exe", &actions, NULL, (char *const *)all, environ);
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

int job_start(struct job *job, const char *const *argument)
{
	int ends[2], r;

	job_stop(job);
	job->length = 0;
	if (!job->text)
		job->text = malloc(JOB_BYTES + 1);
	if (!job->text)
		return -ENOMEM;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	r = spawn(&job->pid, argument, ends[1]);
	close(ends[1]);
	if (r < 0) {
		close(ends[0]);
		job->pid = 0;
		return r;
	}
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	job->fd = ends[0];
	return 0;
}

static void reap(struct job *job)
{
	int status = 0;

	while (waitpid(job->pid, &status, 0) < 0 && errno == EINTR)
		;
	job->status = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
	job->pid = 0;
	closep(&job->fd);
	job->fd = -1;
}

bool job_read(struct job *job)
{
	char rest[4096] = "";
	ssize_t n;

	do {
		size_t room = JOB_BYTES - job->length;

		n = read(job->fd, room ? job->text + job->length : rest,
			 room ? room : sizeof(rest));
		if (n > 0 && room)
			job->length += (size_t)n;
	} while (n > 0);
	job->text[job->length] = 0;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	reap(job);
	return true;
}

void job_stop(struct job *job)
{
	if (!job->pid)
		return;
	kill(job->pid, SIGTERM);
	reap(job);
}
